//! Whether a file is an agent that this command can work with.
//!
//! What must hold: the dynamic linker maps a library before it looks at it, ends the program when a part of it is
//! missing (SIGBUS), and goes on without it when it is none. So before it gets the file, all that its headers speak of
//! is inside it, and it was built from the same sources as this command ([`uswap_identity`]). A few reads of the
//! headers, whatever the size of the file; nothing in a file can make this fail in another way than by an error.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use uswap_identity::{IDENTITY_BYTES, Identity, NOTE_KIND, NOTE_OWNER};

use uswap_supervisor::program::elf::{MACHINE, MAGIC, u16_at, u32_at, u64_at};

const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: u16 = 56;
const SECTION_BYTES: u16 = 64;
/// As many as a linker makes, and more.
const HEADERS_MAX: u16 = 1024;
const NOTES_BYTES_MAX: u64 = 64 << 10;

/// 64 bits, little-endian, version 1.
const CLASS_DATA_VERSION: [u8; 3] = [2, 1, 1];
const SHARED_LIBRARY: u16 = 3;
const PT_DYNAMIC: u32 = 2;
const PT_NOTE: u32 = 4;
const SHT_NULL: u32 = 0;
/// Takes no room in the file.
const SHT_NOBITS: u32 = 8;

/// What is wrong with a file, as the end of a sentence that starts with its path.
#[derive(Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It has no bytes.
    Empty,
    /// It is something else.
    NoLibrary,
    /// What its headers speak of is not all there.
    Cut {
        /// Its length.
        bytes: u64,
        /// What it would have to be, as far as its headers can be read.
        needed: u64,
    },
    /// A shared library, but not uswap's, or of a time when it did not say what it was built from.
    Foreign,
    /// The agent of other sources.
    Other(Identity),
    /// Nothing on its file system may be executed.
    NoExecution,
    /// It cannot be read.
    Unreadable(String),
}

/// Looks at a file that may be the agent.
///
/// # Errors
/// What is wrong with it.
pub fn check(file: &File) -> Result<(), Flaw> {
    match identity(&Library::open(file)?)? {
        None => Err(Flaw::Foreign),
        Some(identity) if identity != uswap_identity::OWN => Err(Flaw::Other(identity)),
        Some(_) => Ok(()),
    }
}

/// A file of which all that its headers speak of is there.
struct Library<'a> {
    file: &'a File,
    segments: Vec<u8>,
}

