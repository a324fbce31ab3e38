//! Where things are, sizes, turns, skips. Called by all tests.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

static SKIPPED: AtomicU64 = AtomicU64::new(0);
static SCRATCHES: AtomicU64 = AtomicU64::new(0);

/// Waits until no other test of this machine runs: for what measures memory or time. The turn ends when the file is
/// dropped.
#[must_use]
pub fn turn() -> File {
    let file = turns();
    file.lock().expect("a local file can be locked");
    file
}

/// Waits until no test runs that wants the machine for itself: for what only looks at content, and waits for much of
/// its time.
#[must_use]
pub fn shared_turn() -> File {
    let file = turns();
    file.lock_shared().expect("a local file can be locked");
    file
}

fn turns() -> File {
    // Who may not open a file of another user has a lock of their own.
    let name = format!("uswap-tests-{}.lock", rustix::process::geteuid().as_raw());
    let path = std::env::temp_dir().join(name);
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.expect("the temporary directory is writable")
}

/// True for the sizes of the promise, false for those that fit a CI run.
pub fn full_size() -> bool {
    std::env::var("USWAP_TEST_FULL").is_ok_and(|value| value == "1")
}

/// How long a test is to go on, and from which seed: it is for those who look for rare failures.
#[derive(Clone, Copy, Debug)]
pub struct LongRun {
    /// Rounds begin until so much time is over.
    pub time: Duration,
    /// What the rounds do goes by it.
    pub seed: u64,
}

/// What `cargo xtask churn` asks for.
pub fn long_run() -> Option<LongRun> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("it is a number"));
    let seconds = number("USWAP_TEST_SECONDS")?;
    Some(LongRun { time: Duration::from_secs(seconds), seed: number("USWAP_TEST_SEED").unwrap_or(1) })
}

/// `full` MiB in the full form, a quarter of it in the short form: memory and budget shrink alike.
pub fn scaled_mib(full: u64) -> u64 {
    scaled_mib_by(full, 4)
}

/// The same with another divisor, for what takes long.
pub fn scaled_mib_by(full: u64, divisor: u64) -> u64 {
    if full_size() { full } else { full / divisor }
}

/// The directory that holds `release/` and `debug/`.
fn target_directory() -> PathBuf {
    let near_manifest = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(near_manifest, PathBuf::from)
}

/// The binary under test; `None` with `USWAP_BIN=plain`. Panics if there is none: a suite that tests nothing must fail.
pub fn uswap_binary() -> Option<PathBuf> {
    let given = std::env::var_os("USWAP_BIN");
    if given.as_ref().is_some_and(|value| value == "plain") {
        return None;
    }
    let path = given.map_or_else(|| target_directory().join("release/uswap"), PathBuf::from);
    assert!(path.exists(), "{} is missing: cargo build --release, or set USWAP_BIN", path.display());
    Some(path.canonicalize().expect("it exists"))
}

/// Whether uswap itself is under test; if not, says that the test is skipped, since it is about that.
pub fn needs_uswap() -> bool {
    let is_there = uswap_binary().is_some();
    if !is_there {
        skip("this case is about uswap itself");
    }
    is_there
}

/// Whether this is root; if not, says that the test is skipped, and why.
pub fn needs_root(what: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip(&format!("{what} needs root"));
    }
    is_root
}

/// One of our own programs, built on first use.
pub fn program(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let directory = BUILT.get_or_init(|| {
        if let Some(given) = std::env::var_os("USWAP_TEST_PROGRAMS") {
            return PathBuf::from(given);
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(["build", "--release", "--quiet", "--package", "uswap-test-programs"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(status.is_ok_and(|status| status.success()), "the test programs do not build");
        target_directory().join("release")
    });
    let path = directory.join(name);
    assert!(path.exists(), "{} is missing", path.display());
    path
}

/// Writes a line that is seen although the test passes.
pub fn report(line: &str) {
    // `println!` would be captured. An error means that nobody listens.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Says and counts that a test cannot run here.
pub fn skip(reason: &str) {
    let count = SKIPPED.fetch_add(1, Relaxed) + 1;
    report(&format!("SKIP: {reason} ({count} skipped by this test binary)"));
}

/// True if all `names` are programs of this machine; else says which one is missing.
pub fn needs(names: &[&str]) -> bool {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let missing =
        names.iter().find(|name| !path.split(':').any(|place| Path::new(place).join(name).exists()));
    match missing {
        Some(name) => {
            skip(&format!("{name} is not installed"));
            false
        }
        None => true,
    }
}

/// A directory of one test, removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes an empty directory that everybody may enter.
    pub fn new() -> Self {
        loop {
            let number = SCRATCHES.fetch_add(1, Relaxed);
            let path = std::env::temp_dir().join(format!("uswap-tests-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Self { path },
                // It was left behind by an earlier process of this number.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }

    /// The path of `name` in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Its own path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left behind lies in the temporary directory; a failing test says more than an error here.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
