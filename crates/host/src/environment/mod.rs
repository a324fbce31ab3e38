//! The environment of a program that this process executes: it names the run and the agent, whatever the process has
//! made of it (`env -i`, a library of its own to be preloaded).
//!
//! Only the array of pointers is made anew, in a mapping that the thread keeps for its next `execve`; strings of the
//! program stay where they are. The kernel is given the program's own array if it says all that is needed, cannot be
//! read, or names another run: `USWAP_RUN=` with another value, an empty one too, is a program's way out. It is also
//! ours where the program inherits a filter of system calls that would end it.
//!
//! Must hold: array and strings of the program are only read, and an array of ours is used by one `execve` at a time.
//! Called by [`crate::calls`] around an `execve`, and by [`crate::small`] for one of a process that is not armed;
//! [`crate::invitation`] notes the run, and [`crate::leaving`], [`crate::attach`] and [`crate::small`] forget it.
//!
//! Memory order: `note` stores the length of the entry with Release, behind the bytes of it. Who loads it with Acquire
//! and finds one finds these, too. The 0 of `forget` stands for itself.

mod probe;
mod room;

use crate::{program_copy, thread_words};
use core::ffi::CStr;
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use probe::Probe;
use room::{Room, SpareRoom};
use uswap_interpose::thread::Slot;
use uswap_interpose::{Call, make_unarmed};
use uswap_os::fd::Fd;
use uswap_os::sys::abi;

/// Name of the variable that invites, as in an environment.
pub const RUN: &[u8] = uswap_identity::RUN_ENTRY.as_bytes();
const PRELOAD: &[u8] = b"LD_PRELOAD=";

/// What `USWAP_RUN` says at most, its name included: five numbers, what is known of functions, and a path.
const RUN_BYTES_MAX: usize = 128 + 256 + 4096;
/// An environment with more entries, or with a longer list to preload, stays as it is.
const ENTRIES_MAX: usize = 64 * 1024;
const PRELOAD_BYTES_MAX: usize = 64 * 1024;

const POINTER: usize = size_of::<usize>();

/// The entry `USWAP_RUN=...` of this process, and where the path of the agent begins in it. Written once, by the
/// constructor; its length is 0 when the process is not part of a run.
static ENTRY: [AtomicU8; RUN_BYTES_MAX] = [const { AtomicU8::new(0) }; RUN_BYTES_MAX];
static ENTRY_BYTES: AtomicUsize = AtomicUsize::new(0);
static AGENT_AT: AtomicUsize = AtomicUsize::new(0);

/// Notes the invitation that this process has followed, as `USWAP_RUN` has it; its last `agent_bytes` bytes are the
/// path of the agent.
pub fn note(value: &[u8], agent_bytes: usize) {
    let bytes = RUN.len() + value.len();
    if agent_bytes == 0 || bytes > RUN_BYTES_MAX {
        return;
    }
    for (kept, byte) in ENTRY.iter().zip(RUN.iter().chain(value)) {
        kept.store(*byte, Ordering::Relaxed);
    }
    AGENT_AT.store(bytes - agent_bytes, Ordering::Relaxed);
    ENTRY_BYTES.store(bytes, Ordering::Release);
}

/// The process leaves its run: what it executes goes its own way.
pub fn forget() {
    ENTRY_BYTES.store(0, Ordering::Release);
}

fn entry() -> impl Iterator<Item = u8> {
    ENTRY[..ENTRY_BYTES.load(Ordering::Acquire)].iter().map(|byte| byte.load(Ordering::Relaxed))
}

fn agent() -> impl Iterator<Item = u8> {
    entry().skip(AGENT_AT.load(Ordering::Relaxed))
}

/// What an environment of the program says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    entries: usize,
    /// Index of the entry `LD_PRELOAD=`, and the address of its value.
    preload: Option<(usize, usize)>,
    /// Index of the entry `USWAP_RUN`, which has the value of this run.
    run: Option<usize>,
}

/// Gives a call of `execve` or `execveat` an environment that names the run. True: the call was changed.
#[inline]
pub(crate) fn rewrite(call: &mut Call, slot: &Slot) -> bool {
    let argument = match call.number as u32 {
        abi::__NR_execve => 2,
        abi::__NR_execveat => 3,
        _ => return false,
    };
    if ENTRY_BYTES.load(Ordering::Acquire) == 0 {
        return false;
    }
    let used = &slot.user[thread_words::ENVIRONMENT_USED];
    // A handler interrupts an `execve` otherwise.
    let is_first = used.swap(1, Ordering::Relaxed) == 0;
    let room = || if is_first { Some(Room::of(slot)) } else { SpareRoom::take().map(SpareRoom::room) };
    let is_changed = mend_argument(call, argument, room);
    if is_first && !is_changed {
        used.store(0, Ordering::Relaxed);
    }
    is_changed
}

