//! Address ranges of the engine's own: reserved, mapped, advised, given back.
//!
//! Nothing here allocates with anybody's allocator. The advice calls are also used on the program's ranges, where the
//! gate must be held as the engine says.
//!
//! Must hold: nothing is unmapped, dropped or protected but what the caller has named. A [`Mapping`] is nobody else's,
//! and is unmapped once. Called by `host`, `interpose`, `agent`, the supervisor, `uswap` and `bench`, and by most of
//! this crate.

use core::ffi::CStr;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::PAGE_BYTES;
use crate::fd::Fd;
use crate::futex;
use crate::sys::prctl::{PR_GET_MEMORY_MERGE, PR_SET_MEMORY_MERGE};
use crate::sys::{self, Errno, Result, abi};
use crate::without::{KernelFeature, is_switched_off};

/// What a range may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing: a guard, or a place kept free.
    None,
    /// Reading.
    Read,
    /// Reading and writing.
    ReadWrite,
}

impl Access {
    fn bits(self) -> usize {
        match self {
            Access::None => abi::PROT_NONE as usize,
            Access::Read => abi::PROT_READ as usize,
            Access::ReadWrite => (abi::PROT_READ | abi::PROT_WRITE) as usize,
        }
    }
}

/// A mapping that this value owns, private and anonymous unless said otherwise; unmapped when dropped. `leak` keeps it
/// for ever.
#[derive(Debug)]
pub struct Mapping {
    start: usize,
    bytes: usize,
}

impl Mapping {
    /// Maps `bytes` bytes (rounded up to whole pages) of zeros, not accounted against the overcommit limit, aligned to
    /// `align` bytes (a power of two, at least a page).
    pub fn anonymous(bytes: usize, align: usize, access: Access) -> Result<Mapping> {
        if bytes == 0 || !align.is_power_of_two() {
            return Err(Errno::EINVAL);
        }
        let align = align.max(PAGE_BYTES);
        let bytes = bytes.checked_next_multiple_of(PAGE_BYTES).ok_or(Errno::ENOMEM)?;
        let slack = align - PAGE_BYTES;
        let whole_bytes = bytes.checked_add(slack).ok_or(Errno::ENOMEM)?;
        let whole = map(whole_bytes, access, ANONYMOUS, -1, 0)?;
        let start = whole.next_multiple_of(align);
        let tail = start + bytes;
        if start > whole {
            // SAFETY:
            // 1. The part in front of `start` is of the mapping made above, which nobody else knows.
            unsafe { unmap(whole, start - whole) }?;
        }
        if whole + whole_bytes > tail {
            // SAFETY:
            // 1. The part behind `tail` is of the mapping made above, which nobody else knows.
            unsafe { unmap(tail, whole + whole_bytes - tail) }?;
        }
        Ok(Mapping { start, bytes })
    }

    /// Address of the first byte.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Length in bytes, whole pages.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Behind the last byte.
    pub fn end(&self) -> usize {
        self.start + self.bytes
    }

    /// Pointer to the first byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start as *mut u8
    }

    /// Keeps the mapping until the process ends; answers its first byte.
    pub fn leak(self) -> usize {
        let start = self.start;
        core::mem::forget(self);
        start
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY:
        // 1. The value owns the range; whoever made references into it promised not to outlive the value.
        let _ = unsafe { unmap(self.start, self.bytes) };
    }
}

/// A buffer whose first byte lies at a multiple of 4096: what O_DIRECT wants. Zeros at first.
#[derive(Debug)]
pub struct AlignedBuf(Mapping);

impl AlignedBuf {
    /// `bytes` bytes, rounded up to whole pages.
    pub fn new(bytes: usize) -> Result<AlignedBuf> {
        Mapping::anonymous(bytes, PAGE_BYTES, Access::ReadWrite).map(AlignedBuf)
    }

    /// Where it lies, for whoever must leave it alone.
    pub fn mapping(&self) -> &Mapping {
        &self.0
    }
}

impl core::ops::Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY:
        // 1. The mapping is readable, as long as `self`, zeroed by the kernel, and nobody else has its address.
        unsafe { core::slice::from_raw_parts(self.0.as_ptr(), self.0.bytes) }
    }
}

impl core::ops::DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY:
        // 1. The mapping is readable and writable, as long as `self`, and was zeroed by the kernel.
        // 2. `self` is borrowed exclusively, and nobody else uses the memory.
        unsafe { core::slice::from_raw_parts_mut(self.0.as_ptr(), self.0.bytes) }
    }
}

