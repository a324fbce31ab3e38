//! The mappings of this process, without allocation.
//!
//! Two readers give the same answers: PROCMAP_QUERY (Linux 6.11 and later), one call a mapping, and the text of
//! `/proc/self/maps` through a buffer of the caller's. Called by [`crate::probe`], by `host`, when memory comes under
//! management and inside mapping calls, and by `interpose`, which looks for the text that it patches. The picture may
//! be old by the time it is used, unless the gate keeps the program from changing it.
//!
//! Must hold: mappings come in the order of their addresses, each once, and both readers say the same of one.

use core::ffi::CStr;
use core::ops::{ControlFlow, Range};

use crate::fd::Fd;
use crate::sys::{self, Errno, Result, abi};
use crate::text::{skip_spaces, skip_word, take_number};
use crate::without::{KernelFeature, is_switched_off};

/// What a mapping is, as far as its name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Without a name, or with one that a program gave to anonymous memory (`[anon:...]`).
    Plain,
    /// The brk heap.
    Heap,
    /// The stack of the main thread.
    Stack,
    /// A file, deleted or not.
    Named,
    /// The ring of a context of asynchronous I/O (`io_setup`).
    AsynchronousIo,
    /// The kernel's own: vvar, vdso, vsyscall, uprobes and whatever comes.
    Special,
}

/// One mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vma {
    /// First byte.
    pub start: usize,
    /// Behind the last byte.
    pub end: usize,
    /// May be read.
    pub readable: bool,
    /// May be written.
    pub writable: bool,
    /// May be executed.
    pub executable: bool,
    /// Shared with its file.
    pub shared: bool,
    /// Not of a file: the inode is 0.
    pub anonymous: bool,
    /// By its name.
    pub kind: Kind,
    /// Where in its file it begins, in bytes; of a mapping that is not of a file it says nothing.
    pub offset: u64,
}

impl Vma {
    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.end - self.start
    }
}

/// Bytes that the text reader's buffer must have: a line's numbers and the start of its name.
pub const TEXT_BUFFER_BYTES_MIN: usize = 256;

const PROCMAP_QUERY: u32 = sys::ioctl_read_write(b'f', 17, size_of::<abi::procmap_query>());
const COVERING_OR_NEXT: u64 = 16;

/// Longest name fetched: `[anon:` and 80 bytes fit. A longer one is a file.
const NAME_BYTES: usize = 128;

/// Which reader is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapsSource {
    /// PROCMAP_QUERY.
    Query,
    /// The text.
    Text,
}

/// An open `/proc/.../maps`.
#[derive(Debug)]
pub struct Maps {
    file: Fd,
    source: MapsSource,
}

impl Maps {
    /// Opens the mappings of this process, with the query where the kernel has it.
    pub fn open() -> Result<Maps> {
        Maps::open_path(c"/proc/self/maps")
    }

    /// [`Maps::open`], through a descriptor that `keep` may give another number. A forked child has other mappings: it
    /// opens its own.
    pub fn open_as(keep: fn(Fd) -> Result<Fd>) -> Result<Maps> {
        let Maps { file, source } = Maps::open()?;
        Ok(Maps { file: keep(file)?, source })
    }

    /// Opens the maps file of another process.
    pub fn open_path(path: &CStr) -> Result<Maps> {
        let mut maps = Maps { file: Fd::open(path, abi::O_RDONLY, 0)?, source: MapsSource::Query };
        if let Err(Errno::ENOTTY | Errno::EINVAL | Errno::ENOSYS) = maps.query(0, &mut []) {
            maps.source = MapsSource::Text;
        }
        Ok(maps)
    }

    /// The same file, read as text whatever the kernel has.
    pub fn as_text(mut self) -> Maps {
        self.source = MapsSource::Text;
        self
    }

    /// Which reader [`Maps::iter`] uses.
    pub fn source(&self) -> MapsSource {
        self.source
    }

    /// All mappings by address, through `buffer` (for the text reader; [`TEXT_BUFFER_BYTES_MIN`] or more, 4096 reads
    /// faster).
    pub fn iter<'a>(&'a self, buffer: &'a mut [u8]) -> VmaIter<'a> {
        VmaIter { maps: self, buffer, filled: 0, used: 0, file_offset: 0, next: 0, ended: false }
    }

