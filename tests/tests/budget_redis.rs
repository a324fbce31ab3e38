//! redis-server filled with 600 MB of JSON-like values in 200M gives each of them back.

use uswap_tests::pair::figures;
use uswap_tests::redis::{Client, server};
use uswap_tests::{MIB, Outcome, Run, Scratch, full_size, needs, scaled_mib_by, turn};

fn fill_and_read(run: Run, scratch: &Scratch, count: u64) -> Outcome {
    let mut running = run.start();
    let mut client = Client::connect(scratch.path(), &mut running);
    client.fill(0..count, 1);
    client.verify(count, |_| 1);
    // A third of the values changes, and all are read again.
    client.fill(0..count / 3, 2);
    client.verify(count, |number| if number < count / 3 { 2 } else { 1 });
    assert_eq!(client.one("DBSIZE"), format!(":{count}"));
    // The server closes the connection instead of answering, so nothing is read.
    client.last("SHUTDOWN NOSAVE");
    running.finish()
}

#[test]
fn budget_redis_gives_back_three_times_its_budget() {
    let _turn = turn();
    if !needs(&["redis-server"]) {
        return;
    }
    // Its accesses are random: in the short form there are a quarter less.
    let values_mib = if full_size() { 600 } else { scaled_mib_by(448, 8) };
    let count = values_mib * MIB / 1000;
    let ram_mib = scaled_mib_by(200, 8);
    let scratch = Scratch::new();
    let plain = fill_and_read(server(scratch.path()), &scratch, count);
    let swapped = fill_and_read(server(scratch.path()).uswap(ram_mib, &[]), &scratch, count);
    figures("budget_redis", ram_mib, &plain, &swapped);
    plain.must_succeed();
    swapped.must_succeed();
    assert!(plain.samples.peak_bytes / MIB * 2 >= ram_mib * 3, "the values are too few: {:?}", plain.samples);
    swapped.must_hold_budget(ram_mib);
}
