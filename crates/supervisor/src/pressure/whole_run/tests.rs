//! With time that is made up: processes wait in patterns that are known, and a monitor looks now and then.

use super::*;
use uswap_units::Prng;

const MS: u64 = 1_000_000;
const PERIOD_MS: u64 = 2000;

/// What processes do at a moment, by the millisecond.
struct World {
    /// Whether each of them waits.
    waits: Vec<Box<dyn Fn(u64) -> bool>>,
    /// Whether anything of the run computes.
    computes: fn(u64) -> bool,
}

/// Whatever is true of a run is asked for every 50 ms.
fn must_hold(before: Pressure, after: Pressure) {
    let parts = [after.some.avg10, after.some.avg60, after.some.avg300];
    assert!(parts.iter().all(|part| (0.0..=100.0).contains(part)), "{after:?}");
    assert!(after.full.total_us <= after.some.total_us && after.full.avg10 <= after.some.avg10, "{after:?}");
    let [some, full] = [(before.some, after.some), (before.full, after.full)]
        .map(|(before, after)| after.total_us.checked_sub(before.total_us).expect("it goes back"));
    assert!(some <= 50_001 && full <= 50_001, "{some} us in 50 ms");
}

/// After so many seconds, what is said, and what is true: ms in which one waited, and in which nothing else was done.
/// The monitor looks every `look_ms` to twice that.
fn after(seconds: u64, look_ms: u64, world: &World) -> (Pressure, [u64; 2]) {
    let (mut run, mut prng, mut waited) = (WholeRun::default(), Prng::new(3), vec![0; world.waits.len()]);
    let (mut truth, mut look_at, mut before) = ([0, 0], 0, Pressure::default());
    let take_up = |run: &mut WholeRun, waited: &mut Vec<u64>| {
        let mut sum = Waited::default();
        waited.iter_mut().for_each(|ns| sum.add(std::mem::take(ns)));
        run.take_up(sum, Duration::from_millis(50));
    };
    for at in 1..=seconds * 1000 {
        let waiting: Vec<bool> = world.waits.iter().map(|waits| waits(at)).collect();
        let count = waiting.iter().filter(|waits| **waits).count();
        let is_full = count > 0 && !(world.computes)(at);
        truth[0] += u64::from(count > 0);
        truth[1] += u64::from(is_full);
        waited.iter_mut().zip(&waiting).for_each(|(ns, waits)| *ns += u64::from(*waits) * MS);
        if at >= look_at {
            look_at = at + look_ms + prng.below(look_ms + 1);
            run.note_waiting(count);
            if count > 0 {
                run.note_full(is_full);
            }
        }
        if at.is_multiple_of(50) {
            take_up(&mut run, &mut waited);
            must_hold(before, run.pressure());
            before = run.pressure();
        }
        if at.is_multiple_of(PERIOD_MS) {
            run.carry_on(Duration::from_millis(PERIOD_MS));
        }
    }
    (run.pressure(), truth)
}

fn near(said_us: u64, true_ms: u64, within: f64) -> bool {
    (said_us as f64 / 1000.0 - true_ms as f64).abs() <= true_ms as f64 * within
}

fn now_and_then(seed: u64, of_100: u64) -> Box<dyn Fn(u64) -> bool> {
    Box::new(move |at| Prng::new(seed ^ at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).below(100) < of_100)
}

#[test]
fn of_one_process_some_is_counted() {
    let world = World { waits: vec![now_and_then(1, 30)], computes: |_| false };
    let (said, truth) = after(20, 3, &world);
    assert_eq!((said.some.total_us, said.full.total_us), (truth[0] * 1000, truth[1] * 1000));
    assert!((25.0..35.0).contains(&said.some.avg60.max(said.some.avg10)), "{said:?}");
}

