//! The modes but that of threads.

use std::process::Command;

use uswap::Error;
use uswap_test_programs::message::{end_process, errno};
use uswap_test_programs::{PAGE_BYTES, memory};

use crate::Told;
use crate::content::{Content, must_be_within, resident_bytes};

fn fail(what: &str) -> ! {
    end_process(1, format_args!("FAIL {what}"));
}

/// One thread, with more than its budget in RAM already.
pub fn alone(told: &Told) {
    let old = Content::new(told.bytes, 1);
    told.must_limit();
    must_be_within(told.ram_bytes);
    old.verify();
    let new = Content::new(told.bytes, 2);
    old.verify();
    new.verify();
    must_be_within(told.ram_bytes);
}

/// What calls have made of mappings before anybody saw them.
pub fn advised(told: &Told) {
    let locked = Content::new(1 << 20, 1);
    // SAFETY:
    // 1. The range is a mapping of ours.
    assert_eq!(unsafe { libc::mlock(locked.address as *const _, locked.bytes) }, 0, "mlock: {}", errno());
    let wiped = Content::new(1 << 20, 2);
    memory::advise(wiped.address, wiped.bytes, libc::MADV_WIPEONFORK).expect("Linux 4.14");
    let freed = Content::new(4 << 20, 3);
    memory::advise(freed.address, freed.bytes, libc::MADV_FREE).expect("Linux 4.5");
    let shut = Content::new(4 << 20, 4);
    memory::advise(shut.address, shut.bytes, libc::MADV_FREE).expect("Linux 4.5");
    memory::protect(shut.address, shut.bytes, libc::PROT_READ).expect("it is ours");
    let hidden = Content::new(1 << 20, 5);
    memory::protect(hidden.address, hidden.bytes, libc::PROT_NONE).expect("it is ours");
    told.must_limit();
    // Memory gets short, while these are in use.
    let mut rest = Vec::new();
    let is_away = |content: &Content| {
        memory::present_pages(content.address, content.bytes / PAGE_BYTES) != Ok(content.bytes / PAGE_BYTES)
    };
    while !rest.iter().any(is_away) {
        freed.touch();
        shut.touch();
        rest.push(Content::new(1 << 20, 6 + rest.len() as u32));
    }
    // What the kernel may drop it drops now.
    for content in [&freed, &shut] {
        memory::advise(content.address, content.bytes, libc::MADV_PAGEOUT).expect("Linux 5.4");
    }
    while rest.len() < told.bytes >> 20 {
        rest.push(Content::new(1 << 20, 6 + rest.len() as u32));
    }
    let pages = locked.bytes / PAGE_BYTES;
    if memory::present_pages(locked.address, pages) != Ok(pages) {
        fail("a page that was locked is gone");
    }
    locked.verify();
    // Each page is as it was or zeros, and can be read and written.
    for content in [&freed, &shut] {
        memory::protect(content.address, content.bytes, libc::PROT_READ | libc::PROT_WRITE)
            .expect("it is ours");
        let mut page = [0; PAGE_BYTES];
        for address in (content.address..content.address + content.bytes).step_by(PAGE_BYTES) {
            memory::copy_page_out(address, &mut page);
            memory::copy_page_in(address, &page);
        }
    }
    memory::protect(hidden.address, hidden.bytes, libc::PROT_READ).expect("it is ours");
    hidden.verify();
    rest.iter().for_each(Content::verify);
    must_be_within(told.ram_bytes);
    let wiped_status = in_child(|| {
        let is_zero = (wiped.address..wiped.address + wiped.bytes)
            .step_by(PAGE_BYTES)
            .all(|address| memory::read_word(address) == 0);
        i32::from(!is_zero)
    });
    if wiped_status != 0 {
        fail("what is wiped on fork was not");
    }
    wiped.verify();
}

/// Forks, and answers the status of the child, which ends with what `work` answers.
fn in_child(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY:
    // 1. This process has one thread of its own: the child may do what it likes.
    match unsafe { libc::fork() } {
        -1 => fail("fork"),
        0 => {
            let status = work();
            // SAFETY: 1. The call takes a number.
            unsafe { libc::_exit(status) }
        }
        child => {
            let mut status = 0;
            // SAFETY:
            // 1. The pointer is to a variable of this frame.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            status
        }
    }
}

