//! What a program sees of its swap file: its size, and nothing of what is in it.

use std::fs::{File, Permissions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use uswap_tests::{
    Outcome, Run, Running, Scratch, needs, needs_root, needs_uswap, program, report, skip, turn, uswap_binary,
};

/// Runs a Python program that knows the directory of its swap file, and must end well. None: not here.
fn run_python(text: &str) -> Option<Outcome> {
    let _turn = turn();
    if uswap_binary().is_none() || !needs(&["python3"]) {
        return None;
    }
    let directory = Scratch::new();
    let path = directory.path().display().to_string();
    let outcome = Run::plain("/usr/bin/python3")
        .env("SWAP_DIR", &path)
        .args(["-c", text])
        .uswap(48, &["--swap", &path, "--allow-tmpfs"])
        .finish();
    outcome.must_succeed();
    assert_eq!(outcome.stdout, "OK\n");
    Some(outcome)
}

/// Makes 160 MB that do not compress, frees most of it, and watches the blocks of its supervisor's swap file.
const PROGRAM: &str = r#"
import hashlib, mmap, os, time
def file_bytes():
    supervisor, total = "/proc/%d/fd" % os.getppid(), 0
    for fd in os.listdir(supervisor):
        path = os.path.join(supervisor, fd)
        try:
            if os.readlink(path).startswith(os.environ["SWAP_DIR"]):
                total += os.stat(path).st_blocks * 512
        except FileNotFoundError:
            pass  # A file of the supervisor that it has just closed; its swap file stays open.
    return total
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
    if let Some(outcome) = run_python(PROGRAM) {
        outcome.must_hold_budget_mostly(48);
    }
}

/// Makes pages that do not compress and pages that do, each with the same 48 random bytes in it, and looks for those in
/// its supervisor's swap file.
const SECRETIVE: &str = r#"
import mmap, os, sys
secret = os.urandom(48)
def holds(path):
    rest, found = b"", False
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            found, rest = found or secret in rest + part, part[-48:]
    return found
parts = []
for number in range(160):
    part = mmap.mmap(-1, 1 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for page in range(256):
        noise = os.urandom(4048) if page % 2 else os.urandom(64) + b" the same words " * 249
        part.write((noise[:1000] + secret + noise[1000:])[:4096].ljust(4096))
    parts.append(part)
control = os.path.join(os.environ["SWAP_DIR"], "control")
with open(control, "wb") as file:
    file.write(parts[0][:])
assert holds(control), "what is looked for would not be found"
os.unlink(control)
supervisor = "/proc/%d/fd" % os.getppid()
def is_swap_file(path):
    try:
        return os.readlink(path).startswith(os.environ["SWAP_DIR"])
    except FileNotFoundError:
        return False  # A file of the supervisor that it has just closed; its swap file stays open.
paths = [os.path.join(supervisor, fd) for fd in os.listdir(supervisor)]
files = [path for path in paths if is_swap_file(path)]
written = sum(os.stat(path).st_blocks * 512 for path in files)
assert written > 30 << 20, "only %d bytes were written" % written
assert not any(holds(path) for path in files), "plain text in the swap file"
assert all(secret in part[:] for part in parts), "content is lost"
print("OK")
"#;

#[test]
fn swapfile_holds_nothing_that_can_be_read() {
    run_python(SECRETIVE);
}

/// The first file among the descriptors of the run's supervisor whose name holds `name`.
fn supervisor_file(running: &Running, name: &str) -> File {
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", running.pid())).expect("it runs");
    let mut paths = descriptors.flatten().map(|entry| entry.path());
    let found = paths
        .find(|path| std::fs::read_link(path).is_ok_and(|link| link.to_string_lossy().contains(name)))
        .expect("the supervisor has it");
    File::open(found).expect("it is ours")
}

/// Where `wanted` is in the writable memory of a process: how often in mappings that a core file would have, and in
/// others.
fn occurrences(pid: i32, wanted: &[u8]) -> (usize, usize) {
    let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).expect("it runs");
    let mut memory = File::open(format!("/proc/{pid}/mem")).expect("it is ours");
    let (mut dumped, mut others, mut range) = (0, 0, None);
    for line in smaps.lines() {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        let bounds = first.split_once('-').and_then(|(start, end)| {
            Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
        });
        if let Some(bounds) = bounds {
            range = words.next().is_some_and(|rights| rights.starts_with("rw")).then_some(bounds);
        } else if let ("VmFlags:", Some((start, end))) = (first, range) {
            let mut bytes = Vec::new();
            memory.seek(SeekFrom::Start(start)).expect("an address is an offset");
            // The front of the segment is enough; what cannot be read is not there.
            let _end_of_what_is_there =
                (&mut memory).take((end - start).min(64 << 20)).read_to_end(&mut bytes);
            let count = bytes.windows(wanted.len()).filter(|window| *window == wanted).count();
            *if words.any(|flag| flag == "dd") { &mut others } else { &mut dumped } += count;
        }
    }
    (dumped, others)
}

