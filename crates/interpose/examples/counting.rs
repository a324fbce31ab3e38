//! A library to preload that counts every system call of a program and changes none.
//!
//! `INTERPOSE_COUNTS=FILE` names a file to which each process of the program appends its counts when it
//! ends: lines of `process-id number calls calls-by-dispatch`. `INTERPOSE_PATCH_AFTER=N` sets after how many
//! calls a site is patched; 0 is never. `INTERPOSE_FAULTS=N` is a set of signals that this library gets first;
//! it takes none.

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use uswap_interpose::{Before, Call, Context, Interposer, NewProcess, Options, Origin};
use uswap_os::sys::abi;
use uswap_os::text::TextBuffer;
use uswap_os::{Fd, PAGE_BYTES, memory};

const NUMBERS: usize = 512;

struct Counting {
    calls: [AtomicU64; NUMBERS],
    /// Of them. What was dispatched is the rest: other threads may be in the middle of a call when it is reported.
    patched: [AtomicU64; NUMBERS],
}

static COUNTING: Counting = Counting {
    calls: [const { AtomicU64::new(0) }; NUMBERS],
    patched: [const { AtomicU64::new(0) }; NUMBERS],
};
static FILE: AtomicUsize = AtomicUsize::new(0);

impl Interposer for Counting {
    fn before(&self, call: &mut Call, context: &Context) -> Before {
        let index = call.number.min(NUMBERS - 1);
        self.calls[index].fetch_add(1, Ordering::Relaxed);
        if context.origin() == Origin::Patched {
            self.patched[index].fetch_add(1, Ordering::Relaxed);
        }
        if matches!(call.number as u32, abi::__NR_exit_group | abi::__NR_execve | abi::__NR_execveat) {
            self.report();
        }
        Before::Pass
    }

    fn process_begins(&self, kind: NewProcess, _: &Context) {
        if kind == NewProcess::Copied {
            self.clear();
        }
    }
}

impl Counting {
    fn clear(&self) {
        for counter in self.calls.iter().chain(&self.patched) {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// Appends the counts to the file. A successful exec makes the counters new; one that fails does not.
    fn report(&self) {
        let path = FILE.load(Ordering::Relaxed);
        if path == 0 {
            return;
        }
        // SAFETY:
        // 1. The constructor has stored the address of a string of the environment, which stays.
        let path = unsafe { CStr::from_ptr(path as *const c_char) };
        let flags = abi::O_WRONLY | abi::O_APPEND | abi::O_CREAT | abi::O_CLOEXEC;
        let Ok(file) = Fd::open(path, flags, 0o666) else { return };
        let process_id = uswap_os::process::process_id();
        for number in 0..NUMBERS {
            let calls = self.calls[number].swap(0, Ordering::Relaxed);
            let dispatched = calls.saturating_sub(self.patched[number].swap(0, Ordering::Relaxed));
            if calls != 0 {
                let line =
                    TextBuffer::<80>::format(format_args!("{process_id} {number} {calls} {dispatched}\n"));
                let _ = file.write(line.as_bytes());
            }
        }
    }
}

/// The value of a variable of the environment, with its zero.
fn variable(environment: *const *const c_char, name: &[u8]) -> Option<&'static CStr> {
    for index in 0.. {
        // SAFETY:
        // 1. The environment is a list of strings that ends with a null pointer; both stay.
        let entry = unsafe {
            let entry = *environment.add(index);
            if entry.is_null() {
                return None;
            }
            CStr::from_ptr(entry)
        };
        let bytes = entry.to_bytes_with_nul();
        if bytes.starts_with(name) && bytes.get(name.len()) == Some(&b'=') {
            return CStr::from_bytes_with_nul(&bytes[name.len() + 1..]).ok();
        }
    }
    None
}

extern "C" fn start(_count: i32, _arguments: *const *const c_char, environment: *const *const c_char) {
    if let Some(path) = variable(environment, b"INTERPOSE_COUNTS") {
        FILE.store(path.as_ptr() as usize, Ordering::Relaxed);
    }
    let mut options = Options::default();
    if let Some(number) = variable(environment, b"INTERPOSE_PATCH_AFTER") {
        let number = number.to_str().ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        options.patch_after = (number != 0).then_some(number);
    }
    if let Some(set) = variable(environment, b"INTERPOSE_FAULTS") {
        options.faults = set.to_str().ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    }
    // Far below this library, where the program has unmapped nothing.
    let start = (start as *const () as usize).saturating_sub(APART_BYTES) / PAGE_BYTES * PAGE_BYTES;
    memory::map_in(start..start + APART_BYTES / 2);
    if let Err(error) = uswap_interpose::install(&COUNTING, &options) {
        let line = TextBuffer::<200>::format(format_args!("counting: {error}\n"));
        let _ = uswap_os::fd::write_raw(2, line.as_bytes());
    }
}

/// Mappings of this library are so far from it.
const APART_BYTES: usize = 64 << 30;

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn(i32, *const *const c_char, *const *const c_char) = start;
