//! Real programs with every call interposed: they do what they do without.
//!
//! Each runs with the example `counting` preloaded, which changes nothing: all calls dispatched, each site
//! patched at its first call, and patched when it is busy; as the user who runs the tests and, if that is root, as
//! nobody. A program that this machine does not have is named and left out.

mod places;

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use places::example;

/// Calls before a site is patched: never, at once, when busy.
const PATCH_AFTER: [&str; 3] = ["0", "1", "8"];
const GETPPID: u32 = 110;

/// A directory that nobody may enter and write.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("interpose-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary directory is writable");
        let made = Command::new("chmod").arg("0777").arg(&path).status().expect("chmod runs");
        assert!(made.success());
        // The library and the programs of this package lie where nobody may not go.
        for name in ["libcounting.so", "calls", "signals", "storm", "stepped", "alignments"] {
            std::fs::copy(example(name), path.join(name)).expect("a copy");
        }
        Scratch(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a program did.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    stdout: String,
    status: Option<i32>,
}

/// Calls and those of them that were dispatched, by number.
type Counts = BTreeMap<u32, (u64, u64)>;

#[derive(Clone, Copy)]
enum User {
    Own,
    Nobody,
}

fn users() -> &'static [User] {
    let is_root =
        std::fs::metadata("/proc/self").is_ok_and(|it| std::os::unix::fs::MetadataExt::uid(&it) == 0);
    if is_root { &[User::Own, User::Nobody] } else { &[User::Own] }
}

fn command(user: User, scratch: &Scratch, words: &[&str]) -> Command {
    let mut line = match user {
        User::Own => Command::new(words[0]),
        User::Nobody => {
            let mut line = Command::new("setpriv");
            line.args(["--reuid=65534", "--regid=65534", "--clear-groups", words[0]]);
            line
        }
    };
    line.args(&words[1..]).current_dir(&scratch.0).env("HOME", &scratch.0).stdin(Stdio::null());
    line
}

fn outcome(mut line: Command) -> Outcome {
    let output = line.output().expect("the program starts");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    }
    // A signal is told apart from a code.
    let status = output.status.code().or(output.status.signal().map(|signal| -signal));
    Outcome { stdout, status }
}

fn interposed(user: User, scratch: &Scratch, patch_after: &str, words: &[&str]) -> (Outcome, Counts) {
    let file = scratch.path("counts");
    let _ = std::fs::remove_file(&file);
    let mut line = command(user, scratch, words);
    line.env("LD_PRELOAD", scratch.path("libcounting.so"))
        .env("INTERPOSE_COUNTS", &file)
        .env("INTERPOSE_PATCH_AFTER", patch_after)
        // SIGBUS: the signal that a host of this crate asks for.
        .env("INTERPOSE_FAULTS", "64");
    let outcome = outcome(line);
    (outcome, counts(&file))
}

fn counts(file: &Path) -> Counts {
    let mut counts = Counts::new();
    for line in std::fs::read_to_string(file).unwrap_or_default().lines() {
        let words: Vec<u64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
        let entry = counts.entry(words[1] as u32).or_default();
        entry.0 += words[2];
        entry.1 += words[3];
    }
    counts
}

fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    let is_found = found.is_ok_and(|output| output.status.success());
    if !is_found {
        println!("left out: this machine has no {program}");
    }
    is_found
}

