//! Threads that nobody has seen begin: their stacks are not mapped for them.

use crate::{Filled, Seen, grow, is_seen, map_raw, must, must_be, wait_good};
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst};
use uswap_test_programs::{PAGE_BYTES, memory};

static STOPS: AtomicUsize = AtomicUsize::new(0);
static TURNS: AtomicUsize = AtomicUsize::new(0);
static THREAD_ID: AtomicI32 = AtomicI32::new(0);

extern "C" fn turn(_: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY:
    // 1. It takes nothing.
    THREAD_ID.store(unsafe { libc::gettid() }, SeqCst);
    while STOPS.load(SeqCst) == 0 {
        let time = libc::timespec { tv_sec: 0, tv_nsec: 50_000 };
        // SAFETY:
        // 1. The time is live.
        must(unsafe { libc::nanosleep(&raw const time, core::ptr::null_mut()) }, "nanosleep");
        TURNS.fetch_add(1, SeqCst);
    }
    core::ptr::null_mut()
}

/// A thread that nobody has seen begin: its stack is not mapped for it.
pub fn thread_on_own_stack(bytes: usize) {
    grow_beside_thread(|_| grow(bytes, 50)).verify("beside a thread");
}

/// Another process traces such a thread, as the supervisor does for a moment: who arms the process waits for that.
pub fn thread_with_a_tracer(bytes: usize) {
    let grown = grow_beside_thread(|thread_id| {
        let tracer = start_tracer(thread_id, 300_000_000);
        let grown = grow(bytes, 51);
        wait_good(tracer);
        grown
    });
    grown.verify("with a tracer beside it");
}

/// As a debugger does, for longer than who arms the process waits: it is armed when it grows later.
pub fn thread_with_a_debugger(bytes: usize) {
    let [first, grown] = {
        let mut first = None;
        let grown = grow_beside_thread(|thread_id| {
            let tracer = start_tracer(thread_id, 3_000_000_000);
            first = Some(Filled::new(bytes / 4, 52));
            must_be(Seen::Not, "while it is traced");
            wait_good(tracer);
            let began = std::time::Instant::now();
            while std::env::var_os("USWAP_RUN").is_some() && !is_seen() && began.elapsed().as_secs() < 60 {
                std::thread::sleep(std::time::Duration::from_millis(50));
                let _one_more_page = Filled::new(PAGE_BYTES, 53);
            }
            grow(bytes / 4 * 3, 54)
        });
        [first.expect("it was filled"), grown]
    };
    first.verify("from before it was armed");
    grown.verify("behind a debugger");
}

/// Starts a process that traces the thread for so long, and waits until it does.
fn start_tracer(thread_id: i32, traces_ns: i64) -> i32 {
    let mut ends = [0; 2];
    // SAFETY:
    // 1. There is room for two numbers.
    let answer = unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, ends.as_mut_ptr()) };
    must(answer, "socketpair");
    // SAFETY:
    // 1. The child makes system calls and ends.
    let tracer = unsafe { libc::fork() };
    if tracer == 0 {
        trace(thread_id, ends[1], traces_ns);
    }
    // Some systems let nobody trace but those above (Yama). Elsewhere it is refused, and not needed.
    // SAFETY:
    // 1. It takes numbers.
    let _or_not_needed = unsafe { libc::prctl(libc::PR_SET_PTRACER, tracer) };
    tell(ends[0]);
    hear(ends[0]);
    tracer
}

fn trace(thread_id: i32, socket: i32, traces_ns: i64) -> ! {
    hear(socket);
    // SAFETY:
    // 1. The request takes numbers.
    let seized = unsafe { libc::ptrace(libc::PTRACE_SEIZE, thread_id, 0, 0) };
    must(seized as i32, "ptrace");
    tell(socket);
    let second_ns = 1_000_000_000;
    let time = libc::timespec { tv_sec: traces_ns / second_ns, tv_nsec: traces_ns % second_ns };
    // SAFETY:
    // 1. The time is live, and the last call ends the child, which lets the thread go.
    unsafe {
        libc::nanosleep(&raw const time, core::ptr::null_mut());
        libc::_exit(0)
    }
}

fn tell(socket: i32) {
    let byte = 0u8;
    // SAFETY:
    // 1. One live byte is read.
    must(unsafe { libc::write(socket, (&raw const byte).cast(), 1) } as i32 - 1, "write");
}

fn hear(socket: i32) {
    let mut byte = 0u8;
    // SAFETY:
    // 1. One live byte is written.
    must(unsafe { libc::read(socket, (&raw mut byte).cast(), 1) } as i32 - 1, "read");
}

