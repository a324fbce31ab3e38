//! Whose memory this is, when nobody sees forks: a process may have a copy of it, or share it with its parent.
//!
//! A page that the kernel empties in a copy holds the number of the process. Where it is empty the process is a forked
//! child, or shares the memory of one: that is told by whether its parent sees what it maps.
//!
//! Must hold: the number is written by the process whose memory it is, and by none that shares it, as far as the
//! mappings of its parent can be looked at. Called by [`crate::small`], which arms that process only, and by
//! [`crate::environment`], which asks who shares this memory.

use crate::own_memory;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use uswap_os::maps::Maps;
use uswap_os::memory::{self, Access, Mapping};
use uswap_os::sys::abi;
use uswap_os::text::TextBuffer;
use uswap_os::{Fd, PAGE_BYTES, process};

/// Address of the word that is 0 in a copy of this memory, and else the number of the process.
static OWNER: AtomicUsize = AtomicUsize::new(0);

/// Notes that it is this process. False: there is no memory for that.
pub(crate) fn note() -> bool {
    let Ok(page) = Mapping::anonymous(PAGE_BYTES, PAGE_BYTES, Access::ReadWrite) else { return false };
    if memory::wipe_on_fork(page.start(), page.bytes()).is_err() {
        return false;
    }
    own_memory::add(page.start(), page.bytes());
    OWNER.store(page.leak(), Ordering::Relaxed);
    owner().store(process::process_id(), Ordering::Relaxed);
    true
}

fn owner() -> &'static AtomicU32 {
    // SAFETY:
    // 1. `note` has mapped a page there before anybody asks, and it stays.
    unsafe { &*(OWNER.load(Ordering::Relaxed) as *const AtomicU32) }
}

/// Whose memory this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This process's.
    This,
    /// The same, and that is noted since this look: it is a copy.
    ThisFromNow,
    /// That of a process which shares it with this one.
    Another,
}

/// Looks, and notes a copy as this process's.
pub(crate) fn look() -> Owner {
    let own = process::process_id();
    match owner().load(Ordering::Relaxed) {
        // A forked child, or one that shares the memory of a forked child.
        0 if shares_memory_with_parent() => Owner::Another,
        0 => match owner().compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Owner::ThisFromNow,
            Err(owner) if owner == own => Owner::This,
            Err(_) => Owner::Another,
        },
        owner if owner == own => Owner::This,
        _ => Owner::Another,
    }
}

/// By a mapping that comes and goes: whether the parent has it, too. One that cannot be looked at has other memory.
fn shares_memory_with_parent() -> bool {
    let parent = process::parent_id();
    let path = TextBuffer::<32>::format(format_args!("/proc/{parent}/maps"));
    let has_at = |address: usize| {
        let maps = Maps::open_path(path.as_c_str()).ok()?;
        let mut text = [0; 4096];
        let mut all = maps.iter(&mut text).map_while(Result::ok);
        Some(all.any(|vma| (vma.start..vma.end).contains(&address)))
    };
    let Ok(page) = Mapping::anonymous(PAGE_BYTES, PAGE_BYTES, Access::Read) else { return true };
    let address = page.start();
    let before = has_at(address);
    drop(page);
    before == Some(true) && has_at(address) == Some(false)
}

/// Whether a process has the memory of this one: then it finds the same number there. Where nothing is noted it is
/// taken to. It makes no calls that filters often forbid, such as `kcmp`.
pub(crate) fn shares_memory(process_id: u32) -> bool {
    let path = TextBuffer::<32>::format(format_args!("/proc/{process_id}/mem"));
    let mut word = [0; size_of::<u32>()];
    if OWNER.load(Ordering::Relaxed) == 0 {
        return true;
    }
    let own = owner();
    let read = Fd::open(path.as_c_str(), abi::O_RDONLY | abi::O_CLOEXEC, 0)
        .and_then(|memory| memory.pread(&mut word, own.as_ptr() as u64));
    let is_whole = read.is_ok_and(|bytes| bytes == word.len());
    is_whole && u32::from_ne_bytes(word) == own.load(Ordering::Relaxed)
}
