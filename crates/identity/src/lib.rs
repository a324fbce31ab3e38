//! What a command and an agent of the same sources have in common, and no others.
//!
//! They share the segment, without any check of what one reads of the other: they must be made of the same sources. So
//! each knows a hash of them (`build.rs`). The agent carries it as an ELF note, which the command reads before it has
//! the agent preloaded; and the segment carries it, for agents that were replaced since.
#![no_std]
#![forbid(unsafe_code)]

mod run_options;

pub use run_options::RunOptions;

/// The variable of the environment by which a program finds its run.
pub const RUN_VARIABLE: &str = "USWAP_RUN";
/// The same as an entry of an environment begins with it.
pub const RUN_ENTRY: &str = "USWAP_RUN=";

/// What a program finds in its environment instead of the invitation to its run, if it inherits a filter of system
/// calls that would end it there. For the command's message; to the agent any other value says the same.
pub const FILTERED: &core::ffi::CStr = c"USWAP_RUN=filtered";

/// Functions of the C library by whose calls a process is seen to grow while it is small, in the order in which both
/// sides name them.
pub const GROWTH_FUNCTIONS: [&str; 8] =
    ["mmap", "brk", "mremap", "madvise", "mlock", "mlockall", "prctl", "execve"];

/// What a process says to a supervisor that it has asked for, through the pipe that is its standard input: it is in the
/// run.
pub const JOINED: &str = "joined\n";
/// The same: it is not any more.
pub const LEFT: &str = "left\n";
/// How the supervisor answers before that, through its standard output: the rest of the line is the invitation.
pub const INVITED: &str = "run ";
/// And if there is no run: the rest of the line says why.
pub const REFUSED: &str = "error ";

/// Which sources something was built from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Version of uswap, padded with zeros.
    version: [u8; VERSION_BYTES],
    /// Hash of the sources that are linked into the agent.
    sources: [u8; SOURCES_BYTES],
}

const VERSION_BYTES: usize = 16;
const SOURCES_BYTES: usize = 16;

/// Bytes of an identity in a note.
pub const IDENTITY_BYTES: usize = VERSION_BYTES + SOURCES_BYTES;

/// What this was built from.
pub const OWN: Identity =
    Identity { version: padded(env!("CARGO_PKG_VERSION")), sources: hex(env!("USWAP_SOURCES")) };

impl Identity {
    /// From the content of a note.
    pub fn from_bytes(bytes: &[u8; IDENTITY_BYTES]) -> Identity {
        let (version, sources) = bytes.split_at(VERSION_BYTES);
        let version = version.try_into().expect("it was split there");
        Identity { version, sources: sources.try_into().expect("it was split there") }
    }

    /// The version, for a message. What is no text is left out.
    pub fn version(&self) -> &str {
        let end = self.version.iter().position(|&byte| byte == 0).unwrap_or(VERSION_BYTES);
        core::str::from_utf8(&self.version[..end]).unwrap_or("")
    }

    /// The hash of the sources, as it is in the segment.
    pub fn words(&self) -> [u64; 2] {
        let (low, high) = self.sources.split_at(8);
        [low, high].map(|half| u64::from_le_bytes(half.try_into().expect("it has 8 bytes")))
    }

    /// Enough of the hash to tell two builds apart in a message.
    pub fn build(&self) -> u32 {
        u32::from_be_bytes([self.sources[0], self.sources[1], self.sources[2], self.sources[3]])
    }
}

/// Name of the owner in the note, with the zero that ends it.
pub const NOTE_OWNER: [u8; 6] = *b"uswap\0";
/// Kind of the note, among those of this owner.
pub const NOTE_KIND: u32 = 1;

/// An ELF note with an identity.
#[repr(C, align(4))]
pub struct Note {
    owner_bytes: u32,
    content_bytes: u32,
    kind: u32,
    owner: [u8; 6],
    /// The content starts at a multiple of four.
    padding: [u8; 2],
    version: [u8; VERSION_BYTES],
    sources: [u8; SOURCES_BYTES],
}

impl Note {
    /// The note of this build.
    pub const fn own() -> Note {
        Note {
            owner_bytes: NOTE_OWNER.len() as u32,
            content_bytes: IDENTITY_BYTES as u32,
            kind: NOTE_KIND,
            owner: NOTE_OWNER,
            padding: [0; 2],
            version: OWN.version,
            sources: OWN.sources,
        }
    }
}

const _: () = assert!(size_of::<Note>() == 12 + 8 + IDENTITY_BYTES);

const fn padded(text: &str) -> [u8; VERSION_BYTES] {
    let bytes = text.as_bytes();
    let mut padded = [0; VERSION_BYTES];
    let mut index = 0;
    while index < bytes.len() && index < VERSION_BYTES {
        padded[index] = bytes[index];
        index += 1;
    }
    padded
}

const fn hex(text: &str) -> [u8; SOURCES_BYTES] {
    let digits = text.as_bytes();
    assert!(digits.len() == 2 * SOURCES_BYTES, "the build script writes all digits");
    let mut bytes = [0; SOURCES_BYTES];
    let mut index = 0;
    while index < SOURCES_BYTES {
        bytes[index] = digit(digits[2 * index]) << 4 | digit(digits[2 * index + 1]);
        index += 1;
    }
    bytes
}

const fn digit(character: u8) -> u8 {
    match character {
        b'0'..=b'9' => character - b'0',
        b'a'..=b'f' => character - b'a' + 10,
        _ => panic!("the build script writes hexadecimal digits"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_gives_back_the_identity() {
        let Note { version, sources, .. } = Note::own();
        let mut bytes = [0; IDENTITY_BYTES];
        bytes[..VERSION_BYTES].copy_from_slice(&version);
        bytes[VERSION_BYTES..].copy_from_slice(&sources);
        let read = Identity::from_bytes(&bytes);
        assert_eq!(read, OWN);
        assert_eq!(read.version(), env!("CARGO_PKG_VERSION"));
        assert_ne!(OWN.words(), [0, 0]);
        bytes[IDENTITY_BYTES - 1] ^= 1;
        assert_ne!(Identity::from_bytes(&bytes), OWN);
        bytes[0] = 0xff;
        assert_eq!(Identity::from_bytes(&bytes).version(), "");
    }

    #[test]
    fn digits_are_read_in_pairs() {
        assert_eq!(hex("000102030405060708090a0b0c0d0eff")[14..], [0x0e, 0xff]);
        assert_eq!(padded("1.2"), *b"1.2\0\0\0\0\0\0\0\0\0\0\0\0\0");
    }
}
