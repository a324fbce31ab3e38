//! Arms processes that have grown by system calls that nobody has seen.
//!
//! Of a small process only a few functions of its C library are seen (docs/adr/0032). One that maps its memory by raw
//! system calls is found here by its size. The agent is in it, so it is stopped between two instructions of its
//! program, and let go on in the agent, which arms the process and goes back to where it was
//! (`interpose::interrupted`).
//!
//! What must hold: a thread is taken away only from code of the program that may stop anywhere: not from code of the
//! agent, which may hold its locks, not out of a restartable sequence, and only on the stack that the kernel made for
//! it. Else it is let go as it was, and tried again. And nobody waits for it but the thread of ours that traces it: one
//! that waits for a disk, or a server, stops when that has answered.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use uswap_os::pidfd::Pidfd;
use uswap_os::process;
use uswap_os::ptrace::{Registers, Stop, Tracee};

use crate::program::symbol;

/// The agent's name of the place where the thread goes on.
const ENTRY: &str = "uswap_agent_grown_unseen";

/// How often it is tried within about a second.
const TRIES_AT_FIRST: u32 = 40;
/// Later, since it may have read a file all that time, or been traced by another.
const TRY_AGAIN_EVERY: Duration = Duration::from_secs(2);
/// The first looks follow each other as soon as memory is measured again: two processors write 5 MiB in a millisecond.
const LOOKS_AT_ONCE: u32 = 10;
/// Later ones wait so long.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A try is waited for so long: nearly all take less than a millisecond.
const TRY: Duration = Duration::from_millis(20);
const TRY_STEP: Duration = Duration::from_micros(200);
const STACK_OF_TRY_BYTES: usize = 256 << 10;

const RED_ZONE_BYTES: usize = 128;
/// Of the stack, for the way into the agent.
const STACK_BYTES_MIN: usize = 16 << 10;
/// Where a thread tells the kernel of a restartable sequence, in its area.
const RSEQ_CS_OFFSET: usize = 8;
const USER_CODE: usize = 0x33;

/// One process that has grown so, while it is tried.
#[derive(Default)]
pub struct Unseen {
    looks: u32,
    looked: Option<Instant>,
    tries: u32,
    last_try: Option<JoinHandle<()>>,
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
    /// Whether it is time to look at the process, and worth it. Asked before each look.
    pub fn is_due(&mut self, now: Instant) -> bool {
        if self.is_trying() {
            return false;
        }
        let pause = if self.tries >= TRIES_AT_FIRST {
            TRY_AGAIN_EVERY
        } else if self.looks >= LOOKS_AT_ONCE {
            LOOK_EVERY
        } else {
            Duration::ZERO
        };
        let is_due = self.looked.is_none_or(|looked| now.duration_since(looked) >= pause);
        if is_due {
            (self.looks, self.looked) = (self.looks + 1, Some(now));
        }
        is_due
    }

    /// Lets the process arm itself, if its first thread can be taken away from where it is now.
    pub fn arm(&mut self, pid: u32, agent: &Path) {
        self.tries += 1;
        let (agent, began) = (PathBuf::from(agent), Instant::now());
        let Ok(process) = Pidfd::open(pid) else { return };
        let thread = std::thread::Builder::new().name("uswap-arm".to_owned()).stack_size(STACK_OF_TRY_BYTES);
        // Without a thread: another time.
        self.last_try = thread.spawn(move || try_to_arm(&process, pid, &agent)).ok();
        while self.is_trying() && began.elapsed() < TRY {
            std::thread::sleep(TRY_STEP);
        }
    }

