//! Small operations made by hand, whose times a child could reckon.

use std::cell::RefCell;

use super::*;

const PRICES: Prices =
    Prices { own_ns: 1.0, exchange_ns: 5.0, transfer_ns: 60.0, transfer_far_ns: 140.0, memory_ns: 90.0 };
const LOCK: usize = 64 * 1000;

fn settings(warm_up_operations: u64, operations: u64) -> Settings {
    let mut lock_kinds = LockKinds::default();
    lock_kinds.add(LOCK..LOCK + 8, LockKind::Device);
    Settings { prices: PRICES, sockets: Sockets::One, warm_up_operations, operations, lock_kinds }
}

/// Each CPU does the same events again and again, told its number.
fn all(cpu_count: usize, events: impl Fn(usize) -> Vec<Event>) -> Vec<Worker<'static>> {
    let worker = |cpu| -> Worker<'static> {
        let operation: Vec<Event> = events(cpu);
        Box::new(move |events| {
            events.extend(&operation);
            Step::Done
        })
    };
    (0..cpu_count).map(worker).collect()
}

/// Does each of the operations once, in order.
fn list(operations: Vec<Vec<Event>>) -> Worker<'static> {
    let mut operations = operations.into_iter();
    Box::new(move |events| match operations.next() {
        Some(operation) => {
            events.extend(operation);
            Step::Done
        }
        None => Step::Finished,
    })
}

fn hold(nanoseconds: u32) -> Vec<Event> {
    vec![Event::Locked(LOCK), Event::Worked(nanoseconds), Event::Unlocked(LOCK)]
}

fn near(seen: f64, expected: f64) {
    assert!((seen - expected).abs() <= expected.abs() * 1e-9, "{seen}, not {expected}");
}

#[test]
fn one_cpu_takes_the_sum_of_its_accesses() {
    let operation = |_| vec![Event::Read(1), Event::Exchange(1), Event::Write(2), Event::Worked(13)];
    let report = run(all(1, operation), &settings(1, 10));
    // After the first: 1 + 5 + 1 + 13.
    near(report.virtual_ns, 200.0);
    near(report.mean_ns, 20.0);
    near(report.p50_ns, 20.0);
    near(report.operations_per_second, 5e7);
    near(report.transfers_per_operation, 0.0);
    assert_eq!(report.waiting_shares, [0.0; LockKind::ALL.len()]);
    let cold = run(all(1, operation), &settings(0, 1));
    near(cold.mean_ns, 90.0 + 5.0 + 90.0 + 13.0);
}

#[test]
fn cpus_that_never_share_do_not_slow_each_other() {
    let operation = |cpu| vec![Event::Exchange(cpu), Event::Locked(LOCK + 64 * (cpu + 1)), Event::Worked(15)];
    let with_unlock = |cpu| [operation(cpu), vec![Event::Unlocked(LOCK + 64 * (cpu + 1))]].concat();
    let two = run(all(2, with_unlock), &settings(2, 200));
    near(two.virtual_ns, 100.0 * 20.0);
    near(two.operations_per_second, 1e8);
    near(two.p99_ns, 20.0);
    near(two.transfers_per_operation, 0.0);
    let many = run(all(96, with_unlock), &settings(96, 9600));
    near(many.operations_per_second, 96.0 / 20e-9);
}

#[test]
fn cpus_on_one_lock_do_one_operation_for_each_hold_and_handing_over() {
    for cpu_count in [2, 8, 96] {
        let report = run(all(cpu_count, |_| hold(140)), &settings(200, 1000));
        near(report.operations_per_second, 1e9 / (140.0 + 60.0));
        let operation_ns = cpu_count as f64 * 200.0;
        near(report.mean_ns, operation_ns);
        near(report.p99_ns, operation_ns);
        near(report.waiting_share(LockKind::Device), 1.0 - 140.0 / operation_ns);
        near(report.waiting_share(LockKind::Cluster), 0.0);
        near(report.transfers_per_operation, 1.0);
    }
    let alone = run(all(1, |_| hold(140)), &settings(0, 1000));
    near(alone.operations_per_second, 1e9 / 140.0);
    near(alone.waiting_share(LockKind::Device), 0.0);
}

