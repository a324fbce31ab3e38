//! `uswap set --ram` while the programs of the budget tests run: half of the budget holds, twice of it is used, and
//! nothing is lost.
//!
//! Each program does its work again and again until the test has seen what it wants, so no case depends on how fast the
//! machine is.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use uswap_tests::build::Build;
use uswap_tests::redis::{Client, server};
use uswap_tests::steering::{enlarge, halve};
use uswap_tests::{MIB, Run, Running, Scratch, full_size, loads, needs, needs_uswap, turn};

/// The budget of the budget test in the full form; in the short form what goes with runs of a few seconds.
fn budget_mib(full: u64) -> u64 {
    if full_size() { full } else { 32 }
}

fn steer(running: &mut Running, name: &str, ram_mib: u64, enlarged_mib: u64) {
    halve(running, name, ram_mib);
    enlarge(running, name, enlarged_mib);
}

/// Runs it once without uswap; then again and again in a budget that is halved, and then twice as large as it was. Each
/// round must print the same.
fn each_round_must_print_the_same(name: &str, ram_mib: u64, load: Run) {
    let plain = load.clone().finish();
    plain.must_succeed();
    let scratch = Scratch::new();
    let enough = scratch.file("enough");
    let mut running = load.again_until(&enough).uswap(ram_mib, &[]).start();
    steer(&mut running, name, ram_mib, 2 * ram_mib);
    std::fs::write(&enough, "").expect("the scratch directory is writable");
    let swapped = running.finish();
    swapped.must_succeed();
    let rounds = swapped.stdout.len() / plain.stdout.len();
    assert!(rounds > 0, "{name}: nothing was printed");
    assert_eq!(swapped.stdout, plain.stdout.repeat(rounds), "{name}: the outputs differ");
}

#[test]
fn budget_of_sort_is_halved_and_doubled() {
    let _turn = turn();
    if !needs_uswap() {
        return;
    }
    let scratch = Scratch::new();
    let ram_mib = budget_mib(256);
    // Beside each line there are 48 bytes for it, so it needs more than the file has.
    let file_mib = if full_size() { 4 * ram_mib } else { 2 * ram_mib };
    let load = loads::sort(&scratch, file_mib, 4 * ram_mib);
    each_round_must_print_the_same("sort", ram_mib, load);
}

#[test]
fn budget_of_python_is_halved_and_doubled() {
    let _turn = turn();
    if !needs_uswap() || !needs(&["python3"]) {
        return;
    }
    let ram_mib = budget_mib(256);
    let objects_mib = if full_size() { 4 * ram_mib } else { 3 * ram_mib };
    each_round_must_print_the_same("python", ram_mib, loads::python_sort(objects_mib));
}

#[test]
fn budget_of_sqlite_is_halved_and_doubled() {
    let _turn = turn();
    if !needs_uswap() || !needs(&["sqlite3"]) {
        return;
    }
    let scratch = Scratch::new();
    let ram_mib = budget_mib(128);
    let load = loads::sqlite(&scratch, 4 * ram_mib);
    each_round_must_print_the_same("sqlite", ram_mib, load);
}

/// Reads and changes values until it is enough, and in the end all of them are right.
fn use_values(mut client: Client, count: u64, enough: &AtomicBool) {
    let mut version = 1;
    client.fill(0..count, version);
    while !enough.load(Relaxed) {
        version += 1;
        client.fill(0..count / 3, version);
        client.verify(count, |number| if number < count / 3 { version } else { 1 });
    }
    assert_eq!(client.one("DBSIZE"), format!(":{count}"));
    client.last("SHUTDOWN NOSAVE");
}

#[test]
fn budget_of_redis_is_halved_and_doubled() {
    let _turn = turn();
    if !needs_uswap() || !needs(&["redis-server"]) {
        return;
    }
    let ram_mib = budget_mib(200);
    let count = 3 * ram_mib * MIB / 1000;
    let scratch = Scratch::new();
    let mut running = server(scratch.path()).uswap(ram_mib, &[]).start();
    let client = Client::connect(scratch.path(), &mut running);
    let enough = AtomicBool::new(false);
    let swapped = std::thread::scope(|scope| {
        let user = scope.spawn(|| use_values(client, count, &enough));
        // If this panics the server ends, and so does who uses it.
        let mut running = running;
        steer(&mut running, "redis", ram_mib, 2 * ram_mib);
        enough.store(true, Relaxed);
        user.join().expect("all values were right");
        running.finish()
    });
    swapped.must_succeed();
}

#[test]
fn budget_of_make_is_halved_and_doubled() {
    let _turn = turn();
    if !needs_uswap() || !needs(&["make", "gcc"]) {
        return;
    }
    // Without optimization it needs almost as much memory, and a third of the time.
    let flags = if full_size() { "-O2" } else { "-O0" };
    let Some(build) = Build::new(&[flags]) else { return };
    build.make("plain").finish().must_succeed();
    let scratch = Scratch::new();
    let enough = scratch.file("enough");
    let ram_mib = 150;
    let load = build.make("swapped").again_until(&enough).timeout(Duration::from_secs(600));
    let mut running = load.uswap(ram_mib, &[]).start();
    // A compiler does not need more.
    steer(&mut running, "make", ram_mib, ram_mib);
    std::fs::write(&enough, "").expect("the scratch directory is writable");
    running.finish().must_succeed();
    build.must_be_the_same("plain", "swapped");
}