    fn is_trying(&self) -> bool {
        self.last_try.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

fn try_to_arm(process: &Pidfd, pid: u32, agent: &Path) {
    // It would be waited for in vain.
    let may_stop = process::stat(pid).is_ok_and(|stat| matches!(stat.state, b'R' | b'S'));
    if !may_stop || places(pid, agent).is_none() {
        return;
    }
    // An error: somebody else traces it, or it may not be traced.
    let Ok(tracee) = Tracee::seize(pid) else { return };
    // Meanwhile it may have executed a program, or shared its memory with a child (vfork), which it waits for then.
    if stands_still(&tracee)
        && !process.has_ended()
        && let Some(places) = places(pid, agent)
    {
        let _or_as_it_was = divert(&tracee, &places, pid);
    }
    // From here on it goes on, if it was not killed.
    let _gone = tracee.detach();
}

/// Waits until the thread stands still: it was asked to, and must not be let go before. False: it has ended, or stands
/// still with its process (SIGSTOP).
fn stands_still(tracee: &Tracee) -> bool {
    loop {
        match tracee.wait_seen(u64::MAX) {
            None | Some(Stop::Gone | Stop::Group) => return false,
            Some(Stop::Trap) => return true,
            // It stands still for a signal first, and then since it was interrupted.
            Some(Stop::Signal(signal)) => {
                if tracee.go_on(signal).is_err() {
                    return false;
                }
            }
        }
    }
}

/// Lets a thread that stands still go on in the agent; or as it was, if it stands where it must not be taken from.
fn divert(tracee: &Tracee, places: &Places, pid: u32) -> Option<()> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let registers = resumed(tracee.registers().ok()?, has_signal(&status))?;
    let area = tracee.rseq_area();
    let is_in_sequence = area != 0 && tracee.word(area + RSEQ_CS_OFFSET) != Ok(0);
    if is_in_sequence || !places.may_leave(&registers) {
        return tracee.set_registers(&registers).ok();
    }
    let back = registers.rsp - RED_ZONE_BYTES - size_of::<usize>();
    match tracee.set_word(back, registers.rip) {
        Ok(()) => tracee.set_registers(&Registers { rsp: back, rip: places.entry, ..registers }).ok(),
        Err(_) => tracee.set_registers(&registers).ok(),
    }
}

/// The registers with which the thread goes on as if it had not been stopped. A call that the stop has ended is made
/// anew, with all of its time, as for threads that are armed from outside (`interpose::attach`): nobody must see EINTR
/// without a signal. None: it is left to the kernel, for a signal or with the answer that the call has.
fn resumed(registers: Registers, has_signal: bool) -> Option<Registers> {
    const CALL_BYTES: usize = 2;
    const EINTR: isize = -4;
    /// ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK.
    const RESTARTS: [isize; 4] = [-512, -513, -514, -516];
    const CLOSE: usize = 3;
    let none = usize::MAX;
    if registers.orig_rax == none {
        return Some(registers);
    }
    let answer = registers.rax as isize;
    // What `close` closes is closed, and its number may be another's by now.
    if has_signal || registers.orig_rax == CLOSE || !(answer == EINTR || RESTARTS.contains(&answer)) {
        return None;
    }
    Some(Registers { rip: registers.rip - CALL_BYTES, rax: registers.orig_rax, orig_rax: none, ..registers })
}

/// Whether a signal waits for the thread that it has not blocked, by `/proc/PID/status`. What cannot be read is one.
fn has_signal(status: &str) -> bool {
    let set = |name| {
        let digits = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        u64::from_str_radix(digits.trim(), 16).ok()
    };
    match (set("SigPnd:"), set("ShdPnd:"), set("SigBlk:")) {
        (Some(own), Some(shared), Some(blocked)) => (own | shared) & !blocked != 0,
        _ => true,
    }
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
    fn the_first_looks_follow_each_other_and_later_ones_wait() {
        let (mut unseen, start) = (Unseen::default(), Instant::now());
        let due_at = |unseen: &mut Unseen, ms| unseen.is_due(start + Duration::from_millis(ms));
        assert_eq!((0..30).filter(|&ms| due_at(&mut unseen, ms)).count(), LOOKS_AT_ONCE as usize + 1);
        unseen.tries = TRIES_AT_FIRST;
        assert_eq!(
            (0..10_000).filter(|&ms| due_at(&mut unseen, ms)).count(),
            4,
            "2, 4, 6 and 8 s after the last"
        );
    }

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
    fn a_call_that_the_stop_has_ended_is_made_anew() {
        let in_call = |number, answer: isize| Registers {
            rip: 100,
            orig_rax: number,
            rax: answer as usize,
            ..Registers::default()
        };
        let resumed_at = |number, answer, has_signal| {
            resumed(in_call(number, answer), has_signal).map(|registers| (registers.rip, registers.rax))
        };
        for answer in [-4, -512, -513, -514, -516] {
            assert_eq!(resumed_at(232, answer, false), Some((98, 232)), "{answer}");
            assert_eq!(resumed_at(232, answer, true), None, "a signal has ended it: {answer}");
        }
        assert_eq!(resumed_at(3, -4, false), None, "what is closed stays closed");
        assert_eq!(resumed_at(0, 7, false), None, "it has ended by itself");
        let outside = Registers { rip: 100, orig_rax: usize::MAX, rax: 5, ..Registers::default() };
        assert_eq!(resumed(outside, true), Some(outside));
    }

    #[test]
    fn a_signal_that_is_not_blocked_is_seen() {
        let status = |own, shared, blocked| {
            format!("Name: a\nSigPnd:\t{own}\nShdPnd:\t{shared}\nSigBlk:\t{blocked}\n")
        };
        assert!(!has_signal(&status("0000", "0000", "0000")) && !has_signal(&status("0000", "4000", "4000")));
        assert!(has_signal(&status("0000", "4000", "0000")) && has_signal(&status("0200", "0000", "4000")));
        assert!(has_signal("Name: a\n"), "it cannot be known");
    }
}
