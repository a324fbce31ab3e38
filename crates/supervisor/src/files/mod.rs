//! The swap files of the run as the supervisor has them open: made, read, written, given back in parts, closed, and
//! named in messages.

mod device;
pub mod place;

use std::ffi::CString;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::{Arc, RwLock};

use anyhow::{Context as _, anyhow};
use uswap_core::files::{FileAccess, FileKind, FileSpec, SwapFiles, slots_of_all};
use uswap_core::segment::SLOTS_MAX;
use uswap_engine::world::FileError;
use uswap_os::file::{AllowTmpfs, IoCause, IoError, SwapFile, SwapFileError, WriteSlice};
use uswap_os::ring::Ring;
use uswap_units::limits::{SWAP_FILES_MAX, WRITEBACK_BATCH_BYTES};
use uswap_units::{FileId, PAGE_BYTES, SwapOffset};

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
pub(crate) struct OpenFile {
    /// As it was named.
    pub options: SwapFileOptions,
    /// What it lies on.
    pub kind: FileKind,
    /// None: it is gone.
    file: Option<SwapFile>,
}

impl OpenFile {
    /// What the segment is told of it.
    fn spec(&self) -> Option<FileSpec> {
        let file = self.file.as_ref()?;
        Some(FileSpec {
            slots: self.options.slots(),
            priority: self.options.priority,
            kind: self.kind,
            descriptor: file.fd().raw(),
            access: if file.is_direct() { FileAccess::Direct } else { FileAccess::Buffered },
        })
    }
}

/// All of them, by their numbers. Who reads or writes one keeps it open until that is done.
pub(crate) struct OpenFiles {
    all: RwLock<Vec<Arc<OpenFile>>>,
}

/// While the run goes on it may get as many bytes of swap files more as it began with, and so many at least: a byte of
/// address space for each slot of 4 KiB, in all its processes, and no memory before it is used.
pub(crate) const ADDED_BYTES_MIN: u64 = 16 << 30;

/// Bytes of swap files that may be added while the run goes on.
fn bytes_to_be_added(options: &[SwapFileOptions]) -> u64 {
    options.iter().map(|options| options.bytes_max).sum::<u64>().max(ADDED_BYTES_MIN)
}

/// Slots that files of these sizes take among those of all files, with room for those that may be added.
///
/// # Errors
/// There are too many, or they are too large together.
pub(crate) fn slots_of(options: &[SwapFileOptions]) -> anyhow::Result<u64> {
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
    // Each file that is added may have a gap and part of a cluster in front of it.
    let added = bytes_to_be_added(options) / PAGE_BYTES as u64 + SWAP_FILES_MAX as u64 * 1024;
    Ok((slots + added).next_multiple_of(8).min(SLOTS_MAX))
}

impl OpenFiles {
    /// Makes them.
    ///
    /// # Errors
    /// Ready for the user: a directory that cannot be used.
    pub fn make(options: &[SwapFileOptions], allow_tmpfs: AllowTmpfs) -> anyhow::Result<OpenFiles> {
        let make = |options| make(options, allow_tmpfs).map(Arc::new);
        let all = options.iter().map(make).collect::<anyhow::Result<_>>()?;
        Ok(OpenFiles { all: RwLock::new(all) })
    }

    /// Makes one more, behind the others; what the segment is told of it.
    ///
    /// # Errors
    /// As [`make`](Self::make).
    pub fn add(&self, options: &SwapFileOptions, allow_tmpfs: AllowTmpfs) -> anyhow::Result<FileSpec> {
        let made = make(options, allow_tmpfs)?;
        let spec = made.spec().expect("it was just made");
        self.all.write().unwrap_or_else(|poisoned| poisoned.into_inner()).push(Arc::new(made));
        Ok(spec)
    }

    /// The segment has no room for the one that was added last.
    pub fn forget_last(&self) {
        self.all.write().unwrap_or_else(|poisoned| poisoned.into_inner()).pop();
    }

