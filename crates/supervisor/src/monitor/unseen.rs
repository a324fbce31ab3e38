//! Arms processes that have grown by system calls that nobody has seen.
//!
//! Of a small process only a few functions of its C library are seen (docs/adr/0032). One that maps its memory by raw
//! system calls is found here by its size. The agent is in it, so it is stopped between two instructions of its
//! program, and let go on in the agent, which arms the process and goes back to where it was
//! (`interpose::interrupted`).
//!
//! What must hold: a thread is taken away only from code of the program that may stop anywhere: not from code of the
//! agent, which may hold its locks, not out of a restartable sequence, and only on the stack that the kernel made for
//! it. Else it is let go as it was, and tried again.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use uswap_os::clock;
use uswap_os::ptrace::{Registers, Stop, Tracee};

use crate::program::symbol;

/// The agent's name of the place where the thread goes on.
const ENTRY: &str = "uswap_agent_grown_unseen";

/// So long one look waits for the thread to stop. A thread in the kernel may take longer, and is looked at again.
const PATIENCE: Duration = Duration::from_millis(2);

/// So often it is tried: about a second.
const TRIES_MAX: u32 = 40;

const RED_ZONE_BYTES: usize = 128;
/// Of the stack, for the way into the agent.
const STACK_BYTES_MIN: usize = 16 << 10;
/// Where a thread tells the kernel of a restartable sequence, in its area.
const SEQUENCE_OFFSET: usize = 8;
const USER_CODE: usize = 0x33;

/// One process that has grown so, while it is tried.
#[derive(Default)]
pub struct Unseen {
    tries: u32,
    /// It is to stop, and has not yet.
    stopping: Option<Tracee>,
}

/// Where things are in the process.
#[derive(Debug, PartialEq, Eq)]
struct Places {
    entry: usize,
    /// Of the agent, and of the kernel's page with code that the agent may call.
    not_from: Vec<Range<usize>>,
    stack: Range<usize>,
}

impl Unseen {
    /// Lets the process arm itself, if its first thread can be stopped now.
    pub fn look(&mut self, pid: u32, agent: &Path) {
        if self.tries >= TRIES_MAX {
            return;
        }
        self.tries += 1;
        let Some(places) = places(pid, agent) else { return };
        let tracee = match self.stopping.take() {
            Some(tracee) => tracee,
            None => match Tracee::seize(pid) {
                Ok(tracee) => tracee,
                Err(_traced_by_another_or_not_allowed) => return,
            },
        };
        match wait_stopped(&tracee) {
            Stopped::NotYet => self.stopping = Some(tracee),
            Stopped::Gone => (),
            Stopped::Here => {
                let _or_as_it_was = divert(&tracee, &places);
                let _it_may_have_been_killed = tracee.detach();
            }
            Stopped::WithItsProcess => {
                let _it_may_have_been_killed = tracee.detach();
            }
        }
    }
}

enum Stopped {
    Here,
    /// By SIGSTOP.
    WithItsProcess,
    NotYet,
    Gone,
}

fn wait_stopped(tracee: &Tracee) -> Stopped {
    let deadline_ns = clock::now_ns() + PATIENCE.as_nanos() as u64;
    loop {
        match tracee.wait_seen(deadline_ns) {
            None => return Stopped::NotYet,
            Some(Stop::Gone) => return Stopped::Gone,
            Some(Stop::Group) => return Stopped::WithItsProcess,
            Some(Stop::Trap) => return Stopped::Here,
            // It stands still for a signal first, and then since it was interrupted.
            Some(Stop::Signal(signal)) => {
                if tracee.go_on(signal).is_err() {
                    return Stopped::Gone;
                }
            }
        }
    }
}

/// Lets a thread that stands still go on in the agent. None: it stands where it must not be taken from.
fn divert(tracee: &Tracee, places: &Places) -> Option<()> {
    let registers = resumed(tracee.registers().ok()?)?;
    let area = tracee.rseq_area();
    let is_in_sequence = area != 0 && tracee.word(area + SEQUENCE_OFFSET).ok()? != 0;
    if is_in_sequence || !places.may_leave(&registers) {
        return None;
    }
    let back = registers.rsp - RED_ZONE_BYTES - size_of::<usize>();
    tracee.set_word(back, registers.rip).ok()?;
    tracee.set_registers(&Registers { rsp: back, rip: places.entry, ..registers }).ok()
}

