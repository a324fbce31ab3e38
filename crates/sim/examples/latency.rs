//! The trial behind ADR 0001: what does it cost that the engine is `async` although on Linux every future is ready at
//! once, and what would a hand-over of each fault to another thread cost?
//!
//! `cargo run --release -p uswap-sim --example latency`

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// The seam in small: two steps that may wait, and one that may not.
trait Steps {
    async fn enter(&self, value: u64) -> u64;
    async fn fetch(&self, value: u64) -> u64;
    fn install(&self, value: u64) -> u64;
}

/// As on Linux: nothing ever waits.
struct Ready;

#[inline(never)]
fn enter(value: u64) -> u64 {
    value.rotate_left(7) ^ 0x9E37
}
#[inline(never)]
fn fetch(value: u64) -> u64 {
    value.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ (value >> 29)
}
#[inline(never)]
fn install(value: u64) -> u64 {
    value.wrapping_add(1)
}

impl Steps for Ready {
    async fn enter(&self, value: u64) -> u64 {
        enter(value)
    }
    async fn fetch(&self, value: u64) -> u64 {
        fetch(value)
    }
    fn install(&self, value: u64) -> u64 {
        install(value)
    }
}

async fn load_async(steps: &impl Steps, value: u64) -> u64 {
    let mut value = value;
    for _ in 0..2 {
        value = steps.fetch(value).await;
    }
    value
}
async fn serve_async(steps: &impl Steps, value: u64) -> u64 {
    let value = steps.enter(value).await;
    let value = load_async(steps, value).await;
    let value = steps.enter(value).await;
    steps.install(value)
}

fn serve_plain(value: u64) -> u64 {
    let mut value = enter(value);
    for _ in 0..2 {
        value = fetch(value);
    }
    install(enter(value))
}

/// Runs a future that never waits, as the agent does.
fn run_ready<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("nothing waits here"),
    }
}

const CALLS: u64 = 2_000_000;
const HAND_OVERS: u64 = 20_000;
const RUNS: usize = 21;

fn median_ns(calls: u64, mut call: impl FnMut(u64) -> u64) -> (f64, u64) {
    let mut value = 1;
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..calls {
                value = call(black_box(value));
            }
            start.elapsed().as_nanos() as f64 / calls as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times[RUNS / 2], value)
}

fn served(requests: Receiver<u64>, answers: Sender<u64>) {
    for value in requests {
        if answers.send(serve_plain(value)).is_err() {
            return;
        }
    }
}

fn main() {
    let (plain_ns, first) = median_ns(CALLS, serve_plain);
    let (async_ns, second) = median_ns(CALLS, |value| run_ready(serve_async(&Ready, value)));
    assert_eq!(first, second, "both do the same work");
    let (request_in, requests) = channel();
    let (answer_in, answers) = channel();
    let server = std::thread::spawn(move || served(requests, answer_in));
    let (hand_over_ns, third) = median_ns(HAND_OVERS, |value| {
        request_in.send(value).expect("the server lives as long as we send");
        answers.recv().expect("the server answers each request")
    });
    drop(request_in);
    server.join().expect("the server ends when nobody asks");
    println!("plain functions            {plain_ns:8.1} ns a call");
    println!("async, always ready        {async_ns:8.1} ns a call");
    println!("hand-over to a thread      {hand_over_ns:8.1} ns a call, there and back (sleeping futex)");
    println!("checksum {:016x}", first ^ second.rotate_left(1) ^ third);
}