    /// Calls `visit` with each mapping that has a byte in `range`, by address, until one cannot be read. `visit` may
    /// change the mappings that it is given.
    pub fn for_each_in(&self, range: Range<usize>, visit: impl FnMut(Vma) -> ControlFlow<()>) {
        let _those_that_can_be_read = self.try_for_each_in(range, visit);
    }

    /// The same. An error: those behind cannot be read.
    pub fn try_for_each_in(
        &self,
        range: Range<usize>,
        mut visit: impl FnMut(Vma) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut text = [0; 4096];
        let mut mappings = self.iter(&mut text);
        mappings.next = range.start;
        for vma in mappings {
            let vma = vma?;
            if vma.end > range.start && (vma.start >= range.end || visit(vma).is_break()) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The mapping that covers `address`, or else the next one above; `None` behind the last. Where the text is read,
    /// that takes as long as all mappings below it: for several, [`Maps::for_each_in`] is better.
    pub fn covering_or_next(&self, address: usize) -> Result<Option<Vma>> {
        if self.source == MapsSource::Text {
            let mut text = [0; 1024];
            let is_below = |vma: &Result<Vma>| vma.is_ok_and(|vma| vma.end <= address);
            return self.iter(&mut text).find(|vma| !is_below(vma)).transpose();
        }
        self.query_by_name(address)
    }

    fn query_by_name(&self, address: usize) -> Result<Option<Vma>> {
        let mut name = [0u8; NAME_BYTES];
        match self.query(address, &mut name) {
            Err(Errno::ENAMETOOLONG) => {
                self.query(address, &mut []).map(|vma| vma.map(|vma| Vma { kind: Kind::Named, ..vma }))
            }
            answer => answer,
        }
    }

    fn query(&self, address: usize, name: &mut [u8]) -> Result<Option<Vma>> {
        if is_switched_off(KernelFeature::ProcmapQuery) {
            return Err(Errno::ENOTTY);
        }
        let mut request = abi::procmap_query {
            size: size_of::<abi::procmap_query>() as u64,
            query_flags: COVERING_OR_NEXT,
            query_addr: address as u64,
            vma_start: 0,
            vma_end: 0,
            vma_flags: 0,
            vma_page_size: 0,
            vma_offset: 0,
            inode: 0,
            dev_major: 0,
            dev_minor: 0,
            vma_name_size: name.len() as u32,
            build_id_size: 0,
            vma_name_addr: if name.is_empty() { 0 } else { name.as_mut_ptr() as u64 },
            build_id_addr: 0,
        };
        // SAFETY:
        // 1. The request takes this structure; the kernel writes at most `vma_name_size` bytes into `name`, an
        //    exclusive slice.
        match unsafe { sys::ioctl(self.file.raw(), PROCMAP_QUERY, &mut request) } {
            Ok(_) => {}
            Err(Errno::ENOENT) => return Ok(None),
            Err(error) => return Err(error),
        }
        let has = |bit: u64| request.vma_flags & bit != 0;
        let name_end = name.iter().position(|byte| *byte == 0).unwrap_or(0);
        Ok(Some(Vma {
            start: request.vma_start as usize,
            end: request.vma_end as usize,
            readable: has(1),
            writable: has(2),
            executable: has(4),
            shared: has(8),
            anonymous: request.inode == 0,
            kind: kind_of(name.get(..name_end).unwrap_or(&[])),
            offset: request.vma_offset,
        }))
    }
}

/// See [`Maps::iter`]. Ends after the first error.
#[derive(Debug)]
pub struct VmaIter<'a> {
    maps: &'a Maps,
    buffer: &'a mut [u8],
    filled: usize,
    used: usize,
    file_offset: u64,
    next: usize,
    ended: bool,
}

impl VmaIter<'_> {
    fn next_by_query(&mut self) -> Result<Option<Vma>> {
        let vma = self.maps.query_by_name(self.next)?;
        if let Some(vma) = vma {
            self.next = vma.end;
        }
        Ok(vma)
    }

