//! The swap files of the run as the supervisor has them open: made, read, written, given back in parts, and named in messages.

use std::ffi::CString;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use uswap_core::files::{FileAccess, FileKind, FileSpec, SwapFiles, slots_of_all};
use uswap_core::segment::SLOTS_MAX;
use uswap_engine::platform::FileError;
use uswap_os::file::{AllowTmpfs, IoCause, IoError, SwapFile, SwapFileError, WriteSlice};
use uswap_os::ring::Ring;
use uswap_units::limits::{SWAP_FILES_MAX, WRITEBACK_BATCH_BYTES};
use uswap_units::{FileId, PAGE_BYTES};

use super::device;
use crate::human;

/// One write of the ring; a batch is written in four of them at once.
const WRITE_BYTES: usize = WRITEBACK_BATCH_BYTES / 4;

/// What the user says of one swap file.
#[derive(Clone, Debug)]
pub struct SwapFileOptions {
    /// Where it is made.
    pub dir: PathBuf,
    /// How large it may get.
    pub bytes_max: u64,
    /// Files of higher priority are filled first.
    pub priority: i16,
    /// What it lies on; `None`: as the system says.
    pub kind: Option<FileKind>,
}

impl SwapFileOptions {
    fn slots(&self) -> u64 {
        self.bytes_max / PAGE_BYTES as u64
    }
}

/// One swap file.
pub struct OpenFile {
    pub options: SwapFileOptions,
    pub kind: FileKind,
    file: SwapFile,
}

/// All of them, by their numbers.
pub struct OpenFiles {
    all: Vec<OpenFile>,
}

/// Slots that files of these sizes take among those of all files.
///
/// # Errors
/// There are too many, or they are too large together.
pub fn slots_of(options: &[SwapFileOptions]) -> anyhow::Result<u64> {
    if options.len() > SWAP_FILES_MAX {
        return Err(anyhow!("{} swap files are too many: {SWAP_FILES_MAX} can be used", options.len()));
    }
    let slots = slots_of_all(options.iter().map(SwapFileOptions::slots));
    if slots > SLOTS_MAX {
        return Err(anyhow!(
            "the swap files are too large together: {} can be used. Give them smaller sizes with --swap DIR:SIZE",
            human::bytes(SLOTS_MAX * PAGE_BYTES as u64)
        ));
    }
    Ok(slots)
}

impl OpenFiles {
    /// Makes them.
    ///
    /// # Errors
    /// Ready for the user: a directory that cannot be used.
    pub fn make(options: &[SwapFileOptions], allow_tmpfs: AllowTmpfs) -> anyhow::Result<OpenFiles> {
        let all = options.iter().map(|options| make(options, allow_tmpfs)).collect::<anyhow::Result<_>>()?;
        Ok(OpenFiles { all })
    }

    /// What the segment is told of each.
    pub fn specs(&self) -> impl Iterator<Item = FileSpec> {
        self.all.iter().map(|open| FileSpec {
            slots: open.options.slots(),
            priority: open.options.priority,
            kind: open.kind,
            descriptor: open.file.fd().raw(),
            access: if open.file.is_direct() { FileAccess::Direct } else { FileAccess::Buffered },
        })
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (FileId, &OpenFile)> {
        (0..).map(FileId).zip(&self.all)
    }

    fn get(&self, file: FileId) -> &OpenFile {
        &self.all[usize::from(file.0)]
    }

    /// Bytes still free on the file system of a file.
    pub fn free_bytes(&self, file: FileId) -> Option<u64> {
        self.get(file).file.free_bytes().ok()
    }

    /// Directory of a file, for messages.
    pub fn directory(&self, file: FileId) -> String {
        self.get(file).options.dir.display().to_string()
    }

    /// Their directories, for messages.
    pub fn directories(&self) -> String {
        let all: Vec<String> =
            self.all.iter().map(|open| format!("'{}'", open.options.dir.display())).collect();
        all.join(", ")
    }

    /// Fills `buffer` from `offset` among the slots of all files.
    pub fn read(&self, files: SwapFiles<'_>, offset: u64, buffer: &mut [u8]) -> Result<(), FileError> {
        let (file, start) = files.locate(offset).ok_or(FileError::Short)?;
        self.get(file.id).file.read_at(buffer, start).map_err(file_error)
    }

    /// Writes all of `buffer` at `offset` among the slots of all files.
    pub fn write(
        &self,
        files: SwapFiles<'_>,
        ring: Option<&mut Ring>,
        offset: u64,
        buffer: &[u8],
    ) -> Result<(), FileError> {
        let (file, start) = files.locate(offset).ok_or(FileError::Short)?;
        let slices: Vec<WriteSlice<'_>> = buffer
            .chunks(WRITE_BYTES)
            .enumerate()
            .map(|(index, bytes)| WriteSlice { bytes, offset: start + (index * WRITE_BYTES) as u64 })
            .collect();
        self.get(file.id).file.write_batch(ring, &slices).map_err(file_error)
    }

    /// Gives the blocks of a range back to the file system. The name of the file, if it cannot be done.
    pub fn punch_hole(&self, files: SwapFiles<'_>, bytes: Range<u64>) -> Result<(), String> {
        let Some((file, start)) = files.locate(bytes.start) else { return Ok(()) };
        self.get(file.id)
            .file
            .punch_hole(start, bytes.end - bytes.start)
            .map_err(|errno| format!("in '{}' ({errno})", self.directory(file.id)))
    }
}

fn make(options: &SwapFileOptions, allow_tmpfs: AllowTmpfs) -> anyhow::Result<OpenFile> {
    let shown = options.dir.display();
    let directory = CString::new(options.dir.as_os_str().as_bytes())
        .context("the swap directory's name has a zero byte")?;
    let file = SwapFile::create(&directory, allow_tmpfs).map_err(|error| {
        let hint = match error {
            SwapFileError::InMemory => {
                "name a directory on a disk with --swap DIR, or say --allow-tmpfs if you want that"
            }
            SwapFileError::NoTmpfile(_) => {
                "name a directory on ext4, xfs, btrfs or another file system with O_TMPFILE with --swap DIR"
            }
            _ => "check that it exists, is writable and has room, or name another with --swap DIR",
        };
        anyhow!("the swap file cannot be made in '{shown}': {error}; {hint}")
    })?;
    let kind = options.kind.unwrap_or_else(|| device::kind_of(&options.dir));
    Ok(OpenFile { options: options.clone(), kind, file })
}

/// The engine's word for a failed file operation.
pub fn file_error(error: IoError) -> FileError {
    match error.cause {
        IoCause::Errno(errno) if matches!(errno.name(), Some("ENOSPC" | "EDQUOT" | "EFBIG")) => {
            FileError::Full
        }
        IoCause::Errno(errno) => FileError::Io(errno.number()),
        IoCause::EndOfFile | IoCause::NothingWritten => FileError::Short,
    }
}