/// Runs a program in every way and compares.
fn same_as_without(name: &str, prepare: &[&str], words: &[&str]) {
    let scratch = Scratch::new(name);
    let program = words[0];
    let own = scratch.path(program).to_string_lossy().into_owned();
    let words: Vec<&str> = if scratch.path(program).exists() {
        std::iter::once(own.as_str()).chain(words[1..].iter().copied()).collect()
    } else {
        words.to_vec()
    };
    if !has(words[0]) {
        return;
    }
    if !prepare.is_empty() {
        assert_eq!(outcome(command(User::Own, &scratch, prepare)).status, Some(0), "{prepare:?}");
    }
    for user in users() {
        let without = outcome(command(*user, &scratch, &words));
        assert_eq!(without.status, Some(0), "{words:?} fails by itself");
        for patch_after in PATCH_AFTER {
            let (with, counts) = interposed(*user, &scratch, patch_after, &words);
            assert_eq!(with, without, "patched after {patch_after}");
            let (calls, dispatched) =
                counts.values().fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
            println!("{name}: {calls} calls, {dispatched} dispatched, patched after {patch_after}");
            assert!(calls > 0);
            assert_eq!(patch_after == "0", calls == dispatched);
        }
    }
}

#[test]
fn no_call_passes_unseen() {
    let scratch = Scratch::new("calls");
    let calls = scratch.path("calls").to_string_lossy().into_owned();
    for user in users() {
        for patch_after in PATCH_AFTER {
            let (outcome, counts) = interposed(*user, &scratch, patch_after, &[&calls]);
            assert_eq!(outcome.status, Some(0), "{}", outcome.stdout);
            // 20 calls in four ways: main thread, three threads, a forked child; each child asks for its parent
            // once, and the program does; two in a vfork's child, one in each of two clones, two in each of two; 20
            // for registers; three around a small stack.
            // The clone with a copy of the memory ends its only thread by `exit`, and tells nothing.
            let wide = if std::is_x86_feature_detected!("avx") { 20 } else { 0 };
            assert_eq!(counts[&GETPPID].0, 5 * 80 + 2 + 2 + 1 + 2 * 2 + 20 + wide + 3);
        }
    }
}

/// strace sees all calls of the process from its first on; what is compared is made after the library begins.
#[test]
fn the_kernel_sees_the_same_number_of_calls() {
    if !has("strace") {
        return;
    }
    let scratch = Scratch::new("strace");
    let calls = scratch.path("calls").to_string_lossy().into_owned();
    let traced = scratch.path("strace.txt").to_string_lossy().into_owned();
    let names = "trace=getppid,clone,clone3,vfork,wait4,execve";
    let words = ["strace", "-f", "-c", "-U", "name,calls", "-o", &traced, "-e", names, &calls];
    assert_eq!(outcome(command(User::Own, &scratch, &words)).status, Some(0));
    let text = std::fs::read_to_string(&traced).expect("strace writes its table");
    let seen_by_strace: BTreeMap<&str, u64> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.next()?.parse().ok()?))
        })
        .collect();
    for patch_after in PATCH_AFTER {
        let (_, counts) = interposed(User::Own, &scratch, patch_after, &[&calls]);
        // The exec of the program itself comes before the library; echo ends after it, in another program that
        // has the library too. The clone that tells nothing has made one getppid.
        let ours = |number: u32| counts.get(&number).map_or(0, |count| count.0);
        assert_eq!(ours(GETPPID) + 1, seen_by_strace["getppid"], "{text}");
        assert_eq!(ours(56), seen_by_strace["clone"], "{text}");
        assert_eq!(ours(435), seen_by_strace["clone3"], "{text}");
        assert_eq!(ours(58), seen_by_strace["vfork"], "{text}");
        assert_eq!(ours(61), seen_by_strace["wait4"], "{text}");
        assert_eq!(ours(59) + 1, seen_by_strace["execve"], "{text}");
    }
}

#[test]
fn registers_threads_and_children() {
    same_as_without("calls", &[], &["calls"]);
}

#[test]
fn signals_are_shown_and_delivered_as_asked() {
    same_as_without("signals", &[], &["signals"]);
}

#[test]
fn calls_under_a_storm_of_signals() {
    same_as_without("storm", &[], &["storm"]);
}

#[test]
fn a_signal_may_come_after_each_instruction_of_a_call() {
    same_as_without("stepped", &[], &["stepped"]);
}

