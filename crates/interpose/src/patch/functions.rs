//! Patches whole functions, before they are called: see [`install_in_functions`](crate::install_in_functions).
//!
//! To find a way for each takes 70 us, which is much for a process that lives for 500. So another process that has the
//! same library may say what it has found. What must hold: that is believed only of a function whose bytes are the
//! same.
//!
//! Called by [`mod@crate::install`], in a process of one thread, and by `host` and the supervisor, which find functions
//! and hand on what they found.

use core::ops::Range;

use super::{go_way, memory, patch_in};
use crate::sites::functions::Object;
use crate::sites::{self, Memory, SYSCALL_BYTES, Way};

/// Calls of one function, at most.
const CALLS_OF_FUNCTION_MAX: usize = 4;
/// Of a longer function so many bytes are compared.
const COMPARED_BYTES_MAX: usize = 255;

/// Bytes of a [`KnownFunction`] as it is handed on.
pub const KNOWN_FUNCTION_BYTES: usize = 11;

/// A function with one call, which becomes a jump ahead of it. What there is of it in another process may be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownFunction {
    /// Of its first `compared_bytes` bytes: see [`hash`].
    hash: u64,
    compared_bytes: u8,
    /// Offsets in the function: of the instruction that is replaced, and behind its call.
    ahead: u8,
    site_end: u8,
}

impl KnownFunction {
    /// What is found of the functions at these addresses in this process, which are in one object. None for one that is
    /// not of this kind.
    pub fn find(addresses: &[usize]) -> impl Iterator<Item = Option<KnownFunction>> {
        let text = addresses.first().and_then(|first| memory::Mapped::around(*first));
        let object = text.as_ref().zip(addresses.first()).and_then(|(text, first)| text.object(*first));
        addresses
            .iter()
            .map(move |address| KnownFunction::find_in(text.as_ref()?, object.as_ref()?, *address))
    }

    fn find_in(text: &memory::Mapped, object: &Object, address: usize) -> Option<KnownFunction> {
        let function = function_at(text, object, address)?;
        let mut ends = sites::calls(text, function.clone());
        let (site_end, None) = (ends.next()?, ends.next()) else { return None };
        let Ok(Way::Ahead { at }) = sites::find_way(text, function.clone(), site_end, false) else {
            return None;
        };
        let compared_bytes = function.len().min(COMPARED_BYTES_MAX);
        Some(KnownFunction {
            hash: hash(text, address, compared_bytes)?,
            compared_bytes: compared_bytes as u8,
            ahead: u8::try_from(at - address).ok()?,
            site_end: u8::try_from(site_end - address)
                .ok()
                .filter(|end| usize::from(*end) <= compared_bytes)?,
        })
    }

    /// As it is handed on.
    pub fn to_bytes(self) -> [u8; KNOWN_FUNCTION_BYTES] {
        let mut bytes = [0; KNOWN_FUNCTION_BYTES];
        bytes[..8].copy_from_slice(&self.hash.to_le_bytes());
        bytes[8..].copy_from_slice(&[self.compared_bytes, self.ahead, self.site_end]);
        bytes
    }

    /// What was handed on.
    pub fn from_bytes(bytes: [u8; KNOWN_FUNCTION_BYTES]) -> KnownFunction {
        let [hash @ .., compared_bytes, ahead, site_end] = bytes;
        KnownFunction { hash: u64::from_le_bytes(hash), compared_bytes, ahead, site_end }
    }

    /// Whether the function at `address` is this one.
    fn is_at(&self, text: &impl Memory, address: usize) -> bool {
        let (ahead, site_end) = (usize::from(self.ahead), usize::from(self.site_end));
        let is_whole = ahead + sites::JUMP_BYTES + SYSCALL_BYTES <= site_end
            && site_end - SYSCALL_BYTES - ahead <= sites::MOVED_BYTES_MAX
            && site_end <= usize::from(self.compared_bytes);
        is_whole && hash(text, address, usize::from(self.compared_bytes)) == Some(self.hash)
    }
}

