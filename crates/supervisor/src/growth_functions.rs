//! What this process knows of the functions by which a small process grows: most processes of the run have the same C
//! library, and need not find it out each for itself.

use std::fmt::Write;
use std::sync::OnceLock;

use uswap_identity::GROWTH_FUNCTIONS;
use uswap_interpose::KnownFunction;

/// Two hexadecimal digits for each byte of each [`KnownFunction`]; empty, if one of them is of another kind.
pub fn known_functions() -> &'static str {
    static KNOWN: OnceLock<String> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let known: Option<Vec<_>> = KnownFunction::find(&addresses()).collect();
        let bytes = known.unwrap_or_default().into_iter().flat_map(KnownFunction::to_bytes);
        bytes.fold(String::new(), |mut digits, byte| {
            write!(digits, "{byte:02x}").expect("a string takes it");
            digits
        })
    })
}

/// In the order of their names.
fn addresses() -> [usize; GROWTH_FUNCTIONS.len()] {
    [
        libc::mmap as *const () as usize,
        libc::brk as *const () as usize,
        libc::mremap as *const () as usize,
        libc::madvise as *const () as usize,
        libc::mlock as *const () as usize,
        libc::mlockall as *const () as usize,
        libc::prctl as *const () as usize,
        libc::execve as *const () as usize,
    ]
}