/// In the thread that has made a call: an `execve` with an environment of ours has failed, or the child that shares the
/// memory has executed its program.
pub(crate) fn end_use(call: &Call, slot: &Slot) {
    let environment = match call.number as u32 {
        abi::__NR_execve => call.arguments[2],
        abi::__NR_execveat => call.arguments[3],
        abi::__NR_vfork | abi::__NR_clone | abi::__NR_clone3 => 0,
        _ => return,
    };
    match SpareRoom::of(environment).filter(|_| environment != 0) {
        Some(room) => room.give_back(),
        None => slot.user[thread_words::ENVIRONMENT_USED].store(0, Ordering::Relaxed),
    }
}

/// Makes a call of `execve` of a process that is not armed, with such an environment.
#[cold]
#[inline(never)]
pub(crate) fn execute_unarmed(call: &Call) -> isize {
    const ENVIRONMENT: usize = 2;
    let mut call = *call;
    let mut claimed = None;
    let room = || {
        claimed = SpareRoom::take();
        claimed.map(SpareRoom::room)
    };
    if ENTRY_BYTES.load(Ordering::Acquire) != 0 && Probe::new().may_be_read(call.arguments[ENVIRONMENT]) {
        mend_argument(&mut call, ENVIRONMENT, room);
    }
    // SAFETY:
    // 1. The program's own call, with an environment that says more.
    let answer = unsafe { make_unarmed(&call) };
    if let Some(room) = claimed {
        room.give_back();
    }
    answer
}

/// Apart, because it takes 4 KiB of stack, and no other call may.
#[cold]
#[inline(never)]
fn mend_argument<'a>(call: &mut Call, argument: usize, room: impl FnOnce() -> Option<Room<'a>>) -> bool {
    let array = call.arguments[argument];
    let Some(seen) = look(array) else { return false };
    let changed = match uswap_interpose::ends_programs() {
        true => without_run(array, &seen, room),
        false => mended(array, &seen, room),
    };
    let Some(mended) = changed else { return false };
    call.arguments[argument] = mended;
    true
}

/// The thread ends: gives back what it kept.
pub(crate) fn release(slot: &Slot) {
    Room::of(slot).release();
}

/// None: it cannot be read, or names another run.
fn look(array: usize) -> Option<Seen> {
    let mut seen = Seen::default();
    if array == 0 {
        // Linux takes it for an empty one.
        return Some(seen);
    }
    loop {
        let pointer = pointer_at(array + seen.entries * POINTER)?;
        if pointer == 0 {
            return Some(seen);
        }
        if begins(pointer, RUN.iter().copied())? {
            if !is(pointer, entry())? {
                return None;
            }
            seen.run = Some(seen.entries);
        } else if seen.preload.is_none() && begins(pointer, PRELOAD.iter().copied())? {
            seen.preload = Some((seen.entries, pointer + PRELOAD.len()));
        }
        seen.entries += 1;
        if seen.entries > ENTRIES_MAX {
            return None;
        }
    }
}

/// The address of an array that names the run and the agent. None: the old one does, or there is no room or no agent.
fn mended<'a>(array: usize, seen: &Seen, room: impl FnOnce() -> Option<Room<'a>>) -> Option<usize> {
    let preload_bytes = match seen.preload {
        Some((_, value)) => text_bytes(value)?,
        None => 0,
    };
    let has_agent = seen.preload.is_some_and(|(_, value)| lists_agent(value));
    if seen.run.is_some() && has_agent || !agent_is_there() {
        return None;
    }
    let pointers = seen.entries + 3;
    let agent_bytes = agent().count();
    let texts = entry().count() + 1 + PRELOAD.len() + agent_bytes + 1 + preload_bytes + 1;
    let start = room()?.with_bytes(pointers * POINTER + texts)?;
    // SAFETY:
    // 1. The mapping is this thread's and long enough; a child that shares the memory uses it while its parent sleeps.
    // 2. It is aligned to a page, and any bytes are pointers.
    let (array_made, text) = unsafe {
        let array = core::slice::from_raw_parts_mut(start as *mut usize, pointers);
        let text = (start + pointers * POINTER) as *mut u8;
        (array, core::slice::from_raw_parts_mut(text, texts))
    };
    copy_pointers(array, &mut array_made[..seen.entries])?;
    let mut count = seen.entries;
    let mut text = Texts { rest: text };
    if seen.run.is_none() {
        array_made[count] = text.put(entry());
        count += 1;
        text.end();
    }
    if !has_agent {
        let made = text.put(PRELOAD.iter().copied().chain(agent()));
        if let Some((_, value)) = seen.preload
            && preload_bytes > 0
        {
            text.put([b':'].into_iter());
            text.copy(value, preload_bytes)?;
        }
        text.end();
        match seen.preload {
            Some((index, _)) => array_made[index] = made,
            None => {
                array_made[count] = made;
                count += 1;
            }
        }
    }
    array_made[count] = 0;
    Some(start)
}