/// What it starts belongs to the run; and nobody can wait for the supervisor.
pub fn children(told: &Told) {
    told.must_limit();
    // SAFETY:
    // 1. The call reads and writes no memory.
    let waited = unsafe { libc::waitpid(-1, core::ptr::null_mut(), libc::WNOHANG) };
    if waited != -1 || errno() != libc::ECHILD {
        fail("there is a child to wait for");
    }
    let content = Content::new(told.bytes, 1);
    let status = in_child(|| {
        content.verify();
        let more = Content::new(told.bytes / 2, 2);
        more.verify();
        content.verify();
        if !matches!(uswap::release(), Err(Error::NotLimited)) { 3 } else { 0 }
    });
    if status != 0 {
        fail("a forked child has ended with another status");
    }
    let own = std::env::current_exe().expect("/proc is mounted");
    let bytes = told.bytes.to_string();
    let output = Command::new(own).args(["say", "--bytes", &bytes]).env_remove("USWAP_RUN").output();
    let said = String::from_utf8(output.expect("it starts").stdout).expect("it is text");
    let is_in_it = said.contains("inside of a run");
    let resident: usize = said.lines().next().and_then(|line| line.parse().ok()).unwrap_or(usize::MAX);
    if !is_in_it || resident > told.ram_bytes {
        fail(&format!("what it executes is not of the run: {said}"));
    }
    content.verify();
    must_be_within(told.ram_bytes);
}

/// Fills memory, prints how much of it is in RAM, and what becomes of a budget of its own.
pub fn say(told: &Told) {
    let content = Content::new(told.bytes, 1);
    content.verify();
    println!("{}", resident_bytes());
    match told.limit().hold() {
        Ok(()) => println!("it has one"),
        Err(error) => println!("{error}"),
    }
}

/// It gives its budget up: all is there, and it is as any other process.
pub fn release(told: &Told) {
    told.must_limit();
    let content = Content::new(told.bytes, 1);
    must_be_within(told.ram_bytes);
    if let Err(error) = uswap::release() {
        fail(&format!("it cannot give up: {error}"));
    }
    let pages = content.bytes / PAGE_BYTES;
    if memory::present_pages(content.address, pages) != Ok(pages) {
        fail("a page has not come home");
    }
    content.verify();
    let more = Content::new(told.bytes, 2);
    if resident_bytes() < 2 * told.bytes {
        fail("something is evicted still");
    }
    more.verify();
    for (answer, wanted) in [(uswap::release(), "has not asked"), (told.limit().hold(), "only once")] {
        match answer {
            Err(error) if error.to_string().contains(wanted) => (),
            other => fail(&format!("{other:?}, and not '{wanted}'")),
        }
    }
}

/// Mistakes, each with what it says; the process goes on, and may have a budget after them.
pub fn twice(told: &Told) {
    let content = Content::new(told.bytes / 2, 1);
    let mistakes = [
        (uswap::Limit::new("12 bananas"), "12 bananas"),
        (uswap::Limit::new("4"), "4"),
        (uswap::Limit::new("1M"), "8M is the smallest"),
        (uswap::Limit::new(&told.ram).swap("/no/such/directory"), "/no/such/directory"),
        (uswap::Limit::new(&told.ram).option("--on-full", "panic"), "panic"),
        (uswap::Limit::new(&told.ram).command("/no/such/uswap"), "/no/such/uswap"),
        (uswap::Limit::new(&told.ram).command("/bin/true"), "without an answer"),
    ];
    for (limit, wanted) in mistakes {
        match limit.hold() {
            Err(error) if error.to_string().contains(wanted) => (),
            other => fail(&format!("{other:?}, and not '{wanted}'")),
        }
    }
    if uswap::is_limited() {
        fail("a mistake has left a budget");
    }
    told.must_limit();
    match told.limit().hold() {
        Err(Error::LimitedAlready { supervisor }) if supervisor > 0 => (),
        other => fail(&format!("the second is {other:?}")),
    }
    let more = Content::new(told.bytes, 2);
    content.verify();
    more.verify();
    must_be_within(told.ram_bytes);
}

