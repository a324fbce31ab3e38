//! Where the tests find what is built with them.

use std::path::PathBuf;

/// Where the examples are: beside the directory of this test.
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("/proc/self/exe is there");
    let profile = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let path = profile.join("examples").join(name);
    assert!(path.exists(), "{} is built with the tests of this package", path.display());
    path
}
