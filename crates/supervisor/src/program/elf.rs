//! Reads as much of an ELF file as says who loads it.
//!
//! What must hold: nothing in a file can make this fail in another way than by an error; offsets and counts come from
//! the file and are checked before use.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::FileExt as _;

/// First bytes of every ELF file.
pub const MAGIC: &[u8] = b"\x7fELF";

const HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;
const CLASS_64: u8 = 2;
const PT_INTERP: u32 = 3;
const LOADER_PATH_BYTES_MAX: usize = 4096;

/// `e_machine` of x86-64, the only machine that uswap is made for; its files are little-endian.
pub const MACHINE: u16 = 62;
const DATA: u8 = 1;

/// What kind of program a file is.
#[derive(Debug, PartialEq, Eq)]
pub enum Elf {
    /// For this machine, started by the loader that it names.
    Dynamic {
        /// Path of the loader (PT_INTERP).
        loader: OsString,
    },
    /// For this machine, without a loader.
    Static,
    /// Not for this machine, or for another word size of it.
    OtherMachine {
        /// `e_machine` of the file.
        machine: u16,
    },
}

/// Reads the headers of `file`, which begins with [`MAGIC`].
///
/// # Errors
/// If the file ends too early or its headers contradict each other.
pub fn read(file: &File) -> io::Result<Elf> {
    let mut ident = [0; 20];
    file.read_exact_at(&mut ident, 0)?;
    let machine = u16_at(&ident, 18);
    if ident[4] != CLASS_64 || ident[5] != DATA || machine != MACHINE {
        return Ok(Elf::OtherMachine { machine });
    }
    let mut header = [0; HEADER_BYTES];
    file.read_exact_at(&mut header, 0)?;
    let table_offset = u64_at(&header, 32);
    let entry_bytes = u16_at(&header, 54);
    let entry_count = u16_at(&header, 56);
    if entry_count > 0 && usize::from(entry_bytes) < PROGRAM_HEADER_BYTES {
        return Err(damaged("its program headers are too short"));
    }
    for index in 0..u64::from(entry_count) {
        let offset = table_offset
            .checked_add(index * u64::from(entry_bytes))
            .ok_or_else(|| damaged("its program headers are out of range"))?;
        let mut entry = [0; PROGRAM_HEADER_BYTES];
        file.read_exact_at(&mut entry, offset)?;
        if u32_at(&entry, 0) == PT_INTERP {
            return read_loader(file, u64_at(&entry, 8), u64_at(&entry, 32));
        }
    }
    Ok(Elf::Static)
}

fn read_loader(file: &File, offset: u64, bytes: u64) -> io::Result<Elf> {
    let bytes = usize::try_from(bytes)
        .ok()
        .filter(|&bytes| (2..=LOADER_PATH_BYTES_MAX).contains(&bytes))
        .ok_or_else(|| damaged("the path of its loader is empty or too long"))?;
    let mut path = vec![0; bytes];
    file.read_exact_at(&mut path, offset)?;
    let end = path
        .iter()
        .position(|&byte| byte == 0)
        .ok_or_else(|| damaged("the path of its loader has no end"))?;
    path.truncate(end);
    Ok(Elf::Dynamic { loader: OsString::from_vec(path) })
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The 16-bit number at `offset`, which is inside of `bytes` whole.
pub fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(bytes[offset..offset + 2].try_into().expect("2 bytes were sliced"))
}

/// The 32-bit number at `offset`, which is inside of `bytes` whole.
pub fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("4 bytes were sliced"))
}

/// The 64-bit number at `offset`, which is inside of `bytes` whole.
pub fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("8 bytes were sliced"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A 64-bit ELF file for this machine with one program header, of kind PT_INTERP if `loader` is given.
    pub(in super::super) fn made_up(loader: Option<&str>) -> Vec<u8> {
        let mut file = vec![0; HEADER_BYTES + PROGRAM_HEADER_BYTES];
        file[..4].copy_from_slice(MAGIC);
        file[4] = CLASS_64;
        file[5] = DATA;
        file[16..18].copy_from_slice(&3_u16.to_le_bytes());
        file[18..20].copy_from_slice(&MACHINE.to_le_bytes());
        file[32..40].copy_from_slice(&(HEADER_BYTES as u64).to_le_bytes());
        file[54..56].copy_from_slice(&(PROGRAM_HEADER_BYTES as u16).to_le_bytes());
        file[56..58].copy_from_slice(&1_u16.to_le_bytes());
        let entry = HEADER_BYTES;
        let path = loader.map(|path| format!("{path}\0"));
        let kind = if path.is_some() { PT_INTERP } else { 1 };
        let path = path.unwrap_or_default();
        file[entry..entry + 4].copy_from_slice(&kind.to_le_bytes());
        file[entry + 8..entry + 16]
            .copy_from_slice(&((HEADER_BYTES + PROGRAM_HEADER_BYTES) as u64).to_le_bytes());
        file[entry + 32..entry + 40].copy_from_slice(&(path.len() as u64).to_le_bytes());
        file.extend_from_slice(path.as_bytes());
        file
    }

    fn read_bytes(bytes: &[u8], name: &str) -> io::Result<Elf> {
        let path = std::env::temp_dir().join(format!("uswap-elf-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let result = read(&File::open(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        result
    }

    #[test]
    fn this_test_program_is_dynamic() {
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        match read(&file).unwrap() {
            Elf::Dynamic { loader } => assert!(std::path::Path::new(&loader).exists(), "{loader:?}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn made_up_files_are_told_apart() {
        let dynamic = read_bytes(&made_up(Some("/lib/ld.so")), "dynamic").unwrap();
        assert_eq!(dynamic, Elf::Dynamic { loader: "/lib/ld.so".into() });
        assert_eq!(read_bytes(&made_up(None), "static").unwrap(), Elf::Static);
        let mut other = made_up(None);
        other[18..20].copy_from_slice(&2_u16.to_le_bytes());
        assert_eq!(read_bytes(&other, "other").unwrap(), Elf::OtherMachine { machine: 2 });
        let mut narrow = made_up(None);
        narrow[4] = 1;
        assert!(matches!(read_bytes(&narrow, "narrow").unwrap(), Elf::OtherMachine { .. }));
    }

    #[test]
    fn every_shortened_file_and_every_flipped_byte_gives_an_answer() {
        let whole = made_up(Some("/lib/ld.so"));
        for end in MAGIC.len()..whole.len() {
            assert!(read_bytes(&whole[..end], "short").is_err(), "{end} bytes");
        }
        for index in MAGIC.len()..whole.len() {
            let mut flipped = whole.clone();
            flipped[index] ^= 0xff;
            // Any answer will do; it must not panic, nor read without bound.
            let _ = read_bytes(&flipped, "flipped");
        }
    }
}
