//! Trampolines: small pieces of code within two gigabytes of their site.
//!
//! ```text
//!    .. 64  copies of what the jump replaced, and of what stands between it and the syscall
//!   64      lea rsp, [rsp - 128]     over the red zone: TRAMPOLINE_MIDDLE is behind it
//!   69      call `quick_entry`       or `entry`, through the word at 112
//!   74      syscall                  a no-operation with `entry`, which makes the call itself
//!   76      lea rsp, [rsp + 128]     TRAMPOLINE_TAIL is behind it
//!   84      jmp behind the site
//!  112      the address of `entry`, if that is called
//!  120      the address behind the site: `Context::instruction_pointer`
//! ```
//!
//! The first area is part of this library's text, from which calls are allowed: its trampolines make them
//! themselves. Sites too far from there get areas of their own. None is ever writable in the usual case:
//! `Process::write` passes protections. None is ever unmapped.
//!
//! Must hold: a trampoline is complete before a jump leads to it, and stays as it is from then on: a thread may be
//! inside of it at any time. Called by [`crate::patch`] and [`crate::patch::write`], and by [`crate::cancellation`],
//! which asks where a thread stands.

use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

use uswap_os::maps::Kind;
use uswap_os::sys::{self, abi};

use super::memory::Process;
use crate::frame;
use crate::sites::{JUMP_BYTES, MOVED_BYTES_MAX, Memory};
use crate::trampoline_area::{AREA_BYTES, TRAMPOLINE_BYTES, TRAMPOLINE_MIDDLE, TRAMPOLINE_TAIL, area};

const AREAS_MAX: usize = 64;
/// Kept free between an area and what lies below it, which may grow.
const GAP_BYTES: usize = 1 << 20;
/// A near jump reaches two gigabytes; both ends of an area must.
const REACH_BYTES: usize = (1 << 31) - (1 << 20);
const LOWEST: usize = 1 << 16;

const OVER_RED_ZONE: [u8; 5] = [0x48, 0x8D, 0x64, 0x24, 0x80];
const CALL_MEMORY: [u8; 2] = [0xFF, 0x15];
const BACK_OVER_RED_ZONE: [u8; 8] = [0x48, 0x8D, 0xA4, 0x24, 0x80, 0, 0, 0];
const SYSCALL: [u8; 2] = [0x0F, 0x05];
const NO_OPERATION: [u8; 2] = [0x66, 0x90];
const INT3: u8 = 0xCC;
const CALL: u8 = 0xE8;
const JUMP: u8 = 0xE9;
/// Where the copies end.
const MOVED_END: usize = TRAMPOLINE_MIDDLE - OVER_RED_ZONE.len();
/// The `syscall` instruction.
const CALL_AT: usize = TRAMPOLINE_MIDDLE + JUMP_BYTES;
const ENTRY_AT: usize = 112;
const SITE_END_AT: usize = 120;
const _: () = assert!(MOVED_BYTES_MAX <= MOVED_END);
const _: () =
    assert!(TRAMPOLINE_MIDDLE + JUMP_BYTES + SYSCALL.len() + BACK_OVER_RED_ZONE.len() == TRAMPOLINE_TAIL);

struct Area {
    start: AtomicUsize,
    used: AtomicUsize,
}

impl Area {
    /// Does it lie in the text that dispatch allows?
    fn is_allowed(&self) -> bool {
        self.start.load(Ordering::Relaxed) == own_area()
    }
}

/// The area in this library's text, which starts at a page.
fn own_area() -> usize {
    (area as *const () as usize).next_multiple_of(uswap_os::PAGE_BYTES)
}

/// Filled by one patch at a time. The first is this library's own.
static AREAS: [Area; AREAS_MAX] =
    [const { Area { start: AtomicUsize::new(0), used: AtomicUsize::new(0) } }; AREAS_MAX];

