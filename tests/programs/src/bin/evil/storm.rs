//! A storm of signals over memory that is evicted: none is lost, none is made up, and each fault that is the program's
//! own reaches its handler.

use crate::signals::{block_in_thread, install, start_timer};
use crate::support::{Case, Filled, fail, must};
use core::arch::asm;
use core::mem::zeroed;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::time::{Duration, Instant};
use uswap_test_programs::message::errno;
use uswap_test_programs::random::Random;

const THREADS: u64 = 8;
/// `si_code`: nothing is mapped there.
const SEGV_MAPERR: i32 = 1;
/// Signals that may wait in the queue of the receiver.
const QUEUE_MAX: u64 = 100;
/// What a read gives that a handler has ended.
const RECOVERED: u64 = 0x5EC0_7E2E_D000_0001;

static FILLED: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];
static TICKS: AtomicU64 = AtomicU64::new(0);
static TICK_SIGNALS: AtomicU64 = AtomicU64::new(0);
static QUEUED_RECEIVED: AtomicU64 = AtomicU64::new(0);
static OWN_BUS: AtomicU64 = AtomicU64::new(0);
static OWN_SEGV: AtomicU64 = AtomicU64::new(0);
static RECEIVER: AtomicI32 = AtomicI32::new(0);
static OVER: AtomicBool = AtomicBool::new(false);

fn filled() -> Filled {
    let [address, pages, seed] = FILLED.each_ref().map(|word| word.load(SeqCst));
    Filled { address, pages, seed: seed as u64, writer: 1 }
}

/// Handlers touch memory that may be away, too.
fn look_at_page(number: u64) {
    let filled = filled();
    let index = number as usize * 31 % filled.pages;
    filled.verify_one("a handler", index);
}

extern "C" fn on_tick(_: i32, information: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let saved = errno();
    // SAFETY:
    // 1. The kernel gives a valid siginfo, and this signal comes from a timer only: the sixth `int` is its overrun.
    let overrun = unsafe { information.cast::<i32>().add(5).read() };
    let ticks = TICKS.fetch_add(1 + overrun as u64, SeqCst);
    TICK_SIGNALS.fetch_add(1, SeqCst);
    look_at_page(ticks);
    set_errno(saved);
}

extern "C" fn on_queued(_: i32, information: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let saved = errno();
    // SAFETY:
    // 1. The kernel gives a valid siginfo, and this signal comes from rt_tgsigqueueinfo only: it has a value.
    let value = unsafe { (*information).si_value() }.sival_ptr as u64;
    let expected = QUEUED_RECEIVED.fetch_add(1, SeqCst);
    if value != expected {
        fail!("queued signal {value} came, and {expected} was next ");
    }
    set_errno(saved);
}

/// Goes on behind the read of [`read_or_recover`].
extern "C" fn on_fault(signal: i32, information: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY:
    // 1. The kernel gives a valid siginfo and context, and these signals carry an address.
    let (address, code, registers) = unsafe {
        ((*information).si_addr() as u64, (*information).si_code, &mut (*context).uc_mcontext.gregs)
    };
    let read = registers[libc::REG_RDI as usize] as u64;
    let expected_code = if signal == libc::SIGBUS { libc::BUS_ADRERR } else { SEGV_MAPERR };
    if address != read || code != expected_code {
        fail!("signal {signal}, code {code}, at {address:#x}: {read:#x} was read");
    }
    let count = if signal == libc::SIGBUS { &OWN_BUS } else { &OWN_SEGV };
    count.fetch_add(1, SeqCst);
    registers[libc::REG_RAX as usize] = RECOVERED as i64;
    registers[libc::REG_RIP as usize] = registers[libc::REG_RSI as usize];
}

fn set_errno(value: i32) {
    // SAFETY:
    // 1. It is the calling thread's own.
    unsafe { *libc::__errno_location() = value };
}

/// Reads a word; [`RECOVERED`] if it is not there.
fn read_or_recover(address: usize) -> u64 {
    let word;
    // SAFETY:
    // 1. It reads, and `on_fault` goes on behind the read where there is nothing: the place is in RSI.
    unsafe {
        asm!(
            "lea rsi, [rip + 2f]",
            "mov rax, [rdi]",
            "2:",
            in("rdi") address, out("rsi") _, out("rax") word,
            options(nostack, readonly)
        );
    }
    word
}

/// Queues a signal with a value to a thread; false: the queue is full.
fn queue(thread: i32, signal: i32, value: u64) -> bool {
    // SAFETY:
    // 1. `information` is live, zero is a valid value of all its fields, and what is written lies inside it: sender and
    //    user at byte 16, the value at byte 24.
    unsafe {
        let mut information: libc::siginfo_t = zeroed();
        information.si_signo = signal;
        information.si_code = libc::SI_QUEUE;
        let words = (&raw mut information).cast::<u64>();
        words.add(2).write(libc::getpid() as u64 | u64::from(libc::getuid()) << 32);
        words.add(3).write(value);
        let answer = libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            libc::getpid(),
            thread,
            signal,
            &raw const information,
        );
        if answer != 0 && errno() != libc::EAGAIN {
            fail!("rt_tgsigqueueinfo: errno {}", errno());
        }
        answer == 0
    }
}

