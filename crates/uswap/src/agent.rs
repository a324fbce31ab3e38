//! The agent, loaded into this process, and the functions that it has for us.
//!
//! Must hold: a library that is loaded stays: signals and system calls of the process arrive in it. What is called in
//! it has the types that the crate `agent` gives it. Called by [`crate::conversation`], which loads it, by
//! [`crate::pool`] where a run has loaded it before, and by [`crate::state`], which keeps it.

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::path::Path;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::Error;

type Attach = unsafe extern "C" fn(*const u8, usize, c_int, *mut u8, usize) -> c_int;
type Release = unsafe extern "C" fn() -> c_int;
type Manage = unsafe extern "C" fn(usize, usize, *mut u8, usize) -> c_int;
type Keep = unsafe extern "C" fn(usize, usize, bool, *mut u8, usize) -> c_int;

/// Room for what the agent says.
const REASON_BYTES: usize = 1024;

/// It stays loaded: system calls of the process pass through it.
pub struct Agent {
    _library: ManuallyDrop<Library>,
    attach: Attach,
    release: Release,
    manage: Manage,
    keep: Keep,
}

impl Agent {
    /// Loads it. The supervisor has made sure that it is one, of its own sources.
    pub fn load(path: &Path) -> Result<Agent, Error> {
        // SAFETY:
        // 1. The agent's constructor does nothing in a process whose environment names no run: the caller has looked.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map_err(Error::NoAgent)?;
        Agent::of(library)
    }

    /// The one that `uswap run` has had preloaded.
    pub fn preloaded() -> Result<Agent, Error> {
        Agent::of(Library::this())
    }

    fn of(library: Library) -> Result<Agent, Error> {
        let library = ManuallyDrop::new(library);
        // SAFETY:
        // 1. The agent declares them so.
        let (attach, release, manage, keep) = unsafe {
            let attach = library.get::<Attach>(b"uswap_agent_attach\0").map_err(Error::NoAgent)?;
            let release = library.get::<Release>(b"uswap_agent_release\0").map_err(Error::NoAgent)?;
            let manage = library.get::<Manage>(b"uswap_agent_manage\0").map_err(Error::NoAgent)?;
            let keep = library.get::<Keep>(b"uswap_agent_keep\0").map_err(Error::NoAgent)?;
            (*attach, *release, *manage, *keep)
        };
        Ok(Agent { _library: library, attach, release, manage, keep })
    }

    /// This process enters the run; why it cannot. `pipe` is the agent's from here on.
    pub fn attach(&self, invitation: &[u8], pipe: RawFd) -> Result<(), String> {
        hear(|reason, reason_bytes| {
            // SAFETY:
            // 1. Both ranges are live, and their lengths are given.
            // 2. One thread at a time is here: the caller has the lock of the state.
            unsafe { (self.attach)(invitation.as_ptr(), invitation.len(), pipe, reason, reason_bytes) }
        })
    }

    /// This process leaves the run; whether it was in one.
    pub fn release(&self) -> bool {
        // SAFETY:
        // 1. It may be called at any time.
        unsafe { (self.release)() == 0 }
    }

    /// A mapping that nobody uses yet is managed; why it cannot be.
    pub fn manage(&self, start: usize, bytes: usize) -> Result<(), Error> {
        hear(|reason, reason_bytes| {
            // SAFETY:
            // 1. The range of the reason is live, and its length is given.
            // 2. The caller has just made the mapping.
            unsafe { (self.manage)(start, bytes, reason, reason_bytes) }
        })
        .map_err(Error::NotManaged)
    }

    /// A range is brought and stays in RAM, or may be evicted again; why not.
    pub fn keep(&self, start: usize, bytes: usize, stays: bool) -> Result<(), Error> {
        hear(|reason, reason_bytes| {
            // SAFETY:
            // 1. The range of the reason is live, and its length is given.
            unsafe { (self.keep)(start, bytes, stays, reason, reason_bytes) }
        })
        .map_err(Error::NotManaged)
    }
}

/// Calls a function of the agent; what it says if it fails.
fn hear(call: impl FnOnce(*mut u8, usize) -> c_int) -> Result<(), String> {
    let mut reason = [0; REASON_BYTES];
    if call(reason.as_mut_ptr(), reason.len()) == 0 {
        return Ok(());
    }
    let text = reason.split(|byte| *byte == 0).next().unwrap_or_default();
    Err(String::from_utf8_lossy(text).into_owned())
}
