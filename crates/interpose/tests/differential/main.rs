//! Random lists of system calls, made by two processes in step: one as it is, one at the boundary with memory that
//! is evicted under it all the time. Answers, errors and memory are equal after every call.
//!
//! Memory is evicted for real, by userfaultfd in the mode that needs no privilege; the kernel answers EFAULT where
//! it meets an evicted page. The calls go through `Boundary` directly: no code is patched here.
//!
//! More: `USWAP_DIFFERENTIAL_CALLS=1000000 cargo test -p uswap-interpose --test differential`, and
//! `USWAP_DIFFERENTIAL_SEED` for other lists. A difference prints the line that replays it. On one processor (`taskset
//! -c 0`) it takes half of the time, 50 us a call, and the evictor meets fewer calls under way.

mod arguments;
mod calls;
mod evictor;
mod kernel;
mod waits;
mod watch;
mod world;

use std::io::{BufReader, BufWriter, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

/// What one call left: its number, its answer, and a sum of all memory that it names.
pub const RECORD_BYTES: usize = 24;

const ROLE: &str = "USWAP_DIFFERENTIAL_ROLE";
const SEED: &str = "USWAP_DIFFERENTIAL_SEED";
const CALLS: &str = "USWAP_DIFFERENTIAL_CALLS";
const SUM_EVERY: &str = "USWAP_DIFFERENTIAL_SUM_EVERY";
const NOBODY: &str = "USWAP_DIFFERENTIAL_NOBODY";
const SHOW: &str = "USWAP_DIFFERENTIAL_SHOW";

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

/// The process of one side. It runs this program again, and only the test that has the work.
fn start(role: &str, seed: u64, calls: u64, is_nobody: bool) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.args(["--exact", "one_side", "--nocapture", "--ignored"]);
    command.env(ROLE, role).env(SEED, seed.to_string()).env(CALLS, calls.to_string());
    if is_nobody {
        command.env(NOBODY, "1");
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("this program can be started")
}

/// Where two sides differ first.
struct Difference {
    index: u64,
    text: String,
}

/// Reads records of a plain side and of another until one ends or they differ.
fn compare(seed: u64, calls: u64, other: &str, is_nobody: bool) -> Option<Difference> {
    let mut sides = ["plain", other].map(|role| start(role, seed, calls, is_nobody));
    let mut outputs = sides.each_mut().map(|side| BufReader::new(side.stdout.take().expect("it is piped")));
    outputs.iter_mut().for_each(skip_greeting);
    let (told, both) = (AtomicU64::new(0), sides.each_ref().map(Child::id));
    let (until, is_over) = mpsc::channel();
    let (done, difference, statuses) = std::thread::scope(|scope| {
        let told = &told;
        scope.spawn(move || watch::watch(both, told, &is_over));
        let (done, difference) = first_difference(&mut outputs, calls, told);
        drop(outputs);
        let statuses = sides.map(|mut side| side.wait().expect("it was started"));
        drop(until);
        (done, difference, statuses)
    });
    let Some(records) = difference else {
        assert!(statuses.iter().all(|status| status.success()), "{statuses:?}");
        return None;
    };
    let [plain, evicted] = records.map(|[number, answer, sum]| {
        let name = interpose::table::row(number as usize).map_or("the end", |row| row.name());
        format!("{name} answers {}, memory {sum:x}", answer as i64)
    });
    let text = format!(
        "call {done}: plain: {plain}; evicted: {evicted} ({statuses:?})\n\
         replay: {SEED}={seed} {CALLS}={} {SHOW}={done} cargo test -p uswap-interpose --test differential",
        done + 1
    );
    Some(Difference { index: done, text })
}

/// Reads records until one side ends or they differ: how many were equal, and the first that differ. `told` follows.
fn first_difference(
    outputs: &mut [impl Read; 2],
    calls: u64,
    told: &AtomicU64,
) -> (u64, Option<[[u64; 3]; 2]>) {
    let mut done = 0;
    loop {
        let mut records = [[0_u8; RECORD_BYTES]; 2];
        let mut has_ended = false;
        for (output, record) in outputs.iter_mut().zip(&mut records) {
            has_ended |= output.read_exact(record).is_err();
        }
        let records = records.map(|record| {
            [0, 8, 16].map(|at| u64::from_ne_bytes(record[at..at + 8].try_into().expect("eight bytes")))
        });
        if records[0] != records[1] {
            return (done, Some(records));
        }
        if has_ended || records[0][0] == u64::MAX {
            return (done, (done < calls).then_some(records));
        }
        done += 1;
        told.store(done, Ordering::Relaxed);
    }
}

/// What the test runner says before it runs the test.
fn skip_greeting(output: &mut BufReader<impl Read>) {
    let mut last = [0_u8; 8];
    while &last != GREETING {
        last.rotate_left(1);
        output.read_exact(&mut last[7..]).expect("the other side begins");
    }
}

const GREETING: &[u8; 8] = b"\x01begins\n";

use uswap_interpose as interpose;

#[test]
fn random_calls_do_the_same_while_memory_is_evicted_under_them() {
    let calls = number(CALLS, 10_000);
    let first = number(SEED, 1);
    let seeds = if std::env::var(SEED).is_ok() { first..first + 1 } else { 1..4 };
    for seed in seeds {
        // The last of them without privileges.
        if let Some(difference) = compare(seed, calls, "evicted", seed % 3 == 0) {
            panic!("{}", difference.text);
        }
    }
}

/// The lists do find what goes wrong: the same without the boundary, with the evicted memory that it is for.
#[test]
fn without_the_boundary_the_lists_differ_soon() {
    for seed in 1..5 {
        let difference = compare(seed, 2000, "careless", false).expect("evicted memory shows");
        assert!(difference.index < 1000, "{}", difference.text);
    }
}

/// The work of one process. Run by the test above, in processes of its own.
#[test]
#[ignore = "one side of the test above"]
fn one_side() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let mut output = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    // A reader that has seen enough is gone: nothing is left to do then.
    let mut tell = |bytes: &[u8], is_last: bool| {
        let told = output.write_all(bytes).and_then(|()| if is_last { output.flush() } else { Ok(()) });
        if told.is_err() {
            std::process::exit(0);
        }
    };
    tell(GREETING, false);
    let show = std::env::var(SHOW).ok().map(|text| text.parse().expect("a number"));
    if std::env::var(NOBODY).is_ok() {
        kernel::raw(libc::SYS_setresuid, [65534, 65534, 65534]);
    }
    let mut world = world::World::new(&role, number(SEED, 1));
    if let "waits" | "threads" = role.as_str() {
        // A call that nobody releases ends the process, and so the test.
        kernel::raw(libc::SYS_alarm, [120]);
        if role == "waits" {
            waits::run(&world)
        } else {
            waits::run_threads(&world)
        }
        std::process::exit(0);
    }
    let sum_every = number(SUM_EVERY, 256);
    for index in 0..number(CALLS, 1) {
        let mut record = calls::step(&mut world, show == Some(index));
        // From time to time all memory: what no call named has not changed.
        if index % sum_every == sum_every - 1 {
            record[2] ^= world.sum_of_all();
        }
        tell(record.map(u64::to_ne_bytes).as_flattened(), false);
    }
    let last = [u64::MAX, 0, world.sum_of_all()];
    tell(last.map(u64::to_ne_bytes).as_flattened(), true);
    world.report();
    // The harness would write a closing line into the records.
    std::process::exit(0);
}
