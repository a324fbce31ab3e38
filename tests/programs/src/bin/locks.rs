//! locks: locks memory in all ways there are, and prints what it got: the same lines with uswap and
//! without.
//!
//! `locks STEP...`, done in order: `fill:MIB` maps so much and fills it (the steps below are about
//! the last one); `all:FLAGS` is libc's mlockall, `raw:FLAGS` the system call; `none` is
//! munlockall; `lock`, `lock-on-fault`, `unlock`; `map:MIB` maps and unmaps again, and touches
//! nothing; `limit:KIB` takes the right to lock any number of pages away, and sets that limit;
//! `verify` compares each page, `absent` counts the pages that are not in RAM; `locked` prints
//! VmLck; `settled` waits until it is below 1 GiB, and prints it; `fork` does the rest in a child,
//! `exec` in a new program. It ends with status 1 if memory is wrong.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::time::Duration;
use uswap_test_programs::message::{end_process, errno};
use uswap_test_programs::pattern::Key;
use uswap_test_programs::{PAGE_BYTES, memory};

struct Filled {
    address: usize,
    pages: usize,
    writer: u32,
}

impl Filled {
    fn content(&self, index: usize) -> [u8; PAGE_BYTES] {
        Key { seed: 1, writer: self.writer, number: index as u32 }.page()
    }

    fn fill(&self) {
        for index in 0..self.pages {
            memory::copy_page_in(self.address + index * PAGE_BYTES, &self.content(index));
        }
    }

    fn verify(&self) {
        let mut found = [0; PAGE_BYTES];
        for index in 0..self.pages {
            memory::copy_page_out(self.address + index * PAGE_BYTES, &mut found);
            if found != self.content(index) {
                end_process(1, format_args!("FAIL page {index} of {} is wrong", self.pages));
            }
        }
    }

    fn absent(&self) -> usize {
        let mut present = vec![0_u8; self.pages];
        // SAFETY:
        // 1. `present` has one byte for each page of the mapped range.
        let answer = unsafe {
            libc::mincore(self.address as *mut _, self.pages * PAGE_BYTES, present.as_mut_ptr().cast())
        };
        assert_eq!(answer, 0, "mincore: errno {}", errno());
        present.iter().filter(|&&byte| byte & 1 == 0).count()
    }
}

fn locked_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).expect("VmLck is there");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Locks and unlocks by libc, or without it.
enum Call {
    All(usize),
    Raw(usize),
    None,
    Lock(usize, usize),
    LockOnFault(usize, usize),
    Unlock(usize, usize),
}

fn call(step: &str, call: &Call) {
    // SAFETY:
    // 1. These calls change which pages are in RAM, and no content; they fail where nothing is
    //    mapped.
    let answer = unsafe {
        match *call {
            Call::All(flags) => i64::from(libc::mlockall(flags as i32)),
            Call::Raw(flags) => libc::syscall(libc::SYS_mlockall, flags),
            Call::None => i64::from(libc::munlockall()),
            Call::Lock(start, bytes) => i64::from(libc::mlock(start as *const _, bytes)),
            Call::LockOnFault(start, bytes) => {
                i64::from(libc::mlock2(start as *const _, bytes, libc::MLOCK_ONFAULT as libc::c_uint))
            }
            Call::Unlock(start, bytes) => i64::from(libc::munlock(start as *const _, bytes)),
        }
    };
    let error = if answer == 0 { 0 } else { errno() };
    println!("{step}: errno {error}");
}

const IPC_LOCK: u32 = 14;

/// Without the right to lock any number of pages, so many may be locked.
fn limit(kib: u64) {
    let limit = libc::rlimit { rlim_cur: kib * 1024, rlim_max: kib * 1024 };
    // SAFETY:
    // 1. The kernel reads one structure, which lives through the call.
    let limited = unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) };
    assert_eq!(limited, 0, "setrlimit: errno {}", errno());
    // Version 3 of capget and capset: two sets of (effective, permitted, inheritable).
    let header = [0x2008_0522_u32, 0];
    let mut sets = [0_u32; 6];
    // SAFETY:
    // 1. The header and the sets are as large as version 3 wants, and live through the calls.
    let dropped = unsafe {
        libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr());
        sets[..3].iter_mut().for_each(|set| *set &= !(1 << IPC_LOCK));
        libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr())
    };
    assert_eq!(dropped, 0, "capset: errno {}", errno());
}

fn main() {
    let steps: Vec<String> = std::env::args().skip(1).collect();
    let mut filled: Option<Filled> = None;
    for (index, step) in steps.iter().enumerate() {
        let (name, number) = step.split_once(':').unwrap_or((step, "0"));
        let number: usize = number.parse().expect("a number behind the colon");
        let bytes = number << 20;
        let (start, all_bytes) =
            filled.as_ref().map_or((0, 0), |filled| (filled.address, filled.pages * PAGE_BYTES));
        match name {
            "fill" => match memory::map_private(bytes, 0) {
                Ok(address) => {
                    let new = Filled { address, pages: bytes / PAGE_BYTES, writer: index as u32 };
                    new.fill();
                    filled = Some(new);
                    println!("{step}: 0");
                }
                Err(error) => println!("{step}: errno {error}"),
            },
            "map" => {
                let mapped = memory::map_private(bytes, 0);
                println!("{step}: errno {}", mapped.err().unwrap_or(0));
                if let Ok(address) = mapped {
                    memory::unmap(address, bytes).expect("it was mapped");
                }
            }
            "all" => call(step, &Call::All(number)),
            "raw" => call(step, &Call::Raw(number)),
            "none" => call(step, &Call::None),
            "lock" => call(step, &Call::Lock(start, all_bytes)),
            "lock-on-fault" => call(step, &Call::LockOnFault(start, all_bytes)),
            "unlock" => call(step, &Call::Unlock(start, all_bytes)),
            "limit" => limit(number as u64),
            "verify" => filled.as_ref().expect("fill comes first").verify(),
            "absent" => println!("{step}: {}", filled.as_ref().expect("fill comes first").absent()),
            "locked" => println!("{step}: {}", locked_kib()),
            "settled" => {
                while locked_kib() > 1 << 20 {
                    std::thread::sleep(Duration::from_millis(10));
                }
                println!("{step}: {}", locked_kib());
            }
            "fork" => {
                // SAFETY:
                // 1. The program has one thread.
                match unsafe { libc::fork() } {
                    0 => (),
                    child => {
                        assert!(child > 0, "fork: errno {}", errno());
                        let mut status = 0;
                        // SAFETY:
                        // 1. The kernel writes one number into a live one.
                        unsafe { libc::waitpid(child, &raw mut status, 0) };
                        let status = std::process::ExitStatus::from_raw(status);
                        std::process::exit(if status.success() { 0 } else { 1 });
                    }
                }
            }
            "exec" => {
                let error = std::process::Command::new("/proc/self/exe").args(&steps[index + 1..]).exec();
                panic!("exec: {error}");
            }
            _ => panic!("unknown step {step}"),
        }
    }
}
