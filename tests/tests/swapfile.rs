//! What a program sees of the size of the swap file.

use uswap_tests::{Run, Scratch, needs, turn, uswap_binary};

/// Makes 160 MB that do not compress, frees most of it, and watches the blocks of its supervisor's swap file.
const PROGRAM: &str = r#"
import hashlib, mmap, os, time
def file_bytes():
    supervisor = "/proc/%d/fd" % os.getppid()
    found = [os.stat(os.path.join(supervisor, fd)) for fd in os.listdir(supervisor)
             if os.readlink(os.path.join(supervisor, fd)).startswith(os.environ["SWAP_DIR"])]
    return sum(status.st_blocks * 512 for status in found)
parts = []
for number in range(160):
    part = mmap.mmap(-1, 1 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    part.write(os.urandom(1 << 20))
    parts.append((part, hashlib.sha256(part[:]).digest()))
full = file_bytes()
assert full > 90 << 20, "only %d bytes were written" % full
kept = parts[::40]
for part, _ in [part for part in parts if part not in kept]:
    part.close()
# No time is too long for a busy machine: the test as a whole has a limit.
while file_bytes() > full // 2:
    time.sleep(0.1)
for part, digest in kept:
    assert hashlib.sha256(part[:]).digest() == digest, "content is lost"
print("OK")
"#;

#[test]
fn swapfile_blocks_of_freed_memory_go_back_to_the_file_system() {
    let _turn = turn();
    if uswap_binary().is_none() || !needs(&["python3"]) {
        return;
    }
    let directory = Scratch::new();
    let path = directory.path().display().to_string();
    let outcome = Run::plain("/usr/bin/python3")
        .env("SWAP_DIR", &path)
        .args(["-c", PROGRAM])
        .uswap(48, &["--swap", &path, "--allow-tmpfs"])
        .finish();
    outcome.must_succeed().must_hold_budget_mostly(48);
    assert_eq!(outcome.stdout, "OK\n");
}
