//! How one `syscall` instruction can be replaced by a jump, found by decoding the function around it.
//!
//! Two bytes have no room for a jump of five. Two ways, and neither touches an instruction that a thread
//! could be inside of or come back to, so that other threads may run meanwhile:
//!
//! *Ahead*: an instruction of five bytes or more in the straight line before it (`mov $nr,%eax` mostly)
//! becomes the jump. Copies of it and of what stands between run in the trampoline. What stands between stays
//! in place, and so does the `syscall`: whoever gets there by another way still makes the call.
//!
//! *Pad*: the `syscall` itself becomes a short jump to padding within 127 bytes that no code reaches, and the
//! padding a jump to the trampoline. Nothing is moved.
//!
//! What must hold: every boundary comes from decoding from the start of a function, never from a
//! pattern of bytes. No branch of the function leads inside of what is replaced.
//!
//! Called by [`crate::patch`].

pub mod functions;
#[cfg(test)]
mod tests;

use yaxpeax_arch::LengthedInstruction;
use yaxpeax_x86::long_mode::{InstDecoder, Instruction, Opcode, Operand, RegSpec};

/// Bytes of a near jump.
pub const JUMP_BYTES: usize = 5;
/// Bytes of `syscall`, and of a short jump.
pub const SYSCALL_BYTES: usize = 2;
/// Most bytes that are copied into a trampoline.
pub const MOVED_BYTES_MAX: usize = 48;
/// Functions are decoded no further than this.
const FUNCTION_BYTES_MAX: usize = 64 * 1024;
/// Longest instruction.
const INSTRUCTION_BYTES_MAX: usize = 15;
/// Instructions in the straight line that are remembered.
const LINE_MAX: usize = 8;
/// A short jump reaches this far.
const SHORT_REACH: usize = 127;
/// Looked at behind an unmapping for another call: see [`Unpatchable::StackMayBeGone`].
const BEHIND_MAX: usize = 8;

/// Where the code is read from: the process itself, or a file.
pub trait Memory {
    /// Reads from `address` on; answers how many bytes there were.
    fn read(&self, address: usize, into: &mut [u8]) -> usize;
}

/// How a site is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The instruction at `at` becomes a jump; from there to the `syscall` is copied.
    Ahead {
        /// Address of the instruction.
        at: usize,
    },
    /// The `syscall` becomes a short jump to `pad`.
    Pad {
        /// Address of five bytes that nothing reaches.
        pad: usize,
    },
}

/// Why a site is left alone. Its calls are dispatched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unpatchable {
    /// No table says where its function starts.
    NoFunction,
    /// Decoding the function does not come to it.
    NotReached,
    /// No instruction ahead is long enough, and no padding is near.
    NoRoom,
    /// A branch leads inside of what would be replaced.
    Branch,
    /// Behind it the stack may be gone: an unmapping that is followed by another call.
    StackMayBeGone,
}

impl Unpatchable {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Unpatchable::NoFunction => "no unwind table says where its function starts",
            Unpatchable::NotReached => "decoding its function does not come to it",
            Unpatchable::NoRoom => "no long instruction ahead and no padding near",
            Unpatchable::Branch => "a branch leads inside of what would be replaced",
            Unpatchable::StackMayBeGone => "its stack may be gone behind the call",
        }
    }
}

/// One decoded instruction.
#[derive(Debug, Clone, Copy)]
struct Decoded {
    address: usize,
    bytes: usize,
    flow: Flow,
    is_movable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Nop,
    /// `int3`, which linkers use as padding.
    Trap,
    Syscall,
    /// May go on behind it; the target, if it is in the instruction.
    Branch(Option<usize>),
    /// Does not go on behind it.
    Leaves(Option<usize>),
}

impl Decoded {
    fn end(&self) -> usize {
        self.address + self.bytes
    }
}

