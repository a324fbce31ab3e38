//! How a process learns that it is part of a run.
//!
//! `uswap run` puts `USWAP_RUN` into the environment: see [`crate::supervisor`]. A process that cannot reach the
//! supervisor is left alone.
//!
//! Must hold: a segment is used only if it is of the same sources as this library. Called by `agent`, in its
//! constructor and for a process that asks, and by [`crate::joining`], which opens the segment.

use crate::refused::Refused;
use crate::{contend, environment, messages, supervisor};
use core::ffi::{CStr, c_char};
use uswap_core::segment::{Notice, Segment};
use uswap_identity::{GROWTH_FUNCTIONS, RunOptions};
use uswap_interpose::{KNOWN_FUNCTION_BYTES, KnownFunction};
use uswap_os::memory::{self, Access};
use uswap_os::process;
use uswap_os::text::take_number;

/// What the variable says, beside what the supervisor is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// Of the run.
    pub options: RunOptions,
    /// What the supervisor knows of the functions of its C library; `None`: nothing.
    pub known: Option<KnownFunctions>,
}

/// One for each of [`GROWTH_FUNCTIONS`].
pub type KnownFunctions = [KnownFunction; GROWTH_FUNCTIONS.len()];

/// A segment that was opened.
pub struct OpenSegment {
    /// It, in nobody's name.
    pub segment: Segment<'static>,
    /// Where it is mapped.
    pub start: usize,
    /// How long it is.
    pub bytes: usize,
}

impl Invitation {
    /// Takes in what the variable says. None: it is no invitation.
    pub fn follow(value: &[u8]) -> Option<Invitation> {
        let accepted = supervisor::accept(value)?;
        environment::note(value, accepted.agent.len());
        let options = RunOptions::from_bits(accepted.options);
        Some(Invitation { options, known: known_functions(accepted.known) })
    }

    /// Reads the variable from the environment.
    ///
    /// # Safety
    /// `environment` is the array that the dynamic linker hands to every constructor, and no thread of the program runs
    /// yet.
    pub unsafe fn find(environment: *const *const c_char) -> Option<Invitation> {
        let mut at = environment;
        loop {
            // SAFETY:
            // 1. The array holds pointers to strings, ended by null, and nobody changes it yet (the caller's promise).
            let entry = unsafe { at.as_ref()?.as_ref()? };
            // SAFETY: 1. each entry is a string that ends with a zero byte and lives as long as the process.
            let entry = unsafe { CStr::from_ptr(entry) }.to_bytes();
            if let Some(value) = entry.strip_prefix(environment::RUN) {
                return Invitation::follow(value);
            }
            // SAFETY: 1. the entry was not null, so the array goes on.
            at = unsafe { at.add(1) };
        }
    }
}

/// From two hexadecimal digits a byte.
fn known_functions(digits: &[u8]) -> Option<KnownFunctions> {
    let mut bytes = [[0; KNOWN_FUNCTION_BYTES]; GROWTH_FUNCTIONS.len()];
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    let places = bytes.as_flattened_mut();
    if pairs.len() != places.len() {
        return None;
    }
    for (place, pair) in places.iter_mut().zip(pairs) {
        let (byte, []) = take_number(pair, 16)? else { return None };
        *place = byte as u8;
    }
    Some(bytes.map(KnownFunction::from_bytes))
}

/// Maps the segment. `NoRun`: it cannot be reached, or is of other sources than this library, which is said once.
pub(crate) fn open_segment() -> Result<OpenSegment, Refused> {
    let file = supervisor::open_segment().map_err(|errno| Refused::of_open(errno, Refused::NoRun))?;
    let bytes = file.status().map_err(|_| Refused::NoRun)?.bytes as usize;
    let words = memory::map_shared_words(&file, bytes, Access::ReadWrite).map_err(|_| Refused::NoRun)?;
    let start = words.as_ptr() as usize;
    match Segment::open(words) {
        Ok(segment) if segment.sources() == uswap_identity::OWN.words() => {
            Ok(OpenSegment { segment: segment.waiting_by(contend::wait_for_lock), start, bytes })
        }
        other => {
            if other.map_or(true, |segment| segment.is_first_to_say(Notice::OtherSources)) {
                say_other_sources();
            }
            // SAFETY: 1. the mapping is new, and nobody else knows of it.
            let _unmapped = unsafe { memory::unmap(start, bytes) };
            Err(Refused::NoRun)
        }
    }
}

/// The segment is of other sources than this library, whose file was replaced since the run began, or is another one
/// than the run's: nothing else in it is read.
fn say_other_sources() {
    messages::say(format_args!(
        "process {} and others that start now run outside the budget: their agent (build {:08x}) is not of the sources \
         of the 'uswap' that runs them. Was uswap installed anew meanwhile? Start the run again.",
        process::process_id(),
        uswap_identity::OWN.build()
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_known_if_all_of_them_are_told() {
        const DIGITS: usize = 2 * KNOWN_FUNCTION_BYTES * GROWTH_FUNCTIONS.len();
        let mut digits = [b'0'; DIGITS];
        digits[..4].copy_from_slice(b"1fAb");
        let known = known_functions(&digits).expect("all are told");
        assert_eq!(known[0].to_bytes()[..3], [0x1f, 0xab, 0]);
        assert_eq!(known[1].to_bytes(), [0; KNOWN_FUNCTION_BYTES]);
        for wrong in [&digits[..DIGITS - 2], &digits[..DIGITS - 1], &[], &[b'g'; DIGITS]] {
            assert!(known_functions(wrong).is_none());
        }
    }

    #[test]
    fn an_invitation_is_taken_apart() {
        let accepted = supervisor::accept(b"7:5:9:ab:3:0f:/lib/a:b.so").expect("it is one");
        assert_eq!((accepted.options, accepted.known, accepted.agent), (3, &b"0f"[..], &b"/lib/a:b.so"[..]));
        let accepted = supervisor::accept(b"7:5:9:ab:3::/lib/a.so").expect("nothing is known of functions");
        assert_eq!((accepted.known, accepted.agent), (&b""[..], &b"/lib/a.so"[..]));
        for wrong in [&b""[..], b"7:5:9:ab:3", b"7:5:9:ab:3:", b"7:5:9:ab:3:/lib/a.so", b"x:5:9:ab:3::/a"] {
            assert!(supervisor::accept(wrong).is_none(), "{wrong:?}");
        }
    }
}
