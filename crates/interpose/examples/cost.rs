//! What a call costs when it is interposed: `cost [ROUNDS]`.
//!
//! Each round runs one process a way, in turn, so that noise meets all ways alike; printed are medians, and the median
//! of the differences to the native call of the same round. The ways: *native*; *armed*, the same with dispatch on and
//! all text allowed, which is what the kernel takes for it; *patched*; *dispatched*. Then what the start of a process
//! costs, and its private memory.
//!
//! `libcounting.so` beside this program is what the second part preloads.

use std::ffi::c_void;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use uswap_interpose::{Before, Call, Context, Interposer, Options};

// SAFETY:
// 1. The C library has these functions with these types.
unsafe extern "C" {
    safe fn getppid() -> i32;
    fn read(descriptor: i32, buffer: *mut c_void, bytes: usize) -> isize;
    fn write(descriptor: i32, buffer: *const c_void, bytes: usize) -> isize;
}

struct Nothing;

impl Interposer for Nothing {
    fn before(&self, _: &mut Call, _: &Context) -> Before {
        Before::Pass
    }
}

const WAYS: [&str; 4] = ["native", "armed", "patched", "dispatched"];
const CALLS: [&str; 3] = ["getppid", "read 1", "write 1"];
/// Calls in one measurement, and measurements of which the quietest counts.
const BATCH: u32 = 2_000;
const BATCHES: usize = 60;

fn main() {
    let mut arguments = std::env::args().skip(1);
    match arguments.next() {
        Some(way) if WAYS.contains(&way.as_str()) => measure(&way),
        Some(rounds) => compare(rounds.parse().unwrap_or(11)),
        None => compare(11),
    }
}

/// In a process of its own: prints nanoseconds of each kind of call.
fn measure(way: &str) {
    let zero = std::fs::File::open("/dev/zero").expect("/dev/zero opens");
    let null = std::fs::OpenOptions::new().write(true).open("/dev/null").expect("/dev/null opens");
    use std::os::fd::AsRawFd;
    let (zero, null) = (zero.as_raw_fd(), null.as_raw_fd());
    let mut install_us = 0.0;
    if way != "native" {
        let patch_after = (way == "patched").then_some(2);
        let own_text = (way == "armed").then_some(0x1000..0x7FFF_FFFF_F000);
        let options = Options { patch_after, own_text, ..Options::default() };
        let start = Instant::now();
        uswap_interpose::install(&Nothing, &options).expect("this kernel can dispatch");
        install_us = start.elapsed().as_nanos() as f64 / 1000.0;
    }
    let mut byte = 0u8;
    let at = (&raw mut byte).cast::<c_void>();
    let times = [
        quietest_ns(|| {
            getppid();
        }),
        quietest_ns(|| {
            // SAFETY:
            // 1. One byte at `at` may be written.
            unsafe { read(zero, at, 1) };
        }),
        quietest_ns(|| {
            // SAFETY:
            // 1. One byte at `at` may be read.
            unsafe { write(null, at, 1) };
        }),
    ];
    println!("{} {} {} {install_us}", times[0], times[1], times[2]);
}

fn quietest_ns(mut call: impl FnMut()) -> f64 {
    let times = (0..BATCHES).map(|_| {
        let start = Instant::now();
        for _ in 0..BATCH {
            call();
        }
        start.elapsed().as_nanos() as f64 / f64::from(BATCH)
    });
    times.fold(f64::INFINITY, f64::min)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn compare(rounds: usize) {
    let own_path = std::env::current_exe().expect("/proc/self/exe is there");
    // Of each way: the kinds of call, and last what `install` took.
    let mut times = vec![vec![Vec::new(); CALLS.len() + 1]; WAYS.len()];
    for _ in 0..rounds {
        for (way, name) in WAYS.iter().enumerate() {
            let output = Command::new(&own_path).arg(name).output().expect("this program runs again");
            let text = String::from_utf8_lossy(&output.stdout);
            for (call, word) in text.split_whitespace().enumerate() {
                times[way][call].push(word.parse::<f64>().expect("a number"));
            }
        }
    }
    println!("ns a call, {rounds} rounds: median (median of the differences to native)");
    println!("{:12} {:>18} {:>18} {:>18}", "", CALLS[0], CALLS[1], CALLS[2]);
    for (way, name) in WAYS.iter().enumerate() {
        print!("{name:12}");
        for (these, natives) in times[way].iter().zip(&times[0]).take(CALLS.len()) {
            let mut differences: Vec<f64> =
                these.iter().zip(natives).map(|(this, native)| this - native).collect();
            print!(" {:9.1} ({:+6.1})", median(&mut these.clone()), median(&mut differences));
        }
        println!();
    }
    println!("install: {:.0} us", median(&mut times[2][CALLS.len()].clone()));
    let library = own_path.with_file_name("libcounting.so");
    if library.exists() {
        start_cost(rounds, &library);
    }
}

/// A short process with the library preloaded and without.
fn start_cost(rounds: usize, library: &Path) {
    let run = |is_preloaded: bool, command: &[&str]| {
        let mut command_line = Command::new(command[0]);
        command_line.args(&command[1..]);
        if is_preloaded {
            command_line.env("LD_PRELOAD", library);
        }
        let start = Instant::now();
        let output = command_line.output().expect("the program runs");
        (start.elapsed().as_nanos() as f64 / 1000.0, String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let mut plain = Vec::new();
    let mut differences = Vec::new();
    for _ in 0..rounds * 10 {
        let (without, _) = run(false, &["/bin/true"]);
        let (with, _) = run(true, &["/bin/true"]);
        plain.push(without);
        differences.push(with - without);
    }
    println!(
        "start and end of /bin/true: {:.0} us, preloaded {:+.0} us",
        median(&mut plain),
        median(&mut differences)
    );
    let private = |is_preloaded: bool| {
        let (_, text) = run(is_preloaded, &["/bin/cat", "/proc/self/smaps_rollup"]);
        let line =
            text.lines().find(|line| line.starts_with("Private_Dirty:")).unwrap_or_default().to_owned();
        line.split_whitespace().nth(1).and_then(|word| word.parse::<u32>().ok()).unwrap_or_default()
    };
    println!("private memory of cat: {} KiB, preloaded {} KiB", private(false), private(true));
}