/// Makes a thread that nobody has seen begin, and lets `grow` with its id grow the process.
fn grow_beside_thread(grow: impl FnOnce(i32) -> Filled) -> Filled {
    #[repr(align(4096))]
    struct Stack(#[allow(dead_code, reason = "the thread uses it")] [u8; 128 * 1024]);
    static mut STACK: Stack = Stack([0; 128 * 1024]);
    // SAFETY:
    // 1. The stack is the thread's alone, and the attributes are initialised.
    let thread = unsafe {
        let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
        must(libc::pthread_attr_init(&raw mut attributes), "pthread_attr_init");
        let stack = (&raw mut STACK).cast();
        must(
            libc::pthread_attr_setstack(&raw mut attributes, stack, size_of::<Stack>()),
            "pthread_attr_setstack",
        );
        let mut thread = core::mem::zeroed();
        must(
            libc::pthread_create(&raw mut thread, &raw const attributes, turn, core::ptr::null_mut()),
            "pthread_create",
        );
        thread
    };
    while TURNS.load(SeqCst) < 3 {
        std::thread::yield_now();
    }
    must_be(Seen::Not, "with a thread that nobody has seen begin");
    let filled = grow(THREAD_ID.load(SeqCst));
    let turns = TURNS.load(SeqCst);
    while TURNS.load(SeqCst) < turns + 100 {
        std::thread::yield_now();
    }
    STOPS.store(1, SeqCst);
    // SAFETY:
    // 1. The thread is joined once.
    must(unsafe { libc::pthread_join(thread, core::ptr::null_mut()) }, "pthread_join");
    filled
}

/// Has no alternate stack, as far as it knows, and forks: again and again.
extern "C" fn fork_and_ask(_: *mut libc::c_void) -> *mut libc::c_void {
    while STOPS.load(SeqCst) == 0 {
        for _ in 0..50 {
            // SAFETY:
            // 1. The answer goes to a live value.
            unsafe {
                let mut stack: libc::stack_t = core::mem::zeroed();
                must(libc::sigaltstack(core::ptr::null(), &raw mut stack), "sigaltstack");
                if stack.ss_flags != libc::SS_DISABLE {
                    fail!("an alternate stack that it has not asked for: {:?}", stack.ss_sp);
                }
            }
        }
        // SAFETY:
        // 1. The child makes a system call and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY:
            // 1. It ends the child.
            unsafe { libc::_exit(if libc::getppid() == 0 { 1 } else { 0 }) };
        }
        wait_good(child);
        TURNS.fetch_add(1, SeqCst);
    }
    core::ptr::null_mut()
}

/// Threads that nobody has seen begin make all kinds of calls while the first one arms the process.
pub fn threads_beside_arming(bytes: usize) {
    const THREADS: usize = 12;
    const STACK_BYTES: usize = 128 * 1024;
    let stacks = map_raw(THREADS * STACK_BYTES);
    let start = |index: usize| {
        // SAFETY:
        // 1. The stack is the thread's alone, and the attributes are initialised.
        unsafe {
            let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
            must(libc::pthread_attr_init(&raw mut attributes), "pthread_attr_init");
            let stack = (stacks + index * STACK_BYTES) as *mut libc::c_void;
            must(
                libc::pthread_attr_setstack(&raw mut attributes, stack, STACK_BYTES),
                "pthread_attr_setstack",
            );
            let mut thread = core::mem::zeroed();
            must(
                libc::pthread_create(
                    &raw mut thread,
                    &raw const attributes,
                    fork_and_ask,
                    core::ptr::null_mut(),
                ),
                "pthread_create",
            );
            thread
        }
    };
    let threads: Vec<libc::pthread_t> = (0..THREADS).map(start).collect();
    let turn_more = |count: usize| {
        let turns = TURNS.load(SeqCst);
        while TURNS.load(SeqCst) < turns + count {
            std::thread::yield_now();
        }
    };
    turn_more(THREADS);
    must_be(Seen::Not, "with threads that nobody has seen begin");
    let address = memory::map_private(bytes, 0).unwrap_or_else(|errno| fail!("mmap: errno {errno}"));
    turn_more(10 * THREADS);
    must_be(Seen::Yes, "after it has grown");
    STOPS.store(1, SeqCst);
    for thread in threads {
        // SAFETY:
        // 1. Each is joined once.
        must(unsafe { libc::pthread_join(thread, core::ptr::null_mut()) }, "pthread_join");
    }
    let filled = Filled { address, pages: bytes / PAGE_BYTES, writer: 55 };
    filled.fill_from(0);
    filled.verify("after its threads");
}