    fn next_by_text(&mut self) -> Result<Option<Vma>> {
        if self.buffer.len() < TEXT_BUFFER_BYTES_MIN {
            return Err(Errno::EINVAL);
        }
        let line_bytes = loop {
            let rest = &self.buffer[self.used..self.filled];
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                break end;
            }
            if self.used == 0 && self.filled == self.buffer.len() {
                // Longer than the buffer: the name of a file. What matters is at its start.
                break self.filled;
            }
            if self.fill()? == 0 {
                if self.filled == self.used {
                    return Ok(None);
                }
                break self.filled - self.used;
            }
        };
        let vma = parse_line(&self.buffer[self.used..self.used + line_bytes]).ok_or(Errno::EIO)?;
        self.used += line_bytes;
        self.skip_line_end()?;
        Ok(Some(vma))
    }

    /// Goes behind the next newline.
    fn skip_line_end(&mut self) -> Result<()> {
        loop {
            let rest = &self.buffer[self.used..self.filled];
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                self.used += end + 1;
                return Ok(());
            }
            self.used = self.filled;
            if self.fill()? == 0 {
                return Ok(());
            }
        }
    }

    /// Moves what is left to the front and reads more behind it; answers the bytes read.
    fn fill(&mut self) -> Result<usize> {
        self.buffer.copy_within(self.used..self.filled, 0);
        self.filled -= self.used;
        self.used = 0;
        loop {
            match self.maps.file.pread(&mut self.buffer[self.filled..], self.file_offset) {
                Ok(bytes) => {
                    self.filled += bytes;
                    self.file_offset += bytes as u64;
                    return Ok(bytes);
                }
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Iterator for VmaIter<'_> {
    type Item = Result<Vma>;

    fn next(&mut self) -> Option<Result<Vma>> {
        if self.ended {
            return None;
        }
        let answer = match self.maps.source {
            MapsSource::Query => self.next_by_query(),
            MapsSource::Text => self.next_by_text(),
        };
        self.ended = !matches!(answer, Ok(Some(_)));
        answer.transpose()
    }
}

fn kind_of(name: &[u8]) -> Kind {
    match name {
        b"" => Kind::Plain,
        b"[heap]" => Kind::Heap,
        b"[stack]" => Kind::Stack,
        name if name.starts_with(b"[anon:") => Kind::Plain,
        name if name.starts_with(b"[") => Kind::Special,
        name if name.starts_with(b"/[aio]") => Kind::AsynchronousIo,
        _ => Kind::Named,
    }
}

/// `start-end perms offset major:minor inode   name`, without the newline. `None` when it is not such a line.
fn parse_line(line: &[u8]) -> Option<Vma> {
    let (start, rest) = take_number(line, 16)?;
    let (end, rest) = take_number(rest.strip_prefix(b"-")?, 16)?;
    let flags = skip_spaces(rest);
    let has = |index: usize, letter: u8| flags.get(index) == Some(&letter);
    let (offset, device) = take_number(skip_word(flags), 16)?;
    let device = skip_spaces(device);
    let (inode, rest) = take_number(skip_word(device), 10)?;
    Some(Vma {
        start: start as usize,
        end: end as usize,
        readable: has(0, b'r'),
        writable: has(1, b'w'),
        executable: has(2, b'x'),
        shared: has(3, b's'),
        anonymous: inode == 0,
        kind: kind_of(skip_spaces(rest)),
        offset,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_whatever_their_name() {
        let vma =
            parse_line(b"7ffd1000-7ffd2000 rw-p 00000000 00:00 0                          [anon:my heap]")
                .unwrap();
        assert_eq!((vma.start, vma.end, vma.kind), (0x7ffd1000, 0x7ffd2000, Kind::Plain));
        assert!(vma.anonymous && vma.writable && !vma.executable && !vma.shared);
        let vma = parse_line(b"1000-2000 r-xs 00000000 fe:01 77 /a b (deleted)").unwrap();
        assert_eq!((vma.kind, vma.anonymous, vma.shared, vma.executable), (Kind::Named, false, true, true));
        assert_eq!(parse_line(b"1000-2000 r--p 00000000 00:00 0 [vvar_vclock]").unwrap().kind, Kind::Special);
        assert_eq!(parse_line(b"nonsense"), None);
    }
}
