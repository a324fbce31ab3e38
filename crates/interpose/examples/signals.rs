//! A program that asks for everything about signals that the interposer changes: `signals`.
//!
//! What it prints is the same with and without it: actions, sets and alternate stacks are shown as they were
//! asked for, and handlers run where they should.

use std::ffi::{c_int, c_void};
use std::mem::{MaybeUninit, zeroed};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

static SEEN: AtomicI32 = AtomicI32::new(0);
static CODE: AtomicI32 = AtomicI32::new(0);
static STACK: AtomicUsize = AtomicUsize::new(0);
static FLAGS: AtomicI32 = AtomicI32::new(0);
static BLOCKED_INSIDE: AtomicI32 = AtomicI32::new(0);
static JUMP_PAGE: AtomicUsize = AtomicUsize::new(0);

fn main() {
    actions_are_shown();
    sets_are_shown();
    stacks_are_shown();
    faults_reach_the_program();
    sent_signals_reach_the_program();
    calls_with_sets();
    handlers_restart_calls();
    masks_of_handlers();
    masks_in_frames();
    stacks_that_disarm();
    faults_while_blocked();
    spawned_children();
    endings();
}

extern "C" fn note(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    let local = 0u8;
    STACK.store(&raw const local as usize, Ordering::Relaxed);
    SEEN.store(signal, Ordering::Relaxed);
    // SAFETY:
    // 1. The handler has been asked for with SA_SIGINFO; the structures are this frame's.
    unsafe {
        CODE.store((*info).si_code, Ordering::Relaxed);
        let mut stack = zeroed::<libc::stack_t>();
        libc::sigaltstack(null(), &mut stack);
        FLAGS.store(stack.ss_flags, Ordering::Relaxed);
        let mut blocked = zeroed();
        libc::sigprocmask(libc::SIG_BLOCK, null(), &mut blocked);
        BLOCKED_INSIDE.store(words(&blocked) as i32, Ordering::Relaxed);
    }
    // A fault would come again: make the page right.
    let page = JUMP_PAGE.swap(0, Ordering::Relaxed);
    if page != 0 {
        // SAFETY:
        // 1. The page is this program's own mapping, made for the fault.
        unsafe { remap(page) };
    }
}

extern "C" fn raise_another(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    let mut kept = [0x5Au8; 256];
    // The compiler may not know what is in it.
    std::hint::black_box(&mut kept);
    // SAFETY:
    // 1. The signal has a handler.
    unsafe { libc::raise(libc::SIGUSR1) };
    let below = (&raw const kept as usize).wrapping_sub(STACK.load(Ordering::Relaxed));
    let is_kept = std::hint::black_box(&kept).iter().all(|byte| *byte == 0x5A);
    println!("nested handler below {} kept {is_kept}", below < 64 * 1024);
}

