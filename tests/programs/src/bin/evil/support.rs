//! What the modes share: filled memory that can be verified, children, and memory that is used before main.

use uswap_test_programs::PAGE_BYTES;
use uswap_test_programs::memory;
use uswap_test_programs::message::{end_process, errno};
use uswap_test_programs::pattern::Key;
pub use uswap_test_programs::pattern::Page;

/// Arguments of a mode.
pub struct Case {
    /// Memory to use.
    pub bytes: usize,
    pub seed: u64,
    /// How many generations came before: used by the modes that start themselves.
    pub depth: u64,
    /// How long a storm lasts.
    pub seconds: u64,
    /// How many percent of memory that nobody uses may be present; 100: nobody asks.
    pub present_max: usize,
}

/// Ends the process as failed.
macro_rules! fail {
    ($($argument:tt)*) => {
        uswap_test_programs::message::end_process(1, format_args!("FAIL {}", format_args!($($argument)*)))
    };
}
pub(crate) use fail;

/// Memory filled with known content. It is not unmapped when dropped.
#[derive(Clone, Copy)]
pub struct Filled {
    pub address: usize,
    pub pages: usize,
    pub seed: u64,
    pub writer: u32,
}

impl Filled {
    /// Maps private memory and fills it.
    pub fn new(bytes: usize, seed: u64, writer: u32) -> Filled {
        Filled::near(0, bytes, seed, writer)
    }

    /// Maps private memory at `hint`, if that place is free, and fills it.
    pub fn near(hint: usize, bytes: usize, seed: u64, writer: u32) -> Filled {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let address = memory::map(hint, bytes, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)
            .unwrap_or_else(|error| fail!("mmap: errno {error}"));
        let filled = Filled { address, pages: bytes / PAGE_BYTES, seed, writer };
        filled.fill();
        filled
    }

    /// Maps private memory, gives an advice on it, and fills it.
    pub fn marked(bytes: usize, seed: u64, writer: u32, advice: i32) -> Filled {
        let address = memory::map_private(bytes, 0).unwrap_or_else(|error| fail!("mmap: errno {error}"));
        memory::advise(address, bytes, advice).unwrap_or_else(|error| fail!("madvise: errno {error}"));
        let filled = Filled { address, pages: bytes / PAGE_BYTES, seed, writer };
        filled.fill();
        filled
    }

    /// Writes the content again, in existing memory.
    pub fn fill(&self) {
        let mut page = [0; PAGE_BYTES];
        for index in 0..self.pages {
            self.key(index).fill(&mut page);
            memory::copy_page_in(self.page(index), &page);
        }
    }

    pub fn page(&self, index: usize) -> usize {
        self.address + index * PAGE_BYTES
    }

    fn key(&self, index: usize) -> Key {
        Key { seed: self.seed, writer: self.writer, number: index as u32 }
    }

    /// The content that page `index` must have.
    pub fn content(&self, index: usize) -> Page {
        let mut page = [0; PAGE_BYTES];
        self.key(index).fill(&mut page);
        page
    }

    /// Verifies all pages; allocates nothing.
    pub fn verify(&self, who: &str) {
        self.verify_steps(who, 1);
    }

    /// Verifies each `step`-th page; allocates nothing.
    pub fn verify_steps(&self, who: &str, step: usize) {
        let mut found = [0; PAGE_BYTES];
        for index in (0..self.pages).step_by(step) {
            memory::copy_page_out(self.page(index), &mut found);
            self.compare(who, index, &found);
        }
    }

    /// Verifies one page; allocates nothing.
    pub fn verify_one(&self, who: &str, index: usize) {
        let mut found = [0; PAGE_BYTES];
        memory::copy_page_out(self.page(index), &mut found);
        self.compare(who, index, &found);
    }

    /// Compares a copy of page `index` with what it must be.
    pub fn compare(&self, who: &str, index: usize, found: &Page) {
        if *found != self.content(index) {
            let zero = found.iter().all(|&byte| byte == 0);
            fail!(
                "{who}: page {index} of {} at {:#x} is wrong; all zero: {zero}",
                self.pages,
                self.page(index)
            );
        }
    }
}

/// Fails unless a range is all zeros.
pub fn verify_zero(address: usize, pages: usize, who: &str) {
    let mut found = [0; PAGE_BYTES];
    for index in 0..pages {
        memory::copy_page_out(address + index * PAGE_BYTES, &mut found);
        if found.iter().any(|&byte| byte != 0) {
            fail!("{who}: page {index} of {pages} is not zero");
        }
    }
}

/// Runs `work` in a forked child, which then ends with status 0.
pub fn in_child(work: impl FnOnce()) -> i32 {
    // SAFETY:
    // 1. The child runs `work`, which by agreement neither allocates nor takes locks when other threads exist.
    let pid = unsafe { libc::fork() };
    match pid {
        0 => {
            work();
            // SAFETY:
            // 1. `_exit` has no precondition.
            unsafe { libc::_exit(0) }
        }
        -1 => fail!("fork: errno {}", errno()),
        _ => pid,
    }
}

/// Waits for a child; answers its wait status.
pub fn wait(pid: i32) -> i32 {
    let mut status = 0;
    loop {
        // SAFETY:
        // 1. `status` is a live local.
        let answer = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        if answer == pid {
            return status;
        }
        if errno() != libc::EINTR {
            fail!("waitpid {pid}: errno {}", errno());
        }
    }
}

/// Waits for a child that must end with status 0.
pub fn wait_good(pid: i32, who: &str) {
    let status = wait(pid);
    if status != 0 {
        fail!("{who} ended with wait status {status:#x}");
    }
}

/// Fails with errno unless a libc call answered 0.
pub fn must(answer: i32, what: &str) {
    if answer != 0 {
        end_process(1, format_args!("FAIL {what}: errno {}", errno()));
    }
}

/// Memory used by a static constructor, before main and before Rust's runtime.
pub mod early {
    use super::{Case, Filled};
    use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    const SEED: u64 = 77;
    const BYTES: usize = 100 << 20;
    static ADDRESS: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn constructor(count: i32, words: *const *const u8, _environment: *const *const u8) {
        // SAFETY:
        // 1. glibc calls constructors with the arguments of main: `count` pointers to text that ends in NUL.
        let wanted = count >= 2
            && unsafe {
                core::ffi::CStr::from_ptr((*words.add(1)).cast()).to_bytes() == b"memory_before_main"
            };
        if wanted {
            ADDRESS.store(Filled::new(BYTES, SEED, 1).address, Relaxed);
        }
    }

    #[used]
    // SAFETY:
    // 1. The section holds pointers to functions of this type, which glibc calls once before main.
    #[unsafe(link_section = ".init_array")]
    static CONSTRUCTOR: extern "C" fn(i32, *const *const u8, *const *const u8) = constructor;

    /// Verifies what the constructor wrote, under the pressure of more memory.
    pub fn check(case: &Case) {
        let address = ADDRESS.load(Relaxed);
        if address == 0 {
            fail!("the constructor did not run");
        }
        let before = Filled { address, pages: BYTES / 4096, seed: SEED, writer: 1 };
        let after = Filled::new(case.bytes, case.seed, 2);
        before.verify("memory from before main");
        after.verify("memory from main");
        before.verify("memory from before main, again");
    }
}