/// Atomic words in a mapping of their own, readable and writable; unmapped when dropped. For programs that want much
/// memory and plain access to it from many threads.
#[derive(Debug)]
pub struct Words(Mapping);

impl Words {
    /// At least `bytes` bytes of private anonymous memory (rounded up to whole pages), all zeros, none of it present
    /// yet.
    pub fn anonymous(bytes: usize) -> Result<Words> {
        Mapping::anonymous(bytes, PAGE_BYTES, Access::ReadWrite).map(Words)
    }

    /// The first `bytes` bytes of `file`, whole pages, shared with every process that maps it. The file must be open
    /// for reading and writing, at least so long, and must not shrink: a word behind its end is a SIGBUS. The
    /// descriptor is not needed afterwards.
    pub fn of_file(file: &Fd, bytes: usize) -> Result<Words> {
        if bytes == 0 || !bytes.is_multiple_of(PAGE_BYTES) || file.status()?.bytes < bytes as u64 {
            return Err(Errno::EINVAL);
        }
        let start = map(bytes, Access::ReadWrite, abi::MAP_SHARED, file.raw(), 0)?;
        Ok(Words(Mapping { start, bytes }))
    }
}

impl core::ops::Deref for Words {
    type Target = [AtomicU64];
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY:
        // 1. The mapping is page-aligned, readable and writable, `bytes` long, and lives as long as `self`, which the
        //    answer borrows.
        // 2. Atomic words may be changed by others, other processes included; every bit pattern is a valid word.
        unsafe { core::slice::from_raw_parts(self.0.start as *const AtomicU64, self.0.bytes / 8) }
    }
}

/// If the kernel merges pages of this process that have the same content (KSM), it does so no more, and what it has
/// merged is parted again.
pub fn merge_no_pages() {
    // SAFETY:
    // 1. All arguments are numbers, and no content changes.
    let control = |what: u32| unsafe { sys::syscall6(abi::__NR_prctl, what as usize, 0, 0, 0, 0, 0) };
    if control(PR_GET_MEMORY_MERGE) == Ok(1) {
        let _as_a_kernel_that_cannot = control(PR_SET_MEMORY_MERGE);
    }
}

const ANONYMOUS: u32 = abi::MAP_PRIVATE | abi::MAP_ANONYMOUS | abi::MAP_NORESERVE;

/// Where the next mapping is asked for, and where no more are. Equal: wherever the kernel likes.
static NEXT_PLACE: AtomicUsize = AtomicUsize::new(0);
static PLACES_END: AtomicUsize = AtomicUsize::new(0);

/// From now on mappings of this process are made one behind the other in `places`, as far as they fit and nothing else
/// is there. Called once, before other threads make any.
///
/// For a process that belongs to somebody else: the kernel likes best what was unmapped just now, and its owner may
/// count on it that nothing is there.
pub fn map_in(places: Range<usize>) {
    NEXT_PLACE.store(places.start, Ordering::Relaxed);
    PLACES_END.store(places.end, Ordering::Relaxed);
}

/// Zero, or a place for so many bytes that no other mapping was asked for at, with a page between them.
fn next_place(bytes: usize) -> usize {
    let end = PLACES_END.load(Ordering::Relaxed);
    let next = |place: usize| {
        let next = place.checked_add(bytes.checked_next_multiple_of(PAGE_BYTES)?)?.checked_add(PAGE_BYTES)?;
        (next <= end).then_some(next)
    };
    NEXT_PLACE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or(0)
}

fn map(bytes: usize, access: Access, flags: u32, descriptor: i32, offset: u64) -> Result<usize> {
    let (flags, descriptor) = (flags as usize, descriptor as isize as usize);
    let place = next_place(bytes);
    // SAFETY:
    // 1. Without MAP_FIXED the kernel takes a free place, this one if it is: no existing memory changes.
    unsafe { sys::syscall6(abi::__NR_mmap, place, bytes, access.bits(), flags, descriptor, offset as usize) }
}