    /// Nothing is in it any more: its blocks go back to the file system, and it is gone when all who have it open have
    /// closed it.
    pub fn close(&self, file: FileId) {
        let mut all = self.all.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let open = &mut all[usize::from(file.0)];
        if let Some(file) = &open.file {
            // If that fails, its blocks go back when it is closed.
            let _truncated = file.fd().truncate(0);
        }
        *open = Arc::new(OpenFile { options: open.options.clone(), kind: open.kind, file: None });
    }

    /// What the segment is told of each.
    pub fn specs(&self) -> impl Iterator<Item = FileSpec> {
        self.all().into_iter().filter_map(|(_, open)| open.spec())
    }

    fn all(&self) -> Vec<(FileId, Arc<OpenFile>)> {
        let all = self.all.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        (0..).map(FileId).zip(all.iter().cloned()).collect()
    }

    /// Those that are not gone.
    pub fn open(&self) -> Vec<(FileId, Arc<OpenFile>)> {
        let mut all = self.all();
        all.retain(|(_, open)| open.file.is_some());
        all
    }

    fn get(&self, file: FileId) -> Arc<OpenFile> {
        let all = self.all.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        Arc::clone(&all[usize::from(file.0)])
    }

    /// Bytes still free on the file system of a file.
    pub fn free_bytes(&self, file: FileId) -> Option<u64> {
        self.get(file).file.as_ref()?.free_bytes().ok()
    }

    /// Directory of a file, for messages.
    pub fn directory(&self, file: FileId) -> String {
        self.get(file).options.dir.display().to_string()
    }

    /// The directories of those that are not gone, for messages.
    pub fn directories(&self) -> String {
        let name = |(_, open): (FileId, Arc<OpenFile>)| format!("'{}'", open.options.dir.display());
        let all: Vec<String> = self.open().into_iter().map(name).collect();
        all.join(", ")
    }

    /// Fills `buffer` from `offset` among the slots of all files.
    pub fn read(&self, files: SwapFiles<'_>, offset: SwapOffset, buffer: &mut [u8]) -> Result<(), FileError> {
        let (file, start) = files.locate(offset).ok_or(FileError::Short)?;
        // Who reads what was moved meanwhile looks again where it is.
        let open = self.get(file.id);
        open.file.as_ref().ok_or(FileError::Short)?.read_at(buffer, start.bytes()).map_err(file_error)
    }

    /// Writes all of `buffer` at `offset` among the slots of all files.
    pub fn write(
        &self,
        files: SwapFiles<'_>,
        ring: Option<&mut Ring>,
        offset: SwapOffset,
        buffer: &[u8],
    ) -> Result<(), FileError> {
        let (file, start) = files.locate(offset).ok_or(FileError::Short)?;
        let slices: Vec<WriteSlice<'_>> = buffer
            .chunks(WRITE_BYTES)
            .enumerate()
            .map(|(index, bytes)| WriteSlice { bytes, offset: start.bytes() + (index * WRITE_BYTES) as u64 })
            .collect();
        let open = self.get(file.id);
        open.file.as_ref().ok_or(FileError::Short)?.write_batch(ring, &slices).map_err(file_error)
    }

    /// Gives the blocks of a range back to the file system. The name of the file, if it cannot be done.
    pub fn punch_hole(&self, files: SwapFiles<'_>, bytes: Range<SwapOffset>) -> Result<(), String> {
        let Some((file, start)) = files.locate(bytes.start) else { return Ok(()) };
        let open = self.get(file.id);
        let Some(open) = &open.file else { return Ok(()) };
        open.punch_hole(start.bytes(), bytes.end.since(bytes.start))
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
    Ok(OpenFile { options: options.clone(), kind, file: Some(file) })
}

/// The engine's word for a failed file operation.
fn file_error(error: IoError) -> FileError {
    match error.cause {
        IoCause::Errno(errno) if matches!(errno.name(), Some("ENOSPC" | "EDQUOT" | "EFBIG")) => {
            FileError::Full
        }
        IoCause::Errno(errno) => FileError::Io(errno.number()),
        IoCause::EndOfFile | IoCause::NothingWritten => FileError::Short,
    }
}
