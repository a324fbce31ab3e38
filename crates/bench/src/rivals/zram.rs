//! Swap on a zram device.

use super::Setting;
use super::group_session::GroupSession;
use crate::system::settings::KernelSetting;
use crate::system::swap;
use crate::system::undo::Scope;
use crate::system::zram::Zram;

/// Before any other swap, as distributions do it.
const PRIORITY: u32 = 100;

pub(super) fn session(
    mut scope: Scope,
    setting: &Setting,
    algorithm: &str,
    background: bool,
) -> anyhow::Result<GroupSession> {
    // It would compress the pages before the device does.
    KernelSetting::ZswapEnabled.set_if_there(&mut scope, "N")?;
    let zram = Zram::make(&mut scope, algorithm, 2 * setting.data_bytes)?;
    swap::switch_on(&mut scope, zram.device(), Some(PRIORITY))?;
    let session = GroupSession::limited(scope, setting)?.with_compressed(move || zram.used_bytes());
    if background { session.with_reclaimer() } else { Ok(session) }
}