/// Maps `bytes` bytes of `file` shared with every process that maps it, as atomic words that live as long as the
/// process.
///
/// All access goes through atomics, so another process may change a word at any time. With [`Access::Read`] a store is
/// a SIGSEGV. The file must be at least `bytes` long and must not shrink: a word behind its end is a SIGBUS. It is left
/// out of core files: what others shared is not for those who read the core of one.
pub fn map_shared_words(file: &Fd, bytes: usize, access: Access) -> Result<&'static [AtomicU64]> {
    let is_whole_pages = bytes > 0 && bytes.is_multiple_of(PAGE_BYTES);
    if !is_whole_pages || access == Access::None || file.status()?.bytes < bytes as u64 {
        return Err(Errno::EINVAL);
    }
    let start = map(bytes, access, abi::MAP_SHARED, file.raw(), 0)?;
    no_dump(start, bytes)?;
    // SAFETY:
    // 1. The mapping is page-aligned, `bytes` long, readable, and never unmapped by this crate: `'static` holds.
    // 2. Atomic words may be changed by others, other processes included; every bit pattern is a valid word.
    Ok(unsafe { core::slice::from_raw_parts(start as *const AtomicU64, bytes / 8) })
}

/// Maps a part of `file` shared, readable and writable, `'static`; `offset` and `bytes` in whole pages. Answers the
/// first byte's address.
pub fn map_shared_bytes(file: &Fd, offset: u64, bytes: usize, access: Access) -> Result<usize> {
    map(bytes, access, abi::MAP_SHARED, file.raw(), offset)
}

/// Unmaps a range.
///
/// # Safety
/// The caller owns the range, no reference into it is used again, and nothing of it is registered with a userfaultfd
/// whose events the calling thread reads.
pub unsafe fn unmap(start: usize, bytes: usize) -> Result<()> {
    // SAFETY:
    // 1. The caller owns the range.
    unsafe { sys::syscall3(abi::__NR_munmap, start, bytes, 0) }.map(drop)
}

/// Puts fresh zeros, private to this process, in the place of a mapping, in one step.
///
/// # Safety
/// The caller owns the range, and whoever has a reference into it can do with zeros.
pub unsafe fn replace_by_zeros(start: usize, bytes: usize) -> Result<()> {
    let access = Access::ReadWrite.bits();
    let flags = abi::MAP_PRIVATE | abi::MAP_ANONYMOUS | abi::MAP_FIXED | abi::MAP_NORESERVE;
    // SAFETY:
    // 1. The caller owns the range.
    unsafe { sys::syscall6(abi::__NR_mmap, start, bytes, access, flags as usize, usize::MAX, 0) }.map(drop)
}

/// Changes what a range may be used for.
///
/// # Safety
/// The caller owns the range; no reference into it is used in a way that `access` forbids.
pub unsafe fn protect(start: usize, bytes: usize, access: Access) -> Result<()> {
    // SAFETY:
    // 1. The caller owns the range.
    unsafe { sys::syscall3(abi::__NR_mprotect, start, bytes, access.bits()) }.map(drop)
}

/// Drops the pages of a range: it reads zeros (or the file's content) afterwards. What is locked stays as it is
/// (EINVAL).
///
/// # Safety
/// Nobody needs the content, and no reference relies on it.
pub unsafe fn drop_pages(start: usize, bytes: usize) -> Result<()> {
    // SAFETY:
    // 1. The caller gives the content up.
    unsafe { advise(start, bytes, abi::MADV_DONTNEED) }
}

/// Ranges of one call of [`drop_ranges`].
pub const DROP_RANGES_MAX: usize = 256;

/// `PIDFD_SELF_THREAD_GROUP`: this process, without a descriptor (Linux 6.14).
const THIS_PROCESS: usize = -10_001_isize as usize;

/// Whether [`drop_ranges`] works here: Linux 6.14.
pub fn can_drop_ranges() -> Result<()> {
    if is_switched_off(KernelFeature::ProcessMadvise) {
        return Err(Errno::EINVAL);
    }
    // SAFETY:
    // 1. No range is named.
    unsafe { sys::syscall4(abi::__NR_process_madvise, THIS_PROCESS, 0, 0, abi::MADV_DONTNEED as usize) }
        .map(drop)
}

/// Whether the kernel makes pages present with one call: Linux 5.14.
pub fn can_populate() -> Result<()> {
    // SAFETY:
    // 1. The range is empty.
    unsafe { advise_if(KernelFeature::Populate, PAGE_BYTES, 0, abi::MADV_POPULATE_WRITE) }
}

/// Drops the pages of many ranges, start and bytes of each, with one flush of the processors' caches of page tables; at
/// most [`DROP_RANGES_MAX`]. How many bytes, from the front.
///
/// # Safety
/// As [`drop_pages`].
pub unsafe fn drop_ranges(ranges: &[[usize; 2]]) -> Result<usize> {
    // SAFETY:
    // 1. Two words are what `iovec` is, and the slice lives until the call returns.
    // 2. The caller gives the content up.
    unsafe {
        sys::syscall4(
            abi::__NR_process_madvise,
            THIS_PROCESS,
            ranges.as_ptr() as usize,
            ranges.len(),
            abi::MADV_DONTNEED as usize,
        )
    }
}