/// The address of an array that is the same, but that it says why the program is in no run. None: it was in none, or
/// there is no room.
fn without_run<'a>(array: usize, seen: &Seen, room: impl FnOnce() -> Option<Room<'a>>) -> Option<usize> {
    let run = seen.run?;
    let pointers = seen.entries + 1;
    let start = room()?.with_bytes(pointers * POINTER)?;
    // SAFETY:
    // 1. The mapping is this thread's and long enough; a child that shares the memory uses it while its parent sleeps.
    // 2. It is aligned to a page, and any bytes are pointers.
    let made = unsafe { core::slice::from_raw_parts_mut(start as *mut usize, pointers) };
    copy_pointers(array, &mut made[..seen.entries])?;
    made[run] = uswap_identity::FILTERED.as_ptr() as usize;
    made[seen.entries] = 0;
    Some(start)
}

fn copy_pointers(array: usize, made: &mut [usize]) -> Option<()> {
    for (index, made) in made.iter_mut().enumerate() {
        *made = pointer_at(array + index * POINTER)?;
    }
    Some(())
}

/// Strings that are written one behind the other.
struct Texts<'a> {
    rest: &'a mut [u8],
}

impl Texts<'_> {
    fn take(&mut self, bytes: usize) -> &mut [u8] {
        let (first, rest) = core::mem::take(&mut self.rest).split_at_mut(bytes);
        self.rest = rest;
        first
    }

    /// Address of the first byte.
    fn put(&mut self, bytes: impl Iterator<Item = u8>) -> usize {
        let start = self.rest.as_ptr() as usize;
        for byte in bytes {
            self.take(1)[0] = byte;
        }
        start
    }

    fn copy(&mut self, from: usize, bytes: usize) -> Option<()> {
        program_copy::read(from, self.take(bytes)).then_some(())
    }

    fn end(&mut self) {
        self.put([0].into_iter());
    }
}

/// In a file system that does not have the agent, the loader would only complain about it.
fn agent_is_there() -> bool {
    let mut path = [0; RUN_BYTES_MAX + 1];
    path.iter_mut().zip(agent()).for_each(|(to, byte)| *to = byte);
    let path = CStr::from_bytes_until_nul(&path).unwrap_or(c"");
    Fd::open(path, abi::O_RDONLY | abi::O_CLOEXEC | abi::O_NOCTTY, 0).is_ok()
}

fn pointer_at(address: usize) -> Option<usize> {
    let mut bytes = [0; POINTER];
    program_copy::read(address, &mut bytes).then(|| usize::from_ne_bytes(bytes))
}

fn byte_at(address: usize) -> Option<u8> {
    let mut byte = [0];
    program_copy::read(address, &mut byte).then_some(byte[0])
}

/// Does the string begin so? Not a byte behind the first that differs is read.
fn begins(mut at: usize, bytes: impl Iterator<Item = u8>) -> Option<bool> {
    for byte in bytes {
        if byte_at(at)? != byte {
            return Some(false);
        }
        at += 1;
    }
    Some(true)
}

/// Is the string this one?
fn is(at: usize, bytes: impl Iterator<Item = u8>) -> Option<bool> {
    begins(at, bytes.chain([0]))
}

/// Length of a string that ends with a zero byte.
fn text_bytes(start: usize) -> Option<usize> {
    for bytes in 0..PRELOAD_BYTES_MAX {
        if byte_at(start + bytes)? == 0 {
            return Some(bytes);
        }
    }
    None
}

