//! small: what a process does before it grows must not matter afterwards. Each mode does something while the process
//! is small, makes it grow, and looks at all of it. It prints OK and ends with status 0, or prints what went wrong and
//! ends with status 1.
//!
//! `small MODE [--bytes 160M]`; `small list` prints the modes. In a run of uswap it also fails if the process was not
//! left alone until it grew, or still is afterwards: with less than 256 MiB of budget that is a few hundred KiB.

use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::ffi::CString;
use std::os::unix::process::ExitStatusExt;
use uswap_test_programs::arguments::Arguments;
use uswap_test_programs::message::{end_process, errno};
use uswap_test_programs::pattern::Key;
use uswap_test_programs::{PAGE_BYTES, memory};

macro_rules! fail {
    ($($text:tt)*) => { uswap_test_programs::message::end_process(1, format_args!($($text)*)) };
}

mod descriptors;
mod threads;

/// It is told how much memory to use.
type Mode = fn(usize);

/// Name and function of each mode.
const MODES: [(&str, Mode); 18] = [
    ("signals", signals),
    ("grows_in_handler", grows_in_handler),
    ("children", children),
    ("vfork", vfork_child_maps),
    ("vfork_in_child", vfork_in_child),
    ("executes", executes),
    ("thread_on_own_stack", threads::thread_on_own_stack),
    ("thread_with_a_tracer", threads::thread_with_a_tracer),
    ("thread_with_a_debugger", threads::thread_with_a_debugger),
    ("threads_beside_arming", threads::threads_beside_arming),
    ("reallocates", reallocates),
    ("raw_advice", raw_advice),
    ("too_much_advice", too_much_advice),
    ("raw_growth", raw_growth),
    ("no_descriptors", descriptors::no_descriptors),
    ("no_descriptors_when_seen", descriptors::no_descriptors_when_seen),
    ("few_descriptors_when_seen", descriptors::few_descriptors_when_seen),
    ("child_without_descriptors", descriptors::child_without_descriptors),
];

fn main() {
    let mut words = std::env::args().skip(1);
    let mode = words.next().unwrap_or_default();
    if mode == "list" {
        MODES.iter().for_each(|(name, _)| println!("{name}"));
        return;
    }
    let arguments = Arguments::read(words, &["bytes"]);
    let Some((_, work)) = MODES.iter().find(|(name, _)| *name == mode) else {
        fail!("there is no mode '{mode}'")
    };
    must_be(Seen::Not, "at the beginning");
    work(arguments.bytes("bytes", "160M"));
    println!("OK");
}

/// Whether all calls of the process are seen.
#[derive(PartialEq, Eq, Debug)]
enum Seen {
    Not,
    Yes,
}

/// By the signal that the kernel sends for each call then: somebody catches it.
fn is_seen() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or_default().trim();
    let caught =
        u64::from_str_radix(caught, 16).unwrap_or_else(|_| fail!("SigCgt of /proc/self/status: {caught:?}"));
    caught >> (libc::SIGSYS - 1) & 1 != 0
}

fn must_be(expected: Seen, when: &str) {
    if std::env::var_os("USWAP_RUN").is_none() {
        return;
    }
    let seen = if is_seen() { Seen::Yes } else { Seen::Not };
    if seen != expected {
        fail!("{when}: calls are seen: {seen:?}");
    }
}

/// Pages that are all different.
struct Filled {
    address: usize,
    pages: usize,
    writer: u32,
}

impl Filled {
    fn new(bytes: usize, writer: u32) -> Filled {
        let address = memory::map_private(bytes, 0).unwrap_or_else(|errno| fail!("mmap: errno {errno}"));
        let filled = Filled { address, pages: bytes / PAGE_BYTES, writer };
        filled.fill_from(0);
        filled
    }

    fn fill_from(&self, first: usize) {
        for index in first..self.pages {
            memory::copy_page_in(self.address + index * PAGE_BYTES, &self.content(index));
        }
    }

    fn content(&self, index: usize) -> [u8; PAGE_BYTES] {
        Key { seed: 1, writer: self.writer, number: index as u32 }.page()
    }

