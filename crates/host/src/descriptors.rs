//! Descriptors of ours in the table of the program: high numbers, and no call of the program takes them away.
//!
//! The userfaultfd has to be in that table, because the threads of the program serve their faults. A program that
//! closes what it does not know (daemons, `subprocess`) would turn every missing page into zeros.
//!
//! Must hold: what of ours is kept open in that table is listed here, and its number leaves the list only when it is
//! closed; no call of the program closes or replaces what is listed. Called by most of this crate: [`crate::calls`]
//! ahead of calls that may name a descriptor, and whatever opens or closes one of ours.
//!
//! Memory order: the Acquire by which `keep` takes a place pairs with the Release by which `close` gives it back: the
//! number is closed by then. The Release of `keep` pairs with the Acquire of `close`, which looks for that number.
//! Whether a number is ours is asked with Relaxed, since nothing else is read by the answer.

use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicI32, Ordering};
use uswap_interpose::Call;
use uswap_os::sys::{Errno, Result, abi};
use uswap_os::{Fd, process, sys};

/// One for each swap file that a run may have, and nine others: the userfaultfd, what `/proc` has of the pages, the
/// mappings and three times of the process, the segment with its lock, the messages, and the pipe to a supervisor that
/// was asked for.
pub(crate) const PLACES: usize = uswap_units::limits::SWAP_FILES_MAX + 9;

const NONE: i32 = -1;
static OWN: [AtomicI32; PLACES] = [const { AtomicI32::new(NONE) }; PLACES];
/// No number of ours was ever lower.
static LOWEST: AtomicI32 = AtomicI32::new(i32::MAX);

/// Numbers that are tried for the first of them, from the highest on: below the usual limits of open files.
const FIRST_TRIED: [i32; 5] = [1 << 19, 65_000, 4000, 1000, 200];

/// Gives a descriptor a high number, if there is one, and keeps the program from closing it. EBADF: the program has
/// closed the low one meanwhile, and may have put something else there.
pub fn keep(fd: Fd) -> Result<Fd> {
    let moved = match duplicate_high(&fd) {
        Ok(moved) => moved,
        Err(Errno::EBADF) => {
            let _number_of_the_program = fd.into_raw();
            return Err(Errno::EBADF);
        }
        Err(_) => fd,
    };
    LOWEST.fetch_min(moved.raw(), Ordering::Relaxed);
    let is_free = |place: &&AtomicI32| {
        place.compare_exchange(NONE, moved.raw(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    let _is_kept = OWN.iter().find(is_free).expect("there are fewer descriptors than places");
    Ok(moved)
}

fn duplicate_high(fd: &Fd) -> Result<Fd> {
    let mut duplicate = Err(Errno::EMFILE);
    for number in FIRST_TRIED {
        duplicate = fd.duplicate(number);
        if matches!(duplicate, Ok(_) | Err(Errno::EBADF)) {
            break;
        }
    }
    duplicate
}

/// Whether the process may open so many files at this moment. Other threads may be faster.
pub(crate) fn is_room(count: usize) -> bool {
    let Ok(one) = Fd::open(c"/", abi::O_PATH | abi::O_CLOEXEC, 0) else { return false };
    let mut room = [const { None }; PLACES];
    room.iter_mut().take(count - 1).all(|place| {
        // As `keep`: a high number if there is one, else one that is not that of a standard stream.
        *place = duplicate_high(&one).or_else(|_| one.duplicate(3)).ok();
        place.is_some()
    })
}

/// Closes one of them. The number is the program's from then on.
pub fn close(number: i32) {
    let place = OWN.iter().find(|place| place.load(Ordering::Acquire) == number);
    if let Some(place) = place {
        // In this order: a program that closes all numbers must not close it, and then a file of its own meets this.
        drop(Fd::from_raw(number));
        place.store(NONE, Ordering::Release);
    }
}

/// In a forked child, or a process that loses its place: none is kept.
pub fn close_all() {
    // A write of a forked child copies a page, and most processes have none of these.
    for place in &OWN {
        match place.load(Ordering::Relaxed) {
            NONE => (),
            number => close(number),
        }
    }
}

/// Whether a child that is forked now could open as many of its own. It closes these first; of their numbers, those
/// beyond the limit of open files (`RLIMIT_NOFILE`) cannot be had again.
pub fn is_room_in_child() -> bool {
    let Ok(Some(limit)) = process::limit(abi::RLIMIT_NOFILE) else { return true };
    let numbers = || OWN.iter().map(|place| place.load(Ordering::Relaxed)).filter(|&number| number != NONE);
    let beyond = numbers().filter(|&number| number as u64 >= limit).count();
    let Some(one) = numbers().next().filter(|_| beyond > 0) else { return true };
    let one = ManuallyDrop::new(Fd::from_raw(one));
    // One more is open while it gets its number.
    let mut room = [const { None }; PLACES + 1];
    room[..=beyond].iter_mut().all(|place| {
        *place = one.duplicate(0).ok();
        place.is_some()
    })
}

/// Whether it may be one of ours, by one look.
#[inline]
pub(crate) fn may_be_own(number: usize) -> bool {
    // The kernel looks at the lower half.
    number as i32 >= LOWEST.load(Ordering::Relaxed)
}

fn is_own(number: usize) -> bool {
    // As above.
    let number = number as i32;
    number > 2
        && may_be_own(number as usize)
        && OWN.iter().any(|place| place.load(Ordering::Relaxed) == number)
}

/// The answer to a call that would take one of ours away or use it; None: it does not.
pub fn answer(call: &Call) -> Option<isize> {
    const BAD: isize = Errno::EBADF.as_answer();
    let [first, second, third, ..] = call.arguments;
    match call.number as u32 {
        abi::__NR_close | abi::__NR_dup | abi::__NR_fcntl if is_own(first) => Some(BAD),
        // Programs also ask by these which descriptors they have.
        abi::__NR_fstat | abi::__NR_newfstatat | abi::__NR_statx if is_own(first) => Some(BAD),
        abi::__NR_read | abi::__NR_write | abi::__NR_lseek | abi::__NR_ioctl if is_own(first) => Some(BAD),
        abi::__NR_dup2 | abi::__NR_dup3 if is_own(first) || is_own(second) => Some(BAD),
        abi::__NR_close_range => close_range(first as u32, second as u32, third),
        _ => None,
    }
}

/// Closes what lies between ours. None: none of ours is in the range.
fn close_range(first: u32, last: u32, flags: usize) -> Option<isize> {
    let own_in = |from: u32| {
        let numbers = OWN.iter().map(|place| place.load(Ordering::Relaxed)).filter(|&number| number > 2);
        numbers.map(|number| number as u32).filter(|number| (from..=last).contains(number)).min()
    };
    own_in(first)?;
    let mut from = first;
    loop {
        let own = own_in(from);
        let to = own.map_or(last, |own| own - 1);
        if from <= to {
            // SAFETY:
            // 1. The call takes numbers; what it closes is the program's.
            let closed = unsafe { sys::syscall3(abi::__NR_close_range, from as usize, to as usize, flags) };
            if let Err(errno) = closed {
                return Some(errno.as_answer());
            }
        }
        match own {
            Some(own) if own < last => from = own + 1,
            _ => return Some(0),
        }
    }
}
