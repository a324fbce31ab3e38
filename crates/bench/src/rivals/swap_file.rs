//! Swap to a file, with zswap before it or without.

use super::Setting;
use super::group_session::GroupSession;
use crate::system::settings::KernelSetting;
use crate::system::swap;
use crate::system::undo::Scope;
use crate::system::zswap::ZswapPool;

/// The kernel spreads its writes over clusters; in a very small file those run out.
const FILE_BYTES_MIN: u64 = 256 << 20;

/// Best first. zswap asks the kernel's crypto library, which may lack what zram has.
const COMPRESSORS: [&str; 3] = ["lz4", "lzo-rle", "lzo"];

/// A swap file alone. Readahead (vm.page-cluster) stays as the machine has it: disks need it.
pub(super) fn plain_session(mut scope: Scope, setting: &Setting) -> anyhow::Result<GroupSession> {
    KernelSetting::ZswapEnabled.set_if_there(&mut scope, "N")?;
    make_file(&mut scope, setting)?;
    GroupSession::limited(scope, setting)
}

/// zswap before a swap file. Its limit, max_pool_percent of the RAM of the machine, stays as it is: far above the
/// budget.
///
/// In a cgroup of version 2 the kernel charges the pool to the group, as `zswap` in memory.stat. What is counted as
/// resident does not hold that, so nothing is counted twice; only the limit that gives the same true RAM is higher.
pub(super) fn zswap_session(
    mut scope: Scope,
    setting: &Setting,
    shrinker: bool,
) -> anyhow::Result<GroupSession> {
    KernelSetting::PageCluster.set(&mut scope, "0")?;
    let compressor = set_compressor(&mut scope)?;
    let shrinker_state = if shrinker { "Y" } else { "N" };
    KernelSetting::ZswapShrinker.set(&mut scope, shrinker_state)?;
    KernelSetting::ZswapEnabled.set(&mut scope, "Y")?;
    let pool = ZswapPool::find(&mut scope)?;
    make_file(&mut scope, setting)?;
    let session = GroupSession::limited(scope, setting)?.with_compressed(move || pool.bytes());
    if compressor == COMPRESSORS[0] {
        return Ok(session);
    }
    Ok(session
        .with_remark(format!("zswap compresses by {compressor}: this kernel has no {}", COMPRESSORS[0])))
}

/// The first that this kernel has.
fn set_compressor(scope: &mut Scope) -> anyhow::Result<&'static str> {
    let mut result = Err(anyhow::anyhow!("no compressor was tried"));
    for compressor in COMPRESSORS {
        result = KernelSetting::ZswapCompressor.set(scope, compressor).map(|()| compressor);
        if result.is_ok() {
            break;
        }
    }
    result
}

fn make_file(scope: &mut Scope, setting: &Setting) -> anyhow::Result<()> {
    let bytes = (2 * setting.data_bytes).max(FILE_BYTES_MIN);
    swap::make_file(scope, &setting.swap_dir, bytes).map(drop)
}
