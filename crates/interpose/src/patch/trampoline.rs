//! Trampolines: small pieces of code within two gigabytes of their site.
//!
//! ```text
//!   copies of what the jump replaced, and of what stands between it and the syscall
//!   lea rsp, [rsp - 128]         over the red zone
//!   call `quick_entry`           or `entry`, through the last word
//!   syscall                \     a no-operation with `entry`, which makes the call itself
//!   lea rsp, [rsp + 128]    | the tail, TRAMPOLINE_TAIL_BYTES
//!   jmp behind the site    /
//!   8 bytes: the address behind the site (`Context::instruction_pointer`)
//!   8 bytes: the address of `entry`, if that is called
//! ```
//!
//! The first area is part of this library's text, from which calls are allowed: its trampolines make them
//! themselves. Sites too far from there get areas of their own. None is ever writable in the usual case:
//! `Process::write` passes protections. None is ever unmapped.

use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

use uswap_os::maps::Kind;
use uswap_os::sys::{self, abi};

use super::memory::Process;
use crate::entry::{self, AREA_BYTES, TRAMPOLINE_TAIL_BYTES};
use crate::sites::{JUMP_BYTES, MOVED_BYTES_MAX, Memory};

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
const CALL: u8 = 0xE8;
const JUMP: u8 = 0xE9;
const _: () = assert!(2 + BACK_OVER_RED_ZONE.len() + JUMP_BYTES == TRAMPOLINE_TAIL_BYTES);
const CODE_BYTES_MAX: usize = MOVED_BYTES_MAX + 5 + 6 + TRAMPOLINE_TAIL_BYTES + 16;

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

/// The first whole page of `entry::area`; the function has one page more than it needs.
fn own_area() -> usize {
    (entry::area as *const () as usize).next_multiple_of(uswap_os::PAGE_BYTES)
}

/// Filled by one patch at a time. The first is this library's own.
static AREAS: [Area; AREAS_MAX] =
    [const { Area { start: AtomicUsize::new(0), used: AtomicUsize::new(0) } }; AREAS_MAX];

/// Writes the trampoline of a site; answers its address, which a near jump at `from` reaches. `moved` is
/// copied in front.
pub(super) fn make(memory: &Process, from: usize, moved: Range<usize>, site_end: usize) -> Option<usize> {
    let area = area_near(memory, from)?;
    let at = area.start.load(Ordering::Relaxed) + area.used.load(Ordering::Relaxed);
    let mut code = Code { bytes: [0; CODE_BYTES_MAX], length: 0 };
    let moved_bytes = moved.len();
    if moved_bytes > MOVED_BYTES_MAX || memory.read(moved.start, &mut code.bytes[..moved_bytes]) < moved_bytes
    {
        return None;
    }
    code.length = moved_bytes;
    code.push(&OVER_RED_ZONE);
    if area.is_allowed() {
        let [_, distance @ ..] = jump(at + code.length, entry::quick_entry_address())?;
        code.push(&[CALL]);
        code.push(&distance);
        code.push(&SYSCALL);
    } else {
        // Behind the call lie the tail and one word, then the address to call.
        code.push(&CALL_MEMORY);
        code.push(&((TRAMPOLINE_TAIL_BYTES + 8) as u32).to_le_bytes());
        code.push(&NO_OPERATION);
    }
    code.push(&BACK_OVER_RED_ZONE);
    let jump = jump(at + code.length, site_end)?;
    code.push(&jump);
    code.push(&site_end.to_le_bytes());
    if !area.is_allowed() {
        code.push(&entry::entry_address().to_le_bytes());
    }
    if !memory.write(at, &code.bytes[..code.length]) {
        return None;
    }
    area.used.fetch_add(code.length.next_multiple_of(16), Ordering::Relaxed);
    Some(at)
}

/// A near jump at `from` to `to`, if it reaches.
pub(super) fn jump(from: usize, to: usize) -> Option<[u8; JUMP_BYTES]> {
    let distance = (to as i64).checked_sub((from + JUMP_BYTES) as i64)?;
    let [a, b, c, d] = i32::try_from(distance).ok()?.to_le_bytes();
    Some([JUMP, a, b, c, d])
}

struct Code {
    bytes: [u8; CODE_BYTES_MAX],
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
        let has_room = area.used.load(Ordering::Relaxed) + CODE_BYTES_MAX <= AREA_BYTES;
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