/// Drops the pages of a shared range and gives them back to its file: every process reads zeros afterwards. EINVAL: it
/// is locked.
///
/// # Safety
/// As [`drop_pages`], for all processes that map the file.
pub unsafe fn remove_pages(start: usize, bytes: usize) -> Result<()> {
    // SAFETY:
    // 1. The caller gives the content up.
    unsafe { advise(start, bytes, abi::MADV_REMOVE) }
}

/// Makes each page of a range present and writable, as a write would, without changing its content: undoes what fork
/// did to it. Missing pages are filled by the kernel or wait for the handler: call it on present pages. On kernels
/// before 5.14 the kernel is made to write each of them as it is.
pub fn populate_write(start: usize, bytes: usize) -> Result<()> {
    // SAFETY:
    // 1. No content changes.
    match unsafe { advise_if(KernelFeature::Populate, start, bytes, abi::MADV_POPULATE_WRITE) } {
        Err(Errno::EINVAL) => (start..start + bytes).step_by(PAGE_BYTES).try_for_each(futex::write_unchanged),
        answer => answer,
    }
}

/// Makes each page of a range present, as a read would. An error: not all of it, or the kernel is older than 5.14.
pub fn populate_read(start: usize, bytes: usize) -> Result<()> {
    // SAFETY:
    // 1. No content changes.
    unsafe { advise_if(KernelFeature::Populate, start, bytes, abi::MADV_POPULATE_READ) }
}

/// Keeps transparent huge pages out of a range.
pub fn no_huge_pages(start: usize, bytes: usize) -> Result<()> {
    // SAFETY:
    // 1. No content changes.
    unsafe { advise(start, bytes, abi::MADV_NOHUGEPAGE) }
}

/// Asks for transparent huge pages in a range.
pub fn huge_pages(start: usize, bytes: usize) -> Result<()> {
    // SAFETY:
    // 1. No content changes.
    unsafe { advise(start, bytes, abi::MADV_HUGEPAGE) }
}

/// Keeps a range out of core dumps.
pub fn no_dump(start: usize, bytes: usize) -> Result<()> {
    // SAFETY:
    // 1. No content changes.
    unsafe { advise(start, bytes, abi::MADV_DONTDUMP) }
}

/// The kernel merges pages of the range with others no more (KSM), and parts those that it has.
pub fn unmerge(start: usize, bytes: usize) -> Result<()> {
    // SAFETY:
    // 1. No content changes.
    unsafe { advise(start, bytes, abi::MADV_UNMERGEABLE) }
}

/// Whether the byte at `address` may be read, as the kernel sees it: it is asked to read a set of signals there, for a
/// change that it does not know. No signal comes of it, and a page that userfaultfd serves counts as it is now.
pub fn is_readable(address: usize) -> bool {
    const NO_SUCH_CHANGE: usize = usize::MAX;
    // No set at all is asked for at address 0.
    let set = address & !(PAGE_BYTES - 1) | size_of::<u64>();
    // SAFETY:
    // 1. The call reads eight bytes, all in the page of the byte, and changes nothing.
    let asked = unsafe { sys::syscall4(abi::__NR_rt_sigprocmask, NO_SUCH_CHANGE, set, 0, size_of::<u64>()) };
    asked != Err(Errno::EFAULT)
}

/// Lets a forked child find zeros in a range. Linux 4.14.
pub fn wipe_on_fork(start: usize, bytes: usize) -> Result<()> {
    // SAFETY:
    // 1. No content changes in this process.
    unsafe { advise(start, bytes, abi::MADV_WIPEONFORK) }
}

/// Keeps a range out of the address space of forked children.
pub fn no_fork(start: usize, bytes: usize) -> Result<()> {
    // SAFETY:
    // 1. No content changes in this process; a child has a hole there.
    unsafe { advise(start, bytes, abi::MADV_DONTFORK) }
}

/// [`advise`] with what older kernels do not know (EINVAL), nor do newer ones if it is switched off.
///
/// # Safety
/// As [`advise`].
unsafe fn advise_if(feature: KernelFeature, start: usize, bytes: usize, advice: u32) -> Result<()> {
    if is_switched_off(feature) {
        return Err(Errno::EINVAL);
    }
    // SAFETY:
    // 1. The caller promises what `advise` demands.
    unsafe { advise(start, bytes, advice) }
}

