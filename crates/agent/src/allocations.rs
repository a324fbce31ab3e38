//! Large allocations of the program. libc's allocator maps memory inside libc, where no hook of `mmap` sees it; without
//! these its first touches were found by looking, which may come too late: see [`crate::fresh`].
//!
//! Each hook passes the call on to the definition behind ours (libc's, or an allocator that the program brought) and
//! then announces what it got, if it is large. `free` and `realloc` are left alone: what was allocated belongs to that
//! other definition, and what a realloc adds is found by looking.

use crate::{fresh, hooks};
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

/// Smaller allocations are never large for a budget, the least of which is some MiB; and the allocators ask for more at
/// once.
const LARGE_BYTES_MIN: usize = 128 * 1024;

/// A definition behind ours. It is looked for at the first call: the dynamic linker itself calls `malloc` before any
/// constructor runs.
struct Behind {
    name: &'static CStr,
    function: AtomicPtr<c_void>,
}

impl Behind {
    const fn new(name: &'static CStr) -> Behind {
        Behind { name, function: AtomicPtr::new(core::ptr::null_mut()) }
    }

    fn get(&self) -> *mut c_void {
        let known = self.function.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // Two threads that are first find the same.
        let found = hooks::next(self.name);
        self.function.store(found, Ordering::Relaxed);
        found
    }
}

fn announce_if_large(bytes: usize) {
    if bytes >= LARGE_BYTES_MIN {
        fresh::announce(bytes);
    }
}

macro_rules! allocation_hooks {
    ($($name:ident($($argument:ident),*), $bytes:expr;)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "` of the program.")]
            ///
            /// # Safety
            /// As of libc's function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: usize),*) -> *mut c_void {
                static BEHIND: Behind = Behind::new(hooks::c_name(concat!(stringify!($name), "\0")));
                // SAFETY: 1. libc's function of this name takes sizes and returns an address.
                let real: unsafe extern "C" fn($($argument: usize),*) -> *mut c_void = unsafe { core::mem::transmute(BEHIND.get()) };
                // SAFETY: 1. the arguments are the program's.
                let allocated = unsafe { real($($argument),*) };
                announce_if_large($bytes);
                allocated
            }
        )*
    };
}

allocation_hooks! {
    malloc(bytes), bytes;
    calloc(count, bytes), count.saturating_mul(bytes);
    memalign(alignment, bytes), bytes;
    aligned_alloc(alignment, bytes), bytes;
}

/// `posix_memalign` of the program.
///
/// # Safety
/// As of libc's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(to: *mut *mut c_void, alignment: usize, bytes: usize) -> c_int {
    static BEHIND: Behind = Behind::new(c"posix_memalign");
    // SAFETY: 1. libc's function of this name takes an address and two sizes, and returns an int.
    let real: unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int =
        unsafe { core::mem::transmute(BEHIND.get()) };
    // SAFETY: 1. the arguments are the program's.
    let answer = unsafe { real(to, alignment, bytes) };
    announce_if_large(bytes);
    answer
}