#[test]
fn processes_that_wait_all_the_time_are_not_added() {
    let waits = (0..8).map(|_| Box::new(|_| true) as Box<dyn Fn(u64) -> bool>).collect();
    let (said, _) = after(60, 3, &World { waits, computes: |_| false });
    assert!((59_900_000..=60_000_000).contains(&said.some.total_us), "{said:?}");
    assert!((99.0..=100.0).contains(&said.some.avg10) && (60.0..70.0).contains(&said.some.avg60), "{said:?}");
    assert_eq!(said.full.total_us, said.some.total_us);
}

#[test]
fn what_overlaps_by_chance_counts_once() {
    for of_100 in [2, 20, 50, 90] {
        let waits = (1..=4).map(|seed| now_and_then(seed * 77, of_100)).collect();
        let (said, truth) = after(60, 3, &World { waits, computes: |at| at % 4 == 0 });
        assert!(near(said.some.total_us, truth[0], 0.03), "{of_100}: {said:?}, {truth:?}");
        assert!(near(said.full.total_us, truth[1], 0.05), "{of_100}: {said:?}, {truth:?}");
    }
}

#[test]
fn turns_are_told_from_waits_at_once() {
    let at_once = |_| Box::new(|at: u64| at % 100 < 25) as Box<dyn Fn(u64) -> bool>;
    let in_turn = |who: u64| Box::new(move |at: u64| at % 100 / 25 == who) as Box<dyn Fn(u64) -> bool>;
    let (said, truth) = after(30, 3, &World { waits: (0..4).map(at_once).collect(), computes: |_| true });
    assert!(near(said.some.total_us, truth[0], 0.02) && said.full.total_us == 0, "{said:?}, {truth:?}");
    let (said, truth) = after(30, 3, &World { waits: (0..4).map(in_turn).collect(), computes: |_| true });
    assert!(near(said.some.total_us, truth[0], 0.02) && said.some.avg10 > 90.0, "{said:?}, {truth:?}");
}

/// One waits alone; then eight wait all the time, and then one again.
#[test]
fn what_was_before_is_soon_forgotten() {
    let of = |who: u64| {
        Box::new(move |at: u64| match at {
            10_000..20_000 => true,
            _ => who == 0 && at.is_multiple_of(2),
        }) as Box<dyn Fn(u64) -> bool>
    };
    let (said, truth) = after(30, 3, &World { waits: (0..8).map(of).collect(), computes: |_| false });
    assert!(near(said.some.total_us, truth[0], 0.03), "{said:?}, {truth:?}");
}

#[test]
fn rare_looks_tell_it_too() {
    let waits = (1..=6).map(|seed| now_and_then(seed * 31, 40)).collect();
    let (said, truth) = after(120, 50, &World { waits, computes: |_| false });
    assert!(near(said.some.total_us, truth[0], 0.03), "{said:?}, {truth:?}");
}

/// A wait of 3 s is told when it ends: it is not lost, and no part of the time is more than the whole.
#[test]
fn a_long_wait_is_told_at_its_end() {
    let (mut run, second) = (WholeRun::default(), Duration::from_secs(1));
    let mut waited = Waited::default();
    waited.add(3_000_000_000);
    let mut totals = Vec::new();
    for sum in [Waited::default(), waited, Waited::default(), Waited::default(), Waited::default()] {
        run.take_up(sum, second);
        totals.push(run.pressure().some.total_us);
    }
    assert_eq!(totals, [0, 1_000_000, 2_000_000, 3_000_000, 3_000_000]);
    run.carry_on(5 * second);
    assert!((run.pressure().some.avg10 - 100.0 * 0.6 * 0.393).abs() < 0.1, "{:?}", run.pressure());
}

#[test]
fn it_is_never_less_than_of_the_process_that_waits_most() {
    let mut run = WholeRun::default();
    // The looks say that two wait whenever one does, and were made at other moments.
    (0..10).for_each(|_| run.note_waiting(2));
    let mut waited = Waited::default();
    [900 * MS, 100 * MS].into_iter().for_each(|ns| waited.add(ns));
    run.take_up(waited, Duration::from_secs(1));
    assert_eq!(run.pressure().some.total_us, 900_000);
}
