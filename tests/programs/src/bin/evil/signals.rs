//! Modes about signals.

use crate::support::{Case, Filled, fail, must};
use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use uswap_test_programs::memory;

static FAULT_ADDRESS: AtomicUsize = AtomicUsize::new(0);
static FAULT_SIGNAL: AtomicUsize = AtomicUsize::new(0);
static STACK_USED: AtomicUsize = AtomicUsize::new(0);

/// A handler of a signal with its information.
pub type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// Sets the handler of a signal. It calls async-signal-safe functions only.
pub fn install(signal: i32, handler: Handler, flags: i32) {
    // SAFETY:
    // 1. `action` is fully initialised: zero is an empty mask, and the handler has the type that SA_SIGINFO asks for.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | flags;
        must(libc::sigaction(signal, &raw const action, core::ptr::null_mut()), "sigaction");
    }
}

/// Blocks all signals in the calling thread, and in those that it starts.
pub fn block_in_thread() {
    // SAFETY:
    // 1. `all` is a live local that sigfillset initialises.
    unsafe {
        let mut all: libc::sigset_t = core::mem::zeroed();
        libc::sigfillset(&raw mut all);
        must(
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, core::ptr::null_mut()),
            "pthread_sigmask",
        );
    }
}

/// A timer that sends the process a signal each millisecond. It is never deleted.
pub fn start_timer(signal: i32) {
    start_timer_of(signal, 1_000_000);
}

/// The same each so many nanoseconds.
pub fn start_timer_of(signal: i32, interval_ns: i64) {
    // SAFETY:
    // 1. All are live locals, and zero is a valid value of each field that is not set.
    unsafe {
        let mut event: libc::sigevent = core::mem::zeroed();
        (event.sigev_notify, event.sigev_signo) = (libc::SIGEV_SIGNAL, signal);
        let mut timer: libc::timer_t = core::ptr::null_mut();
        must(libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer), "timer_create");
        let interval = libc::timespec { tv_sec: 0, tv_nsec: interval_ns };
        let time = libc::itimerspec { it_interval: interval, it_value: interval };
        must(libc::timer_settime(timer, 0, &raw const time, core::ptr::null_mut()), "timer_settime");
    }
}

/// Handlers run on this stack from now on, which is mapped for ever and used for nothing else.
pub fn set_alternate_stack(stack: usize, bytes: usize) {
    let stack = libc::stack_t { ss_sp: stack as *mut libc::c_void, ss_flags: 0, ss_size: bytes };
    // SAFETY:
    // 1. The caller says so.
    must(unsafe { libc::sigaltstack(&raw const stack, core::ptr::null_mut()) }, "sigaltstack");
}

/// All signals blocked in all threads, from the start and while memory is evicted.
pub fn block_all(case: &Case) {
    block_in_thread();
    let filled = Filled::new(case.bytes, case.seed, 1);
    let other = std::thread::spawn(move || filled.verify("thread that blocks all signals"));
    filled.verify("main thread that blocks all signals");
    other.join().unwrap_or_else(|_| fail!("the thread panicked"));
}

/// Notes the address, and makes the page usable so that the program goes on.
extern "C" fn on_fault(signal: i32, information: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let marker = 0u8;
    // SAFETY:
    // 1. The kernel gives a valid siginfo to a handler installed with SA_SIGINFO, and these signals carry an address.
    let address = unsafe { (*information).si_addr() } as usize;
    FAULT_ADDRESS.store(address, SeqCst);
    FAULT_SIGNAL.store(signal as usize, SeqCst);
    STACK_USED.store((&raw const marker) as usize, SeqCst);
    let page = address & !4095;
    if memory::protect(page, 4096, libc::PROT_READ | libc::PROT_WRITE).is_err() {
        fail!("signal {signal} at {address:#x}, which is not ours");
    }
}

/// Takes faults of its own in protected pages and must be told the right address; evicted pages must cause none.
pub fn own_handlers(case: &Case) {
    install(libc::SIGSEGV, on_fault, 0);
    install(libc::SIGBUS, on_fault, 0);
    let filled = Filled::new(case.bytes, case.seed, 1);
    filled.verify("with own handlers");
    if FAULT_ADDRESS.load(SeqCst) != 0 {
        fail!("a handler was called with {:#x} though nothing was protected", FAULT_ADDRESS.load(SeqCst));
    }
    for index in (0..filled.pages).step_by(filled.pages / 97 + 1) {
        take_fault(&filled, index);
    }
    filled.verify("after own faults");
}

fn take_fault(filled: &Filled, index: usize) {
    let address = filled.page(index) + 8 * (index % 512);
    memory::protect(filled.page(index), 4096, libc::PROT_NONE)
        .unwrap_or_else(|error| fail!("mprotect: {error}"));
    FAULT_ADDRESS.store(0, SeqCst);
    memory::read_word(address);
    let told = FAULT_ADDRESS.load(SeqCst);
    if told != address || FAULT_SIGNAL.load(SeqCst) != libc::SIGSEGV as usize {
        fail!("fault at {address:#x}: the handler was told {told:#x}, signal {}", FAULT_SIGNAL.load(SeqCst));
    }
}

/// The handler runs on an alternate stack whose memory has gone cold.
pub fn alternate_stack(case: &Case) {
    let stack_bytes = 64 << 10;
    let stack = memory::map_private(stack_bytes, 0).unwrap_or_else(|error| fail!("mmap: errno {error}"));
    set_alternate_stack(stack, stack_bytes);
    install(libc::SIGSEGV, on_fault, libc::SA_ONSTACK);
    let filled = Filled::new(case.bytes, case.seed, 1);
    for round in 0..5 {
        // Everything is walked over between two faults, so the stack is the oldest memory.
        filled.verify("between faults on the alternate stack");
        take_fault(&filled, round * filled.pages / 5);
        let used = STACK_USED.load(SeqCst);
        if used < stack || used >= stack + stack_bytes {
            fail!("the handler ran at {used:#x}, not on the stack at {stack:#x}");
        }
    }
}
