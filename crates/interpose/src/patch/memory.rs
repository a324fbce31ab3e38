//! The memory of this process as a file: reads that cannot fault, and writes that pass protections.
//!
//! `/proc/self/mem` reads text that may only be executed, answers with an error where a mapped file has
//! been cut, and gives a private copy of a page on a write without splitting its mapping. Where it cannot be
//! opened or written (no /proc, a kernel that forbids it), `write` makes the pages writable.
//!
//! Must hold: no read faults, whatever the address. Text stays readable and executable while it is written, and is
//! writable afterwards only where the kernel refuses to take that back. Called by [`crate::patch`] and its
//! [`mod@crate::patch::functions`], [`crate::patch::trampoline`] and [`crate::patch::write`].

use core::ops::Range;
use core::sync::atomic::{AtomicPtr, Ordering};

use uswap_os::Fd;
use uswap_os::maps::{Kind, Maps, MapsSource, Vma};
use uswap_os::sys::{self, abi};

use crate::sites::Memory;
use crate::sites::functions::Object;

/// Read at once from `/proc/self/maps`, where the kernel has no query for it.
const MAPS_BUFFER_BYTES: usize = 2048;
const PAGE_MASK: usize = uswap_os::PAGE_BYTES - 1;

/// The memory of this process.
pub(super) struct Process {
    file: Fd,
    threads: Threads,
}

/// Who may run what is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Threads {
    /// Only the one that writes.
    This,
    /// Others too, while it is written.
    Others,
}

impl Process {
    pub(super) fn open(threads: Threads) -> Option<Process> {
        let flags = abi::O_RDWR | abi::O_CLOEXEC;
        let file = Fd::open(c"/proc/self/mem", flags, 0).ok()?;
        Some(Process { file, threads })
    }

    pub(super) fn threads(&self) -> Threads {
        self.threads
    }

    /// The object of a file whose private, read-only code holds `address`.
    pub(super) fn object_at(&self, address: usize) -> Option<Object> {
        let maps = Maps::open().ok()?;
        if maps.source() == MapsSource::Query
            && let Some(found) = self.object_by_offset(&maps, address)
        {
            return Some(found);
        }
        let mut buffer = [0; MAPS_BUFFER_BYTES];
        let mut header = None;
        for vma in maps.iter(&mut buffer) {
            let vma = vma.ok()?;
            if vma.start > address {
                return None;
            }
            if vma.kind == Kind::Named && self.starts_object(vma.start) {
                header = Some(vma.start);
            }
            if address < vma.end {
                return header
                    .filter(|_| is_code(&vma))
                    .and_then(|base| Object::at(self, base, Some(address)));
            }
        }
        None
    }

    /// The same where its mappings lie as far from each other as in the file, as those of most objects do.
    fn object_by_offset(&self, maps: &Maps, address: usize) -> Option<Object> {
        let code = maps.covering_or_next(address).ok()??;
        if address < code.start || !is_code(&code) {
            return None;
        }
        let base = code.start.checked_sub(code.offset as usize)?;
        let first = maps.covering_or_next(base).ok()??;
        let is_its_start = first.start == base && first.kind == Kind::Named && first.offset == 0;
        is_its_start.then(|| Object::at(self, base, Some(address)))?
    }

    /// All mappings, by address.
    pub(super) fn for_each_mapping(&self, mut visit: impl FnMut(&Vma)) -> Option<()> {
        let maps = Maps::open().ok()?;
        let mut buffer = [0; MAPS_BUFFER_BYTES];
        for vma in maps.iter(&mut buffer) {
            visit(&vma.ok()?);
        }
        Some(())
    }

    fn starts_object(&self, start: usize) -> bool {
        let mut magic = [0; 4];
        self.read(start, &mut magic) == 4 && magic == *b"\x7FELF"
    }

