//! A program that forbids itself calls while its other threads are patched: `filtered ROUNDS`.
//!
//! In each round a child has two threads that go from site to site, so that one of them is nearly always at a patch.
//! Then its first thread sets a filter for all of them. It ends the process at a call of a patch, none of which the
//! program makes itself. What is told is how many children came to their end.

use std::arch::global_asm;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const SITES: usize = 512;
const SITE_BYTES: usize = 64;
const THREADS: usize = 2;
/// Rounds differ by so much in when the filter comes.
const STEP_US: u64 = 37;
const STEPS: u64 = 50;

/// Begun, and through with all their sites.
static BEGUN: AtomicU32 = AtomicU32::new(0);
static ENDED: AtomicU32 = AtomicU32::new(0);

// Functions that call `getuid`.
global_asm!(
    ".pushsection .text.filtered, \"ax\", @progbits",
    ".p2align 6",
    "filtered_sites:",
    ".rept 512",
    ".p2align 6",
    ".cfi_startproc",
    "mov eax, edi",
    "mov eax, 102",
    "syscall",
    "ret",
    ".cfi_endproc",
    ".endr",
    ".popsection",
);

// SAFETY:
// 1. It is the first of the functions above, which take a number and answer one.
unsafe extern "C" {
    fn filtered_sites(number: usize) -> usize;
}

fn call(site: usize) {
    let address = filtered_sites as *const () as usize + site * SITE_BYTES;
    // SAFETY:
    // 1. There are so many functions of that form, each so long.
    let function: unsafe extern "C" fn(usize) -> usize = unsafe { std::mem::transmute(address) };
    // SAFETY:
    // 1. The call names no memory.
    unsafe { function(0) };
}

fn main() {
    let rounds: u64 = std::env::args().nth(1).and_then(|word| word.parse().ok()).expect("a number");
    let mut ended = 0;
    for round in 0..rounds {
        // SAFETY:
        // 1. This process has one thread: its child may do what it likes.
        match unsafe { libc::fork() } {
            0 => child(Duration::from_micros(round % STEPS * STEP_US)),
            child => {
                let mut status = 0;
                // SAFETY:
                // 1. The call writes to a variable of this frame.
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                ended += u64::from(status == 0);
            }
        }
    }
    println!("{ended} of {rounds} ended by themselves");
}

fn child(patience: Duration) -> ! {
    for thread in 0..THREADS {
        std::thread::spawn(move || {
            BEGUN.fetch_add(1, Ordering::SeqCst);
            for site in (0..SITES).filter(|site| site % THREADS == thread) {
                // The second comes through the patch.
                call(site);
                call(site);
            }
            ENDED.fetch_add(1, Ordering::SeqCst);
            loop {
                std::hint::spin_loop();
            }
        });
    }
    wait(|| BEGUN.load(Ordering::SeqCst) == THREADS as u32);
    let start = Instant::now();
    wait(|| start.elapsed() >= patience);
    set_filter();
    wait(|| ENDED.load(Ordering::SeqCst) == THREADS as u32);
    // SAFETY:
    // 1. Ends the process.
    unsafe { libc::_exit(0) }
}

/// Without a call.
fn wait(is_over: impl Fn() -> bool) {
    while !is_over() {
        std::hint::spin_loop();
    }
}

/// For all threads.
fn set_filter() {
    const FORBIDDEN: [libc::c_long; 4] =
        [libc::SYS_mprotect, libc::SYS_membarrier, libc::SYS_pread64, libc::SYS_pwrite64];
    const LOAD: u16 = 0x20;
    const IS: u16 = 0x15;
    const ANSWER: u16 = 0x06;
    let op = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut code = vec![op(LOAD, 0, 0, 0)];
    for (index, number) in FORBIDDEN.into_iter().enumerate() {
        code.push(op(IS, (FORBIDDEN.len() - index) as u8, 0, number as u32));
    }
    code.push(op(ANSWER, 0, 0, libc::SECCOMP_RET_ALLOW));
    code.push(op(ANSWER, 0, 0, libc::SECCOMP_RET_KILL_PROCESS));
    let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_mut_ptr() };
    // SAFETY:
    // 1. The kernel reads the program, which lives in this frame.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let flags = libc::SECCOMP_FILTER_FLAG_TSYNC;
        let answer = libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &program);
        assert_eq!(answer, 0);
    }
}
