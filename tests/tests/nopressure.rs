//! Programs that fit in their budget run as without uswap. Prints the ratio of times; the machine is too noisy to
//! assert 2 %, so only what is far off fails. `tests/scripts/must_show.sh nopressure` gives the figure.

use std::time::Duration;
use uswap_tests::{Run, Scratch, content, full_size, needs, report, turn};

/// Runs `make()` with and without uswap by turns, the order changing each time, and reports the median of the ratios of
/// pairs: what disturbs one half of a pair most often disturbs both.
fn ratio(name: &str, make: impl Fn() -> Run) {
    let rounds = if full_size() { 15 } else { 3 };
    let (mut plain, mut managed, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let with_uswap = || make().uswap(2048, &[]).time();
        let (with, without) = if round % 2 == 0 {
            let with = with_uswap();
            (with, make().time())
        } else {
            let without = make().time();
            (with_uswap(), without)
        };
        managed.push(with);
        plain.push(without);
        ratios.push(with.div_duration_f64(without));
    }
    ratios.sort_by(f64::total_cmp);
    let ratio = ratios[rounds / 2];
    report(&format!(
        "nopressure_{name}: with/without = {ratio:.3} ({:.3} to {:.3}; medians {:?} / {:?}, {rounds} pairs)",
        ratios[0],
        ratios[rounds - 1],
        median(&mut managed),
        median(&mut plain)
    ));
    // Three pairs of short runs show only what is far off.
    let limit = if full_size() { 1.5 } else { 3.0 };
    assert!(ratio < limit, "{name} takes {ratio:.2} times as long");
}

/// Work that takes so many times longer in the full form: a start costs some milliseconds, and should not hide what
/// comes after it.
fn scale() -> usize {
    if full_size() { 4 } else { 1 }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[test]
fn nopressure_python() {
    let _turn = turn();
    if needs(&["python3"]) {
        let count = 600_000 * scale();
        let program =
            format!("x = sorted(str(i * 7919 % 1000003) for i in range({count})); print(len(set(x)))");
        ratio("python", || Run::plain("/usr/bin/python3").args(["-c", &program]));
    }
}

#[test]
fn nopressure_compile() {
    let _turn = turn();
    if !needs(&["gcc"]) {
        return;
    }
    let scratch = Scratch::new();
    let source = scratch.file("source.c");
    let functions: String = (0..600 * scale())
        .map(|number| {
            format!(
                "int f{number}(int a, int b) {{ for (int i = 0; i < b; i++) a += i * {number} ^ (a >> \
            3); return a; }}\n"
            )
        })
        .collect();
    std::fs::write(&source, functions).expect("the scratch directory is writable");
    ratio("compile", || Run::plain("gcc").args(["-O2", "-c", "-o", "/dev/null"]).arg(&source));
}

#[test]
fn nopressure_sort() {
    let _turn = turn();
    let scratch = Scratch::new();
    let lines = scratch.file("lines");
    content::write_lines(&lines, (60 << 20) * scale() as u64, 9).expect("the disk has room");
    ratio("sort", || {
        Run::plain("sort").env("LC_ALL", "C").args(["-S", "500M", "-o", "/dev/null"]).arg(&lines)
    });
}

#[test]
fn nopressure_redis_benchmark() {
    let _turn = turn();
    if !needs(&["redis-server", "redis-benchmark"]) {
        return;
    }
    let scratch = Scratch::new();
    let socket = scratch.file("redis.sock");
    let (socket, requests) = (socket.display(), 40_000 * scale());
    let script = format!(
        "redis-server --port 0 --unixsocket {socket} --save '' --appendonly no --daemonize no >/dev/null & \
         until [ -S {socket} ]; do sleep 0.01; done; \
         redis-benchmark -s {socket} -q -n {requests} -r 100000 -t set,get,lpush >/dev/null; \
         redis-cli -s {socket} shutdown nosave; wait; rm -f {socket}"
    );
    ratio("redis_benchmark", || Run::plain("/bin/sh").args(["-c", &script]));
}

/// What a run costs that has nothing to do: its start and end, children that end at once, and an interpreter. Figures
/// only: no machine is quiet enough to assert milliseconds. That the end waits for nothing is a test of the
/// supervisor's (`the_end_of_a_run_waits_for_no_pause`).
#[test]
fn nopressure_start_and_end() {
    let _turn = turn();
    let rounds = if full_size() { 200 } else { 15 };
    let shell = |script: &'static str| move || Run::plain("/bin/sh").args(["-c", script]);
    added("start_and_end", rounds, || Run::plain("true"));
    added(
        "20_children",
        rounds,
        shell("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do /bin/true; done"),
    );
    if needs(&["python3"]) {
        added("python", rounds.min(50), || Run::plain("python3").args(["-c", "pass"]));
    }
}

/// Reports the median of what uswap adds to the time of `make()`, in pairs whose order changes.
fn added(name: &str, rounds: usize, make: impl Fn() -> Run) {
    let mut differences: Vec<f64> = (0..rounds)
        .map(|round| {
            let with_uswap = || make().uswap(1024, &["-q"]).time().as_secs_f64();
            let plain = || make().time().as_secs_f64();
            if round % 2 == 0 { with_uswap() - plain() } else { -plain() + with_uswap() }
        })
        .map(|seconds| seconds * 1e3)
        .collect();
    differences.sort_by(f64::total_cmp);
    report(&format!(
        "nopressure_{name}: uswap adds {:.2} ms ({:.2} to {:.2} in half of {rounds} pairs)",
        differences[rounds / 2],
        differences[rounds / 4],
        differences[rounds * 3 / 4]
    ));
}