    /// Writes over text, protections or not; false: refused.
    pub(super) fn write(&self, address: usize, bytes: &[u8]) -> bool {
        if self.file.pwrite(bytes, address as u64) == Ok(bytes.len()) {
            return true;
        }
        with_writable(address, bytes.len(), || {
            // SAFETY:
            // 1. The pages are writable now; the caller has seen to it that nobody runs these bytes.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        })
    }
}

/// Mappings of one object that lie one behind the other, read where they are: a read by the file takes 1 us.
pub(super) struct Mapped {
    /// Its headers, its code, and what is behind that, where tables are.
    ranges: [Range<usize>; 3],
}

impl Mapped {
    /// Those of the object whose code holds `address`. None: they are not as in most objects, or may not be read.
    pub(super) fn around(address: usize) -> Option<Mapped> {
        let maps = Maps::open().ok()?;
        let at = |place: usize| {
            let covers = |vma: &Vma| (vma.start..vma.end).contains(&place);
            let found = match maps.source() {
                MapsSource::Query => maps.covering_or_next(place).ok()??,
                MapsSource::Text => {
                    let mut text = [0; MAPS_BUFFER_BYTES];
                    maps.iter(&mut text).map_while(Result::ok).find(covers)?
                }
            };
            let is_there = covers(&found);
            (is_there && found.readable && found.kind == Kind::Named && !found.shared).then_some(found)
        };
        let code = at(address).filter(is_code)?;
        let base = code.start.checked_sub(code.offset as usize)?;
        let first = at(base).filter(|first| first.start == base && first.offset == 0)?;
        let behind = at(code.end)?;
        Some(Mapped { ranges: [first, code, behind].map(|vma| vma.start..vma.end) })
    }

    pub(super) fn object(&self, address: usize) -> Option<Object> {
        Object::at(self, self.ranges[0].start, Some(address))
    }
}

impl Memory for Mapped {
    fn read(&self, address: usize, into: &mut [u8]) -> usize {
        let Some(range) = self.ranges.iter().find(|range| range.contains(&address)) else { return 0 };
        let bytes = into.len().min(range.end - address);
        // SAFETY:
        // 1. The range is part of a library that is in use: its text and tables stay mapped, and may be read, as
        //    `around` has found.
        unsafe { core::ptr::copy_nonoverlapping(address as *const u8, into.as_mut_ptr(), bytes) };
        bytes
    }
}

/// Whether it may be patched: private, read-only code of a file.
fn is_code(vma: &Vma) -> bool {
    vma.executable && !vma.writable && !vma.shared && vma.kind == Kind::Named
}

impl Memory for Process {
    fn read(&self, address: usize, into: &mut [u8]) -> usize {
        // A read that crosses into a hole comes back short.
        self.file.pread(into, address as u64).unwrap_or(0)
    }
}

/// Stores the eight bytes at `address`, a multiple of eight, at once: other threads may run them.
pub(super) fn store_at_once(address: usize, word: u64) -> bool {
    with_writable(address, size_of::<u64>(), || {
        // It pairs with no load: processors fetch it as code, and `synchronize` in `write` makes all of them do so.
        // What counts is that it is a single store, and SeqCst adds nothing to that.
        let place = AtomicPtr::new(address as *mut u64).load(Ordering::Relaxed);
        // SAFETY:
        // 1. The page is writable now, and the address is aligned.
        unsafe { core::sync::atomic::AtomicU64::from_ptr(place) }.store(word, Ordering::SeqCst);
    })
}

/// Runs `work` while the pages are writable and stay executable; false: not permitted.
fn with_writable(address: usize, bytes: usize, work: impl FnOnce()) -> bool {
    let start = address & !PAGE_MASK;
    let length = (address + bytes - start + PAGE_MASK) & !PAGE_MASK;
    let protect = |access: u32| {
        // SAFETY:
        // 1. The pages hold text: they stay readable and executable all the time.
        unsafe { sys::syscall3(abi::__NR_mprotect, start, length, access as usize) }.is_ok()
    };
    let text = abi::PROT_READ | abi::PROT_EXEC;
    if !protect(text | abi::PROT_WRITE) {
        return false;
    }
    work();
    // Text that stays writable is worse than nothing, but it can only fail for want of memory for mappings,
    // and this call joins some.
    protect(text)
}
