//! Why a call fails: what it means for `errno`, and the sentence that `usw_error` answers.
//!
//! Must hold: telling it takes no memory, since that may be what is missing; and no thread sees another's sentence.

use std::cell::Cell;
use std::ffi::{c_char, c_int};
use std::fmt::{self, Write};

use uswap::Error;

/// Why a call fails.
#[derive(Debug)]
pub enum Failure {
    /// An argument is wrong.
    Argument(&'static str),
    /// A struct has what this library does not know.
    Newer,
    /// No memory can be had from the pool.
    NoneOfPool(Error),
    /// What the Rust library says.
    Uswap(Error),
}

impl Failure {
    /// The number that says it, as usw.h lists them.
    pub fn errno(&self) -> c_int {
        let of_kernel = |error: &std::io::Error| error.raw_os_error().unwrap_or(libc::EIO);
        match self {
            Failure::Argument(_) => libc::EINVAL,
            Failure::Newer => libc::E2BIG,
            Failure::NoneOfPool(_) => libc::ENOMEM,
            Failure::Uswap(error) => match error {
                Error::LimitedAlready { .. } => libc::EALREADY,
                Error::LimitedBefore => libc::EBUSY,
                Error::InARun => libc::EPERM,
                Error::NotLimited => libc::ESRCH,
                Error::NoCommand(_) => libc::ENOENT,
                Error::NotStarted { error, .. } => of_kernel(error),
                Error::Refused(_) | Error::NoBudget => libc::EINVAL,
                Error::NoAgent(_) => libc::ELIBACC,
                Error::NotManaged(_) => libc::ENOMEM,
                Error::Memory(error) => of_kernel(error),
                Error::Unmanageable(_) => libc::ENOTSUP,
                // `Strange`, `NoStats`, and what a later version says.
                _ => libc::EIO,
            },
        }
    }

    /// Sets `errno`, and the sentence of this thread.
    fn tell(&self) {
        let mut sentence = Sentence { bytes: [0; BYTES], length: 0 };
        // What does not fit is cut.
        let _is_whole = write!(sentence, "{self}");
        SENTENCE.with(|own| own.set(sentence.bytes));
        set_errno(self.errno());
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Uswap(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Argument(what) => f.write_str(what),
            Failure::Newer => f.write_str(
                "the struct is of a newer header than this library, and asks for what it does not know: install a \
                 newer library",
            ),
            Failure::NoneOfPool(error) | Failure::Uswap(error) => error.fmt(f),
        }
    }
}

/// The value of a call, or `failed`, after the failure is told.
pub fn or_tell<T>(result: Result<T, Failure>, failed: T) -> T {
    result.unwrap_or_else(|failure| {
        failure.tell();
        failed
    })
}

/// The same of calls that answer 0 or -1.
pub fn status(result: Result<(), Failure>) -> c_int {
    or_tell(result.map(|()| 0), -1)
}

/// The sentence of this thread, which ends with a zero byte.
pub fn sentence() -> *const c_char {
    SENTENCE.with(|own| {
        let start: *const c_char = own.as_ptr().cast();
        // No sentence is empty: see `Failure`.
        if own.get()[0] == 0 { c"nothing has gone wrong in this thread".as_ptr() } else { start }
    })
}

/// Sets `errno` of this thread.
fn set_errno(number: c_int) {
    // SAFETY:
    // 1. The C library answers a pointer to a variable of this thread.
    unsafe { *libc::__errno_location() = number };
}

/// Room for a sentence and its zero byte. The longest are those of the command, a line with a path or two.
const BYTES: usize = 2048;

thread_local! {
    /// Zeros: there is none. It needs no destructor, so it is there as long as the thread is.
    static SENTENCE: Cell<[u8; BYTES]> = const { Cell::new([0; BYTES]) };
}

struct Sentence {
    bytes: [u8; BYTES],
    length: usize,
}

impl Write for Sentence {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut count = text.len().min(BYTES - 1 - self.length);
        while !text.is_char_boundary(count) {
            count -= 1;
        }
        self.bytes[self.length..][..count].copy_from_slice(&text.as_bytes()[..count]);
        self.length += count;
        if count == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn errno() -> c_int {
        std::io::Error::last_os_error().raw_os_error().expect("it is a number of the kernel")
    }

    fn said() -> String {
        // SAFETY:
        // 1. It is text of this thread that ends with a zero byte, and is copied before the thread fails again.
        unsafe { CStr::from_ptr(sentence()) }.to_str().expect("it is UTF-8").to_owned()
    }

    #[test]
    fn each_thread_has_its_own_sentence() {
        assert_eq!(said(), "nothing has gone wrong in this thread");
        assert_eq!(status(Err(Failure::Newer)), -1);
        assert_eq!(errno(), libc::E2BIG);
        assert!(said().contains("newer library"), "{}", said());
        std::thread::spawn(|| assert_eq!(said(), "nothing has gone wrong in this thread"))
            .join()
            .expect("it is right there");
        assert_eq!(status(Ok(())), 0);
        assert!(said().contains("newer library"), "{}", said());
    }

    #[test]
    fn a_sentence_that_is_too_long_is_cut_between_letters() {
        let long = "\u{e4}".repeat(3 * BYTES);
        assert_eq!(status(Err(Error::Refused(format!("x{long}")).into())), -1);
        assert_eq!(said().len(), BYTES - 1);
        assert_eq!(status(Err(Error::Refused(long).into())), -1);
        assert_eq!(said().len(), BYTES - 2);
    }

    #[test]
    fn each_kind_has_its_number() {
        let kernel = || std::io::Error::from_raw_os_error(libc::EACCES);
        let cases = [
            (Error::LimitedAlready { supervisor: 7 }, libc::EALREADY),
            (Error::LimitedBefore, libc::EBUSY),
            (Error::InARun, libc::EPERM),
            (Error::NotLimited, libc::ESRCH),
            (Error::NoCommand("in PATH".to_owned()), libc::ENOENT),
            (Error::NotStarted { path: "/a".into(), error: kernel() }, libc::EACCES),
            (Error::Refused("why".to_owned()), libc::EINVAL),
            (Error::Strange { path: "/a".into(), what: "did it".to_owned() }, libc::EIO),
            (Error::NoStats("why".to_owned()), libc::EIO),
            (Error::NoBudget, libc::EINVAL),
            (Error::NotManaged("why".to_owned()), libc::ENOMEM),
            (Error::Memory(kernel()), libc::EACCES),
            (Error::Unmanageable("why".to_owned()), libc::ENOTSUP),
        ];
        for (error, number) in cases {
            let text = error.to_string();
            assert!(!text.is_empty());
            assert_eq!(Failure::from(error).errno(), number, "{text}");
        }
        assert_eq!(Failure::NoneOfPool(Error::LimitedBefore).errno(), libc::ENOMEM);
    }
}