/// A site is patched while other threads run it, wherever it lies.
#[test]
fn sites_of_every_alignment_are_patched_under_threads() {
    const GETUID: u32 = 102;
    let scratch = Scratch::new("alignments");
    let program = scratch.path("alignments").to_string_lossy().into_owned();
    for user in users() {
        for patch_after in ["1", "8"] {
            let (outcome, counts) = interposed(*user, &scratch, patch_after, &[&program]);
            assert_eq!(outcome, Outcome { stdout: "740000 calls\n".into(), status: Some(0) });
            let (calls, dispatched) = counts[&GETUID];
            assert_eq!(calls, 740_000);
            // While a patch is made threads are dispatched, that is some of the first 20,000. A site that cannot be
            // patched is 30,000 calls more.
            assert!(dispatched < 25_000, "{dispatched} were dispatched");
        }
    }
}

/// The child of a debugger's vfork is stopped by every signal while its parent waits for its exec.
#[test]
fn a_debugger_starts_a_program() {
    if has("gdb") {
        // A preloaded program gets a SIGSYS for each call that is dispatched: the debugger has to let it pass.
        let line = "timeout -k 1 60 gdb -q -batch -nx -ex 'handle SIGSYS nostop noprint' \
                    -ex 'set startup-with-shell off' -ex run /bin/echo 2>/dev/null | grep -c exited";
        same_as_without("gdb", &[], &["bash", "-o", "pipefail", "-c", line]);
    }
}

/// Where the kernel refuses text that is writable (`PR_SET_MDWE`, kept over exec), as services may ask for it.
#[test]
fn text_that_may_never_be_writable() {
    let script = "import ctypes, os\n\
        assert ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) == 0\n\
        os.execvp('bash', ['bash', '-c', 'for i in $(seq 30); do echo $i; done; echo $(echo sub)'])\n";
    same_as_without("mdwe", &[], &["/usr/bin/python3", "-c", script]);
}

/// A filter that answers some calls itself and sends SIGSYS for others: the program gets both.
#[test]
fn filters_of_the_program() {
    // Loads seccomp data, number; mkdir -> errno 99; rmdir -> trap; the rest is allowed.
    let script = "import ctypes, os, signal, struct\n\
        def op(code, jt, jf, k): return struct.pack('HBBI', code, jt, jf, k)\n\
        code = op(0x20, 0, 0, 0) + op(0x15, 0, 1, 83) + op(6, 0, 0, 0x50000 | 99) \
        + op(0x15, 0, 1, 84) + op(6, 0, 0, 0x30000) + op(6, 0, 0, 0x7fff0000)\n\
        filter = ctypes.create_string_buffer(code)\n\
        program = struct.pack('HxxxxxxP', 6, ctypes.addressof(filter))\n\
        libc = ctypes.CDLL(None, use_errno=True)\n\
        signal.signal(signal.SIGSYS, lambda *_: print('trapped'))\n\
        assert libc.prctl(38, 1, 0, 0, 0) == 0\n\
        assert libc.prctl(22, 2, program, 0, 0) == 0\n\
        for i in range(20): os.stat('/')\n\
        print(libc.mkdir(b'made', 0o777), ctypes.get_errno())\n\
        libc.rmdir(b'made')\n\
        print(os.popen('echo sub').read())\n";
    same_as_without("seccomp", &[], &["/usr/bin/python3", "-c", script]);
}

