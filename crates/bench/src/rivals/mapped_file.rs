//! The program keeps its data in a mapped file, and the kernel's page cache does the rest.

use super::Setting;
use super::group_session::GroupSession;
use crate::system::swap;
use crate::system::undo::Scope;

/// Environment variable that tells the program which file to map.
pub const BACKING: &str = "USWAP_BENCH_BACKING";

/// Name of the file in the directory that the user chose.
const FILE: &str = "uswap-bench.data";

pub(super) fn session(mut scope: Scope, setting: &Setting) -> anyhow::Result<GroupSession> {
    let path = std::path::absolute(setting.swap_dir.join(FILE))?;
    let file = swap::create(&mut scope, &path)?;
    // A quarter more than the data, for what lies between its parts.
    let bytes = setting.data_bytes + setting.data_bytes / 4;
    if !swap::preallocate(&file, &path, bytes)? {
        file.set_len(bytes)?;
    }
    Ok(GroupSession::limited(scope, setting)?.with_files_counted((BACKING, path.into_os_string())))
}
