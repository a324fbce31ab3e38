//! The kernel's own function that reads the clock without a system call: it lies in a page that each process has
//! mapped, the vDSO, in the form of a shared library.
//!
//! libc uses it too; what is here needs no libc. A process whose vDSO is missing, or looks otherwise than expected,
//! reads the clock by system calls.
//!
//! Must hold: what is not as expected gives no time, never a wrong one. Called by [`crate::clock`].

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::PAGE_BYTES;
use crate::sys::prctl::PR_GET_AUXV;
use crate::sys::{self, abi};

/// `clock_gettime` as the vDSO has it; 0 is success.
type ReadClock = extern "C" fn(clock: i32, time: *mut abi::__kernel_timespec) -> i32;

/// Address of the function.
static READ_CLOCK: AtomicUsize = AtomicUsize::new(NOT_LOOKED_FOR);
static FORBIDDEN: AtomicBool = AtomicBool::new(false);
const NOT_LOOKED_FOR: usize = 0;
const NONE: usize = 1;

/// Where the vDSO begins.
const AT_SYSINFO_EHDR: usize = 33;
/// Pairs of numbers of the auxiliary vector; Linux 6.18 has 24.
const AUXV_PAIRS: usize = 64;

const NAME: &[u8] = b"__vdso_clock_gettime\0";

/// Nanoseconds of a clock, if the vDSO can say it.
///
/// It reads the processor's time stamp: a thread that is forbidden to (`PR_SET_TSC`) would get a signal. So this is for
/// threads of the engine, which [`crate::thread::spawn`] allows it, for the supervisor, whose libc reads it too, and
/// for those of a program that says when it is forbidden ([`no_time_stamps`]).
pub(crate) fn read_clock(clock: u32) -> Option<u64> {
    if FORBIDDEN.load(Ordering::Relaxed) {
        return None;
    }
    let address = match READ_CLOCK.load(Ordering::Relaxed) {
        NOT_LOOKED_FOR => look(),
        known => known,
    };
    if address == NONE {
        return None;
    }
    let mut time = MaybeUninit::<abi::__kernel_timespec>::zeroed();
    // SAFETY:
    // 1. `look` found the address in the vDSO under the name of this function, whose form the kernel keeps for ever.
    //    The vDSO stays mapped: a program that unmapped it would break its own libc.
    // 2. It writes one timespec, or nothing; zeros are a valid value.
    let (failed, time) = unsafe {
        let read: ReadClock = core::mem::transmute(address);
        let failed = read(clock as i32, time.as_mut_ptr());
        (failed, time.assume_init())
    };
    (failed == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// A thread of this process may not read time stamps: nobody does from now on.
pub(crate) fn no_time_stamps() {
    FORBIDDEN.store(true, Ordering::Relaxed);
}

/// Two threads that are first find the same.
fn look() -> usize {
    let found = start().and_then(|start| Some(start + offset_of_function(image(start)?)?));
    let address = found.unwrap_or(NONE);
    READ_CLOCK.store(address, Ordering::Relaxed);
    address
}

/// Address of the vDSO.
fn start() -> Option<usize> {
    let mut pairs = [[0_usize; 2]; AUXV_PAIRS];
    // SAFETY:
    // 1. The kernel writes no more bytes than it is told, all of which are in `pairs`.
    unsafe {
        let to = pairs.as_mut_ptr() as usize;
        // Linux 6.4 has it.
        sys::syscall4(abi::__NR_prctl, PR_GET_AUXV as usize, to, size_of_val(&pairs), 0).ok()?;
    }
    let start = pairs.iter().find(|pair| pair[0] == AT_SYSINFO_EHDR)?[1];
    (start != 0 && start.is_multiple_of(PAGE_BYTES)).then_some(start)
}

/// The vDSO as it lies in memory.
fn image(start: usize) -> Option<&'static [u8]> {
    // SAFETY:
    // 1. The kernel has put a vDSO here, of one page at least, which nobody writes to.
    let first_page = unsafe { core::slice::from_raw_parts(start as *const u8, PAGE_BYTES) };
    let bytes = Elf(first_page).loaded_bytes()?;
    // SAFETY:
    // 1. Its own header says that so many bytes are loaded from its beginning on.
    Some(unsafe { core::slice::from_raw_parts(start as *const u8, bytes) })
}

fn offset_of_function(image: &[u8]) -> Option<usize> {
    Elf(image).offset_of(NAME)
}

/// A shared library of 64 bits in memory. Offsets beyond its end are no panic, but `None`.
struct Elf<'a>(&'a [u8]);

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const PROGRAM_HEADER_BYTES: usize = 56;
const DYNAMIC_BYTES: usize = 16;
const SYMBOL_BYTES: usize = 24;