/// # Safety
/// The page must be the caller's.
unsafe fn remap(page: usize) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY:
    // 1. The caller's promise.
    unsafe { libc::mmap(page as *mut c_void, 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
}

fn set_of(signals: &[c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY:
    // 1. The set is filled by the first call.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

/// The signals 1 to 31 of a set.
fn words(set: &libc::sigset_t) -> u32 {
    // SAFETY:
    // 1. The set is initialized.
    (1..32).filter(|signal| unsafe { libc::sigismember(set, *signal) } == 1).fold(0, |word, s| word | 1 << s)
}

fn act(signal: c_int, flags: c_int, mask: &[c_int]) {
    // SAFETY:
    // 1. `note` is a handler of the form that SA_SIGINFO asks for.
    unsafe {
        let mut action = zeroed::<libc::sigaction>();
        action.sa_sigaction = note as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | flags;
        action.sa_mask = set_of(mask);
        assert_eq!(libc::sigaction(signal, &action, null_mut()), 0);
    }
}

fn default(signal: c_int) {
    // SAFETY:
    // 1. The default runs no code.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

fn actions_are_shown() {
    for signal in [libc::SIGBUS, libc::SIGSYS, libc::SIGSEGV, libc::SIGUSR1] {
        act(signal, libc::SA_ONSTACK | libc::SA_RESETHAND, &[libc::SIGBUS, libc::SIGUSR2]);
        // SAFETY:
        // 1. The structure is this frame's.
        let shown = unsafe {
            let mut shown = zeroed::<libc::sigaction>();
            libc::sigaction(signal, null(), &mut shown);
            shown
        };
        println!(
            "action {signal} ours {} flags {:#x} mask {:#x}",
            shown.sa_sigaction == note as *const () as usize,
            shown.sa_flags,
            words(&shown.sa_mask)
        );
        default(signal);
        // SAFETY:
        // 1. SIG_IGN runs no code.
        let (before, again) =
            unsafe { (libc::signal(signal, libc::SIG_IGN), libc::signal(signal, libc::SIG_DFL)) };
        println!("action {signal} was {before} then {again}");
    }
    // SAFETY:
    // 1. The arguments are wrong on purpose: the kernel refuses them.
    let refused = unsafe { [libc::signal(libc::SIGKILL, libc::SIG_IGN), libc::signal(77, libc::SIG_IGN)] };
    println!("refused {refused:?}");
}

fn sets_are_shown() {
    let mut old = set_of(&[]);
    let mut shown = Vec::new();
    let steps = [
        (libc::SIG_BLOCK, vec![libc::SIGBUS, libc::SIGUSR1]),
        (libc::SIG_BLOCK, vec![libc::SIGSYS]),
        (libc::SIG_UNBLOCK, vec![libc::SIGBUS]),
        (libc::SIG_SETMASK, vec![libc::SIGSEGV, libc::SIGSYS]),
        (libc::SIG_SETMASK, vec![]),
    ];
    for (how, signals) in steps {
        // SAFETY:
        // 1. Both sets are this frame's.
        unsafe { libc::sigprocmask(how, &set_of(&signals), &mut old) };
        shown.push(words(&old));
    }
    // SAFETY:
    // 1. As above; the way 9 is wrong on purpose.
    unsafe {
        libc::sigprocmask(libc::SIG_BLOCK, null(), &mut old);
        println!("sets {shown:x?} {:x} {}", words(&old), libc::sigprocmask(9, &old, null_mut()));
    }
    // A new thread has the mask of its parent, as the parent sees it.
    // SAFETY:
    // 1. Sets of this frame.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &set_of(&[libc::SIGBUS, libc::SIGHUP]), null_mut()) };
    let inside = std::thread::spawn(|| {
        let mut inside = set_of(&[]);
        // SAFETY:
        // 1. As above.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, null(), &mut inside) };
        words(&inside)
    });
    println!("set of a thread {:x}", inside.join().expect("it ends"));
    // SAFETY:
    // 1. As above.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &set_of(&[]), null_mut()) };
}

fn stacks_are_shown() {
    let mut memory = vec![0u8; 128 * 1024];
    let start = memory.as_mut_ptr() as usize;
    // SAFETY:
    // 1. The stack outlives its use: it is switched off below.
    unsafe {
        let mut old = zeroed::<libc::stack_t>();
        libc::sigaltstack(null(), &mut old);
        // The standard library has one of its own for its main thread.
        let new = libc::stack_t { ss_sp: start as *mut c_void, ss_flags: 0, ss_size: memory.len() };
        println!("stack set {}", libc::sigaltstack(&new, &mut old));
        let mut shown = zeroed::<libc::stack_t>();
        libc::sigaltstack(null(), &mut shown);
        println!(
            "stack shown {} {} {}",
            shown.ss_sp as usize == start,
            shown.ss_size == memory.len(),
            shown.ss_flags
        );
        act(libc::SIGUSR1, libc::SA_ONSTACK, &[]);
        libc::raise(libc::SIGUSR1);
        let is_inside = (start..start + memory.len()).contains(&STACK.load(Ordering::Relaxed));
        println!("handler on it {is_inside} flags {}", FLAGS.load(Ordering::Relaxed));
        act(libc::SIGUSR1, 0, &[]);
        libc::raise(libc::SIGUSR1);
        let is_inside = (start..start + memory.len()).contains(&STACK.load(Ordering::Relaxed));
        println!("handler on it {is_inside} flags {}", FLAGS.load(Ordering::Relaxed));
        // A handler on it raises another signal, whose handler wants it too: that goes below the first.
        act(libc::SIGUSR1, libc::SA_ONSTACK, &[]);
        let mut action = zeroed::<libc::sigaction>();
        action.sa_sigaction = raise_another as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGUSR2, &action, null_mut());
        libc::raise(libc::SIGUSR2);
        default(libc::SIGUSR2);
        let small = libc::stack_t { ss_size: 100, ..new };
        println!("small {} {}", libc::sigaltstack(&small, null_mut()), std::io::Error::last_os_error());
        let wrong = libc::stack_t { ss_flags: 77, ..new };
        println!("wrong {} {}", libc::sigaltstack(&wrong, null_mut()), std::io::Error::last_os_error());
        libc::sigaltstack(&old, null_mut());
    }
    default(libc::SIGUSR1);
}

/// A page of a file that is cut: SIGBUS. A page without access: SIGSEGV.
fn faults_reach_the_program() {
    for on_stack in [0, libc::SA_ONSTACK] {
        act(libc::SIGBUS, on_stack, &[]);
        act(libc::SIGSEGV, on_stack, &[]);
        // SAFETY:
        // 1. Both pages are this program's own; the handler puts another in their place.
        unsafe {
            let file = libc::memfd_create(c"cut".as_ptr(), 0);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let cut = libc::mmap(null_mut(), 4096, access, libc::MAP_SHARED, file, 0);
            JUMP_PAGE.store(cut as usize, Ordering::Relaxed);
            cut.cast::<u8>().write_volatile(1);
            println!("fault {} code {}", SEEN.load(Ordering::Relaxed), CODE.load(Ordering::Relaxed));
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let none = libc::mmap(null_mut(), 4096, libc::PROT_NONE, flags, -1, 0);
            JUMP_PAGE.store(none as usize, Ordering::Relaxed);
            none.cast::<u8>().write_volatile(1);
            println!("fault {} code {}", SEEN.load(Ordering::Relaxed), CODE.load(Ordering::Relaxed));
            libc::munmap(cut, 4096);
            libc::munmap(none, 4096);
            libc::close(file);
        }
    }
    default(libc::SIGBUS);
    default(libc::SIGSEGV);
}

fn sent_signals_reach_the_program() {
    for signal in [libc::SIGBUS, libc::SIGSYS, libc::SIGUSR2] {
        act(signal, libc::SA_RESETHAND, &[]);
        // SAFETY:
        // 1. The signal goes to this process, which has a handler.
        unsafe { libc::kill(libc::getpid(), signal) };
        // SAFETY:
        // 1. The structure is this frame's.
        let after = unsafe { libc::signal(signal, libc::SIG_IGN) };
        println!("sent {} code {} then {after}", SEEN.load(Ordering::Relaxed), CODE.load(Ordering::Relaxed));
        // SAFETY:
        // 1. Ignored.
        unsafe { libc::kill(libc::getpid(), signal) };
        default(signal);
    }
}

fn calls_with_sets() {
    let all = (1..32).collect::<Vec<_>>();
    let all = set_of(&all);
    let soon = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    // SAFETY:
    // 1. Every structure is this frame's and outlives its call.
    unsafe {
        println!("ppoll {}", libc::ppoll(null_mut(), 0, &soon, &all));
        println!("pselect {}", libc::pselect(0, null_mut(), null_mut(), null_mut(), &soon, &all));
        let epoll = libc::epoll_create1(0);
        let mut event = zeroed();
        println!("epoll_pwait {}", libc::epoll_pwait(epoll, &mut event, 1, 1, &all));
        libc::close(epoll);
        libc::sigprocmask(libc::SIG_BLOCK, &set_of(&[libc::SIGUSR1, libc::SIGBUS]), null_mut());
        libc::kill(libc::getpid(), libc::SIGUSR1);
        println!(
            "timedwait {}",
            libc::sigtimedwait(&set_of(&[libc::SIGUSR1, libc::SIGBUS]), null_mut(), &soon)
        );
        let signals = libc::signalfd(-1, &set_of(&[libc::SIGUSR1, libc::SIGSYS]), libc::SFD_NONBLOCK);
        libc::kill(libc::getpid(), libc::SIGUSR1);
        let mut read = zeroed::<libc::signalfd_siginfo>();
        let bytes = libc::read(signals, (&raw mut read).cast(), size_of_val(&read));
        println!("signalfd {bytes} {}", read.ssi_signo);
        libc::close(signals);
        // sigsuspend with all blocked but one.
        act(libc::SIGALRM, 0, &[]);
        libc::alarm(1);
        let mut rest = all;
        libc::sigdelset(&mut rest, libc::SIGALRM);
        println!("sigsuspend {} {}", libc::sigsuspend(&rest), SEEN.load(Ordering::Relaxed));
        let mut shown = set_of(&[]);
        libc::sigprocmask(libc::SIG_SETMASK, &set_of(&[]), &mut shown);
        println!("blocked after it {:x}", words(&shown));
    }
    default(libc::SIGALRM);
}

/// A read that a signal interrupts: restarted with SA_RESTART, EINTR without.
fn handlers_restart_calls() {
    for restart in [libc::SA_RESTART, 0] {
        act(libc::SIGALRM, restart, &[]);
        let mut pipe = [0; 2];
        // SAFETY:
        // 1. Descriptors and byte are this frame's.
        unsafe {
            libc::pipe(pipe.as_mut_ptr());
            let writer = pipe[1];
            let thread = std::thread::spawn(move || {
                // The main thread sleeps in its read; the signal comes first, the byte later.
                std::thread::sleep(std::time::Duration::from_millis(300));
                libc::write(writer, c"x".as_ptr().cast(), 1);
            });
            // The signal must go to this thread.
            let timer = libc::itimerval {
                it_interval: zeroed(),
                it_value: libc::timeval { tv_sec: 0, tv_usec: 50_000 },
            };
            libc::sigprocmask(libc::SIG_UNBLOCK, &set_of(&[libc::SIGALRM]), null_mut());
            setitimer(0, &timer, null_mut());
            let mut byte = 0u8;
            let read = libc::read(pipe[0], (&raw mut byte).cast(), 1);
            let is_interrupted = read < 0 && *libc::__errno_location() == libc::EINTR;
            println!("read {read} interrupted {is_interrupted}");
            thread.join().expect("it ends");
            libc::close(pipe[0]);
            libc::close(pipe[1]);
        }
    }
    default(libc::SIGALRM);
}

// SAFETY:
// 1. The C library has this function with this type.
unsafe extern "C" {
    fn setitimer(which: c_int, new: *const libc::itimerval, old: *mut libc::itimerval) -> c_int;
}

fn masks_of_handlers() {
    for flags in [0, libc::SA_NODEFER, libc::SA_ONSTACK, libc::SA_ONSTACK | libc::SA_NODEFER] {
        act(libc::SIGUSR1, flags, &[libc::SIGUSR2, libc::SIGHUP]);
        // SAFETY:
        // 1. The signal goes to this thread, which has a handler.
        unsafe { libc::raise(libc::SIGUSR1) };
        println!("blocked inside {:x}", BLOCKED_INSIDE.load(Ordering::Relaxed));
    }
    default(libc::SIGUSR1);
}

extern "C" fn show_and_change_mask(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY:
    // 1. The handler has been asked for with SA_SIGINFO: the context is the kernel's, and the handler's own.
    unsafe {
        let context = context.cast::<libc::ucontext_t>();
        let mut blocked = set_of(&[]);
        libc::sigprocmask(libc::SIG_BLOCK, null(), &mut blocked);
        let flags = (*context).uc_stack.ss_flags & libc::SS_ONSTACK;
        println!("in the frame {:x}, blocked {:x}, {flags}", words(&(*context).uc_sigmask), words(&blocked));
        (*context).uc_sigmask = set_of(&[libc::SIGSYS, libc::SIGUSR2]);
    }
}

/// A handler finds the set of its thread in the frame, and may change it.
fn masks_in_frames() {
    for flags in [0, libc::SA_ONSTACK, libc::SA_ONSTACK | libc::SA_NODEFER] {
        for (signal, blocked) in [(libc::SIGSEGV, &[libc::SIGBUS][..]), (libc::SIGBUS, &[])] {
            // SAFETY:
            // 1. The handler is of the form that SA_SIGINFO asks for; sets are of this frame.
            unsafe {
                let mut action = zeroed::<libc::sigaction>();
                action.sa_sigaction = show_and_change_mask as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | flags;
                action.sa_mask = set_of(&[libc::SIGSYS, libc::SIGHUP]);
                libc::sigaction(signal, &action, null_mut());
                libc::sigprocmask(libc::SIG_SETMASK, &set_of(blocked), null_mut());
                libc::raise(signal);
                let mut after = set_of(&[]);
                libc::sigprocmask(libc::SIG_SETMASK, &set_of(&[]), &mut after);
                println!("changed by {signal} with {flags:x} to {:x}", words(&after));
            }
            default(signal);
        }
    }
    // What the child of a vfork blocks is its own.
    // SAFETY:
    // 1. The child makes one call and ends.
    #[allow(deprecated)]
    unsafe {
        let all = set_of(&(1..32).collect::<Vec<_>>());
        if libc::vfork() == 0 {
            libc::sigprocmask(libc::SIG_BLOCK, &all, null_mut());
            libc::_exit(0);
        }
        libc::wait(null_mut());
        let mut after = set_of(&[]);
        libc::sigprocmask(libc::SIG_BLOCK, null(), &mut after);
        println!("blocked behind a vfork {:x}", words(&after));
    }
}

/// SS_AUTODISARM: a handler finds no alternate stack, and it is there again behind the handler.
fn stacks_that_disarm() {
    const AUTODISARM: c_int = c_int::MIN;
    let mut memory = vec![0u8; 128 * 1024];
    let start = memory.as_mut_ptr() as usize;
    let show = |name: &str| {
        // SAFETY:
        // 1. The structure is of this frame.
        unsafe {
            let mut shown = zeroed::<libc::stack_t>();
            libc::sigaltstack(null(), &mut shown);
            let is_it = shown.ss_sp as usize == start && shown.ss_size == 128 * 1024;
            println!("{name}: {is_it} {:x}", shown.ss_flags);
        }
    };
    // SAFETY:
    // 1. The stack outlives its use: the old one is set again below.
    unsafe {
        let mut old = zeroed::<libc::stack_t>();
        let new = libc::stack_t { ss_sp: start as *mut c_void, ss_flags: AUTODISARM, ss_size: memory.len() };
        println!("disarms {}", libc::sigaltstack(&new, &mut old));
        show("set");
        act(libc::SIGUSR1, libc::SA_ONSTACK, &[]);
        for _ in 0..2 {
            libc::raise(libc::SIGUSR1);
            let is_inside = (start..start + memory.len()).contains(&STACK.load(Ordering::Relaxed));
            println!("handler on it {is_inside} flags {:x}", FLAGS.load(Ordering::Relaxed));
            show("behind");
        }
        libc::sigaltstack(&old, null_mut());
    }
    default(libc::SIGUSR1);
}

/// Shared with children: how often their handlers were started.
static STARTED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn fault_again(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    let started = STARTED.load(Ordering::Relaxed) as *mut u32;
    // SAFETY:
    // 1. The counter is a shared mapping of this program; the write behind it is meant to end the process.
    unsafe {
        started.write_volatile(started.read_volatile() + 1);
        null_mut::<u8>().wrapping_add(64).write_volatile(1);
    }
}

/// A fault whose signal is blocked ends the process: in the handler of the signal, or because the program wants it so.
/// And nothing is written below an alternate stack.
fn faults_while_blocked() {
    const BELOW: usize = 64 * 1024;
    const STACK_BYTES: usize = 64 * 1024;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY:
    // 1. A new mapping.
    let shared =
        unsafe { libc::mmap(null_mut(), 4096 + BELOW + STACK_BYTES, access, flags, -1, 0) } as *mut u8;
    STARTED.store(shared as usize, Ordering::Relaxed);
    // SAFETY:
    // 1. It lies in the mapping.
    let below = unsafe { std::slice::from_raw_parts_mut(shared.add(4096), BELOW) };
    let (defer, on_stack) = (libc::SA_NODEFER, libc::SA_ONSTACK);
    let cases = [
        ("again", 0, 0),
        ("again on a stack", on_stack, 0),
        ("again, not deferred", defer, 0),
        ("again on a stack, not deferred", on_stack | defer, 0),
        ("blocked", 0, libc::SIGSEGV),
        ("blocked by another handler", on_stack, libc::SIGUSR1),
    ];
    for (name, flags, blocked) in cases {
        below.fill(0xA5);
        // SAFETY:
        // 1. The counter is in the mapping.
        // 2. The child sets handlers and ends by its fault. Its stack is the end of the mapping.
        let (status, started) = unsafe {
            shared.cast::<u32>().write_volatile(0);
            let child = libc::fork();
            if child == 0 {
                let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                libc::setrlimit(libc::RLIMIT_CORE, &none);
                let end = shared.add(4096 + BELOW);
                let stack = libc::stack_t { ss_sp: end.cast(), ss_flags: 0, ss_size: STACK_BYTES };
                libc::sigaltstack(&stack, null_mut());
                let mut action = zeroed::<libc::sigaction>();
                action.sa_sigaction = fault_again as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | flags;
                libc::sigaction(libc::SIGSEGV, &action, null_mut());
                action.sa_mask = set_of(&[libc::SIGSEGV]);
                libc::sigaction(libc::SIGUSR1, &action, null_mut());
                match blocked {
                    libc::SIGSEGV => _ = libc::sigprocmask(libc::SIG_BLOCK, &action.sa_mask, null_mut()),
                    libc::SIGUSR1 => _ = libc::raise(libc::SIGUSR1),
                    _ => (),
                }
                null_mut::<u8>().wrapping_add(64).write_volatile(1);
                libc::_exit(0);
            }
            let mut status = 0;
            libc::waitpid(child, &mut status, 0);
            (status, shared.cast::<u32>().read_volatile())
        };
        let is_whole = std::hint::black_box(&*below).iter().all(|byte| *byte == 0xA5);
        println!("{name}: status {status:x}, handlers {}, below it {is_whole}", started.min(2));
    }
}

/// What a child inherits through exec: ignored stays ignored, blocked stays blocked.
fn spawned_children() {
    use std::os::unix::process::CommandExt;
    let show = |name: &str, command: &mut std::process::Command| {
        let output = command.output().expect("the child runs");
        let text = String::from_utf8_lossy(&output.stdout);
        for line in text.lines().filter(|line| line.starts_with("SigBlk") || line.starts_with("SigIgn")) {
            println!("{name} {line}");
        }
    };
    let mut command = std::process::Command::new("/bin/cat");
    command.arg("/proc/self/status").env_remove("LD_PRELOAD");
    show("spawn", &mut command);
    // SAFETY:
    // 1. Ignoring runs no code; the closure makes two calls.
    unsafe {
        libc::signal(libc::SIGBUS, libc::SIG_IGN);
        libc::signal(libc::SIGUSR1, libc::SIG_IGN);
        command.pre_exec(|| {
            libc::sigprocmask(libc::SIG_BLOCK, &set_of(&[libc::SIGSYS, libc::SIGUSR2]), null_mut());
            Ok(())
        });
    }
    show("exec", &mut command);
    default(libc::SIGBUS);
    default(libc::SIGUSR1);
    posix_spawned();
    cleared_handlers();
    // An exec that fails leaves all as it was.
    let failed = std::process::Command::new("/nowhere/nothing").spawn();
    println!("failed {}", failed.is_err());
}

/// posix_spawn sets signals to their default in a child that shares our memory; and vfork ignores one there.
fn posix_spawned() {
    let words = [c"/bin/grep".as_ptr(), c"SigIgn".as_ptr(), c"/proc/self/status".as_ptr(), null()];
    let arguments = words.as_ptr().cast::<*mut libc::c_char>();
    let environment = [null_mut::<libc::c_char>()];
    // SAFETY:
    // 1. Every structure is this frame's; the words are constants.
    // 2. The child of the vfork makes two calls and execs.
    #[allow(deprecated)]
    unsafe {
        libc::signal(libc::SIGBUS, libc::SIG_IGN);
        let mut attributes = MaybeUninit::<libc::posix_spawnattr_t>::uninit();
        libc::posix_spawnattr_init(attributes.as_mut_ptr());
        libc::posix_spawnattr_setsigdefault(attributes.as_mut_ptr(), &set_of(&[libc::SIGBUS, libc::SIGSYS]));
        libc::posix_spawnattr_setflags(attributes.as_mut_ptr(), libc::POSIX_SPAWN_SETSIGDEF as i16);
        let (mut child, mut status) = (0, 0);
        let mut spawn = |attributes| {
            let answer =
                libc::posix_spawn(&mut child, words[0], null(), attributes, arguments, environment.as_ptr());
            libc::waitpid(child, &mut status, 0);
            println!("spawned {answer} {status}");
        };
        spawn(attributes.as_ptr());
        spawn(null());
        libc::signal(libc::SIGBUS, libc::SIG_DFL);
        let child = libc::vfork();
        if child == 0 {
            libc::signal(libc::SIGSYS, libc::SIG_IGN);
            libc::execve(words[0], words.as_ptr(), environment.as_ptr().cast());
            libc::_exit(1);
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        println!("then {} {status}", libc::signal(libc::SIGSYS, libc::SIG_DFL));
    }
}

/// Children of `clone3` whose handlers have become the default, as glibc's posix_spawn has them since 2.38: with a copy
/// of our memory, on our stack while we wait, and on a stack of their own while we wait.
fn cleared_handlers() {
    const SIGNALS: [c_int; 5] = [libc::SIGUSR1, libc::SIGUSR2, libc::SIGSEGV, libc::SIGBUS, libc::SIGSYS];
    const CLEAR_SIGHAND: u64 = 1 << 32;
    /// The actions as one number: a default is 0, an ignored one 1, a handler 2, in base 3.
    extern "C" fn actions() -> c_int {
        SIGNALS.iter().fold(0, |sum, signal| {
            let mut action = MaybeUninit::<libc::sigaction>::uninit();
            // SAFETY:
            // 1. The kernel writes the structure of this frame.
            let handler = unsafe {
                assert_eq!(libc::sigaction(*signal, null(), action.as_mut_ptr()), 0);
                action.assume_init().sa_sigaction
            };
            sum * 3 + c_int::try_from(handler.min(2)).expect("it is small")
        })
    }
    act(libc::SIGUSR1, libc::SA_ONSTACK, &[]);
    act(libc::SIGSEGV, 0, &[]);
    let vfork = (libc::CLONE_VM | libc::CLONE_VFORK) as u64;
    let mut stack = vec![0_u8; 64 << 10];
    let own = (stack.as_mut_ptr() as u64, stack.len() as u64);
    // SAFETY:
    // 1. Ignoring runs no code.
    unsafe {
        libc::signal(libc::SIGUSR2, libc::SIG_IGN);
        libc::signal(libc::SIGBUS, libc::SIG_IGN);
    }
    for (flags, (stack, bytes)) in [(0, (0, 0)), (vfork, (0, 0)), (vfork, own)] {
        // flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup
        let arguments = [CLEAR_SIGHAND | flags, 0, 0, 0, libc::SIGCHLD as u64, stack, bytes, 0, 0, 0, 0];
        let child: i64;
        // SAFETY:
        // 1. The child calls a function, on a stack that is its own until it ends, and ends with what that answers.
        //    Else only the registers change that are named.
        unsafe {
            std::arch::asm!(
                "syscall",
                "test rax, rax",
                "jnz 2f",
                "and rsp, -16",
                "call r12",
                "mov edi, eax",
                "mov eax, 231",
                "syscall",
                "2:",
                inlateout("rax") libc::SYS_clone3 => child,
                in("rdi") arguments.as_ptr(),
                in("rsi") size_of_val(&arguments),
                in("r12") actions as extern "C" fn() -> c_int,
                lateout("rcx") _,
                lateout("r11") _,
            );
        }
        let mut status = 0;
        // SAFETY:
        // 1. The status is of this frame.
        unsafe { libc::waitpid(child as i32, &mut status, 0) };
        println!("cleared {flags:x} {}: {status:x}, here {}", bytes != 0, actions());
    }
    SIGNALS.into_iter().for_each(default);
}

/// How a process ends of a signal that it does not handle.
fn endings() {
    for (name, signal) in [("SIGBUS", libc::SIGBUS), ("SIGSYS", libc::SIGSYS), ("SIGSEGV", libc::SIGSEGV)] {
        // SAFETY:
        // 1. The child ends of its own signal, or of a fault, with no core.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                libc::setrlimit(libc::RLIMIT_CORE, &limit);
                if signal == libc::SIGSEGV {
                    null_mut::<u8>().wrapping_add(64).write_volatile(1);
                }
                libc::kill(libc::getpid(), signal);
                libc::_exit(0);
            }
            let mut status = 0;
            libc::waitpid(child, &mut status, 0);
            status
        };
        println!("ends of {name}: {} {}", libc::WIFSIGNALED(status), libc::WTERMSIG(status));
    }
}
