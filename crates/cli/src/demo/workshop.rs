//! The demo's own directory, and what ends it early.
//!
//! What must hold: the directory goes away whatever happens to the demo, short of SIGKILL: it is removed on drop, and
//! Ctrl-C, SIGTERM and SIGHUP only raise a flag that every long step looks at.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM};

/// A private directory that is removed with all that is in it.
pub struct Workshop {
    dir: PathBuf,
}

impl Workshop {
    /// Makes it in `parent`, mode 0700.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn make(parent: &Path) -> io::Result<Self> {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let dir = parent.join(format!("uswap-demo-{}-{}", std::process::id(), since.subsec_nanos()));
        DirBuilder::new().mode(0o700).create(&dir)?;
        Ok(Self { dir })
    }

    /// Path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.dir) {
            crate::message::say(format_args!("'{}' could not be removed ({error})", self.dir.display()));
        }
    }
}

/// The signal that asks the demo to end, if one came.
#[derive(Clone)]
pub struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Takes SIGINT, SIGTERM and SIGHUP from now on.
    ///
    /// # Errors
    /// If a handler cannot be set.
    pub fn take() -> io::Result<Self> {
        let flag = Arc::new(AtomicUsize::new(0));
        for number in [SIGINT, SIGTERM, SIGHUP] {
            let value = usize::try_from(number).expect("signal numbers are above 0");
            signal_hook::flag::register_usize(number, Arc::clone(&flag), value)?;
        }
        Ok(Self(flag))
    }

    /// Number of the signal that came.
    pub fn signal(&self) -> Option<i32> {
        // Relaxed: the number is all that is passed.
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            number => i32::try_from(number).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_private_and_goes_away() {
        use std::os::unix::fs::PermissionsExt as _;
        let workshop = Workshop::make(&std::env::temp_dir()).unwrap();
        let dir = workshop.dir.clone();
        assert_eq!(dir.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::write(workshop.path("data"), b"x").unwrap();
        drop(workshop);
        assert!(!dir.exists());
    }
}