/// A sandbox for code without handlers, as that of sshd: who returns from a handler is killed.
#[test]
fn a_filter_that_forbids_to_return_from_handlers() {
    // Loads the number; rt_sigreturn -> the process is killed; the rest is allowed.
    let script = "import ctypes, os, struct, threading\n\
        def op(code, jt, jf, k): return struct.pack('HBBI', code, jt, jf, k)\n\
        code = op(0x20, 0, 0, 0) + op(0x15, 0, 1, 15) + op(6, 0, 0, 0x80000000) + op(6, 0, 0, 0x7fff0000)\n\
        filter = ctypes.create_string_buffer(code)\n\
        program = struct.pack('HxxxxxxP', 4, ctypes.addressof(filter))\n\
        libc = ctypes.CDLL(None, use_errno=True)\n\
        assert libc.prctl(38, 1, 0, 0, 0) == 0\n\
        p = os.fork()\n\
        if p:\n    print(os.waitpid(p, 0)[1])\n    os._exit(0)\n\
        assert libc.prctl(22, 2, program, 0, 0) == 0\n\
        t = [threading.Thread(target=lambda: [os.stat('/') for i in range(50)]) for n in range(4)]\n\
        [x.start() for x in t]; [x.join() for x in t]\n\
        print(sum(1 / (i + os.getpid() * 0) for i in range(1, 2000)), os.listdir('/')[0] != '')\n\
        p = os.fork()\n\
        if p == 0: os._exit(9)\n\
        print(os.waitpid(p, 0)[1] >> 8, flush=True)\n\
        os._exit(0)\n";
    same_as_without("sandbox", &[], &["/usr/bin/python3", "-c", script]);
}

#[test]
fn bash_with_pipes_and_traps() {
    let script = "trap 'echo usr1' USR1; kill -USR1 $$; for i in 1 2 3; do echo $i $(ls -d /) | cat; done; \
                  (exit 7); echo $?; sleep 0.2 & wait $!; echo done; read x <<< text; echo $x; ulimit -n";
    same_as_without("bash", &[], &["bash", "-c", script]);
}

#[test]
fn python_with_threads_and_children() {
    let script = "import threading, subprocess, os, signal, time\n\
        r = []\n\
        def f(n):\n    for i in range(200): os.getppid(); os.stat('/')\n    r.append(n)\n\
        t = [threading.Thread(target=f, args=(n,)) for n in range(8)]\n\
        [x.start() for x in t]; [x.join() for x in t]\n\
        print(sorted(r), subprocess.run(['echo', 'sub'], capture_output=True).stdout)\n\
        print(os.popen('echo popen').read(), os.waitpid(os.spawnlp(os.P_NOWAIT, 'true', 'true'), 0)[1])\n\
        signal.signal(signal.SIGALRM, lambda *_: print('alarm')); signal.alarm(1); time.sleep(1.5)\n\
        p = os.fork()\n\
        if p == 0: os._exit(9)\n\
        print(os.waitpid(p, 0)[1] >> 8)\n";
    same_as_without("python", &[], &["/usr/bin/python3", "-c", script]);
}

#[test]
fn make_and_the_compiler() {
    if !has("gcc") {
        return;
    }
    let prepare = "printf '#include <stdio.h>\\nint main(void){printf(\"hello\\\\n\");return 0;}\\n' > a.c; \
                   printf 'all: a b\\na: a.c\\n\\tgcc -O2 -o a a.c\\nb: a.c\\n\\tgcc -O1 -o b a.c\\n' > Makefile; \
                   chmod 666 a.c Makefile";
    let words = ["sh", "-c", "rm -f a b; make -j2 | sort; ./a; ./b; rm a b"];
    same_as_without("make", &["sh", "-c", prepare], &words);
}

#[test]
fn sort_with_temporary_files() {
    let prepare = "seq 100000 | sort -R > in; chmod 666 in";
    let words = ["sh", "-c", "sort -n -S 1M --parallel=2 -T . in | md5sum"];
    same_as_without("sort", &["sh", "-c", prepare], &words);
}

#[test]
fn sqlite_in_a_file() {
    let script = "rm -f db; sqlite3 db 'create table t(a); with recursive c(x) as (select 1 union all select x+1 \
                  from c where x<20000) insert into t select x from c; select sum(a) from t;'; rm -f db";
    if has("sqlite3") {
        same_as_without("sqlite", &[], &["sh", "-c", script]);
    }
}