/// Writes the trampoline of a site; answers its address, which a near jump at `from` reaches. `moved` is
/// copied in front, as `text` has it.
pub(super) fn make(
    memory: &Process,
    text: &impl Memory,
    from: usize,
    moved: Range<usize>,
    site_end: usize,
) -> Option<usize> {
    let area = area_near(memory, from)?;
    let at = area.start.load(Ordering::Relaxed) + area.used.load(Ordering::Relaxed);
    let moved_bytes = moved.len();
    let start = MOVED_END.checked_sub(moved_bytes)?;
    let mut code = Code { bytes: [INT3; TRAMPOLINE_BYTES], length: MOVED_END };
    if text.read(moved.start, &mut code.bytes[start..MOVED_END]) < moved_bytes {
        return None;
    }
    code.push(&OVER_RED_ZONE);
    if area.is_allowed() {
        let [_, distance @ ..] = jump(at + code.length, frame::quick_entry_address())?;
        code.push(&[CALL]);
        code.push(&distance);
        code.push(&SYSCALL);
    } else {
        code.push(&CALL_MEMORY);
        code.push(&((ENTRY_AT - code.length - 4) as u32).to_le_bytes());
        code.push(&NO_OPERATION);
    }
    code.push(&BACK_OVER_RED_ZONE);
    let back = jump(at + code.length, site_end)?;
    code.push(&back);
    code.length = ENTRY_AT;
    code.push(&frame::entry_address().to_le_bytes());
    debug_assert_eq!(code.length, SITE_END_AT);
    code.push(&site_end.to_le_bytes());
    if !memory.write(at, &code.bytes) {
        return None;
    }
    area.used.fetch_add(TRAMPOLINE_BYTES, Ordering::Relaxed);
    Some(at + start)
}

/// The trampoline of this library's text that holds a place.
fn of_own_area(place: usize) -> Option<usize> {
    let offset = place.checked_sub(own_area())?;
    (offset < AREA_BYTES).then_some(place & !(TRAMPOLINE_BYTES - 1))
}

/// Whether a place lies in a trampoline that makes calls itself.
pub(crate) fn is_trampoline(place: usize) -> bool {
    of_own_area(place).is_some()
}

/// The address behind the site whose call is made at `place`, the `syscall` instruction of a trampoline.
pub(crate) fn behind_site(place: usize) -> Option<usize> {
    let start = of_own_area(place)?;
    // SAFETY:
    // 1. A trampoline has that word at its end.
    (place == start + CALL_AT).then(|| unsafe { *((start + SITE_END_AT) as *const usize) })
}

/// A near jump at `from` to `to`, if it reaches.
pub(super) fn jump(from: usize, to: usize) -> Option<[u8; JUMP_BYTES]> {
    let distance = (to as i64).checked_sub((from + JUMP_BYTES) as i64)?;
    let [a, b, c, d] = i32::try_from(distance).ok()?.to_le_bytes();
    Some([JUMP, a, b, c, d])
}

struct Code {
    bytes: [u8; TRAMPOLINE_BYTES],
    length: usize,
}

impl Code {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }
}

/// An area with room that a jump at `from` reaches.
fn area_near(memory: &Process, from: usize) -> Option<&'static Area> {
    AREAS[0].start.store(own_area(), Ordering::Relaxed);
    for area in &AREAS {
        let start = area.start.load(Ordering::Relaxed);
        if start == 0 {
            let start = map_near(memory, from)?;
            area.start.store(start, Ordering::Relaxed);
            return Some(area);
        }
        let has_room = area.used.load(Ordering::Relaxed) < AREA_BYTES;
        if has_room && is_in_reach(start, from) {
            return Some(area);
        }
    }
    None
}

fn is_in_reach(start: usize, from: usize) -> bool {
    from.abs_diff(start) < REACH_BYTES && from.abs_diff(start + AREA_BYTES) < REACH_BYTES
}

/// Maps an area below a mapping that is near: the end of a hole, so that what lies below the hole (the heap)
/// may go on growing into it.
fn map_near(memory: &Process, from: usize) -> Option<usize> {
    let mut best: Option<usize> = None;
    let mut hole_start = LOWEST;
    memory.for_each_mapping(|vma| {
        let hole_bytes = vma.start.saturating_sub(hole_start);
        // Stacks grow down into their hole.
        if hole_bytes >= AREA_BYTES + GAP_BYTES && vma.kind != Kind::Stack {
            let start = vma.start - AREA_BYTES;
            let is_better = best.is_none_or(|best| from.abs_diff(start) < from.abs_diff(best));
            if is_in_reach(start, from) && is_better {
                best = Some(start);
            }
        }
        hole_start = vma.end;
    })?;
    let flags = abi::MAP_PRIVATE | abi::MAP_ANONYMOUS | abi::MAP_FIXED_NOREPLACE | abi::MAP_NORESERVE;
    let access = abi::PROT_READ | abi::PROT_EXEC;
    // SAFETY:
    // 1. MAP_FIXED_NOREPLACE: nothing that is mapped is touched.
    unsafe {
        let (access, flags) = (access as usize, flags as usize);
        sys::syscall6(abi::__NR_mmap, best?, AREA_BYTES, access, flags, usize::MAX, 0)
    }
    .ok()
}