impl Elf<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at.checked_add(N)?)?.try_into().ok()
    }
    fn u16(&self, at: usize) -> Option<u16> {
        self.bytes(at).map(u16::from_le_bytes)
    }
    fn u32(&self, at: usize) -> Option<u32> {
        self.bytes(at).map(u32::from_le_bytes)
    }
    fn u64(&self, at: usize) -> Option<u64> {
        self.bytes(at).map(u64::from_le_bytes)
    }

    /// Offset of the program header of this type.
    fn program_header(&self, wanted: u32) -> Option<usize> {
        if self.bytes(0)? != *b"\x7fELF" || usize::from(self.u16(54)?) != PROGRAM_HEADER_BYTES {
            return None;
        }
        let first = self.u64(32)? as usize;
        let at = |index: usize| first.checked_add(index * PROGRAM_HEADER_BYTES);
        (0..usize::from(self.u16(56)?)).filter_map(at).find(|&at| self.u32(at) == Some(wanted))
    }

    /// Bytes that are loaded, if that is one part from the beginning of the file on.
    fn loaded_bytes(&self) -> Option<usize> {
        let load = self.program_header(PT_LOAD)?;
        (self.u64(load + 8)? == 0).then_some(self.u64(load + 40)? as usize)
    }

    /// Address that the file takes its first byte to have.
    fn base(&self) -> Option<u64> {
        self.u64(self.program_header(PT_LOAD)? + 16)
    }

    /// Offset of what the dynamic section names by an address.
    fn named_by(&self, tag: u64) -> Option<usize> {
        let header = self.program_header(PT_DYNAMIC)?;
        let (start, bytes) = (self.u64(header + 8)? as usize, self.u64(header + 40)? as usize);
        let entries = (0..bytes / DYNAMIC_BYTES).filter_map(|index| start.checked_add(index * DYNAMIC_BYTES));
        let entry = entries.take_while(|&at| self.u64(at).is_some()).find(|&at| self.u64(at) == Some(tag))?;
        Some(self.u64(entry + 8)?.checked_sub(self.base()?)? as usize)
    }

    /// Offset of the symbol of this name, which ends in NUL.
    fn offset_of(&self, name: &[u8]) -> Option<usize> {
        let [hash, strings, symbols] = [DT_HASH, DT_STRTAB, DT_SYMTAB].map(|tag| self.named_by(tag));
        let (hash, strings, symbols) = (hash?, strings?, symbols?);
        // As many as the hash table has chains.
        let count = self.u32(hash.checked_add(4)?)? as usize;
        for index in 0..count {
            let symbol = symbols.checked_add(index * SYMBOL_BYTES)?;
            let its_name = strings.checked_add(self.u32(symbol)? as usize)?;
            let is_defined = self.u16(symbol + 6)? != 0;
            if is_defined && self.0.get(its_name..)?.starts_with(name) {
                let offset = self.u64(symbol + 8)?.checked_sub(self.base()?)? as usize;
                return (offset < self.0.len()).then_some(offset);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn own_image() -> &'static [u8] {
        image(start().expect("the kernel tells where the vDSO is")).expect("it is a library of 64 bits")
    }

    #[test]
    fn it_says_what_the_system_call_says() {
        for _ in 0..1000 {
            let before = crate::clock::now_ns();
            let between = read_clock(abi::CLOCK_MONOTONIC).expect("the vDSO has the function");
            let after = crate::clock::now_ns();
            assert!((before..=after).contains(&between), "{before} {between} {after}");
        }
    }

    #[test]
    fn a_name_that_is_not_there_is_not_found() {
        assert_eq!(Elf(own_image()).offset_of(b"__vdso_clock_gettimes\0"), None);
    }

    /// Whatever is cut off or overwritten: an offset in it, or none, but no panic.
    #[test]
    fn a_damaged_library_is_no_panic() {
        let image: Vec<u8> = own_image().to_vec();
        for end in 0..image.len().min(2048) {
            assert_eq!(offset_of_function(&image[..end]), None);
        }
        for at in 0..image.len().min(4096) {
            for value in [0, 0x7f, 0xff] {
                let mut damaged = image.clone();
                damaged[at] = value;
                let found = Elf(&damaged).loaded_bytes().and_then(|_| offset_of_function(&damaged));
                assert!(found.is_none_or(|offset| offset < damaged.len()));
            }
        }
    }
}
