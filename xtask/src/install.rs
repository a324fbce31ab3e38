//! `cargo xtask install --prefix DIR`: the command to `DIR/bin`, the agent to `DIR/lib/uswap`, and the C library with
//! its header and what pkg-config wants to know to `DIR/lib` and `DIR/include`.
//!
//! Must hold: a running `uswap` and its programs keep the files that they have mapped. So each file is written under
//! another name and then renamed, never written over.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use anyhow::{Context, Result};

use crate::commands;
use crate::tree::root;

/// The name under which programs look for the C library. `crates/libusw/build.rs` writes it into the library.
const C_LIBRARY_SONAME: &str = "libusw.so.0";

const PROGRAM: u32 = 0o755;
const DATA: u32 = 0o644;

/// Builds, then copies.
///
/// # Errors
/// The build fails, or a file cannot be written.
pub fn run(prefix: &Path) -> Result<()> {
    commands::build()?;
    let (libraries, headers) = (&prefix.join("lib"), &prefix.join("include"));
    let [shared, archive] = commands::c_library_paths();
    copy(&commands::uswap_path(), &prefix.join("bin"), "uswap", PROGRAM)?;
    copy(&commands::agent_path(), &libraries.join("uswap"), "libuswap_agent.so", PROGRAM)?;
    copy(&shared, libraries, C_LIBRARY_SONAME, PROGRAM)?;
    place(libraries, "libusw.so", |new| Ok(symlink(C_LIBRARY_SONAME, new)?))?;
    copy(&archive, libraries, "libusw.a", DATA)?;
    copy(&root().join("crates/libusw/include/usw.h"), headers, "usw.h", DATA)?;
    place(&libraries.join("pkgconfig"), "usw.pc", |new| Ok(fs::write(new, pkg_config())?))
}

/// What `pkg-config` says of the C library, wherever its file lies. What is behind `Libs.private` is needed with the
/// archive only.
fn pkg_config() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "prefix=${{pcfiledir}}/../..\n\
         libdir=${{prefix}}/lib\n\
         includedir=${{prefix}}/include\n\
         \n\
         Name: usw\n\
         Description: Memory larger than RAM, and a budget for the process that asks for it: swap in user space\n\
         Version: {version}\n\
         Cflags: -I${{includedir}}\n\
         Libs: -L${{libdir}} -lusw\n\
         Libs.private: -lgcc_s -lutil -lrt -lpthread -lm -ldl\n"
    )
}

/// Copies a file into a directory, under that name and with that mode.
fn copy(file: &Path, directory: &Path, name: &str, mode: u32) -> Result<()> {
    place(directory, name, |new| {
        fs::copy(file, new).with_context(|| format!("copying {} to {}", file.display(), new.display()))?;
        Ok(fs::set_permissions(new, fs::Permissions::from_mode(mode))?)
    })
}

/// Makes a file in a directory, which is made if it is not there.
fn place(directory: &Path, name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let destination = directory.join(name);
    let unfinished = directory.join(format!(".{name}.new"));
    fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
    // Of an installation that was interrupted.
    let _there_is_none = fs::remove_file(&unfinished);
    make(&unfinished).with_context(|| format!("making {}", destination.display()))?;
    fs::rename(&unfinished, &destination)
        .with_context(|| format!("renaming to {}", destination.display()))?;
    println!("installed {}", destination.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_in_use_is_replaced_not_overwritten() {
        let directory = std::env::temp_dir().join(format!("uswap-xtask-install-{}", std::process::id()));
        let source = directory.join("tool");
        let destination = directory.join("prefix/bin");
        fs::create_dir_all(&destination).expect("the temporary directory can be written");
        fs::write(&source, "new").expect("as above");
        fs::write(destination.join("tool"), "old").expect("as above");
        let in_use = fs::File::open(destination.join("tool")).expect("it was just written");

        copy(&source, &destination, "tool", PROGRAM).expect("the copy succeeds");

        assert_eq!(std::io::read_to_string(in_use).expect("it is open"), "old");
        assert_eq!(fs::read_to_string(destination.join("tool")).expect("it is there"), "new");
        let entries = fs::read_dir(&destination).expect("it is there").count();
        assert_eq!(entries, 1, "no unfinished file is left");
        fs::remove_dir_all(&directory).expect("it is ours");
    }
    #[test]
    fn a_link_is_replaced() {
        let directory = std::env::temp_dir().join(format!("uswap-xtask-link-{}", std::process::id()));
        for target in ["old", "new"] {
            place(&directory, "link", |new| Ok(symlink(target, new)?)).expect("it is made");
        }
        assert_eq!(fs::read_link(directory.join("link")).expect("it is one"), Path::new("new"));
        fs::remove_dir_all(&directory).expect("it is ours");
    }

    #[test]
    fn the_name_of_the_c_library_is_the_one_that_is_written_into_it() {
        let script = fs::read_to_string(root().join("crates/libusw/build.rs")).expect("it is there");
        assert!(script.contains(&format!("-soname,{C_LIBRARY_SONAME}\"")), "{script}");
    }

    #[test]
    fn pkg_config_finds_the_places_beside_its_file() {
        let directory = std::env::temp_dir().join(format!("uswap-xtask-pkg-config-{}", std::process::id()));
        let file = directory.join("lib/pkgconfig");
        place(&file, "usw.pc", |new| Ok(fs::write(new, pkg_config())?)).expect("it is made");
        let mut command = std::process::Command::new("pkg-config");
        command.args(["--cflags", "--libs", "usw"]).env("PKG_CONFIG_PATH", &file);
        let output = command.output();
        fs::remove_dir_all(&directory).expect("it is ours");
        let Ok(output) = output else { return println!("SKIP: pkg-config is not installed") };
        let said = String::from_utf8_lossy(&output.stdout);
        let words: Vec<&str> = said.split_whitespace().collect();
        let place = |name: &str| format!("{}/../../{name}", file.display());
        assert_eq!(words, [&format!("-I{}", place("include")), &format!("-L{}", place("lib")), "-lusw"]);
    }

    #[test]
    fn pkg_config_has_the_version_of_the_header() {
        let text = pkg_config();
        let header = fs::read_to_string(root().join("crates/libusw/include/usw.h")).expect("it is there");
        let version = text.lines().find_map(|line| line.strip_prefix("Version: ")).expect("it has one");
        assert!(header.contains(&format!("#define USW_VERSION \"{version}\"")), "{version}");
    }
}