/// A mapping of a file, of which only the first page is there.
fn cut_file() -> (OwnedFd, usize) {
    // SAFETY:
    // 1. The name ends in NUL; the descriptor is new and nobody else's.
    let file = unsafe { libc::memfd_create(c"cut".as_ptr(), 0) };
    if file < 0 {
        fail!("memfd_create: errno {}", errno());
    }
    // SAFETY:
    // 1. As above.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    // SAFETY:
    // 1. Calls about a descriptor that is open; the mapping is new.
    let address = unsafe {
        must(libc::ftruncate(file.as_raw_fd(), 8192), "ftruncate");
        libc::mmap(null_mut(), 8192, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    if address == libc::MAP_FAILED {
        fail!("mmap of a file: errno {}", errno());
    }
    let there = read_or_recover(address as usize + 4096);
    // SAFETY:
    // 1. As above.
    must(unsafe { libc::ftruncate(file.as_raw_fd(), 4096) }, "ftruncate");
    if there != 0 {
        fail!("a new file reads as {there:#x}");
    }
    (file, address as usize)
}

/// Reads pages at random; the last two threads with all signals blocked, the first two with faults of their own.
/// Returns how many of these it took of each kind.
fn work(number: u64, seed: u64) -> u64 {
    if number >= THREADS - 2 {
        block_in_thread();
    }
    if number == 2 {
        // SAFETY:
        // 1. No precondition. (Older C libraries have no function for it.)
        RECEIVER.store(unsafe { libc::syscall(libc::SYS_gettid) } as i32, SeqCst);
    }
    let (filled, mut random) = (filled(), Random::new(seed + number));
    let (_file, cut) = cut_file();
    let mut own = 0;
    while !OVER.load(SeqCst) {
        for _ in 0..20 {
            filled.verify_one("a thread", random.below(filled.pages as u64) as usize);
        }
        if number < 2 {
            own += 1;
            let found = [
                read_or_recover(cut + 4096 + 8 * (own as usize % 512)),
                read_or_recover(8 * own as usize % 4096),
            ];
            if found != [RECOVERED; 2] {
                fail!("the handlers left {found:x?}");
            }
        }
    }
    own
}

/// Signals of all kinds while memory is evicted, for `--seconds`.
pub fn signals(case: &Case) {
    let (tick_signal, queued_signal) = (libc::SIGRTMIN(), libc::SIGRTMIN() + 1);
    let filled = Filled::new(case.bytes, case.seed, 1);
    for (word, value) in FILLED.iter().zip([filled.address, filled.pages, filled.seed as usize]) {
        word.store(value, SeqCst);
    }
    install(tick_signal, on_tick, libc::SA_RESTART);
    install(queued_signal, on_queued, libc::SA_RESTART);
    install(libc::SIGBUS, on_fault, libc::SA_RESTART);
    install(libc::SIGSEGV, on_fault, libc::SA_RESTART);
    let seed = case.seed;
    let threads: Vec<_> = (0..THREADS).map(|number| std::thread::spawn(move || work(number, seed))).collect();
    let before = Instant::now();
    start_timer(tick_signal);
    let after = Instant::now();
    while RECEIVER.load(SeqCst) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut queued = 0;
    while before.elapsed() < Duration::from_secs(case.seconds) {
        // A long queue takes the kernel so long that it would never end.
        if queued < QUEUED_RECEIVED.load(SeqCst) + QUEUE_MAX {
            queued += u64::from(queue(RECEIVER.load(SeqCst), queued_signal, queued));
        } else {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    // The second signal from here on has come after now: all ticks up to now are counted.
    let (least, signals) = (after.elapsed(), TICK_SIGNALS.load(SeqCst));
    wait_until(|| TICK_SIGNALS.load(SeqCst) >= signals + 2, "the timer");
    let (ticks, most) = (TICKS.load(SeqCst), before.elapsed());
    if u128::from(ticks) < least.as_millis() || u128::from(ticks) > most.as_millis() {
        fail!("{ticks} ticks in {least:?} to {most:?}");
    }
    wait_until(|| QUEUED_RECEIVED.load(SeqCst) == queued, &format!("one of {queued} queued signals"));
    OVER.store(true, SeqCst);
    let own: u64 =
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| fail!("a thread panicked"))).sum();
    let handled = [&OWN_BUS, &OWN_SEGV].map(|count| count.load(SeqCst));
    if handled != [own; 2] || own == 0 || queued == 0 {
        fail!("{own} faults of each kind, handled {handled:?}; {queued} signals queued");
    }
    eprintln!("{ticks} ticks, {queued} queued signals, {own} SIGBUS and SIGSEGV of its own each");
}

fn wait_until(is_so: impl Fn() -> bool, what: &str) {
    let began = Instant::now();
    while !is_so() {
        if began.elapsed() > Duration::from_secs(60) {
            fail!("{what} has not come for a minute");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
