//! What can be asked of a run that is under way, by the socket of `uswap_control`.
//!
//! What must hold: only root and the user of the run are obeyed. One line each way ([`command`]):
//! ```text
//! -> writeback MILLISECONDS   or   swapon SIZE PRIORITY KIND DIR   or   swapoff DIR   or   stat 1   or   set JSON
//!    or   map PID   or   leave 1   or   freeze 1   or   thaw 1
//! <- ok WHAT WAS DONE         or   error WHY
//! ```

pub mod command;
pub mod server;

use std::time::Duration;

/// Pages are watched for so long at most: a day.
pub const AGE_MAX: Duration = Duration::from_secs(86_400);