    fn verify(&self, who: &str) {
        let mut found = [0; PAGE_BYTES];
        for index in 0..self.pages {
            memory::copy_page_out(self.address + index * PAGE_BYTES, &mut found);
            if found != self.content(index) {
                fail!("{who}: page {index} of {} is wrong", self.pages);
            }
        }
    }
}

/// Grows to `bytes` and looks at each page.
fn grow(bytes: usize, writer: u32) -> Filled {
    let filled = Filled::new(bytes, writer);
    must_be(Seen::Yes, "after it has grown");
    filled.verify("what was filled");
    filled
}

fn must(answer: i32, what: &str) {
    if answer != 0 {
        fail!("{what}: {answer}, errno {}", errno());
    }
}

static FAULT_ADDRESS: AtomicUsize = AtomicUsize::new(0);
static HANDLER_STACK: AtomicUsize = AtomicUsize::new(0);
static ALARMS: AtomicUsize = AtomicUsize::new(0);
const HANDLER_STACK_BYTES: usize = 64 * 1024;

fn set_handler(
    signal: i32,
    handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void),
    flags: i32,
) {
    // SAFETY:
    // 1. Zero is an empty mask, and the handler has the type that SA_SIGINFO asks for.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | flags;
        must(libc::sigaction(signal, &raw const action, core::ptr::null_mut()), "sigaction");
    }
}

/// Handlers run on this stack, whose address is answered.
fn set_handler_stack() -> usize {
    let start =
        memory::map_private(HANDLER_STACK_BYTES, 0).unwrap_or_else(|errno| fail!("mmap: errno {errno}"));
    let stack =
        libc::stack_t { ss_sp: start as *mut libc::c_void, ss_flags: 0, ss_size: HANDLER_STACK_BYTES };
    // SAFETY:
    // 1. The mapping is new, and used for nothing else.
    must(unsafe { libc::sigaltstack(&raw const stack, core::ptr::null_mut()) }, "sigaltstack");
    start
}

fn set_of(signals: &[i32]) -> libc::sigset_t {
    // SAFETY:
    // 1. The set is initialised by the first call.
    unsafe {
        let mut set = core::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        signals.iter().for_each(|&signal| must(libc::sigaddset(&raw mut set, signal), "sigaddset"));
        set
    }
}

/// Changes the mask, and answers which of some signals were blocked.
fn change_mask(how: i32, signals: &[i32]) -> Vec<i32> {
    let set = set_of(signals);
    // SAFETY:
    // 1. Both sets are live.
    unsafe {
        let mut before = core::mem::zeroed();
        must(libc::sigprocmask(how, &raw const set, &raw mut before), "sigprocmask");
        signals.iter().copied().filter(|&signal| libc::sigismember(&raw const before, signal) == 1).collect()
    }
}

extern "C" fn on_fault(_: i32, information: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let here = 0u8;
    // SAFETY:
    // 1. The kernel gives a siginfo with an address to a handler of this signal.
    FAULT_ADDRESS.store(unsafe { (*information).si_addr() } as usize, SeqCst);
    HANDLER_STACK.store(&raw const here as usize, SeqCst);
    must(
        memory::protect(FAULT_ADDRESS.load(SeqCst), PAGE_BYTES, libc::PROT_READ).err().unwrap_or(0),
        "mprotect",
    );
}

/// Handlers, an alternate stack and blocked signals that it has before it grows are its own afterwards.
fn signals(bytes: usize) {
    let stack = set_handler_stack();
    set_handler(libc::SIGSEGV, on_fault, libc::SA_ONSTACK);
    let ours = [libc::SIGSYS, libc::SIGBUS];
    let before = change_mask(libc::SIG_BLOCK, &ours);
    if !before.is_empty() {
        fail!("{before:?} are blocked from the start");
    }
    let filled = grow(bytes, 1);
    if change_mask(libc::SIG_BLOCK, &ours) != ours {
        fail!("the mask has changed");
    }
    let closed = memory::map_private(PAGE_BYTES, 0).unwrap_or_else(|errno| fail!("mmap: errno {errno}"));
    must(memory::protect(closed, PAGE_BYTES, libc::PROT_NONE).err().unwrap_or(0), "mprotect");
    // SAFETY:
    // 1. The page is mapped; the handler makes it readable.
    let value = unsafe { (closed as *const u8).read_volatile() };
    if value != 0 || FAULT_ADDRESS.load(SeqCst) != closed {
        fail!("the handler was told {:#x} instead of {closed:#x}", FAULT_ADDRESS.load(SeqCst));
    }
    if !(stack..stack + HANDLER_STACK_BYTES).contains(&HANDLER_STACK.load(SeqCst)) {
        fail!("the handler ran on another stack");
    }
    filled.verify("behind the handler");
}