/// Finds the way for the site whose `syscall` ends at `site_end`, in the function `function`.
///
/// `is_unmapping`: its call is munmap.
pub fn find_way(
    memory: &impl Memory,
    function: core::ops::Range<usize>,
    site_end: usize,
    is_unmapping: bool,
) -> Result<Way, Unpatchable> {
    let site = site_end - SYSCALL_BYTES;
    let mut line = Line::default();
    let mut found = None;
    for decoded in Code::new(memory, function.start, function.end.max(site_end)) {
        if decoded.address == site && decoded.flow == Flow::Syscall {
            found = Some(());
            break;
        }
        if decoded.end() > site {
            break;
        }
        line.push(decoded);
    }
    found.ok_or(Unpatchable::NotReached)?;
    if is_unmapping && another_call_follows(memory, site_end) {
        return Err(Unpatchable::StackMayBeGone);
    }
    if let Some(at) = line.room_at_number(site) {
        return check_branches(memory, &function, at, JUMP_BYTES, Way::Ahead { at });
    }
    let pad_error = match find_pad(memory, &function, site) {
        Ok(pad) => return Ok(Way::Pad { pad }),
        Err(error) => error,
    };
    match line.room(site) {
        Some(at) => check_branches(memory, &function, at, line.bytes_at(at), Way::Ahead { at }),
        None => Err(pad_error),
    }
}

/// All `syscall` instructions of a function.
pub fn calls<M: Memory>(
    memory: &M,
    function: core::ops::Range<usize>,
) -> impl Iterator<Item = usize> + use<'_, M> {
    Code::new(memory, function.start, function.end)
        .filter(|decoded| decoded.flow == Flow::Syscall)
        .map(|decoded| decoded.end())
}

/// The last instructions of a straight line of code.
#[derive(Default)]
struct Line {
    decoded: [Option<Decoded>; LINE_MAX],
    count: usize,
}

impl Line {
    fn push(&mut self, decoded: Decoded) {
        if !matches!(decoded.flow, Flow::Next | Flow::Nop) {
            self.count = 0;
            return;
        }
        if self.count == LINE_MAX {
            self.decoded.rotate_left(1);
            self.count -= 1;
        }
        self.decoded[self.count] = Some(decoded);
        self.count += 1;
    }

    fn backward(&self) -> impl Iterator<Item = &Decoded> {
        self.decoded[..self.count].iter().rev().flatten()
    }

    /// `mov $nr,%eax` directly ahead, or anything of its length: the common case.
    fn room_at_number(&self, site: usize) -> Option<usize> {
        let last = self.backward().next()?;
        (last.end() == site && last.is_movable && last.bytes >= JUMP_BYTES).then_some(last.address)
    }

    /// The nearest instruction that is long enough, if it and all behind it can be copied.
    fn room(&self, site: usize) -> Option<usize> {
        self.backward()
            .take_while(|decoded| decoded.is_movable && site - decoded.address <= MOVED_BYTES_MAX)
            .find(|decoded| decoded.bytes >= JUMP_BYTES)
            .map(|decoded| decoded.address)
    }

    fn bytes_at(&self, address: usize) -> usize {
        self.backward().find(|decoded| decoded.address == address).map_or(JUMP_BYTES, |found| found.bytes)
    }
}

/// `way`, unless a branch of the function leads inside of the `bytes` bytes at `at`.
fn check_branches(
    memory: &impl Memory,
    function: &core::ops::Range<usize>,
    at: usize,
    bytes: usize,
    way: Way,
) -> Result<Way, Unpatchable> {
    let is_inside = |target: usize| at < target && target < at + bytes;
    let leads_inside = Code::new(memory, function.start, function.end).any(
        |decoded| matches!(decoded.flow, Flow::Branch(Some(to)) | Flow::Leaves(Some(to)) if is_inside(to)),
    );
    if leads_inside { Err(Unpatchable::Branch) } else { Ok(way) }
}

/// Five bytes of padding in reach of a short jump at `site`: no-operations behind an instruction that
/// does not go on, and no branch leads to them.
fn find_pad(
    memory: &impl Memory,
    function: &core::ops::Range<usize>,
    site: usize,
) -> Result<usize, Unpatchable> {
    let from = site + SYSCALL_BYTES;
    let reach = from.saturating_sub(SHORT_REACH + 1)..from + SHORT_REACH;
    let mut is_reached = true;
    let mut start = 0;
    let mut candidate = None;
    for decoded in Code::new(memory, function.start, function.end) {
        let is_padding = !is_reached && matches!(decoded.flow, Flow::Nop | Flow::Trap);
        if !is_padding {
            is_reached = !matches!(decoded.flow, Flow::Leaves(_));
            start = decoded.end();
        } else if decoded.end() - start >= JUMP_BYTES && reach.contains(&start) && candidate.is_none() {
            candidate = Some(start);
        }
    }
    let pad = candidate.ok_or(Unpatchable::NoRoom)?;
    // A branch to the first byte counts too: then it is reached.
    let way = Way::Pad { pad };
    check_branches(memory, function, pad - 1, JUMP_BYTES + 1, way).map(|_| pad)
}