#[test]
fn perl_with_alarms_and_forks() {
    let script = "$SIG{ALRM} = sub { print \"alarm\\n\" }; alarm 1; sleep 3; print `echo sub`; my $p = fork(); \
                  if (!$p) { exit 3 } waitpid($p, 0); print $? >> 8, \"\\n\"";
    same_as_without("perl", &[], &["perl", "-e", script]);
}

#[test]
fn redis_and_its_benchmark() {
    if !has("redis-server") || !has("redis-benchmark") {
        return;
    }
    let script = "redis-server --port 0 --unixsocket ./sock --save '' --daemonize no > /dev/null & server=$!; \
                  for i in 1 2 3 4 5 6 7 8 9; do sleep 0.3; [ -S sock ] && break; done; \
                  redis-benchmark -s ./sock -n 2000 -q -t set,get,lpush > /dev/null; echo $?; \
                  redis-cli -s ./sock set a b; redis-cli -s ./sock get a; kill $server; wait $server; echo $?";
    same_as_without("redis", &[], &["sh", "-c", script]);
}

#[test]
fn node_with_children_and_timers() {
    let script = "const fs = require('fs'), cp = require('child_process'); \
                  console.log(fs.readdirSync('/').length > 3, cp.execSync('echo hi').toString()); \
                  setTimeout(() => console.log('done'), 50)";
    same_as_without("node", &[], &["node", "-e", script]);
}

/// The JVM has handlers of its own for SIGSEGV and stops its threads by faults.
#[test]
fn java_with_threads_and_null_pointers() {
    if !has("java") || !has("javac") {
        return;
    }
    let source = "public class H { public static void main(String[] a) throws Exception { \
        Thread[] t = new Thread[4]; for (int i = 0; i < 4; i++) { t[i] = new Thread(() -> { \
        for (int k = 0; k < 300; k++) { byte[] b = new byte[100000]; \
        try { Object o = k < 0 ? b : null; o.hashCode(); } catch (NullPointerException e) { } } System.gc(); }); \
        t[i].start(); } for (Thread x : t) x.join(); System.out.println(\"java\"); \
        new ProcessBuilder(\"echo\", \"sub\").inheritIO().start().waitFor(); } }";
    let prepare = format!("printf '%s' '{source}' > H.java; javac H.java && chmod 644 H.class");
    same_as_without("java", &["sh", "-c", &prepare], &["java", "-cp", ".", "H"]);
}

/// Cancelling a thread unwinds it from inside of its call, through the code of ours that makes it: destructors run.
#[test]
fn cancelled_threads_are_unwound() {
    if !has("g++") {
        return;
    }
    let source = "#include <pthread.h>\n#include <stdio.h>\n#include <unistd.h>\n\
        struct D { const char *n; ~D() { printf(\"gone %s\\n\", n); fflush(stdout); } };\n\
        static void clean(void *p) { printf(\"clean %s\\n\", (char *)p); fflush(stdout); }\n\
        static int fds[2];\n\
        static void *reader(void *) { D d{\"reader\"}; pthread_cleanup_push(clean, (void *)\"up\"); char b;\n\
        for (int i = 0; i < 20; i++) if (write(fds[1], \"x\", 1) != read(fds[0], &b, 1)) return 0;\n\
        if (read(fds[0], &b, 1)) return 0; pthread_cleanup_pop(0); return 0; }\n\
        static void *sleeper(void *) { D d{\"sleeper\"}; sleep(100); return 0; }\n\
        int main() { if (pipe(fds)) return 1; void *(*f[])(void *) = {reader, sleeper};\n\
        for (auto run : f) { pthread_t t; void *r; pthread_create(&t, 0, run, 0); usleep(200000);\n\
        pthread_cancel(t); pthread_join(t, &r); printf(\"%d\\n\", r == PTHREAD_CANCELED); } }\n";
    let prepare =
        format!("cat > c.cc << 'END'\n{source}END\ng++ -O1 -o cancel c.cc -lpthread && chmod 755 cancel");
    same_as_without("cancel", &["sh", "-c", &prepare], &["sh", "-c", "./cancel"]);
}
