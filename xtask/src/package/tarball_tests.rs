//! The installer of the tarball, with a tree in which everything is made up.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::content::files_below;
use super::{scratch, tarball};

struct Unpacked {
    directory: PathBuf,
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        let _it_is_ours = fs::remove_dir_all(&self.directory);
    }
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::create_dir_all(path.parent().expect("it has one")).expect("it is ours");
    fs::write(path, text).expect("it is ours");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

impl Unpacked {
    fn new(name: &str) -> Unpacked {
        let unpacked = Unpacked { directory: scratch(name) };
        let file =
            |place: &str, text: &str, mode| write(&unpacked.directory.join("tree").join(place), text, mode);
        file("bin/uswap", "#!/bin/sh\necho uswap 0.0.1\n", 0o755);
        file("lib/uswap/libuswap_agent.so", "agent", 0o644);
        file("include/usw.h", "header", 0o644);
        file("share/man/man1/uswap.1", "page", 0o644);
        file("lib/systemd/system/uswap@.service", "ExecStart=/usr/bin/uswap run\n", 0o644);
        file("install.sh", &tarball::installer(34).expect("it is in the repository"), 0o755);
        symlink("libusw.so.0", unpacked.directory.join("tree/lib/libusw.so")).expect("it is ours");
        unpacked
    }

    fn prefix(&self) -> PathBuf {
        self.directory.join("prefix")
    }

    /// A program that is found ahead of the real one, and says this.
    fn pretend(&self, name: &str, script: &str) {
        write(&self.directory.join("pretended").join(name), &format!("#!/bin/sh\n{script}\n"), 0o755);
    }

    /// What the installer says, and whether it succeeds.
    fn install(&self, words: &[&str]) -> (bool, String) {
        self.run(&self.directory.join("tree/install.sh"), words)
    }

    fn run(&self, script: &Path, words: &[&str]) -> (bool, String) {
        let mut path = OsString::from(self.directory.join("pretended"));
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut command = Command::new("sh");
        command.arg(script).args(words).arg("--prefix").arg(self.prefix()).env("PATH", path);
        let output = command.output().expect("there is a shell");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.success(), said)
    }
}

#[test]
fn what_was_installed_is_removed_and_nothing_else() {
    let unpacked = Unpacked::new("installer");
    let prefix = unpacked.prefix();
    write(&prefix.join("bin/mine"), "mine", 0o755);
    let (is_installed, said) = unpacked.install(&[]);
    assert!(is_installed && said.contains("installed uswap 0.0.1"), "{said}");
    let unit = fs::read_to_string(prefix.join("lib/systemd/system/uswap@.service")).expect("it is there");
    assert_eq!(unit, format!("ExecStart={}/bin/uswap run\n", prefix.display()));
    assert_eq!(fs::read_link(prefix.join("lib/libusw.so")).expect("it is one"), Path::new("libusw.so.0"));
    let mode = fs::metadata(prefix.join("bin/uswap")).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    // Again, as an update does.
    let (is_installed, said) = unpacked.install(&[]);
    assert!(is_installed, "{said}");
    let manifest = fs::read_to_string(prefix.join("share/uswap/manifest")).expect("it is there");
    assert_eq!(manifest.matches("file bin/uswap\n").count(), 1, "{manifest}");
    assert!(!manifest.contains("directory bin\n"), "that was there before: {manifest}");

    let (is_removed, said) = unpacked.run(&prefix.join("share/uswap/install.sh"), &["--uninstall"]);
    assert!(is_removed, "{said}");
    assert_eq!(files_below(&prefix).expect("it is there"), ["bin/mine"]);
    assert_eq!(fs::read_dir(&prefix).expect("it is there").count(), 1, "no directory is left");
    let (is_removed, said) = unpacked.install(&["--uninstall"]);
    assert!(!is_removed && said.contains("was not installed"), "{said}");
}

#[test]
fn where_it_cannot_work_it_says_why_and_installs_nothing() {
    for (name, script, wanted) in [
        ("uname", "test $1 = -m && echo aarch64 || echo Linux", "this machine is aarch64"),
        (
            "uname",
            "case $1 in -m) echo x86_64;; -r) echo 5.10.0-28;; *) echo Linux;; esac",
            "Linux 5.10.0-28",
        ),
        ("ldd", "echo 'musl libc (x86_64)' >&2; exit 1", "the C library here is musl"),
        ("getconf", "echo glibc 2.31", "glibc 2.31, and this build needs 2.34"),
    ] {
        let unpacked = Unpacked::new("refused");
        unpacked.pretend(name, script);
        let (is_installed, said) = unpacked.install(&[]);
        assert!(!is_installed && said.contains(wanted), "{wanted}: {said}");
        assert!(!unpacked.prefix().exists(), "{wanted}");
    }
    let unpacked = Unpacked::new("refused");
    let (is_installed, said) = unpacked.install(&["--perfix=x"]);
    assert!(!is_installed && said.contains("'--perfix=x' is not understood"), "{said}");
}

#[test]
fn a_damaged_manifest_removes_nothing_of_others() {
    let unpacked = Unpacked::new("damaged");
    let foreign = unpacked.directory.join("foreign");
    write(&foreign, "foreign", 0o644);
    for line in ["file ../foreign".to_owned(), format!("file {}", foreign.display())] {
        write(&unpacked.prefix().join("share/uswap/manifest"), &format!("{line}\n"), 0o644);
        let (is_removed, said) = unpacked.install(&["--uninstall"]);
        assert!(!is_removed && said.contains("the manifest is damaged"), "{said}");
        assert!(foreign.exists());
    }
}