/// Is there another `syscall` in the straight line behind a call?
fn another_call_follows(memory: &impl Memory, site_end: usize) -> bool {
    Code::new(memory, site_end, site_end + BEHIND_MAX * INSTRUCTION_BYTES_MAX)
        .take(BEHIND_MAX)
        .take_while(|decoded| !matches!(decoded.flow, Flow::Branch(_) | Flow::Leaves(_)))
        .any(|decoded| decoded.flow == Flow::Syscall)
}

/// Decodes from one address to another, through a small buffer.
struct Code<'a, M> {
    memory: &'a M,
    decoder: InstDecoder,
    at: usize,
    end: usize,
    buffer: [u8; 512],
    buffer_start: usize,
    buffer_bytes: usize,
}

impl<'a, M: Memory> Code<'a, M> {
    fn new(memory: &'a M, start: usize, end: usize) -> Code<'a, M> {
        Code {
            memory,
            decoder: InstDecoder::default(),
            at: start,
            end: end.min(start.saturating_add(FUNCTION_BYTES_MAX)),
            buffer: [0; 512],
            buffer_start: 0,
            buffer_bytes: 0,
        }
    }

    /// What is left of the code at `self.at`, at most an instruction's length guaranteed.
    fn bytes(&mut self) -> &[u8] {
        let used = self.at.wrapping_sub(self.buffer_start);
        if used >= self.buffer_bytes || self.buffer_bytes - used < INSTRUCTION_BYTES_MAX {
            self.buffer_start = self.at;
            self.buffer_bytes = self.memory.read(self.at, &mut self.buffer);
        }
        &self.buffer[self.at - self.buffer_start..self.buffer_bytes]
    }
}

impl<M: Memory> Iterator for Code<'_, M> {
    type Item = Decoded;

    fn next(&mut self) -> Option<Decoded> {
        if self.at >= self.end {
            return None;
        }
        let address = self.at;
        let decoder = self.decoder;
        let bytes = self.bytes();
        let Ok(instruction) = decoder.decode_slice(bytes) else {
            self.at = self.end;
            return None;
        };
        let decoded = describe(&instruction, address);
        self.at = decoded.end();
        Some(decoded)
    }
}

fn describe(instruction: &Instruction, address: usize) -> Decoded {
    let bytes = instruction.len().to_const() as usize;
    let operand = instruction.operand(0);
    let target = match operand {
        Operand::ImmediateI8 { imm } => Some(imm as isize),
        Operand::ImmediateI32 { imm } => Some(imm as isize),
        _ => None,
    };
    let target = target.map(|distance| (address + bytes).wrapping_add_signed(distance));
    let opcode = instruction.opcode();
    let flow = match opcode {
        Opcode::SYSCALL => Flow::Syscall,
        Opcode::NOP => Flow::Nop,
        Opcode::INT if bytes == 1 => Flow::Trap,
        Opcode::JMP => Flow::Leaves(target),
        Opcode::RETURN | Opcode::RETF | Opcode::IRET | Opcode::IRETD | Opcode::IRETQ => Flow::Leaves(None),
        Opcode::UD0 | Opcode::UD1 | Opcode::UD2 | Opcode::HLT | Opcode::JMPF => Flow::Leaves(None),
        Opcode::CALL
        | Opcode::LOOP
        | Opcode::LOOPZ
        | Opcode::LOOPNZ
        | Opcode::JRCXZ
        | Opcode::JECXZ
        | Opcode::XBEGIN => Flow::Branch(target),
        Opcode::CALLF | Opcode::INT | Opcode::SYSENTER => Flow::Branch(None),
        _ if instruction.opcode().is_jcc() => Flow::Branch(target),
        _ => Flow::Next,
    };
    let is_relative = (0..instruction.operand_count()).any(|index| is_relative(&instruction.operand(index)));
    // A branch may lead behind the prefix: old code jumps over `lock` in processes of one thread.
    let is_movable = matches!(flow, Flow::Next | Flow::Nop) && !is_relative && !instruction.prefixes.lock();
    Decoded { address, bytes, flow, is_movable }
}

/// Does the operand depend on where the instruction is?
fn is_relative(operand: &Operand) -> bool {
    let base = match operand {
        Operand::MemDeref { base } | Operand::Disp { base, .. } => *base,
        Operand::MemDerefMasked { base, .. } | Operand::DispMasked { base, .. } => *base,
        _ => return false,
    };
    base == RegSpec::rip() || base == RegSpec::eip()
}
