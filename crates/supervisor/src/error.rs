//! Why a run cannot start.

use std::ffi::NulError;
use std::io;
use std::path::PathBuf;

use uswap_core::segment::SLOTS_MAX;
use uswap_os::Errno;
use uswap_os::file::SwapFileError;
use uswap_os::uffd::UffdError;
use uswap_units::PAGE_BYTES;
use uswap_units::limits::SWAP_FILES_MAX;

use crate::human;

/// Why a run cannot start. The text is ready for the user and holds the cause, so no error has a source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// There is no userfaultfd.
    #[error(
        "faults cannot be served here: {0}. uswap needs userfaultfd to bring pages back; 'uswap doctor' says what is \
         missing and how to mend it"
    )]
    Userfaultfd(UffdError),
    /// `/proc` is of another pid namespace.
    #[error(
        "/proc here is of another pid namespace than uswap: the processes of the run could not be told apart. Mount a \
         new one first ('unshare --pid --fork --mount-proc' does)"
    )]
    PidNamespace,
    /// There are more swap files than a run can have: so many.
    #[error(
        "{0} swap files are too many: {SWAP_FILES_MAX} can be used. Give fewer and larger ones (--swap DIR:SIZE)"
    )]
    TooManySwapFiles(usize),
    /// The swap files have more slots together than a run can have.
    #[error(
        "the swap files are too large together: {} can be used. Give them smaller sizes with --swap DIR:SIZE",
        human::bytes(SLOTS_MAX * PAGE_BYTES as u64)
    )]
    SwapFilesTooLarge,
    /// No path with a zero byte can be opened.
    #[error("the swap directory's name has a zero byte: {0}. Name another with --swap DIR")]
    DirectoryName(NulError),
    /// A swap file cannot be made.
    #[error("the swap file cannot be made in '{}': {cause}; {}", directory.display(), hint(cause))]
    SwapFile {
        /// Where it should have been made.
        directory: PathBuf,
        /// What went wrong there.
        cause: SwapFileError,
    },
    /// There is no memory file for the segment.
    #[error(
        "the shared memory of the run cannot be made ({errno}): memfd_create of {bytes} bytes{}",
        match *errno {
            Errno::EFBIG => ". There is a limit on the size of files (ulimit -f): raise it",
            _ => ". 'uswap doctor' says what is missing and how to mend it",
        }
    )]
    SegmentFile {
        /// The kernel's answer.
        errno: Errno,
        /// The size of the segment.
        bytes: u64,
    },
    /// The lock of the supervisor cannot be taken.
    #[error(
        "a new file in memory cannot be locked: system calls seem to be forbidden here (seccomp). Allow fcntl"
    )]
    SupervisorLock,
    /// There is no address space for the segment.
    #[error(
        "the shared memory of the run cannot be mapped ({0}): is there a limit on address space (ulimit -v)? Raise it"
    )]
    SegmentMapping(Errno),
    /// There is no key for the swap files.
    #[error(
        "the kernel gives no random key for the swap file ({0}): getrandom may be forbidden here. Allow it"
    )]
    RandomKey(Errno),
    /// There is no number for the name of the socket.
    #[error("the kernel gives no random number ({0}): getrandom may be forbidden here. Allow it")]
    RandomNumber(Errno),
    /// There is no descriptor by which the threads learn that the run has ended.
    #[error(
        "the supervisor cannot make an event descriptor ({0}): is there a limit on open files (ulimit -n)? Raise it"
    )]
    EventDescriptor(io::Error),
}

/// What the user can do when a swap file cannot be made.
fn hint(cause: &SwapFileError) -> &'static str {
    match cause {
        SwapFileError::InMemory => {
            "name a directory on a disk with --swap DIR, or say --allow-tmpfs if you want that"
        }
        SwapFileError::NoTmpfile(_) => {
            "name a directory on ext4, xfs, btrfs or another file system with O_TMPFILE with --swap DIR"
        }
        _ => "check that it exists, is writable and has room, or name another with --swap DIR",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words by which a text says what to do.
    const ADVISES: [&str; 7] = ["Give ", "--swap", "'uswap doctor'", "raise", "Raise", "Allow ", "Mount "];

    #[test]
    fn each_error_says_what_to_try() {
        let swap_file = |cause| StartError::SwapFile { directory: "/swap".into(), cause };
        let segment = |errno| StartError::SegmentFile { errno, bytes: 4096 };
        let errors = [
            StartError::Userfaultfd(UffdError::Features(Errno::EINVAL)),
            StartError::PidNamespace,
            StartError::TooManySwapFiles(99),
            StartError::SwapFilesTooLarge,
            StartError::DirectoryName(std::ffi::CString::new("a\0b").expect_err("it has a zero byte")),
            swap_file(SwapFileError::InMemory),
            swap_file(SwapFileError::NoTmpfile(Errno::EINVAL)),
            swap_file(SwapFileError::Create(Errno::EACCES)),
            segment(Errno::EFBIG),
            segment(Errno::ENOMEM),
            StartError::SupervisorLock,
            StartError::SegmentMapping(Errno::ENOMEM),
            StartError::RandomKey(Errno::EINVAL),
            StartError::RandomNumber(Errno::EINVAL),
            StartError::EventDescriptor(io::Error::other("no")),
        ];
        for error in errors {
            // Whoever adds a kind adds it to the list above, too.
            match &error {
                StartError::Userfaultfd(_)
                | StartError::PidNamespace
                | StartError::TooManySwapFiles(_)
                | StartError::SwapFilesTooLarge
                | StartError::DirectoryName(_)
                | StartError::SwapFile { .. }
                | StartError::SegmentFile { .. }
                | StartError::SupervisorLock
                | StartError::SegmentMapping(_)
                | StartError::RandomKey(_)
                | StartError::RandomNumber(_)
                | StartError::EventDescriptor(_) => {}
            }
            let text = error.to_string();
            assert!(ADVISES.iter().any(|word| text.contains(word)), "{text}");
        }
    }
}