/// One page is the most that a handler maps here; 4,096 of them are more than what is small.
extern "C" fn on_alarm(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    for _ in 0..64 {
        let Ok(address) = memory::map_private(PAGE_BYTES, 0) else {
            fail!("mmap in a handler: errno {}", errno())
        };
        memory::copy_page_in(address, &[7; PAGE_BYTES]);
    }
    ALARMS.fetch_add(1, SeqCst);
}

/// On an alternate stack the thread cannot be given another one: it grows there, and is seen later.
fn grows_in_handler(bytes: usize) {
    set_handler_stack();
    set_handler(libc::SIGALRM, on_alarm, libc::SA_ONSTACK);
    for _ in 0..64 {
        // SAFETY:
        // 1. The call takes a number.
        must(unsafe { libc::raise(libc::SIGALRM) }, "raise");
    }
    if ALARMS.load(SeqCst) != 64 {
        fail!("{} handlers ran", ALARMS.load(SeqCst));
    }
    // By its size it may have been found since.
    grow(bytes, 2);
    // SAFETY:
    // 1. The call takes a number.
    must(unsafe { libc::raise(libc::SIGALRM) }, "raise");
    if ALARMS.load(SeqCst) != 65 {
        fail!("{} handlers ran", ALARMS.load(SeqCst));
    }
}

/// Children by fork are small too, and grow by themselves; then the parent does.
fn children(bytes: usize) {
    let children: Vec<_> = (0..3)
        .map(|number| {
            // SAFETY:
            // 1. The process has one thread.
            let child = unsafe { libc::fork() };
            if child == 0 {
                must_be(Seen::Not, "in a child");
                grow(bytes / 3, 10 + number);
                end_process(0, format_args!("child"));
            }
            child
        })
        .collect();
    must_be(Seen::Not, "after forks");
    let filled = grow(bytes / 3, 20);
    children.into_iter().for_each(wait_good);
    filled.verify("the parent's");
}

fn wait_good(child: i32) {
    let mut status = 0;
    // SAFETY:
    // 1. The status is live.
    if unsafe { libc::waitpid(child, &raw mut status, 0) } != child || status != 0 {
        fail!("a child ended with {}", std::process::ExitStatus::from_raw(status));
    }
}

/// Where a child of `vfork` maps memory, which is its parent's.
static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// A child that shares the memory makes it grow: the parent is armed by itself, later.
fn vfork_child_maps(bytes: usize) {
    const CHILD_PAGES: usize = 2048;
    for writer in 30..33 {
        // SAFETY:
        // 1. The child maps and writes memory, and exits; it does not return from here.
        #[allow(deprecated, reason = "it is what is tested")]
        let child = unsafe { libc::vfork() };
        if child == 0 {
            let address = memory::map_private(CHILD_PAGES * PAGE_BYTES, 0).unwrap_or(0);
            MAPPED.store(address, SeqCst);
            // SAFETY:
            // 1. The child of vfork may end so.
            unsafe { libc::_exit(if address == 0 { 1 } else { 0 }) };
        }
        wait_good(child);
        // The child has not armed it; by its size it may be found from here on.
        let filled = Filled { address: MAPPED.load(SeqCst), pages: CHILD_PAGES, writer };
        for index in 0..filled.pages {
            memory::copy_page_in(filled.address + index * PAGE_BYTES, &filled.content(index));
        }
        if writer == 32 {
            grow(bytes, 33);
        }
        filled.verify("what a child has mapped");
    }
}

/// The same in a forked child, of which nobody has noted yet whose memory it has.
fn vfork_in_child(bytes: usize) {
    // SAFETY:
    // 1. The process has one thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        vfork_child_maps(bytes);
        end_process(0, format_args!("child"));
    }
    wait_good(child);
    must_be(Seen::Not, "after a child");
    grow(bytes / 2, 35);
}

