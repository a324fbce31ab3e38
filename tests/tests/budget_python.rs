//! A Python program that builds and sorts 1 GB of objects stays within 256M and prints the same.

use uswap_tests::{Run, compare, compare_outputs, full_size, loads, needs, scaled_mib_by, turn};

/// A sixteenth in the short form.
fn sized_mib(full: u64) -> u64 {
    scaled_mib_by(full, 16)
}

#[test]
fn budget_python_sorts_objects_four_times_its_budget() {
    let _turn = turn();
    if !needs(&["python3"]) {
        return;
    }
    // Its accesses are random, so most of them wait for the disk: in the short form it is a little over twice as large.
    let objects_mib = if full_size() { 1024 } else { sized_mib(560) };
    compare("budget_python", sized_mib(256), &[], || loads::python_sort(objects_mib));
}

const SMALL_OBJECTS: &str = "
import hashlib
words = [str(number) * 3 for number in range(600000)]
words.sort()
print(hashlib.md5(''.join(words).encode()).hexdigest())
";

/// With 16 MiB the pool once took so much that what was left for pages was less than Python touches at once: each fault
/// waited 0.1 s in vain, and freeing the list did not end.
#[test]
fn budget_python_frees_objects_in_a_small_budget() {
    let _turn = turn();
    if !needs(&["python3"]) {
        return;
    }
    let run = || Run::plain("/usr/bin/python3").args(["-c", SMALL_OBJECTS]);
    let (_, swapped) = compare_outputs("budget_python_small", 16, &[], run);
    // The list grows by realloc, which is found only by looking: 5 % of this budget are 200 pages, less than a busy
    // machine needs to look.
    swapped.must_hold_budget_mostly(16);
}

const UNTOUCHED: &str = "
import hashlib, mmap
untouched = [mmap.mmap(-1, 300 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) for _ in range(4)]
parts = [hashlib.sha256(b'%d' % n).digest() * 512 for n in range(3840)]
print(hashlib.sha256(b''.join(hashlib.sha256(p).digest() for p in parts)).hexdigest())
";

/// An evictor once looked at 256 pages that were never touched, found nothing, and waited; a gigabyte of them took it
/// two seconds, in which the run used 160 % of its budget.
#[test]
fn budget_python_maps_much_more_than_it_touches() {
    let _turn = turn();
    if !needs(&["python3"]) {
        return;
    }
    let run = || Run::plain("/usr/bin/python3").args(["-c", UNTOUCHED]);
    let (_, swapped) = compare_outputs("budget_python_untouched", 24, &[], run);
    swapped.must_hold_budget_mostly(24);
    assert!(!swapped.stderr.contains("served over the budget"), "{}", swapped.stderr);
}

const STARTS_OTHERS: &str = "
import subprocess, time
words = [b'%06d' % number + b'x' * 40 for number in range(20000)]
def start_from(depth):
    if depth:
        return start_from(depth - 1)
    subprocess.run([b'/bin/true'] + words[::200], check=True)
for depth in (90, 70, 50, 30, 10):
    start_from(depth)
text = bytearray()
for number in range(60):
    text += bytes([number]) * (1 << 20)
print(sum(text[::4096]))
# So that who looks every 10 ms sees how much it has.
time.sleep(0.5)
";

/// The words that a child of vfork executed a program with stayed in use for ever, a few more each time: in the end all
/// memory did, nothing was evicted any more, and this one was at 287 % of its budget.
#[test]
fn budget_python_starts_others_from_many_depths() {
    let _turn = turn();
    if !needs(&["python3"]) {
        return;
    }
    let run = || Run::plain("/usr/bin/python3").args(["-c", STARTS_OTHERS]);
    let (_, swapped) = compare_outputs("budget_python_starts", 24, &[], run);
    swapped.must_hold_budget_mostly(24);
}