impl<'a> Library<'a> {
    fn open(file: &'a File) -> Result<Library<'a>, Flaw> {
        let bytes = file.metadata().map_err(unreadable)?.len();
        if bytes == 0 {
            return Err(Flaw::Empty);
        }
        let cut = |needed| Flaw::Cut { bytes, needed };
        let mut start = [0; HEADER_BYTES];
        let there = HEADER_BYTES.min(bytes as usize);
        file.read_exact_at(&mut start[..there], 0).map_err(unreadable)?;
        if there < HEADER_BYTES {
            let is_start = start.starts_with(&MAGIC[..there.min(4)]);
            return Err(if is_start { cut(HEADER_BYTES as u64) } else { Flaw::NoLibrary });
        }
        let kind = (u16_at(&start, 16), u16_at(&start, 18));
        if !start.starts_with(MAGIC) || start[4..7] != CLASS_DATA_VERSION || kind != (SHARED_LIBRARY, MACHINE)
        {
            return Err(Flaw::NoLibrary);
        }
        // None: beyond all numbers, which no file reaches.
        let inside = |offset: u64, length: u64| match offset.checked_add(length) {
            Some(end) if end <= bytes => Ok(()),
            end => Err(cut(end.unwrap_or(u64::MAX))),
        };
        let table = |offset: u64, entry: u16, count: u16, entry_wanted: u16| {
            if count > HEADERS_MAX || (count > 0 && entry != entry_wanted) {
                return Err(Flaw::NoLibrary);
            }
            let length = usize::from(count) * usize::from(entry_wanted);
            inside(offset, length as u64)?;
            let mut table = vec![0; length];
            file.read_exact_at(&mut table, offset).map_err(unreadable)?;
            Ok(table)
        };
        // Sections first: their headers are at the end of the file, so it says how much is missing.
        let sections = table(u64_at(&start, 40), u16_at(&start, 58), u16_at(&start, 60), SECTION_BYTES)?;
        for section in sections.chunks_exact(usize::from(SECTION_BYTES)) {
            if !matches!(u32_at(section, 4), SHT_NULL | SHT_NOBITS) {
                inside(u64_at(section, 24), u64_at(section, 32))?;
            }
        }
        let segments = table(u64_at(&start, 32), u16_at(&start, 54), u16_at(&start, 56), SEGMENT_BYTES)?;
        let library = Library { file, segments };
        for segment in library.segments() {
            inside(segment.offset, segment.bytes)?;
        }
        if library.segments().all(|segment| segment.kind != PT_DYNAMIC) {
            return Err(Flaw::NoLibrary);
        }
        Ok(library)
    }

    fn segments(&self) -> impl Iterator<Item = Segment> {
        self.segments.chunks_exact(usize::from(SEGMENT_BYTES)).map(|header| Segment {
            kind: u32_at(header, 0),
            offset: u64_at(header, 8),
            bytes: u64_at(header, 32),
        })
    }
}

/// A part of the file.
struct Segment {
    kind: u32,
    offset: u64,
    bytes: u64,
}

/// What its notes say about where it comes from.
fn identity(library: &Library<'_>) -> Result<Option<Identity>, Flaw> {
    for segment in library.segments().filter(|segment| segment.kind == PT_NOTE) {
        let mut notes = vec![0; segment.bytes.min(NOTES_BYTES_MAX) as usize];
        library.file.read_exact_at(&mut notes, segment.offset).map_err(unreadable)?;
        if let Some(identity) = find_note(&notes) {
            return Ok(Some(identity));
        }
    }
    Ok(None)
}

/// Owner and content of each note begin at a multiple of four.
fn find_note(notes: &[u8]) -> Option<Identity> {
    const HEAD_BYTES: usize = 12;
    let mut rest = notes;
    while rest.len() >= HEAD_BYTES {
        let [owner_bytes, content_bytes] = [0, 4].map(|at| u32_at(rest, at) as usize);
        let content_start = HEAD_BYTES + owner_bytes.checked_next_multiple_of(4)?;
        let owner = rest.get(HEAD_BYTES..HEAD_BYTES + owner_bytes)?;
        let content = rest.get(content_start..content_start.checked_add(content_bytes)?)?;
        if owner == NOTE_OWNER && u32_at(rest, 8) == NOTE_KIND && content_bytes == IDENTITY_BYTES {
            return content.try_into().ok().map(Identity::from_bytes);
        }
        rest = rest.get(content_start + content_bytes.checked_next_multiple_of(4)?..)?;
    }
    None
}

fn unreadable(error: io::Error) -> Flaw {
    Flaw::Unreadable(error.to_string())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn note(identity: &[u8; IDENTITY_BYTES]) -> Vec<u8> {
        let mut note = Vec::new();
        // Another note comes first.
        for (owner, kind, content) in
            [(&b"GNU\0"[..], 3, &[1, 2, 3][..]), (&NOTE_OWNER[..], NOTE_KIND, &identity[..])]
        {
            for number in [owner.len() as u32, content.len() as u32, kind] {
                note.extend_from_slice(&number.to_le_bytes());
            }
            for part in [owner, content] {
                note.extend_from_slice(part);
                note.resize(note.len().next_multiple_of(4), 0);
            }
        }
        note
    }

    fn own() -> [u8; IDENTITY_BYTES] {
        let mut bytes = [0; IDENTITY_BYTES];
        let version = uswap_identity::OWN.version();
        bytes[..version.len()].copy_from_slice(version.as_bytes());
        for (part, word) in bytes[16..].chunks_exact_mut(8).zip(uswap_identity::OWN.words()) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// A library with a dynamic segment, notes, and a section at its end.
    pub(in super::super) fn made_up(identity: Option<&[u8; IDENTITY_BYTES]>) -> Vec<u8> {
        let notes = identity.map_or_else(|| vec![0; 16], note);
        let (segments, sections) = (2_u16, 2_u16);
        let notes_at = HEADER_BYTES + usize::from(segments * SEGMENT_BYTES);
        let sections_at = notes_at + notes.len();
        let mut file = vec![0; notes_at];
        file[..4].copy_from_slice(MAGIC);
        file[4..7].copy_from_slice(&CLASS_DATA_VERSION);
        file[16..18].copy_from_slice(&SHARED_LIBRARY.to_le_bytes());
        file[18..20].copy_from_slice(&MACHINE.to_le_bytes());
        file[32..40].copy_from_slice(&(HEADER_BYTES as u64).to_le_bytes());
        file[40..48].copy_from_slice(&(sections_at as u64).to_le_bytes());
        for (at, value) in [(54, SEGMENT_BYTES), (56, segments), (58, SECTION_BYTES), (60, sections)] {
            file[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        for (index, kind) in [PT_DYNAMIC, PT_NOTE].into_iter().enumerate() {
            let at = HEADER_BYTES + index * usize::from(SEGMENT_BYTES);
            file[at..at + 4].copy_from_slice(&kind.to_le_bytes());
            file[at + 8..at + 16].copy_from_slice(&(notes_at as u64).to_le_bytes());
            file[at + 32..at + 40].copy_from_slice(&(notes.len() as u64).to_le_bytes());
        }
        file.extend_from_slice(&notes);
        let mut section_headers = [0; 2 * SECTION_BYTES as usize];
        let second = &mut section_headers[usize::from(SECTION_BYTES)..];
        second[4] = 7;
        second[24..32].copy_from_slice(&(notes_at as u64).to_le_bytes());
        second[32..40].copy_from_slice(&(notes.len() as u64).to_le_bytes());
        file.extend_from_slice(&section_headers);
        file
    }

    /// An agent of this build.
    pub(in super::super) fn made_up_own() -> Vec<u8> {
        made_up(Some(&own()))
    }

    fn check_bytes(bytes: &[u8], name: &str) -> Result<(), Flaw> {
        let path = std::env::temp_dir().join(format!("uswap-library-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let result = check(&File::open(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        result
    }

    #[test]
    fn an_agent_of_the_same_sources_is_accepted_and_no_other() {
        assert_eq!(check_bytes(&made_up_own(), "own"), Ok(()));
        let mut other = own();
        other[IDENTITY_BYTES - 1] ^= 1;
        let seen = check_bytes(&made_up(Some(&other)), "other");
        assert_eq!(seen, Err(Flaw::Other(Identity::from_bytes(&other))));
        assert_eq!(check_bytes(&made_up(None), "foreign"), Err(Flaw::Foreign));
        assert_eq!(check_bytes(b"", "empty"), Err(Flaw::Empty));
        assert_eq!(check_bytes(b"#!", "two"), Err(Flaw::NoLibrary));
        assert_eq!(check_bytes(&[b'x'; 5000], "text"), Err(Flaw::NoLibrary));
        let program = File::open("/proc/self/exe").unwrap();
        assert!(matches!(check(&program), Err(Flaw::Foreign | Flaw::NoLibrary)));
    }

    #[test]
    fn a_cut_file_is_refused_at_every_length() {
        let whole = made_up_own();
        for end in 1..whole.len() {
            let flaw = check_bytes(&whole[..end], "cut").unwrap_err();
            assert!(
                matches!(flaw, Flaw::Cut { bytes, needed } if bytes == end as u64 && needed > bytes),
                "{end}: {flaw:?}"
            );
        }
        // Without section headers (as `sstrip` leaves it) its segments must be there.
        let mut stripped = whole.clone();
        stripped.truncate(stripped.len() - 2 * usize::from(SECTION_BYTES));
        stripped[40..48].fill(0);
        stripped[60..62].fill(0);
        assert_eq!(check_bytes(&stripped, "stripped"), Ok(()));
        stripped.pop();
        assert!(matches!(check_bytes(&stripped, "stripped-cut"), Err(Flaw::Cut { .. })));
    }

    #[test]
    fn every_flipped_byte_gives_an_answer() {
        let whole = made_up_own();
        for index in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[index] ^= 0xff;
            // Any answer will do; it must not panic, nor read without bound.
            let _ = check_bytes(&flipped, "flipped");
        }
    }
}