#[test]
fn swapfile_key_is_in_no_core_file_of_the_program() {
    let _turn = turn();
    if !needs_uswap() {
        return;
    }
    let directory = Scratch::new();
    let path = directory.path().display().to_string();
    let mut running = Run::plain(program("touch"))
        .args(["--bytes", "48M", "--content", "random", "--count", "20000", "--hold", "1000"])
        .uswap(24, &["--swap", &path, "--allow-tmpfs"])
        .start();
    while running.output_so_far().is_empty() && !running.ended() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut key = [0; 32];
    supervisor_file(&running, "uswap-segment").read_exact_at(&mut key, 64).expect("the segment has a key");
    assert!(key.as_chunks::<8>().0.iter().all(|part| *part != [0; 8]), "{key:x?} is not random");
    let touch =
        running.processes().into_iter().find(|process| process.pid != running.pid()).expect("it holds");
    let (dumped, others) = occurrences(touch.pid, &key);
    // In the segment, and in the workspace of each thread of uswap that has read from the file.
    assert!(others >= 1, "found {others} times: has it read nothing?");
    assert_eq!(dumped, 0, "the key is where a core file would have it");
}

/// Fills memory, sleeps until it is told to go on, and verifies all.
const SLEEPER: &str = r#"
import hashlib, mmap, os, random, time
random.seed(1)
words = [bytes(random.choices(b"abcdefgh", k=random.randint(3, 9))) for _ in range(5000)]
def part():
    made = mmap.mmap(-1, 1 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for page in range(256):
        made.write(b" ".join(random.choices(words, k=700))[:4096].ljust(4096))
    return made
parts = [part() for _ in range(60)]
digests = [hashlib.sha256(part[:]).digest() for part in parts]
print("filled", flush=True)
while not os.path.exists(os.environ["GO_ON"]):
    time.sleep(0.02)
assert [hashlib.sha256(part[:]).digest() for part in parts] == digests, "content is lost"
print("OK", flush=True)
"#;

fn ask_to_write_back(uswap: &Path, older_than: &str, pid: i32) -> Command {
    let mut command = Command::new(uswap);
    command.args(["writeback", "--older-than", older_than, &pid.to_string()]);
    command
}

#[test]
fn swapfile_gets_what_nobody_touches_when_the_user_says_so() {
    let _turn = turn();
    let Some(uswap) = uswap_binary() else { return skip("this case is about uswap itself") };
    if !needs(&["python3"]) {
        return;
    }
    let directory = Scratch::new();
    let (path, go_on) = (directory.path().display().to_string(), directory.file("go on"));
    let json = directory.file("report").display().to_string();
    let mut running = Run::plain("/usr/bin/python3")
        .env("GO_ON", &go_on.display().to_string())
        .args(["-c", SLEEPER])
        // A pool that follows the program would have written part of it before.
        .uswap(48, &["--swap", &path, "--allow-tmpfs", "--pool", "60%", "--json", &json])
        .start();
    while running.output_so_far().is_empty() && !running.ended() {
        std::thread::sleep(Duration::from_millis(20));
    }
    // Somebody else is not obeyed, and a process that is no run is named.
    if needs_root("to be somebody else") {
        let copy = directory.file("uswap");
        std::fs::copy(&uswap, &copy).expect("there is room");
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("it is ours");
        let refused = ask_to_write_back(&copy, "0s", running.pid()).uid(65_534).output().expect("it starts");
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(1) && why.contains("only root"), "{refused:?}");
    }
    let nobody = ask_to_write_back(&uswap, "0s", std::process::id() as i32).output().expect("it starts");
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("no run listens"), "{nobody:?}");

    let started = Instant::now();
    let answer = ask_to_write_back(&uswap, "1s", running.pid()).output().expect("it starts");
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    report(&format!("writeback: {}", text.trim_end()));
    assert!(answer.status.success(), "{answer:?}");
    assert!(started.elapsed() >= Duration::from_secs(1), "nobody was watched for a second");
    let digits: String = text.chars().take_while(|c| *c != ' ').filter(char::is_ascii_digit).collect();
    let pages: u64 = digits.parse().expect("it begins with a number");
    assert!(pages > 4000, "only {pages} pages of 15,360 were written: {text}");
    std::fs::write(&go_on, "").expect("the directory is ours");
    let outcome = running.finish();
    outcome.must_succeed();
    assert!(outcome.stdout.ends_with("OK\n"), "{}", outcome.stdout);
    let record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(json).expect("it was asked for")).expect("it is JSON");
    let read = record["pages_read"].as_u64().expect("it is a number");
    assert!(read >= pages / 2, "{pages} pages were written, and {read} read");
}