#[test]
fn a_lock_that_is_free_again_is_not_waited_for() {
    // 100 ns in the lock, 900 outside: with two CPUs only the first operation waits, after that they are out of step.
    let operation = |_| [hold(100), vec![Event::Worked(900)]].concat();
    let report = run(all(2, operation), &settings(2, 100));
    near(report.waiting_share(LockKind::Device), 0.0);
    near(report.mean_ns, 1000.0);
}

#[test]
fn two_locks_in_one_line_are_two_locks() {
    let operation = |cpu| {
        let lock = LOCK + 4 * cpu;
        vec![Event::Locked(lock), Event::Worked(100), Event::Unlocked(lock)]
    };
    let report = run(all(2, operation), &settings(0, 100));
    near(report.mean_ns, 100.0);
    near(report.waiting_share(LockKind::Device), 0.0);
}

#[test]
fn lines_that_are_only_read_cost_nothing_after_the_first_read() {
    // The last has it after 90 + 15 * 60 ns; the others have read it up to 900 times by then.
    let report = run(all(16, |_| vec![Event::Read(1)]), &settings(16_000, 1600));
    near(report.transfers_per_operation, 0.0);
    near(report.mean_ns, 1.0);
}

#[test]
fn a_line_that_all_write_does_one_write_for_each_transfer() {
    let report = run(all(4, |_| vec![Event::Exchange(1)]), &settings(4, 400));
    near(report.transfers_per_operation, 1.0);
    near(report.operations_per_second, 1e9 / 60.0);
    near(report.mean_ns, 4.0 * 60.0);
}

#[test]
fn who_asks_first_has_the_lock_first() {
    let order = RefCell::new(Vec::new());
    // CPU 0 holds from 0 to 1000. The others ask at 300, 100, 200, and say when their next operation starts.
    let worker = |cpu: usize, asks_at: u32| -> Worker<'_> {
        let mut calls = 0;
        let order = &order;
        Box::new(move |events| {
            calls += 1;
            if calls == 2 {
                order.borrow_mut().push(cpu);
                return Step::Finished;
            }
            events.push(Event::Worked(asks_at));
            events.extend(hold(1000));
            Step::Done
        })
    };
    let workers = vec![worker(0, 0), worker(1, 300), worker(2, 100), worker(3, 200)];
    let report = run(workers, &settings(0, 100));
    assert_eq!(*order.borrow(), [0, 2, 3, 1]);
    assert_eq!(report.operations, 4);
    // The last has waited for three holds and as many transfers.
    near(report.virtual_ns, 4.0 * 1000.0 + 3.0 * 60.0);
    near(report.p99_ns, report.virtual_ns);
}

#[test]
fn the_operation_runs_on_the_cpu_whose_clock_is_smallest() {
    let order = RefCell::new(Vec::new());
    let worker = |cpu: usize, nanoseconds: u32| -> Worker<'_> {
        let order = &order;
        Box::new(move |events| {
            order.borrow_mut().push(cpu);
            events.push(Event::Worked(nanoseconds));
            Step::Done
        })
    };
    let _ = run(vec![worker(0, 100), worker(1, 30)], &settings(0, 6));
    // CPU 1 starts at 0, 30, 60, 90, 120; CPU 0 at 0, 100.
    assert_eq!(order.borrow()[..7], [0, 1, 1, 1, 1, 0, 1]);
}

