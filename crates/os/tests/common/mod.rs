//! What the tests of the kernel's behaviour share.
#![allow(dead_code)]

use std::sync::{Mutex, MutexGuard};

use uswap_os::memory::{Access, Mapping};
use uswap_os::sys::{self, abi};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A fork in one test reaches the userfaultfds of all: these tests run one after the other.
pub fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Memory of `pages` pages between two guards, without huge pages.
pub struct Pages {
    mapping: Mapping,
}

impl Pages {
    pub fn new(pages: usize) -> Pages {
        let mapping = Mapping::anonymous((pages + 2) * 4096, 4096, Access::ReadWrite).unwrap();
        uswap_os::memory::no_huge_pages(mapping.start(), mapping.bytes()).unwrap();
        for guard in [mapping.start(), mapping.end() - 4096] {
            // SAFETY:
            // 1. The mapping is new; nobody has a reference into it.
            unsafe { uswap_os::memory::protect(guard, 4096, Access::None) }.unwrap();
        }
        Pages { mapping }
    }
    pub fn start(&self) -> usize {
        self.mapping.start() + 4096
    }
    pub fn bytes(&self) -> usize {
        self.mapping.bytes() - 8192
    }
    pub fn page(&self, index: usize) -> usize {
        self.start() + index * 4096
    }
    pub fn fill(&self, index: usize, value: u8) {
        // SAFETY:
        // 1. The page lies in the mapping, writable; no reference into it exists.
        unsafe { (self.page(index) as *mut u8).write_bytes(value, 4096) };
    }
    pub fn get(&self, index: usize) -> u8 {
        get(self.page(index))
    }
}

/// Reads a byte that others may change.
pub fn get(address: usize) -> u8 {
    // SAFETY:
    // 1. The tests name mapped addresses; volatile, because the kernel puts pages there behind the compiler's back.
    unsafe { (address as *const u8).read_volatile() }
}

/// Forks; `child` runs in the child, whose exit code is its answer. The child may only use system calls.
pub fn fork(child: impl FnOnce() -> u8) -> u32 {
    // SAFETY:
    // 1. A raw clone with SIGCHLD and nothing else is fork. The child makes system calls only: locks of std that other
    //    threads held stay locked.
    let answer = unsafe { sys::syscall6(abi::__NR_clone, 17, 0, 0, 0, 0, 0) }.unwrap();
    if answer == 0 {
        uswap_os::process::exit_process(child());
    }
    answer as u32
}

/// How a child ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    Exit(u8),
    Signal(u8),
}

/// Waits for a child.
pub fn wait_for(process_id: u32) -> End {
    let mut status = 0i32;
    loop {
        // SAFETY:
        // 1. The kernel writes one int.
        let answer = unsafe {
            sys::syscall6(abi::__NR_wait4, process_id as usize, &raw mut status as usize, 0, 0, 0, 0)
        };
        match answer {
            Err(uswap_os::Errno::EINTR) => {}
            Err(error) => panic!("wait4: {error}"),
            Ok(_) if status & 0x7f == 0 => return End::Exit((status >> 8) as u8),
            Ok(_) => return End::Signal((status & 0x7f) as u8),
        }
    }
}
