//! Would executing a file raise privileges? Then the loader runs in secure mode and does not preload the agent.
//!
//! What must hold: it answers as the kernel decides. A setuid bit that changes nothing (own files, root's files for
//! root), that a `nosuid` mount or `no_new_privs` switches off, does not count.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::StatVfsMountFlags;

const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o010;

/// What is gained, as a clause behind "it": "is setuid (user 0)"; `None` if nothing is.
pub fn gained_by_executing(path: &Path) -> Option<String> {
    let metadata = path.metadata().ok()?;
    let switched_off = rustix::thread::no_new_privs().unwrap_or(false)
        || rustix::fs::statvfs(path).is_ok_and(|space| space.f_flag.contains(StatVfsMountFlags::NOSUID));
    if switched_off {
        return None;
    }
    let mode = metadata.mode();
    if mode & SETUID != 0 && metadata.uid() != rustix::process::getuid().as_raw() {
        return Some(format!("is setuid (user {})", metadata.uid()));
    }
    let setgid = mode & SETGID != 0 && mode & GROUP_EXECUTE != 0;
    if setgid && metadata.gid() != rustix::process::getgid().as_raw() {
        return Some(format!("is setgid (group {})", metadata.gid()));
    }
    // Root has all capabilities already: nothing is gained.
    if !rustix::process::getuid().is_root() && has_file_capabilities(path) {
        return Some("has file capabilities".to_owned());
    }
    None
}

fn has_file_capabilities(path: &Path) -> bool {
    let mut value = [0_u8; 64];
    rustix::fs::getxattr(path, "security.capability", &mut value).is_ok_and(|bytes| bytes > 0)
}
