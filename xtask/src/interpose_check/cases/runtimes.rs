//! Languages that bring their own stacks, signals and collectors: a JVM, node, Go, SBCL.

use crate::interpose_check::case::Case;

const JAVA: &str = "cat > H.java << 'END'
import java.util.*;
public class H {
    static final Map<Integer, byte[]> kept = new HashMap<>();
    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i < 20000; i++) kept.put(i, new byte[i % 2000]);
        Thread[] threads = new Thread[4];
        for (int i = 0; i < 4; i++) {
            threads[i] = new Thread(() -> {
                for (int k = 0; k < 3000; k++) {
                    byte[] b = new byte[10000];
                    try { Object o = k < 0 ? b : null; o.hashCode(); } catch (NullPointerException e) { }
                }
            });
            threads[i].start();
        }
        for (Thread thread : threads) thread.join();
        System.gc();
        long sum = 0;
        for (byte[] b : kept.values()) sum += b.length;
        System.out.println(sum);
        try { deep(0); } catch (StackOverflowError e) { System.out.println(\"deep\"); }
        new ProcessBuilder(\"echo\", \"sub\").inheritIO().start().waitFor();
    }
    static int deep(int n) { return deep(n + 1) + 1; }
}
END
javac H.java; chmod 644 H.class";

const NODE: &str = "cat > h.js << 'END'
const { Worker, isMainThread, parentPort } = require('worker_threads');
const fs = require('fs'), cp = require('child_process'), zlib = require('zlib'), crypto = require('crypto');
if (!isMainThread) {
  let s = 0; const a = [];
  for (let i = 0; i < 100000; i++) { a.push('row ' + i); s += a[i >> 1].length; }
  parentPort.postMessage(s);
} else {
  const kept = new Map();
  for (let i = 0; i < 120000; i++) kept.set('key' + i, { n: i, text: 'value ' + i });
  const packed = zlib.gzipSync(JSON.stringify([...kept.values()]));
  console.log(crypto.createHash('sha256').update(zlib.gunzipSync(packed)).digest('hex'));
  fs.writeFileSync('out', packed);
  console.log(fs.readFileSync('out').equals(packed), cp.execSync('echo hi').toString());
  let left = 2;
  for (let i = 0; i < 2; i++) new Worker(__filename).on('message', s => { console.log(s);
    if (--left == 0) setTimeout(() => console.log('done'), 50); });
}
END";

const GO: &str = "mkdir -p m && cd m && cat > go.mod << 'END'
module m
go 1.18
END
cat > main.go << 'END'
package main

/*
#include <stdlib.h>
#include <string.h>
static long fill(char *p, long n) { memset(p, 7, n); long s = 0; for (long i = 0; i < n; i++) s += p[i]; return s; }
*/
import \"C\"

import (
  \"crypto/sha256\"
  \"fmt\"
  \"os/exec\"
  \"runtime\"
  \"sync\"
  \"time\"
)

func main() {
  kept := map[int][]byte{}
  for i := 0; i < 20000; i++ { b := make([]byte, 1000); for k := range b { b[k] = byte(i * k) }; kept[i] = b }
  var wait sync.WaitGroup
  out := make([]int64, 8)
  for n := 0; n < 8; n++ {
    wait.Add(1)
    go func(n int) {
      defer wait.Done()
      for k := 0; k < 50; k++ {
        p := C.malloc(100000); out[n] += int64(C.fill((*C.char)(p), 100000)); C.free(p)
        x := make([]byte, 50000); x[k] = 1; time.Sleep(time.Microsecond)
      }
    }(n)
  }
  wait.Wait(); runtime.GC()
  h := sha256.New()
  for i := 0; i < 20000; i++ { h.Write(kept[i]) }
  fmt.Printf(\"%x\\n\", h.Sum(nil)); fmt.Println(out)
  func() { defer func() { fmt.Println(recover()) }(); var p *int; *p = 1 }()
  sub, err := exec.Command(\"echo\", \"sub\").Output(); fmt.Println(string(sub), err)
}
END
GOFLAGS=-mod=mod GOCACHE=$PWD/../cache CGO_ENABLED=1 go build -o ../program . && cd .. && rm -rf cache";

const SBCL: &str = "(progn (defvar *kept* (make-hash-table :test 'equal))
(dotimes (i 60000) (setf (gethash (format nil \"key ~a\" i) *kept*) (make-string 40 :initial-element (code-char
    (+ 65 (mod i 26))))))
(dotimes (round 3) (sb-ext:gc :full t) (dotimes (i 200000) (list i i i))
  (print (let ((sum 0)) (maphash (lambda (k v) (incf sum (+ (length k) (char-code (char v 3))))) *kept*) sum)))
(print (handler-case (labels ((deep (n) (+ 1 (deep (+ n 1))))) (deep 0)) (sb-kernel::control-stack-exhausted ()
    :deep)))
(print (mapcar #'sb-thread:join-thread (loop for n below 3 collect (let ((n n)) (sb-thread:make-thread (lambda
    () (let ((s 0)) (dotimes (i 100000 s) (incf s (length (list i n))))))))))) (terpri) (sb-ext:exit))";

pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("java", "java -Xmx128m -cp $PREPARED H; echo $?")
            .program("java")
            .program("javac")
            .prepare(JAVA),
        Case::new("node", "node $PREPARED/h.js; echo $?").program("node").prepare(NODE),
        Case::new("go-cgo", "$PREPARED/program; echo $?")
            .program("go")
            .program("gcc")
            .prepare(GO)
            .seconds_max(200),
        Case::new(
            "sbcl",
            "sbcl --noinform --disable-debugger --no-userinit --load $PREPARED/h.lisp 2> /dev/null; echo $?",
        )
        .program("sbcl")
        .prepare(&format!("cat > h.lisp << 'END'\n{SBCL}\nEND")),
    ];
    for (collector, option) in [("serial", "-XX:+UseSerialGC"), ("z", "-XX:+UseZGC")] {
        let script = format!("java -Xmx128m {option} -cp $PREPARED H; echo $?");
        cases.push(
            Case::new(&format!("java-{collector}"), &script).program("java").program("javac").prepare(JAVA),
        );
    }
    cases
}