#[test]
fn the_same_run_twice_is_the_same() {
    let mixed = || {
        let operations = |cpu: usize| {
            (0..200)
                .map(|turn| {
                    let line = (cpu * 7 + turn * 13) % 11;
                    let lock = LOCK + 64 * ((cpu + turn) % 3);
                    vec![
                        Event::Read(line),
                        Event::Locked(lock),
                        Event::Exchange(line + 1),
                        Event::Worked(line as u32),
                        Event::Unlocked(lock),
                    ]
                })
                .collect()
        };
        let workers = (0..24).map(|cpu| list(operations(cpu))).collect();
        run(workers, &Settings { sockets: Sockets::Two, ..settings(100, 10_000) })
    };
    let report = mixed();
    assert_eq!(report.operations, 24 * 200 - 100);
    assert!(report.waiting_share(LockKind::Device) > 0.0);
    assert!(report.waiting_share(LockKind::Other) > 0.0);
    assert_eq!(report, mixed());
}

#[test]
fn twice_the_price_is_as_much_slower_as_reckoned() {
    let with = |prices| Settings { prices, ..settings(8, 800) };
    let twice = Prices { transfer_ns: 120.0, ..PRICES };
    near(run(all(8, |_| hold(140)), &with(twice)).operations_per_second, 1e9 / (140.0 + 120.0));
    near(run(all(8, |_| vec![Event::Write(1)]), &with(twice)).operations_per_second, 1e9 / 120.0);
    let twice = Prices { exchange_ns: 10.0, ..PRICES };
    near(run(all(8, |cpu| vec![Event::Exchange(cpu), Event::Read(cpu)]), &with(twice)).mean_ns, 11.0);
    let twice = Prices { memory_ns: 180.0, ..PRICES };
    near(run(all(1, |_| vec![Event::Read(1)]), &Settings { prices: twice, ..settings(0, 1) }).mean_ns, 180.0);
}

#[test]
fn a_lock_between_sockets_costs_the_far_price() {
    // Two CPUs, one in each socket, take turns.
    let far = Settings { sockets: Sockets::Two, ..settings(10, 100) };
    near(run(all(2, |_| hold(60)), &far).operations_per_second, 1e9 / (60.0 + 140.0));
}

#[test]
fn kinds_are_found_by_address() {
    let mut kinds = LockKinds::default();
    kinds.add(100..200, LockKind::Cluster);
    kinds.add(200..204, LockKind::Cache);
    let seen = [99, 100, 199, 200, 203, 204].map(|address| kinds.of(address));
    let (other, cluster, cache) = (LockKind::Other, LockKind::Cluster, LockKind::Cache);
    assert_eq!(seen, [other, cluster, cluster, cache, cache, other]);
}

#[test]
#[should_panic(expected = "the lock order is wrong")]
fn cpus_that_wait_for_each_other_are_reported() {
    let both = |first: usize, second: usize| {
        let (first, second) = (LOCK + 64 * first, LOCK + 64 * second);
        let taken = vec![Event::Locked(first), Event::Worked(10), Event::Locked(second)];
        list(vec![[taken, vec![Event::Unlocked(second), Event::Unlocked(first)]].concat()])
    };
    let _ = run(vec![both(0, 1), both(1, 0)], &settings(0, 10));
}

#[test]
fn real_atomics_are_played_back() {
    use uswap_sync::{AtomicU64, Ordering};

    #[repr(align(64))]
    struct Alone(AtomicU64);

    let shared = Alone(AtomicU64::new(0));
    let own: Vec<Alone> = (0..4).map(|_| Alone(AtomicU64::new(0))).collect();
    let workers = own
        .iter()
        .map(|own| {
            recorded(|| {
                own.0.fetch_add(1, Ordering::Relaxed);
                trace::locked(LOCK);
                shared.0.fetch_add(1, Ordering::Relaxed);
                trace::worked(10);
                trace::unlocked(LOCK);
                Step::Done
            })
        })
        .collect();
    let report = run(workers, &settings(8, 400));
    assert!(shared.0.load(Ordering::Relaxed) >= 408);
    if trace::RECORDS {
        // The lock is handed over, and the line that it guards follows.
        near(report.operations_per_second, 1e9 / (60.0 + 60.0 + 10.0));
        near(report.transfers_per_operation, 2.0);
    } else {
        near(report.virtual_ns, 0.0);
    }
}
