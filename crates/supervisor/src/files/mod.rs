//! The swap files of the run as the supervisor has them open: made, read, written, given back in parts, closed, and
//! named in messages.

pub mod changes;
mod device;
pub mod place;
mod store;

use std::ffi::CString;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::{Arc, RwLock};

use uswap_control::unpoisoned;
use uswap_core::files::{FileKind, FileSpec, SwapFiles, slots_of_all};
use uswap_core::segment::SLOTS_MAX;
use uswap_engine::world::FileError;
use uswap_os::file::{AllowTmpfs, SwapFile};
use uswap_units::limits::SWAP_FILES_MAX;
use uswap_units::{FileId, PAGE_BYTES, SwapOffset};

use self::store::{FileStore, SharedRing, Store};
use crate::error::StartError;

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
    store: Option<Box<dyn Store>>,
}

impl OpenFile {
    /// What the segment is told of it.
    fn spec(&self) -> Option<FileSpec> {
        let (descriptor, access) = self.store.as_ref()?.descriptor();
        Some(FileSpec {
            slots: self.options.slots(),
            priority: self.options.priority,
            kind: self.kind,
            descriptor,
            access,
        })
    }
}

/// All of them, by their numbers. Who reads or writes one keeps it open until that is done.
pub(crate) struct OpenFiles {
    all: RwLock<Vec<Arc<OpenFile>>>,
    ring: SharedRing,
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
pub(crate) fn slots_of(options: &[SwapFileOptions]) -> Result<u64, StartError> {
    if options.len() > SWAP_FILES_MAX {
        return Err(StartError::TooManySwapFiles(options.len()));
    }
    let slots = slots_of_all(options.iter().map(SwapFileOptions::slots));
    if slots > SLOTS_MAX {
        return Err(StartError::SwapFilesTooLarge);
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
    pub fn make(options: &[SwapFileOptions], allow_tmpfs: AllowTmpfs) -> Result<OpenFiles, StartError> {
        let ring = SharedRing::default();
        let make = |options| make(options, allow_tmpfs, &ring).map(Arc::new);
        let all = options.iter().map(make).collect::<Result<_, _>>()?;
        Ok(OpenFiles { all: RwLock::new(all), ring })
    }

    /// Makes one more, behind the others; what the segment is told of it.
    ///
    /// # Errors
    /// As [`make`](Self::make).
    pub fn add(&self, options: &SwapFileOptions, allow_tmpfs: AllowTmpfs) -> Result<FileSpec, StartError> {
        let made = make(options, allow_tmpfs, &self.ring)?;
        let spec = made.spec().expect("it was just made");
        unpoisoned(self.all.write()).push(Arc::new(made));
        Ok(spec)
    }

    /// The segment has no room for the one that was added last.
    pub fn forget_last(&self) {
        unpoisoned(self.all.write()).pop();
    }

    /// Nothing is in it any more: its blocks go back to the file system, and it is gone when all who have it open have
    /// closed it.
    pub fn close(&self, file: FileId) {
        let mut all = unpoisoned(self.all.write());
        let open = &mut all[file.index()];
        if let Some(store) = &open.store {
            store.release_all();
        }
        *open = Arc::new(OpenFile { options: open.options.clone(), kind: open.kind, store: None });
    }

    /// What the segment is told of each.
    pub fn specs(&self) -> impl Iterator<Item = FileSpec> {
        self.all().into_iter().filter_map(|(_, open)| open.spec())
    }

    fn all(&self) -> Vec<(FileId, Arc<OpenFile>)> {
        let all = unpoisoned(self.all.read());
        (0..).map(FileId::new).zip(all.iter().cloned()).collect()
    }

    /// Those that are not gone.
    pub fn open(&self) -> Vec<(FileId, Arc<OpenFile>)> {
        let mut all = self.all();
        all.retain(|(_, open)| open.store.is_some());
        all
    }

    fn get(&self, file: FileId) -> Arc<OpenFile> {
        let all = unpoisoned(self.all.read());
        Arc::clone(&all[file.index()])
    }

    /// Bytes still free on the file system of a file.
    pub fn free_bytes(&self, file: FileId) -> Option<u64> {
        self.get(file).store.as_ref()?.room().ok()
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
        open.store.as_ref().ok_or(FileError::Short)?.read(start, buffer)
    }

    /// Writes all of `buffer` at `offset` among the slots of all files.
    pub fn write(&self, files: SwapFiles<'_>, offset: SwapOffset, buffer: &[u8]) -> Result<(), FileError> {
        let (file, start) = files.locate(offset).ok_or(FileError::Short)?;
        self.get(file.id).store.as_ref().ok_or(FileError::Short)?.write(start, buffer)
    }

    /// Nothing in a range is needed any more. The name of the file, if it cannot be done.
    pub fn release(&self, files: SwapFiles<'_>, bytes: Range<SwapOffset>) -> Result<(), String> {
        let Some((file, start)) = files.locate(bytes.start) else { return Ok(()) };
        let open = self.get(file.id);
        let Some(store) = &open.store else { return Ok(()) };
        store
            .release(start, bytes.end.since(bytes.start))
            .map_err(|errno| format!("in '{}' ({errno})", self.directory(file.id)))
    }
}

fn make(
    options: &SwapFileOptions,
    allow_tmpfs: AllowTmpfs,
    ring: &SharedRing,
) -> Result<OpenFile, StartError> {
    let directory = CString::new(options.dir.as_os_str().as_bytes()).map_err(StartError::DirectoryName)?;
    let file = SwapFile::create(&directory, allow_tmpfs)
        .map_err(|cause| StartError::SwapFile { directory: options.dir.clone(), cause })?;
    let kind = options.kind.unwrap_or_else(|| device::kind_of(&options.dir));
    let store = FileStore { file, ring: Arc::clone(ring) };
    Ok(OpenFile { options: options.clone(), kind, store: Some(Box::new(store)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicU64;
    use uswap_core::files::FileAccess;
    use uswap_core::segment::{Geometry, Segment};
    use uswap_os::sys::Errno;
    use uswap_units::FileOffset;

    /// A store in memory: a whole slot that was released reads as ones.
    struct InMemory(Mutex<Vec<u8>>);

    impl InMemory {
        fn with<T>(
            &self,
            offset: FileOffset,
            bytes: u64,
            act: impl FnOnce(&mut [u8]) -> T,
        ) -> Result<T, Errno> {
            let (start, end) = (offset.bytes() as usize, (offset.bytes() + bytes) as usize);
            self.0.lock().unwrap().get_mut(start..end).map(act).ok_or(Errno::EINVAL)
        }
    }

    impl Store for InMemory {
        fn read(&self, offset: FileOffset, buffer: &mut [u8]) -> Result<(), FileError> {
            let bytes = buffer.len() as u64;
            self.with(offset, bytes, |held| buffer.copy_from_slice(held)).map_err(|_| FileError::Short)
        }
        fn write(&self, offset: FileOffset, buffer: &[u8]) -> Result<(), FileError> {
            let bytes = buffer.len() as u64;
            self.with(offset, bytes, |held| held.copy_from_slice(buffer)).map_err(|_| FileError::Full)
        }
        fn release(&self, offset: FileOffset, bytes: u64) -> Result<(), Errno> {
            self.with(offset, bytes, |held| held.fill(0xFF))
        }
        fn release_all(&self) {
            self.0.lock().unwrap().clear();
        }
        fn room(&self) -> Result<u64, Errno> {
            Ok(self.0.lock().unwrap().len() as u64)
        }
        fn descriptor(&self) -> (i32, FileAccess) {
            (77, FileAccess::Buffered)
        }
    }

    #[test]
    fn any_store_is_read_and_written_by_its_place_among_all() {
        const SLOTS: u64 = 4;
        let geometry = Geometry { mms: 4, tables: 1, entries: 512, zspages: 8, slots: 2048, readahead: 0 };
        let words: Vec<AtomicU64> = (0..geometry.layout().total_words()).map(|_| AtomicU64::new(0)).collect();
        let segment = Segment::create(&words, geometry);
        let open = |name: &str, bytes: u64| {
            let options = SwapFileOptions { dir: name.into(), bytes_max: bytes, priority: 0, kind: None };
            let store: Box<dyn Store> = Box::new(InMemory(Mutex::new(vec![0; bytes as usize])));
            Arc::new(OpenFile { options, kind: FileKind::SolidState, store: Some(store) })
        };
        let bytes = SLOTS * PAGE_BYTES as u64;
        // The second has less than it said.
        let all = vec![open("/first", bytes), open("/second", bytes)];
        all[1].store.as_ref().unwrap().release_all();
        let files = OpenFiles { all: RwLock::new(all), ring: SharedRing::default() };
        let ids: Vec<FileId> = files.specs().map(|spec| segment.slots().add_file(spec).unwrap()).collect();
        let place = |id: FileId| segment.slots().files().get(id).unwrap().slots().start;
        let known = segment.slots().files();
        let page = |value| vec![value; PAGE_BYTES];
        let at = place(ids[0]).plus(1).start();
        files.write(known, at, &page(5)).unwrap();
        let mut found = vec![0; 2 * PAGE_BYTES];
        files.read(known, place(ids[0]).start(), &mut found).unwrap();
        assert_eq!(found, [page(0), page(5)].concat());
        files.release(known, at..at.plus(PAGE_BYTES as u64)).unwrap();
        files.read(known, at, &mut found[..PAGE_BYTES]).unwrap();
        assert_eq!(found[..PAGE_BYTES], page(0xFF));
        assert_eq!([0, 1].map(|index| files.free_bytes(ids[index])), [Some(bytes), Some(0)]);
        let second = place(ids[1]).start();
        assert_eq!(files.write(known, second, &page(6)), Err(FileError::Full));
        let told = files.release(known, second..second.plus(1)).unwrap_err();
        assert!(told.contains("'/second'"), "{told}");
        files.close(ids[0]);
        assert_eq!(files.read(known, at, &mut found[..PAGE_BYTES]), Err(FileError::Short));
        assert_eq!((files.free_bytes(ids[0]), files.directories()), (None, "'/second'".to_owned()));
    }
}