/// Goes round its memory for so many seconds, from when it has said that it is limited.
pub fn lasts(told: &Told) {
    told.must_limit();
    let content = Content::new(told.bytes, 1);
    println!("limited");
    let began = std::time::Instant::now();
    while began.elapsed() < std::time::Duration::from_secs(told.seconds) {
        content.verify();
    }
    match uswap::stats() {
        Ok(stats) if stats.ram_bytes == told.ram_bytes as u64 && stats.counters["zswpout"] > 0 => (),
        Err(error) if error.to_string().contains("run") => println!("{error}"),
        other => fail(&format!("{other:?}")),
    }
}

/// Threads use memory all the time, from before there is a budget.
pub fn faults(told: &Told) {
    use std::sync::atomic::{AtomicBool, Ordering};
    let ends = AtomicBool::new(false);
    let each = told.bytes / told.threads / PAGE_BYTES * PAGE_BYTES;
    std::thread::scope(|scope| {
        for writer in 0..told.threads as u32 {
            let ends = &ends;
            scope.spawn(move || {
                let content = Content::new(each, writer);
                let mut held = Vec::new();
                while !ends.load(Ordering::Relaxed) {
                    content.verify();
                    // Small and large blocks come and go.
                    held.push(vec![writer as u8; 1 << (10 + writer % 11)]);
                    if held.iter().any(|block: &Vec<u8>| block.iter().any(|byte| *byte != writer as u8)) {
                        fail("a block is wrong");
                    }
                    if held.len() > 8 {
                        held.clear();
                    }
                }
                content.verify();
            });
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        told.must_limit();
        std::thread::sleep(std::time::Duration::from_secs(1));
        ends.store(true, Ordering::Relaxed);
    });
    must_be_within(told.ram_bytes);
}

/// What the kernel may do behind its back was set up before: it gets no budget, and goes on.
pub fn ring(told: &Told) {
    let mut parameters = [0_u32; 30];
    // SAFETY:
    // 1. The kernel reads and writes one structure of 120 bytes.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, parameters.as_mut_ptr()) };
    if ring < 0 {
        return println!("SKIP: there is no io_uring here (errno {})", errno());
    }
    let content = Content::new(told.bytes, 1);
    match told.limit().hold() {
        Err(error) if error.to_string().contains("io_uring") => (),
        other => fail(&format!("{other:?}")),
    }
    content.verify();
}

/// One of its threads has a tracer, so it cannot be stopped: it gets no budget, however often it asks, and goes on.
pub fn traced(told: &Told) {
    use std::sync::mpsc;
    let content = Content::new(told.bytes, 1);
    let ((tell, thread), (ends, end)) = (mpsc::channel(), mpsc::channel::<()>());
    let sleeper = std::thread::spawn(move || {
        // SAFETY:
        // 1. The call takes nothing.
        tell.send(unsafe { libc::syscall(libc::SYS_gettid) } as i32).expect("it is waited for");
        let _nobody_sends = end.recv();
    });
    let thread = thread.recv().expect("it says which it is");
    let mut pipe = [0; 2];
    // SAFETY:
    // 1. The call writes two numbers; others take numbers.
    // 2. The child makes system calls only, and ends.
    let tracer = unsafe {
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        let _there_may_be_no_yama = libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY);
        let child = libc::fork();
        if child == 0 {
            let seized = libc::ptrace(libc::PTRACE_SEIZE, thread, 0, 0) == 0;
            libc::write(pipe[1], [u8::from(seized)].as_ptr().cast(), 1);
            loop {
                libc::pause();
            }
        }
        let mut seized = 0_u8;
        assert_eq!(libc::read(pipe[0], (&raw mut seized).cast(), 1), 1);
        if seized != 1 {
            libc::kill(child, libc::SIGKILL);
            return println!("SKIP: a child may not trace its parent here");
        }
        child
    };
    for time in 0..20 {
        let wanted = if time == 0 { "ptrace" } else { "tried once" };
        match told.limit().hold() {
            Err(error) if error.to_string().contains(wanted) => (),
            other => fail(&format!("{other:?}, and not '{wanted}'")),
        }
    }
    // SAFETY:
    // 1. The child is ours, and nobody has waited for it.
    unsafe { libc::kill(tracer, libc::SIGKILL) };
    drop(ends);
    sleeper.join().expect("it ends");
    content.verify();
}
