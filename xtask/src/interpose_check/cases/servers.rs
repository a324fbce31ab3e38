//! Programs that talk over loopback and sockets.

use crate::interpose_check::case::Case;

const REDIS: &str = "redis-server --port 0 --unixsocket ./sock --save '' --daemonize no > log & server=$!; \
    for i in $(seq 50); do sleep 0.1; [ -S sock ] && break; done; c='redis-cli -s ./sock'; \
    redis-benchmark -s ./sock -n 5000 -d 200 -q -t set,get,lpush,lrange_100,mset > /dev/null; echo benchmark $?; \
    $c flushall; seq 30000 | awk '{printf \"set key%d value-%d-%s\\n\", $1, $1, \
    \"padding-padding-padding-padding\"}' | $c | sort | uniq -c; \
    sum='local s=0 for i=1,30000 do s=s+#redis.call(\"get\",\"key\"..i) end return s'; $c eval \"$sum\" 0; \
    $c bgsave; for i in $(seq 100); do sleep 0.1; $c info persistence | grep -q bgsave_in_progress:0 && break; done; \
    $c info persistence | grep last_bgsave_status; $c set a b; kill $server; wait $server; echo $?; \
    redis-server --port 0 --unixsocket ./sock2 --save '' --daemonize no > log2 & server=$!; \
    c='redis-cli -s ./sock2'; \
    for i in $(seq 50); do sleep 0.1; $c ping 2> /dev/null | grep -q PONG && break; done; $c eval \"$sum\" 0; \
    $c dbsize; $c shutdown nosave; wait $server; echo $?";

const CURL: &str = "head -c 12000000 /dev/zero | openssl enc -aes-128-ctr -pass pass:x -nosalt 2> /dev/null > \
    file; md5sum file; /usr/bin/python3 -c 'import http.server as h\n\
class H(h.SimpleHTTPRequestHandler):\n    def log_message(*a): pass\n\
s = h.ThreadingHTTPServer((\"127.0.0.1\", 0), H); open(\"port.new\", \"w\").write(str(s.server_port))\n\
import os; os.rename(\"port.new\", \"port\"); s.serve_forever()' & server=$!; \
    for i in $(seq 100); do sleep 0.1; [ -f port ] && break; done; url=http://127.0.0.1:$(cat port); \
    for i in 1 2 3; do curl -s $url/file | md5sum; done; curl -s -Z $url/file $url/file -o a -o b; cmp a b; echo $?; \
    curl -s -o /dev/null -w '%{http_code}\\n' $url/missing; kill $server; wait $server; echo $?";

/// As nobody, who has no shell, it ends at the permission.
const SSH: &str = "ssh-keygen -q -t ed25519 -N '' -f host; ssh-keygen -q -t rsa -b 2048 -N '' -f own; \
    cp own.pub allowed; \
    printf 'HostKey %s\\nPidFile none\\nStrictModes no\\nUsePAM no\\nAuthorizedKeysFile %s\\n' $PWD/host \
    $PWD/allowed > conf; port=$((20000 + $$ % 20000)); mkdir -p /run/sshd 2> /dev/null; \
    /usr/sbin/sshd -D -f conf -p $port 2> log & server=$!; \
    for i in $(seq 50); do sleep 0.1; ssh-keyscan -p $port 127.0.0.1 2> /dev/null | grep -q ed25519 && break; done; \
    ssh-keyscan -p $port 127.0.0.1 2> /dev/null | grep -c ed25519; \
    o=\"-p $port -i own -o StrictHostKeyChecking=no -o UserKnownHostsFile=known -o BatchMode=yes 127.0.0.1\"; \
    head -c 3000000 /bin/bash > file; ssh $o cat < file 2> /dev/null | cmp - file; echo $?; \
    ssh $o exit 5 2> /dev/null; echo $?; \
    kill $server; wait $server; echo $?; eval $(ssh-agent) > /dev/null; ssh-add -q own; ssh-add -l | wc -l; \
    ssh-agent -k > /dev/null";

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("redis", REDIS).program("redis-server").program("redis-benchmark").short(),
        Case::new("curl", CURL).program("curl").program("openssl").program("/usr/bin/python3"),
        Case::new("ssh", SSH).program("ssh").file("/usr/sbin/sshd"),
    ]
}
