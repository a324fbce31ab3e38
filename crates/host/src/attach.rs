//! A process that takes a place in a run while it runs, since it asked for it.
//!
//! It has threads then, and calls were made that nobody has seen. What must hold: from before the first thread is
//! stopped until all that they have left is taken in, the caller has the gate for itself, so that no call that changes
//! mappings comes between; and until the threads are stopped nothing has changed that would have to be undone. Called
//! by `agent`, and by [`crate::small`], which takes in the same when it arms a process.

use crate::address_space::pages;
use crate::descriptors;
use crate::environment;
use crate::joining::{FAULTS, PLACE_DESCRIPTORS, options, signal_bit};
use crate::own_stack::on_own_stack;
use crate::process::{Phase, Process, Terms};
use crate::refused::{NO_DESCRIPTORS, NO_ROOM, Refused};
use crate::supervisor;
use core::sync::atomic::Ordering;
use uswap_interpose::{Options, install, thread};
use uswap_os::maps::{Kind, Maps};
use uswap_os::memory::{self, Access, Mapping};
use uswap_os::mlock::{self, Presence};
use uswap_os::pagemap::{PAGES_MAX, Pagemap};
use uswap_os::smaps::{self, Advised};
use uswap_os::sys::{Errno, abi};
use uswap_os::thread::BlockedSignals;
use uswap_os::uffd::Uffd;
use uswap_os::{Fd, PAGE_BYTES, process};

/// What may be open in a process, by how `/proc` calls it, that lets the kernel or a device use its memory behind its
/// back; and what that is.
const BEHIND_ITS_BACK: [(&[u8], &str); 6] = [
    (b"anon_inode:[io_uring]", "it has an io_uring: ask for the budget before it is set up"),
    (b"anon_inode:kvm-vm", "it runs a virtual machine (KVM): ask for the budget before it is made"),
    (b"anon_inode:[vfio", "a device may use its memory (VFIO): ask for the budget before it is opened"),
    (b"/dev/vfio/", "a device may use its memory (VFIO): ask for the budget before it is opened"),
    (b"/dev/infiniband/", "a device may use its memory (RDMA): ask for the budget before it is opened"),
    (b"/dev/nvidia-uvm", "a device may use its memory (CUDA): ask for the budget before CUDA begins"),
];

const TOO_MUCH: Refused = Refused::Needs(
    "it has more threads than uswap can tell the stacks of (some 500), or as much advised memory: ask for the budget \
     before",
);

impl Process {
    /// Becomes part of a run now, with all threads that it has. Its end of a pipe to the supervisor is kept open.
    /// Called after [`refuse_what_is_out_of_sight`].
    ///
    /// # Errors
    /// It is as it was, but that its calls may be seen.
    pub fn attach(&'static self, terms: Terms, to_supervisor: Fd) -> Result<(), Refused> {
        if self.phase() != Phase::Outside || self.process_id.load(Ordering::Relaxed) != 0 {
            environment::forget();
            return Err(Refused::Needs(
                "it had a budget before, or could not be given one, and that is tried once: start it again",
            ));
        }
        if !descriptors::is_room(PLACE_DESCRIPTORS) {
            environment::forget();
            return Err(NO_DESCRIPTORS);
        }
        if let Err(error) = Uffd::open() {
            environment::forget();
            return Err(Refused::Userfaultfd(error));
        }
        // A handler of the program could make a call that waits for the gate.
        let ours = FAULTS | signal_bit(abi::SIGSYS);
        let _blocked = BlockedSignals::block_all_but(ours).map_err(|_| NO_ROOM)?;
        let _alone = self.gate.exclusive();
        self.set_own(terms);
        self.prepare()?;
        self.set_phase(Phase::Waiting);
        let placed = install(self, &Options { arms_others: true, ..options() })
            .map_err(Refused::Calls)
            .and_then(|_| self.take_in_threads())
            .and_then(|()| self.take_in_advice())
            .and_then(|()| self.take_place());
        match placed {
            Ok(()) => {
                if let Ok(kept) = descriptors::keep(to_supervisor) {
                    supervisor::keep_pipe(kept);
                }
                if !self.manages_all() {
                    environment::forget();
                }
            }
            Err(_) => {
                self.set_phase(Phase::Outside);
                environment::forget();
            }
        }
        placed
    }

    /// Leaves the run that it has asked for; false: it is in none. Its memory comes home.
    pub fn release(&self) -> bool {
        if self.phase() == Phase::Outside || !supervisor::was_asked_for() {
            return false;
        }
        environment::forget();
        on_own_stack(thread::current(), || self.leave(None));
        supervisor::say_that_it_left();
        true
    }