/// Programs that it executes while it is small get the right environment or the right error.
fn executes(bytes: usize) {
    let program = CString::new("/proc/self/exe").expect("no zero byte");
    let arguments = [program.as_ptr(), c"list".as_ptr(), core::ptr::null()];
    let execute = |environment: usize, expected: Option<i32>, what: &str| {
        // SAFETY:
        // 1. The process has one thread; the child executes or exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY:
            // 1. All but the environment is right, and that is what the kernel is asked about.
            unsafe {
                let nowhere = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY);
                libc::dup2(nowhere, 1);
                libc::execve(program.as_ptr(), arguments.as_ptr(), environment as *const _);
                libc::_exit(100 + errno());
            }
        }
        let mut status = 0;
        // SAFETY:
        // 1. The status is live.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        let expected = expected.map_or(0, |errno| 100 + errno) << 8;
        if status != expected {
            fail!("{what}: status {status:#x} instead of {expected:#x}");
        }
    };
    execute(0, None, "no environment");
    execute(8, Some(libc::EFAULT), "an environment that is nowhere");
    execute(usize::MAX - 7, Some(libc::EFAULT), "an environment at the end of all addresses");
    let own: Vec<CString> =
        std::env::vars().map(|(name, value)| CString::new(format!("{name}={value}")).unwrap()).collect();
    let mut array: Vec<usize> = own.iter().map(|text| text.as_ptr() as usize).collect();
    array.push(0);
    execute(array.as_ptr() as usize, None, "its own");
    array.insert(1, 16);
    execute(array.as_ptr() as usize, Some(libc::EFAULT), "an entry that is nowhere");
    // The last page of a mapping: an array and a string that end with it, and the same without an end.
    let pages = memory::map_private(3 * PAGE_BYTES, 0).unwrap_or_else(|errno| fail!("mmap: errno {errno}"));
    must(memory::unmap(pages + 2 * PAGE_BYTES, PAGE_BYTES).err().unwrap_or(0), "munmap");
    let end = pages + 2 * PAGE_BYTES;
    let put = |at: usize, bytes: &[u8]| {
        let mut page = [0; PAGE_BYTES];
        let start = at & !(PAGE_BYTES - 1);
        memory::copy_page_out(start, &mut page);
        page[at - start..at - start + bytes.len()].copy_from_slice(bytes);
        memory::copy_page_in(start, &page);
    };
    put(end - 4, b"A=1\0");
    put(end - 24, &(end - 4).to_le_bytes());
    put(end - 16, &[0; 8]);
    execute(end - 24, None, "a string at the end of a mapping");
    put(end - 4, b"A=12");
    execute(end - 24, Some(libc::EFAULT), "a string without an end");
    put(end - 8, &array[0].to_le_bytes());
    execute(end - 8, Some(libc::EFAULT), "an array without an end");
    put(pages + PAGE_BYTES - 8, &array[0].to_le_bytes());
    put(pages + PAGE_BYTES, &[0; 8]);
    execute(pages + PAGE_BYTES - 8, None, "an array over two pages");
    must_be(Seen::Not, "after it has executed programs");
    grow(bytes, 40);
}

/// Grows by `mremap` alone, from a block that is small.
fn reallocates(bytes: usize) {
    let mut block = vec![1u8; 200 * 1024];
    must_be(Seen::Not, "with a small block");
    while block.len() < bytes {
        let more = block.len() / 2;
        let next = (block.len() % 251) as u8;
        block.resize(block.len() + more, next);
    }
    must_be(Seen::Yes, "after it has grown");
    let mut expected = vec![(0, 1u8)];
    let mut at = 200 * 1024;
    while at < bytes {
        expected.push((at, (at % 251) as u8));
        at += at / 2;
    }
    for (index, (start, value)) in expected.iter().enumerate() {
        let end = expected.get(index + 1).map_or(block.len(), |next| next.0);
        if let Some(wrong) = block[*start..end].iter().position(|byte| byte != value) {
            fail!("byte {} of {} is wrong", start + wrong, block.len());
        }
    }
}