/// FNV-1a, by its public description.
fn hash(text: &impl Memory, address: usize, bytes: usize) -> Option<u64> {
    let mut code = [0; COMPARED_BYTES_MAX];
    let code = &mut code[..bytes];
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    (text.read(address, code) == bytes).then(|| code.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

/// What the kernel lets be read, where it is.
struct Readable;

impl Memory for Readable {
    fn read(&self, address: usize, into: &mut [u8]) -> usize {
        let Some(last) = into.len().checked_sub(1).map(|rest| address + rest) else { return 0 };
        let is_readable = uswap_os::memory::is_readable;
        if !is_readable(address) || !is_readable(last) || into.len() > uswap_os::PAGE_BYTES {
            return 0;
        }
        // SAFETY:
        // 1. At most two pages, and both may be read. They are code of a library that stays (the callers).
        unsafe { core::ptr::copy_nonoverlapping(address as *const u8, into.as_mut_ptr(), into.len()) };
        into.len()
    }
}

/// Patches each call in functions of one object, by their addresses. None: that cannot be done for one of them; what
/// was patched until then stays. In a process of one thread.
pub(crate) fn functions(addresses: &[usize], known: &[KnownFunction]) -> Option<()> {
    let memory = memory::Process::open(memory::Threads::This)?;
    let are_known = known.len() == addresses.len()
        && known.iter().zip(addresses).all(|(known, address)| known.is_at(&Readable, *address));
    if are_known {
        let patch = |(known, address): (&KnownFunction, &usize)| {
            let way = Way::Ahead { at: address + usize::from(known.ahead) };
            go_way(&memory, &Readable, way, address + usize::from(known.site_end)).is_ok()
        };
        return known.iter().zip(addresses).all(patch).then_some(());
    }
    let first = *addresses.first()?;
    match memory::Mapped::around(first) {
        Some(text) => patch_functions(&memory, &text, &text.object(first)?, addresses),
        None => patch_functions(&memory, &memory, &memory.object_at(first)?, addresses),
    }
}

fn patch_functions(
    memory: &memory::Process,
    text: &impl Memory,
    object: &Object,
    addresses: &[usize],
) -> Option<()> {
    for address in addresses {
        let function = function_at(text, object, *address)?;
        let mut ends = [0; CALLS_OF_FUNCTION_MAX];
        let mut count = 0;
        for end in sites::calls(text, function.clone()) {
            *ends.get_mut(count)? = end;
            count += 1;
        }
        if count == 0 {
            return None;
        }
        for end in &ends[..count] {
            patch_in(memory, text, function.clone(), *end, false).ok()?;
        }
    }
    Some(())
}

fn function_at(text: &impl Memory, object: &Object, address: usize) -> Option<Range<usize>> {
    object.function(text, address).filter(|function| function.start == address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn functions() -> [usize; 3] {
        [
            libc::mmap as *const () as usize,
            libc::brk as *const () as usize,
            libc::execve as *const () as usize,
        ]
    }

    /// The code of one function, which one can change.
    struct Copied(Vec<u8>);

    impl Memory for Copied {
        fn read(&self, address: usize, into: &mut [u8]) -> usize {
            let rest = self.0.get(address..).unwrap_or(&[]);
            let bytes = rest.len().min(into.len());
            into[..bytes].copy_from_slice(&rest[..bytes]);
            bytes
        }
    }

    fn found() -> Option<Vec<KnownFunction>> {
        KnownFunction::find(&functions()).collect()
    }

    #[test]
    fn functions_of_the_c_library_are_known_and_found_again() {
        let Some(found) = found() else {
            std::println!("SKIP: the C library is of another kind");
            return;
        };
        for (known, address) in found.iter().zip(functions()) {
            assert_eq!(KnownFunction::from_bytes(known.to_bytes()), *known);
            assert!(known.is_at(&Readable, address));
            let other = functions().into_iter().find(|other| *other != address).expect("there are three");
            assert!(!known.is_at(&Readable, other));
        }
    }

    #[test]
    fn no_byte_of_a_known_function_may_differ() {
        let Some(found) = found() else {
            std::println!("SKIP: as above");
            return;
        };
        for (known, address) in found.iter().zip(functions()) {
            let mut code = std::vec![0; usize::from(known.compared_bytes)];
            assert_eq!(Readable.read(address, &mut code), code.len());
            assert!(known.is_at(&Copied(code.clone()), 0));
            for at in 0..code.len() {
                let mut changed = code.clone();
                changed[at] ^= 0x10;
                assert!(!known.is_at(&Copied(changed), 0), "byte {at}");
            }
            let short = code[..code.len() - 1].to_vec();
            assert!(!known.is_at(&Copied(short), 0));
        }
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        let code = std::vec![0x90; 64];
        let of = |compared_bytes: u8, ahead: u8, site_end: u8| KnownFunction {
            hash: hash(&Copied(code.clone()), 0, usize::from(compared_bytes)).expect("it is there"),
            compared_bytes,
            ahead,
            site_end,
        };
        let is_at = |known: KnownFunction| known.is_at(&Copied(code.clone()), 0);
        assert!(is_at(of(64, 4, 11)));
        assert!(!is_at(of(64, 4, 10)), "there is no room for the jump");
        assert!(!is_at(of(10, 4, 11)), "the call is not compared");
        assert!(!is_at(of(64, 4, 64)), "more would be moved than there is room for");
        assert!(!is_at(of(64, 12, 4)));
    }
}
