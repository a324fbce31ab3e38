//! Where a function of a shared library is, as its table of dynamic symbols says.
//!
//! What must hold: as for [`super::elf`]: nothing in a file can make this fail in another way than by an error.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use super::elf::{u16_at, u32_at, u64_at};

const HEADER_BYTES: usize = 64;
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const SHT_DYNSYM: u32 = 11;
/// More than any library of ours has.
const TABLE_BYTES_MAX: u64 = 1 << 20;

/// How far behind the start of its library the symbol `name` is. None: it has no such symbol.
///
/// # Errors
/// The file cannot be read, or its headers contradict each other.
pub fn offset_of(file: &File, name: &str) -> io::Result<Option<u64>> {
    let mut header = [0; HEADER_BYTES];
    file.read_exact_at(&mut header, 0)?;
    let (table, bytes, count) = (u64_at(&header, 40), u16_at(&header, 58), u16_at(&header, 60));
    if usize::from(bytes) != SECTION_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "its sections are of another kind"));
    }
    let sections = part(file, table, u64::from(count) * SECTION_BYTES as u64)?;
    let section = |number: usize| sections.get(number * SECTION_BYTES..(number + 1) * SECTION_BYTES);
    let content = |section: &[u8]| part(file, u64_at(section, 24), u64_at(section, 32));
    let is_dynamic = |section: &&[u8]| u32_at(section, 4) == SHT_DYNSYM;
    let Some(symbols) = (0..usize::from(count)).filter_map(section).find(is_dynamic) else { return Ok(None) };
    let Some(strings) = section(u32_at(symbols, 40) as usize) else { return Ok(None) };
    let (symbols, strings) = (content(symbols)?, content(strings)?);
    let is_named = |symbol: &&[u8]| {
        let rest = strings.get(u32_at(symbol, 0) as usize..).unwrap_or_default();
        rest.strip_prefix(name.as_bytes()).is_some_and(|behind| behind.first() == Some(&0))
    };
    let found = symbols.chunks_exact(SYMBOL_BYTES).find(is_named).map(|symbol| u64_at(symbol, 8));
    Ok(found.filter(|&value| value != 0))
}

fn part(file: &File, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
    if bytes > TABLE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a table of it is larger than any"));
    }
    let mut content = vec![0; bytes as usize];
    file.read_exact_at(&mut content, offset)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C library of this process.
    fn libc() -> File {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("it can be read");
        let line = maps.lines().find(|line| line.contains("libc.so")).expect("it has one");
        File::open(line.split_whitespace().nth(5).expect("a file")).expect("it can be read")
    }

    #[test]
    fn functions_are_found_where_they_are() {
        let offset = |name| offset_of(&libc(), name).expect("it is a library").unwrap_or(0);
        let distance = (libc::mremap as *const () as u64).wrapping_sub(libc::mprotect as *const () as u64);
        assert_eq!(offset("mremap").wrapping_sub(offset("mprotect")), distance);
        assert_eq!(offset("no_such_function"), 0);
    }

    #[test]
    fn a_file_that_is_none_is_an_error() {
        assert!(offset_of(&File::open("/proc/self/environ").expect("it can be read"), "mmap").is_err());
    }
}