/// Advises the kernel about a range (`madvise`).
///
/// # Safety
/// Either the advice changes no content of the range in this process, or nobody needs that content and no reference
/// relies on it: with `MADV_REMOVE`, in any process that maps the file.
unsafe fn advise(start: usize, bytes: usize, advice: u32) -> Result<()> {
    // SAFETY:
    // 1. What the advice does to the range is the caller's promise.
    unsafe { sys::syscall3(abi::__NR_madvise, start, bytes, advice as usize) }.map(drop)
}

/// A file in memory, `bytes` long, all zeros, close-on-exec.
pub fn memfd_create(name: &CStr, bytes: u64) -> Result<Fd> {
    // SAFETY:
    // 1. `name` ends with a zero byte; the call only reads it.
    let number = unsafe {
        sys::syscall3(abi::__NR_memfd_create, name.as_ptr() as usize, abi::MFD_CLOEXEC as usize, 0)
    }?;
    let file = Fd::from_raw(number as i32);
    file.truncate(bytes)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::Ordering::Relaxed;

    /// Whether a mapping begins at `start`.
    fn is_mapped(start: usize) -> bool {
        let begin = std::format!("{start:x}-");
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().any(|line| line.starts_with(&begin))
    }

    #[test]
    fn what_is_readable_is_told_without_a_fault() {
        let pages = Mapping::anonymous(2 * PAGE_BYTES, PAGE_BYTES, Access::ReadWrite).unwrap();
        // SAFETY:
        // 1. The page is the test's, and nobody uses it.
        unsafe { protect(pages.start() + PAGE_BYTES, PAGE_BYTES, Access::None) }.unwrap();
        for offset in [0, 1, PAGE_BYTES - 1] {
            assert!(is_readable(pages.start() + offset), "{offset}");
            assert!(!is_readable(pages.start() + PAGE_BYTES + offset), "{offset}");
        }
        for nowhere in [0, 8, 1 << 47, usize::MAX] {
            assert!(!is_readable(nowhere), "{nowhere:#x}");
        }
    }

    #[test]
    fn anonymous_words_are_zeros_that_keep_what_is_stored() {
        let words = Words::anonymous(3 * PAGE_BYTES - 8).unwrap();
        assert_eq!(words.len(), 3 * PAGE_BYTES / 8);
        assert!(words.iter().all(|word| word.load(Relaxed) == 0));
        std::thread::scope(|scope| {
            for part in words.chunks(words.len() / 3) {
                scope.spawn(move || part.iter().for_each(|word| word.store(7, Relaxed)));
            }
        });
        assert_eq!(words.iter().map(|word| word.load(Relaxed)).sum::<u64>(), 7 * words.len() as u64);
        assert!(Words::anonymous(0).is_err());
    }

    #[test]
    fn words_are_unmapped_when_dropped() {
        // Large, so that no neighbour is merged with it and nobody else takes the place at once.
        let file = memfd_create(c"words", 64 << 20).unwrap();
        let words = Words::of_file(&file, 64 << 20).unwrap();
        let start = words.as_ptr() as usize;
        assert!(is_mapped(start));
        drop(words);
        assert!(!is_mapped(start));
    }

    #[test]
    fn words_of_a_file_are_the_file() {
        let file = memfd_create(c"words", 2 * PAGE_BYTES as u64).unwrap();
        let words = Words::of_file(&file, 2 * PAGE_BYTES).unwrap();
        words[513].store(0x0102_0304_0506_0708, Relaxed);
        let mut bytes = [0; 8];
        file.pread(&mut bytes, 513 * 8).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), 0x0102_0304_0506_0708);
        file.pwrite(&9u64.to_le_bytes(), 0).unwrap();
        assert_eq!(words[0].load(Relaxed), 9);
    }

    #[test]
    fn words_behind_the_end_of_a_file_are_refused() {
        let file = memfd_create(c"words", PAGE_BYTES as u64).unwrap();
        assert_eq!(Words::of_file(&file, 2 * PAGE_BYTES).err(), Some(Errno::EINVAL));
        assert_eq!(Words::of_file(&file, PAGE_BYTES / 2).err(), Some(Errno::EINVAL));
        assert_eq!(Words::of_file(&file, 0).err(), Some(Errno::EINVAL));
    }
}
