//! Programs that fit in their budget run as without uswap. Prints the ratio of times; the machine is too noisy to
//! assert 2 %, so only what is far off fails.

use std::time::Duration;
use uswap_tests::{Run, Scratch, content, full_size, needs, report, turn};

/// Runs `make()` with and without uswap by turns, the order changing each time, and reports the ratio of medians.
fn ratio(name: &str, make: impl Fn() -> Run) {
    let rounds = if full_size() { 11 } else { 3 };
    let (mut plain, mut managed) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        for half in 0..2 {
            let with_uswap = (round + half) % 2 == 0;
            let run = if with_uswap { make().uswap(2048, &[]) } else { make() };
            let outcome = run.finish();
            outcome.must_succeed();
            (if with_uswap { &mut managed } else { &mut plain }).push(outcome.elapsed);
        }
    }
    let (plain, managed) = (median(&mut plain), median(&mut managed));
    let ratio = managed.as_secs_f64() / plain.as_secs_f64();
    report(&format!(
        "nopressure_{name}: with/without = {ratio:.3} ({managed:?} / {plain:?}, {rounds} pairs)"
    ));
    assert!(ratio < 2.0, "{name} takes {ratio:.2} times as long");
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[test]
fn nopressure_python() {
    let _turn = turn();
    if needs(&["python3"]) {
        let program = "x = sorted(str(i * 7919 % 1000003) for i in range(600000)); print(len(set(x)))";
        ratio("python", || Run::plain("/usr/bin/python3").args(["-c", program]));
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
    let functions: String = (0..1500)
        .map(|number| format!("int f{number}(int a, int b) {{ for (int i = 0; i < b; i++) a += i * {number} ^ (a >> 3); return a; }}\n"))
        .collect();
    std::fs::write(&source, functions).expect("the scratch directory is writable");
    ratio("compile", || Run::plain("gcc").args(["-O2", "-c", "-o", "/dev/null"]).arg(&source));
}

#[test]
fn nopressure_sort() {
    let _turn = turn();
    let scratch = Scratch::new();
    let lines = scratch.file("lines");
    content::write_lines(&lines, 60 << 20, 9).expect("the disk has room");
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
    let socket = socket.display();
    let script = format!(
        "redis-server --port 0 --unixsocket {socket} --save '' --appendonly no --daemonize no >/dev/null & \
         until [ -S {socket} ]; do sleep 0.01; done; \
         redis-benchmark -s {socket} -q -n 100000 -r 100000 -t set,get,lpush >/dev/null; \
         redis-cli -s {socket} shutdown nosave; wait; rm -f {socket}"
    );
    ratio("redis_benchmark", || Run::plain("/bin/sh").args(["-c", &script]));
}