/// Gives advice past the C library, as no function of it would.
fn advise_raw(start: usize, bytes: usize, advice: i32) {
    let answer: isize;
    // SAFETY:
    // 1. The range is the caller's, who gives up what the advice takes.
    // 2. The kernel changes rcx and r11, and rax is its answer.
    unsafe {
        core::arch::asm!("syscall", inlateout("rax") libc::SYS_madvise as isize => answer, in("rdi") start,
            in("rsi") bytes, in("rdx") advice, out("rcx") _, out("r11") _, options(nostack));
    }
    if answer != 0 {
        fail!("madvise: {answer}");
    }
}

/// What nobody has seen it advise is kept to all the same.
fn raw_advice(bytes: usize) {
    const PAGES: usize = 16;
    let (wiped, freed) = (Filled::new(PAGES * PAGE_BYTES, 60), Filled::new(PAGES * PAGE_BYTES, 61));
    advise_raw(wiped.address, PAGES * PAGE_BYTES, libc::MADV_WIPEONFORK);
    advise_raw(freed.address, PAGES * PAGE_BYTES, libc::MADV_FREE);
    let merged = Filled::new(PAGES * PAGE_BYTES, 63);
    if std::path::Path::new("/sys/kernel/mm/ksm").exists() {
        advise_raw(merged.address, PAGES * PAGE_BYTES, libc::MADV_MERGEABLE);
    }
    must_be(Seen::Not, "after raw system calls");
    let filled = grow(bytes, 62);
    if std::env::var_os("USWAP_RUN").is_some() && may_be_merged(merged.address) {
        fail!("the kernel may still merge what is managed, and what is written to it then would be lost");
    }
    // SAFETY:
    // 1. The process has one thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mut found = [1; PAGE_BYTES];
        for index in 0..PAGES {
            memory::copy_page_out(wiped.address + index * PAGE_BYTES, &mut found);
            if found != [0; PAGE_BYTES] {
                fail!("page {index} came into a child");
            }
        }
        end_process(0, format_args!("child"));
    }
    wait_good(child);
    wiped.verify("what is wiped in children");
    let mut found = [1; PAGE_BYTES];
    for index in 0..PAGES {
        memory::copy_page_out(freed.address + index * PAGE_BYTES, &mut found);
        if found != [0; PAGE_BYTES] && found != freed.content(index) {
            fail!("page {index} of what was freed is neither empty nor what it was");
        }
        memory::copy_page_in(freed.address + index * PAGE_BYTES, &freed.content(index));
    }
    filled.verify("beside what was advised");
    freed.verify("what was freed and written again");
}

/// Whether the kernel may merge the page at `address` with others (KSM).
fn may_be_merged(address: usize) -> bool {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let mut is_here = false;
    for line in smaps.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            if is_here {
                return flags.split(' ').any(|flag| flag == "mg");
            }
        } else if let Some((start, end)) = line.split(' ').next().and_then(|range| range.split_once('-')) {
            let number = |text| usize::from_str_radix(text, 16).unwrap_or(0);
            is_here = (number(start)..number(end)).contains(&address);
        }
    }
    fail!("nothing is mapped at {address:#x}")
}

/// More advice than can be kept to, and unseen: it is left alone then, but its calls go on.
fn too_much_advice(bytes: usize) {
    const MAPPINGS: usize = 1200;
    let start = map_raw(2 * MAPPINGS * PAGE_BYTES);
    (0..MAPPINGS)
        .for_each(|index| advise_raw(start + 2 * index * PAGE_BYTES, PAGE_BYTES, libc::MADV_WIPEONFORK));
    must_be(Seen::Not, "after raw system calls");
    let filled = Filled::new(bytes, 70);
    filled.verify("what was filled");
    let thread = std::thread::spawn(|| std::process::Command::new("/bin/true").status());
    if !thread.join().is_ok_and(|status| status.is_ok_and(|status| status.success())) {
        fail!("a thread could not execute a program");
    }
    // SAFETY:
    // 1. The process has one thread again.
    let child = unsafe { libc::fork() };
    if child == 0 {
        filled.verify("a child's");
        end_process(0, format_args!("child"));
    }
    wait_good(child);
    filled.verify("the parent's");
}

