//! Integrity by others' programs (memtester, stress-ng) and by churn: no error.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use uswap_tests::pair::figures;
use uswap_tests::{MIB, Run, Scratch, full_size, needs, program, report, scaled_mib, shared_turn, turn};

#[test]
fn integrity_memtester_finds_no_error() {
    let _turn = turn();
    if !needs(&["memtester", "setpriv", "prlimit"]) {
        return;
    }
    // memtester locks its memory if it may, and locked memory is left alone: take the right away.
    let words = ["--bounding-set=-ipc_lock", "--", "prlimit", "--memlock=0:0", "memtester"];
    // The short form leaves out the tests that go over all memory 64 to 512 times.
    let (bytes, ram_mib, mask) = if full_size() { ("600M", 200, "0") } else { ("96M", 32, "0xFF") };
    let run = Run::plain("setpriv").args(words).args([bytes, "1"]).env("MEMTESTER_TEST_MASK", mask);
    let outcome = run.uswap(ram_mib, &[]).finish();
    outcome.must_succeed();
    assert!(outcome.stdout.contains("Done.") && !outcome.stdout.contains("FAILURE"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("unlocked"), "memtester locked its memory: {}", outcome.stdout);
    figures("integrity_memtester", ram_mib, &outcome, &outcome);
    outcome.must_hold_budget(ram_mib);
}

#[test]
fn integrity_stress_ng_verifies_all_methods() {
    let _turn = turn();
    if !needs(&["stress-ng"]) {
        return;
    }
    let ram_mib = scaled_mib(300);
    let seconds = if full_size() { "60s" } else { "9s" };
    let bytes = format!("{}M", scaled_mib(600));
    let words = ["--vm", "2", "--vm-bytes", &bytes, "--vm-method", "all", "--verify", "--timeout", seconds];
    // It wants to write where it is.
    let scratch = Scratch::new();
    let run = Run::plain("stress-ng").args(words).directory(scratch.path());
    let outcome = run.uswap(ram_mib, &[]).finish();
    outcome.must_succeed();
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(said.contains("successful run completed"), "{said}");
    assert!(!said.contains("fail:") && !said.contains("detected"), "{said}");
    figures("integrity_stress_ng", ram_mib, &outcome, &outcome);
    // The peak is printed, not judged: each worker maps and fills half of all its memory in its first 20 ms, before
    // anything of it is managed, and does it again and again. On a quiet machine 6 to 20 % of the samples are above 105
    // %.
}

fn churn(name: &str, options: &[&str], seed: &str) {
    let ram_mib = scaled_mib(200);
    let seconds = if full_size() { "600" } else { "10" };
    let bytes = format!("{}M", scaled_mib(600));
    let outcome = Run::plain(program("churn"))
        .args(["--threads", "8", "--seconds", seconds, "--bytes", &bytes, "--seed", seed])
        .uswap(ram_mib, options)
        .finish();
    outcome.must_succeed();
    assert!(outcome.stdout.starts_with("churn OK"), "{}", outcome.stdout);
    report(outcome.stdout.trim_end());
    // The peak is printed, not judged: eight threads fork families that write everything they inherit, and memory that
    // a fork leaves shared can be given back only once it is copied.
    figures(name, ram_mib, &outcome, &outcome);
}

#[test]
fn integrity_churn_finds_no_wrong_page() {
    let _turn = shared_turn();
    churn("integrity_churn", &[], "1");
}

#[test]
fn integrity_churn_mostly_through_the_file() {
    let _turn = shared_turn();
    churn("integrity_churn_pool_5", &["--pool", "5%"], "2");
}

/// The judge is judged: bytes are changed in churn's memory from outside, without uswap, and it must notice.
#[test]
fn integrity_churn_notices_a_changed_page() {
    let _turn = shared_turn();
    let words = ["--threads", "2", "--seconds", "60", "--bytes", "64M", "--seed", "3"];
    let mut running = Run::plain(program("churn")).args(words).start();
    // What it holds by then is checked again and again.
    let started = Instant::now();
    while running.samples().last_bytes < 24 * MIB {
        assert!(started.elapsed() < Duration::from_secs(50) && !running.ended(), "{:?}", running.samples());
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = running.pid();
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("churn runs");
    let memory =
        std::fs::OpenOptions::new().write(true).open(format!("/proc/{pid}/mem")).expect("we are its parent");
    // One byte in the middle of each large private anonymous mapping: some of them hold pages.
    let mut changed = 0;
    for line in maps.lines().filter(|line| line.contains(" rw-p 00000000 00:00 0") && !line.contains('[')) {
        let (start, rest) = line.split_once('-').expect("a range");
        let end = rest.split(' ').next().unwrap_or("");
        let start = u64::from_str_radix(start, 16).expect("hexadecimal");
        let end = u64::from_str_radix(end, 16).expect("hexadecimal");
        if end - start < 1 << 20 || running.ended() {
            continue;
        }
        for offset in (start..end).step_by(256 << 10) {
            changed += u32::from(memory.write_at(b"\xA7", offset + 1234).is_ok());
        }
    }
    drop(memory);
    let outcome = running.finish();
    std::io::stderr().flush().expect("stderr works");
    assert!(changed > 0, "no mapping was found in:\n{maps}");
    assert_eq!(outcome.code, Some(1), "{changed} bytes changed, unnoticed: {}", outcome.stdout);
    assert!(outcome.stderr.contains("MISMATCH"), "{}", outcome.stderr);
}