/// Is the agent one of the libraries of a list, which colons, spaces or tabs separate?
fn lists_agent(value: usize) -> bool {
    let is_end = |byte: u8| matches!(byte, 0 | b':' | b' ' | b'\t');
    let mut at = value;
    loop {
        let agent_bytes = agent().count();
        if begins(at, agent()) == Some(true) && byte_at(at + agent_bytes).is_some_and(is_end) {
            return true;
        }
        loop {
            match byte_at(at) {
                None | Some(0) => return false,
                Some(byte) if is_end(byte) => break,
                Some(_) => at += 1,
            }
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::ffi::CString;
    use std::string::{String, ToString};
    use std::vec::Vec;

    const AGENT: &str = "/proc/self/exe";
    const VALUE: &str = "7:5:9:ab:0::/proc/self/exe";

    fn call_with(array: usize) -> Call {
        Call { number: abi::__NR_execve as usize, arguments: [0, 0, array, 0, 0, 0] }
    }

    /// The strings of an environment.
    fn strings(array: usize) -> Vec<String> {
        let pointers = (0..).map_while(|index| {
            let pointer = pointer_at(array + index * POINTER).unwrap();
            (pointer != 0).then_some(pointer)
        });
        let text = |at: usize| -> String {
            let bytes = (at..).map(|at| byte_at(at).unwrap()).take_while(|byte| *byte != 0);
            bytes.map(char::from).collect()
        };
        pointers.map(text).collect()
    }

    /// What the kernel would be given for this environment; None: the array as it is.
    fn executed(entries: &[&str], slot: &Slot) -> Option<Vec<String>> {
        let texts: Vec<CString> = entries.iter().map(|text| CString::new(*text).unwrap()).collect();
        let mut array: Vec<usize> = texts.iter().map(|text| text.as_ptr() as usize).collect();
        array.push(0);
        let mut call = call_with(array.as_ptr() as usize);
        let is_changed = rewrite(&mut call, slot);
        assert_eq!(is_changed, call.arguments[2] != array.as_ptr() as usize);
        let given = is_changed.then(|| strings(call.arguments[2]));
        end_use(&call, slot);
        given
    }

    #[test]
    fn a_program_is_given_the_run_and_the_agent_once_and_unless_it_names_another_run() {
        let slot = Slot::default();
        let run = std::format!("USWAP_RUN={VALUE}");
        let preload = std::format!("LD_PRELOAD={AGENT}");
        let owned = |entries: &[&str]| Some(entries.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(executed(&["A=1"], &slot), None, "no run is known");
        note(VALUE.as_bytes(), AGENT.len());

        assert_eq!(executed(&[], &slot), owned(&[&run, &preload]));
        assert_eq!(executed(&["A=1", &preload, &run], &slot), None);
        assert_eq!(executed(&["A=1", &preload], &slot), owned(&["A=1", &preload, &run]));
        assert_eq!(executed(&[&run, "B=", "LD_PRELOAD="], &slot), owned(&[&run, "B=", &preload]));
        let (other, both) = ("LD_PRELOAD=/x.so:/y.so", std::format!("{preload}:/x.so:/y.so"));
        assert_eq!(executed(&[other, "LD_PRELOADED=1"], &slot), owned(&[&both, "LD_PRELOADED=1", &run]));
        for listed in ["LD_PRELOAD=/x.so:/proc/self/exe", "LD_PRELOAD=/x.so /proc/self/exe /y.so"] {
            assert_eq!(executed(&[&run, listed], &slot), None);
        }
        let similar = "LD_PRELOAD=/proc/self/exe.1";
        assert_eq!(
            executed(&[similar, &run], &slot),
            owned(&[&std::format!("{preload}:/proc/self/exe.1"), &run])
        );
        for out in ["USWAP_RUN=", "USWAP_RUN=8:5:9:ab:0::/proc/self/exe"] {
            assert_eq!(executed(&["A=1", out], &slot), None, "{out}");
        }
        // The mapping is kept, and grows.
        let many: Vec<String> = (0..3000).map(|number| std::format!("V{number}=x")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(executed(&many, &slot).map(|all| all.len()), Some(3002));
        let kept = slot.user[thread_words::ENVIRONMENT].load(Ordering::Relaxed);
        assert_eq!(executed(&[], &slot).map(|all| all.len()), Some(2));
        assert_eq!(slot.user[thread_words::ENVIRONMENT].load(Ordering::Relaxed), kept);
        // A handler that interrupts an `execve` has others, as many as there are.
        let mut calls = [(); 6].map(|()| call_with(0));
        let changed = calls.each_mut().map(|call| rewrite(call, &slot));
        assert_eq!(changed, [true, true, true, true, true, false]);
        let arrays = calls.map(|call| call.arguments[2]);
        for (index, array) in arrays[..5].iter().enumerate() {
            assert_eq!(Some(strings(*array)), owned(&[&run, &preload]));
            assert!(!arrays[..index].contains(array));
        }
        calls.iter().for_each(|call| end_use(call, &slot));
        for expected in [arrays[0], arrays[1]] {
            let mut call = call_with(0);
            assert!(rewrite(&mut call, &slot));
            assert_eq!(call.arguments[2], expected);
        }
        calls.iter().for_each(|call| end_use(call, &slot));
        release(&slot);
        assert_eq!(slot.user[thread_words::ENVIRONMENT_BYTES].load(Ordering::Relaxed), 0);

        // An agent that is not there would only make the loader complain.
        note(b"7:5:9:ab:0:/no/such.so", "/no/such.so".len());
        assert_eq!(executed(&[], &slot), None);
        forget();
        assert_eq!(executed(&[], &slot), None);
    }
}