/// It makes no call that is seen: somebody finds it by its size, and arms it between two instructions. They are those
/// of [`watch_registers`] mostly, from the time on when it has a little memory.
fn raw_growth(bytes: usize) {
    const FIRST_BYTES: usize = 8 << 20;
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
    let address = map_raw(bytes);
    must_be(Seen::Not, "after a raw system call");
    let mut filled = Filled { address, pages: FIRST_BYTES / PAGE_BYTES, writer: 80 };
    filled.fill_from(0);
    let began = std::time::Instant::now();
    while std::env::var_os("USWAP_RUN").is_some() && !is_seen() {
        if began.elapsed() > PATIENCE {
            fail!("nobody has seen that it has grown");
        }
        (0..20).for_each(|_| watch_registers(100_000));
        wait_for_nothing();
    }
    filled.verify("what there was before");
    filled.pages = bytes / PAGE_BYTES;
    filled.fill_from(FIRST_BYTES / PAGE_BYTES);
    (0..2).for_each(|_| filled.verify("all of it"));
    watch_registers(1000);
}

/// A call that ends with EINTR when the thread is stopped, though no signal has come.
fn wait_for_nothing() {
    const MILLISECONDS: i32 = 10;
    // SAFETY:
    // 1. The set is new, and closed; there is room for one event.
    unsafe {
        let set = libc::epoll_create1(0);
        let mut event = core::mem::zeroed();
        let answer = libc::epoll_wait(set, &raw mut event, 1, MILLISECONDS);
        if answer != 0 {
            fail!("epoll_wait: {answer}, errno {}", errno());
        }
        libc::close(set);
    }
}

/// Looks so many times whether registers, flags and the red zone hold what was put there.
fn watch_registers(times: usize) {
    const VALUES: [u64; 4] =
        [0x1111_2222_3333_4444, 0x5555_6666_7777_8888, 0x9999_aaaa_bbbb_cccc, 0xdddd_eeee_ffff_0123];
    let [first, second, third, fourth] = VALUES;
    let wrong: u64;
    // SAFETY:
    // 1. It writes registers that it names, and the red zone, which is this function's: it calls nothing.
    unsafe {
        core::arch::asm!(
            "movq xmm3, r8",
            "movq xmm15, r9",
            "mov [rsp - 8], r10",
            "mov [rsp - 128], rdx",
            "2:",
            "stc",
            "jnc 3f",
            "cmp rax, r8",
            "jne 3f",
            "cmp rcx, r9",
            "jne 3f",
            "cmp r11, r10",
            "jne 3f",
            "movq rdi, xmm3",
            "cmp rdi, r8",
            "jne 3f",
            "movq rdi, xmm15",
            "cmp rdi, r9",
            "jne 3f",
            "cmp [rsp - 8], r10",
            "jne 3f",
            "cmp [rsp - 128], rdx",
            "jne 3f",
            "dec rsi",
            "jnz 2b",
            "xor edi, edi",
            "jmp 4f",
            "3: mov edi, 1",
            "4:",
            inlateout("rax") first => _, inlateout("rcx") second => _, inlateout("r11") third => _,
            in("r8") first, in("r9") second, in("r10") third, in("rdx") fourth,
            inlateout("rsi") times => _, out("rdi") wrong, out("xmm3") _, out("xmm15") _,
        );
    }
    if wrong != 0 {
        fail!("a register, the flags or the red zone have changed");
    }
}

/// Maps memory past the C library.
fn map_raw(bytes: usize) -> usize {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let start: usize;
    // SAFETY:
    // 1. A new mapping replaces nothing.
    // 2. The kernel changes rcx and r11, and rax is its answer.
    unsafe {
        core::arch::asm!("syscall", inlateout("rax") libc::SYS_mmap as usize => start, in("rdi") 0, in("rsi") bytes,
            in("rdx") libc::PROT_READ | libc::PROT_WRITE, in("r10") flags, in("r8") -1isize, in("r9") 0,
            out("rcx") _, out("r11") _, options(nostack));
    }
    if start > usize::MAX - 4096 {
        fail!("mmap: {}", start as isize);
    }
    start
}