    /// The stacks and control blocks of threads that nobody has seen begin. With the gate exclusive.
    pub(crate) fn take_in_threads(&self) -> Result<(), Refused> {
        if self.note_threads() { Ok(()) } else { Err(TOO_MUCH) }
    }

    fn keep_as_stack(&self, start: usize, end: usize) -> bool {
        self.stacks.add(pages(start, end.saturating_sub(start))).is_some()
    }

    /// What calls have made of mappings that nobody has seen. With the gate exclusive.
    pub(crate) fn take_in_advice(&self) -> Result<(), Refused> {
        let mut is_room = true;
        let pagemap = Pagemap::open();
        let is_kept = |mapping: &Advised| {
            mapping.lazy_free_bytes == 0
                || mapping.is_writable
                    && pagemap.as_ref().is_ok_and(|pagemap| keep_lazily_freed(pagemap, mapping))
        };
        let read = smaps::for_each_mapping(|mapping| {
            if mapping.is_mergeable && self.manages_all() {
                // As `leave_unmerged`.
                let _it_was_allowed_to = memory::unmerge(mapping.start, mapping.end - mapping.start);
            }
            if mapping.is_wiped_on_fork || !is_kept(mapping) {
                is_room &= self.keep_as_stack(mapping.start, mapping.end);
            }
        });
        if read.is_err() {
            return Err(Refused::Needs(
                "its mappings cannot be looked at (/proc/self/smaps): is /proc mounted?",
            ));
        }
        if !is_room {
            return Err(TOO_MUCH);
        }
        if mlock::locked_bytes(None).unwrap_or(0) > 0 {
            self.locks.note(Presence::OnFault);
        }
        Ok(())
    }
}

/// What was set up before, and cannot be seen afterwards. Asked before anything is mapped for it. `shares` says whether
/// a child has the same memory.
pub fn refuse_what_is_out_of_sight(shares: impl Fn(u32) -> bool) -> Result<(), Refused> {
    let mut seen = None;
    let looked = process::for_each_open_file(|_, name| {
        let kind = BEHIND_ITS_BACK.iter().find(|(kind, _)| name.starts_with(kind));
        seen = seen.or(kind.map(|(_, what)| *what));
    });
    if let Err(errno) = looked {
        let otherwise = Refused::Needs("its open files cannot be looked at: is /proc mounted?");
        return Err(Refused::of_open(errno, otherwise));
    }
    if let Some(what) = seen {
        return Err(Refused::Needs(what));
    }
    if has_asynchronous_io() {
        return Err(Refused::Needs(
            "it has a context of asynchronous I/O (io_setup): ask for the budget before",
        ));
    }
    if locks_what_comes() {
        return Err(Refused::Needs(
            "it locks all that it maps (mlockall), and what is locked cannot be evicted: call munlockall first",
        ));
    }
    let mut is_shared = false;
    let _what_cannot_be_read_is_nobody =
        process::for_each_child(process::process_id(), |child| is_shared |= shares(child));
    if is_shared { Err(Refused::IsShared) } else { Ok(()) }
}

/// Whether a child has the memory of this process, as the kernel says.
pub fn shares_memory(child: u32) -> bool {
    process::have_same_memory(process::process_id(), child).unwrap_or(false)
}

/// Whether the kernel has a ring of `io_setup` in this process. Where that cannot be found out there is none.
fn has_asynchronous_io() -> bool {
    let mut text = [0; 4096];
    Maps::open().is_ok_and(|maps| {
        maps.iter(&mut text).map_while(Result::ok).any(|vma| vma.kind == Kind::AsynchronousIo)
    })
}

/// Whether each new mapping is locked (`MCL_FUTURE`), also ours. One that would be more than may be locked is refused.
fn locks_what_comes() -> bool {
    match Mapping::anonymous(PAGE_BYTES, PAGE_BYTES, Access::ReadWrite) {
        Ok(new) => mlock::is_locked(new.start()),
        Err(errno) => errno == Errno::EAGAIN,
    }
}

/// Pages that the kernel may drop when it likes would be missing one day although nobody evicted them. One that is to
/// be written is not dropped. False: they stay as they are. With the gate exclusive.
fn keep_lazily_freed(pagemap: &Pagemap, mapping: &Advised) -> bool {
    let mut at = mapping.start;
    while at < mapping.end {
        let count = ((mapping.end - at) / PAGE_BYTES).min(PAGES_MAX);
        let Ok(present) = pagemap.present(at, count) else { return false };
        let is_present = |page: usize| present[page / 64] >> (page % 64) & 1 != 0;
        let here = (0..count).filter(|&page| is_present(page));
        for page in here {
            if memory::populate_write(at + page * PAGE_BYTES, PAGE_BYTES).is_err() {
                return false;
            }
        }
        at += count * PAGE_BYTES;
    }
    true
}