/// What the registers are when the thread goes on by itself. None: it is in a call that only the kernel can go on with.
fn resumed(registers: Registers) -> Option<Registers> {
    const CALL_BYTES: usize = 2;
    const ERESTARTSYS: isize = -512;
    const ERESTARTNOINTR: isize = -513;
    const ERESTARTNOHAND: isize = -514;
    let none = usize::MAX;
    if registers.orig_rax == none {
        return Some(registers);
    }
    let is_made_anew = matches!(registers.rax as isize, ERESTARTSYS | ERESTARTNOINTR | ERESTARTNOHAND);
    is_made_anew.then(|| Registers {
        rip: registers.rip - CALL_BYTES,
        rax: registers.orig_rax,
        orig_rax: none,
        ..registers
    })
}

impl Places {
    fn may_leave(&self, registers: &Registers) -> bool {
        registers.cs == USER_CODE
            && !self.not_from.iter().any(|range| range.contains(&registers.rip))
            && self.stack.contains(&registers.rsp)
            && registers.rsp - self.stack.start >= STACK_BYTES_MIN
    }
}

/// None: the agent is not in the process, or not all of it can be found; or its threads have shadow stacks.
fn places(pid: u32, agent: &Path) -> Option<Places> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    if status.lines().any(|line| line.starts_with("x86_Thread_features:") && line.contains("shstk")) {
        return None;
    }
    let file = File::open(agent).ok()?;
    let offset = symbol::offset_of(&file, ENTRY).ok()??;
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    places_in(&maps, file.metadata().ok()?.ino(), offset)
}

fn places_in(maps: &str, agent_inode: u64, offset: u64) -> Option<Places> {
    let (mut base, mut not_from, mut stack) = (None, Vec::new(), None);
    for line in maps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let range = number(start)?..number(end)?;
        let at = fields.nth(1)?;
        let (inode, name) = (fields.nth(1)?, fields.next().unwrap_or_default());
        if inode.parse() == Ok(agent_inode) {
            if number(at) == Some(0) {
                base = Some(range.start);
            }
            not_from.push(range);
        } else if name == "[vdso]" {
            not_from.push(range);
        } else if name == "[stack]" {
            stack = Some(range);
        }
    }
    Some(Places { entry: base? + offset as usize, not_from, stack: stack? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0c0000000-55d0c0001000 r--p 00000000 fd:00 77 /usr/bin/program
7f0000000000-7f0000002000 r--p 00000000 fd:00 4242 /usr/lib/libuswap_agent.so
7f0000002000-7f0000010000 r-xp 00002000 fd:00 4242 /usr/lib/libuswap_agent.so
7f0000020000-7f0000021000 rw-p 00000000 00:00 0 
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]
7ffd00100000-7ffd00102000 r-xp 00000000 00:00 0 [vdso]
";

    #[test]
    fn places_are_read_from_the_mappings() {
        let places = places_in(MAPS, 4242, 0x2340).expect("all of them are there");
        assert_eq!(places.entry, 0x7f00_0000_2340);
        assert_eq!(places.stack, 0x7ffd_0000_0000..0x7ffd_0002_1000);
        let inside = Registers { cs: USER_CODE, rsp: 0x7ffd_0001_0000, ..Registers::default() };
        let may_leave = |rip| places.may_leave(&Registers { rip, ..inside });
        assert!(may_leave(0x55d0_c000_0500));
        assert!(!may_leave(0x7f00_0000_3000), "the agent");
        assert!(!may_leave(0x7ffd_0010_0500), "vdso");
        assert!(!places.may_leave(&Registers { rsp: 0x7f00_0002_0800, ..inside }), "another stack");
        assert_eq!(places_in(MAPS, 4243, 0x2340), None, "there is no agent");
    }

    #[test]
    fn a_call_that_the_kernel_makes_anew_is_made_anew_afterwards() {
        let in_call =
            |answer: isize| Registers { rip: 100, orig_rax: 0, rax: answer as usize, ..Registers::default() };
        let resumed_at = |answer| resumed(in_call(answer)).map(|registers| (registers.rip, registers.rax));
        assert_eq!(resumed_at(-512), Some((98, 0)));
        assert_eq!(resumed_at(-516), None, "the rest of its time is the kernel's to know");
        assert_eq!(resumed_at(7), None, "it has ended, and says so first");
        let outside = Registers { rip: 100, orig_rax: usize::MAX, rax: 5, ..Registers::default() };
        assert_eq!(resumed(outside), Some(outside));
    }
}
