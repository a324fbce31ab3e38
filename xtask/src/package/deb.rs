//! Debian packages: `uswap` (the command), `libusw0` and `libusw-dev` (the C library).
//!
//! Made by `dpkg-deb` of a tree of files. Nothing runs when one is installed or removed, and nothing is written below
//! `/etc` or `/var`: so nothing is left of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::content::{self, C_LIBRARY_SONAME, Layout, Package};
use super::{Time, VERSION, libraries, output, put_stripped, stage};
use crate::commands::{self, cargo, succeed};
use crate::tree::root;

/// Changes of the packaging itself, of one version.
const REVISION: u32 = 1;

/// A package.
struct Deb {
    content: Package,
    name: &'static str,
    section: &'static str,
    /// For people: one line, and then more. `.` is an empty line.
    description: &'static [&'static str],
}

const DEBS: [Deb; 3] = [
    Deb {
        content: Package::Command,
        name: "uswap",
        section: "utils",
        description: &[
            "run a program in less memory than it uses",
            "uswap runs an unmodified program, and all that it starts, within a budget of",
            "RAM. Pages that were not used lately are compressed in RAM; what does not fit",
            "there goes to an encrypted swap file; a touch brings a page back. It takes no",
            "kernel swap, no kernel module, no root, and no change to the program.",
            ".",
            "It needs Linux 5.11 or newer. \"uswap doctor\" says whether it can work here.",
        ],
    },
    Deb {
        content: Package::Library,
        name: "libusw0",
        section: "libs",
        description: &[
            "memory larger than RAM for a C program (library)",
            "With this library a program asks for a budget of RAM while it runs, or for",
            "memory that may be larger than RAM while the rest of it stays as it is: swap",
            "in user space, by the command uswap.",
        ],
    },
    Deb {
        content: Package::Development,
        name: "libusw-dev",
        section: "libdevel",
        description: &[
            "memory larger than RAM for a C program (development files)",
            "With this library a program asks for a budget of RAM while it runs, or for",
            "memory that may be larger than RAM while the rest of it stays as it is: swap",
            "in user space, by the command uswap.",
            ".",
            "This package has the header, the archive, and what pkg-config wants to know.",
        ],
    },
];

/// Makes all of them in `out`; their paths.
///
/// # Errors
/// `dpkg-deb` or another tool is missing, or a file cannot be written.
pub fn make(out: &Path, share: &Path, time: &Time) -> Result<Vec<PathBuf>> {
    let is_there = output(Command::new("dpkg-deb").arg("--version"));
    is_there.context("dpkg-deb is needed for a .deb: apt-get install dpkg binutils")?;
    DEBS.iter().map(|deb| make_one(deb, out, share, time)).collect()
}

fn make_one(deb: &Deb, out: &Path, share: &Path, time: &Time) -> Result<PathBuf> {
    let tree = stage(deb.name)?;
    let mut items = content::items(Layout::Debian, Path::new("/usr"), share)?;
    items.retain(|item| item.package == deb.content);
    put_stripped(&items, &tree.join("usr"))?;
    add_documents(deb, &tree, time)?;
    add_control(deb, &tree)?;
    // Whatever mask files are made with here.
    let mut chmod = Command::new("chmod");
    chmod.args(["--recursive", "u=rwX,go=rX"]).arg(&tree);
    succeed(chmod)?;
    let path = out.join(format!("{}_{VERSION}-{REVISION}_amd64.deb", deb.name));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "--build"]).args([&tree, &path]);
    build.stdout(std::process::Stdio::null());
    time.tell(&mut build);
    succeed(build)?;
    Ok(path)
}

/// Whose package it is: of whoever builds it, as Debian's own tools take it.
fn maintainer() -> String {
    let said = |name: &str, otherwise: &str| std::env::var(name).unwrap_or_else(|_| otherwise.to_owned());
    format!("{} <{}>", said("DEBFULLNAME", "uswap maintainers"), said("DEBEMAIL", "uswap@localhost"))
}

/// Licence, changes, and what is linked in.
fn add_documents(deb: &Deb, tree: &Path, time: &Time) -> Result<()> {
    let directory = tree.join("usr/share/doc").join(deb.name);
    fs::create_dir_all(&directory)?;
    fs::write(directory.join("copyright"), copyright()?)?;
    let changes = format!(
        "{} ({VERSION}-{REVISION}) unstable; urgency=medium\n\n  \
         * Built from the sources of uswap {VERSION}. Their changes are in changelog.gz.\n\n \
         -- {}  {}\n",
        deb.name,
        maintainer(),
        time.in_words()?
    );
    fs::write(directory.join("changelog.Debian"), changes)?;
    fs::copy(root().join("CHANGELOG.md"), directory.join("changelog"))?;
    let crates = match deb.content {
        Package::Command => &["uswap-cli", commands::AGENT][..],
        Package::Library | Package::Development => &[commands::C_LIBRARY],
    };
    fs::write(directory.join("third-party.txt"), linked_in(crates)?)?;
    let overrides = tree.join("usr/share/lintian/overrides");
    fs::create_dir_all(&overrides)?;
    fs::copy(root().join("packaging/deb").join(format!("{}.overrides", deb.name)), overrides.join(deb.name))?;
    let usr = tree.join("usr");
    let wanted = |place: &String| {
        place.starts_with("share/man/")
            || place.ends_with("/changelog")
            || place.ends_with("/changelog.Debian")
    };
    for place in content::files_below(&usr)?.iter().filter(|place| wanted(place)) {
        let mut gzip = Command::new("gzip");
        gzip.args(["-9", "--no-name", "--force"]).arg(usr.join(place));
        succeed(gzip)?;
    }
    Ok(())
}

/// In the form that Debian reads by machine.
fn copyright() -> Result<String> {
    let mit = fs::read_to_string(root().join("LICENSE-MIT"))?;
    let holder = mit.lines().find_map(|line| line.strip_prefix("Copyright (c) "));
    let (_, terms) = mit.split_once("Permission is hereby").context("LICENSE-MIT has other words")?;
    let terms = format!("Permission is hereby{terms}");
    let terms: String = terms.trim_end().lines().map(indented).collect();
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: uswap\n\
         Comment: The programs have other packages linked into them, under licences that go with\n \
         these: third-party.txt names them.\n\
         \n\
         Files: *\n\
         Copyright: {}\n\
         License: MIT or Apache-2.0\n\
         \n\
         License: MIT\n{terms}\
         \n\
         License: Apache-2.0\n \
         On Debian systems the text of this licence is in\n \
         /usr/share/common-licenses/Apache-2.0.\n",
        holder.context("LICENSE-MIT names nobody")?
    ))
}

/// A line of a text in a control file.
fn indented(line: &str) -> String {
    if line.is_empty() { " .\n".to_owned() } else { format!(" {line}\n") }
}

/// The packages that are linked into some of ours, with their licences.
fn linked_in(crates: &[&str]) -> Result<String> {
    let mut lines = Vec::new();
    for name in crates {
        let mut tree = cargo(&["tree", "--quiet", "--locked", "--edges", "normal", "--prefix", "none"]);
        tree.args(["--no-dedupe", "--format", "{p}: {l}", "--package", name]);
        let said = output(&mut tree)?;
        // Packages of the repository have their path behind them.
        let foreign = |line: &&str| !line.contains(" (") || line.contains("(proc-macro)");
        lines.extend(said.lines().filter(foreign).map(|line| line.replace(" (proc-macro)", "")));
    }
    lines.sort();
    lines.dedup();
    ensure!(!lines.is_empty(), "cargo tree names no package that is linked in");
    Ok(format!(
        "Packages that are linked in, or were used to build, with their licences.\n\n{}\n",
        lines.join("\n")
    ))
}

/// What dpkg wants to know.
fn add_control(deb: &Deb, tree: &Path) -> Result<()> {
    let places = content::files_below(tree)?;
    let directory = tree.join("DEBIAN");
    fs::create_dir_all(&directory)?;
    let mut kibibytes = 0;
    for place in &places {
        kibibytes += fs::symlink_metadata(tree.join(place))?.len().div_ceil(1024);
    }
    let description: String = deb.description[1..].iter().map(|line| format!(" {line}\n")).collect();
    let control = format!(
        "Package: {}\n\
         Source: uswap\n\
         Version: {VERSION}-{REVISION}\n\
         Architecture: amd64\n\
         Maintainer: {}\n\
         Installed-Size: {kibibytes}\n\
         Depends: {}\n\
         Section: {}\n\
         Priority: optional\n\
         Description: {}\n{description}",
        deb.name,
        maintainer(),
        depends(deb, tree)?,
        deb.section,
        deb.description[0],
    );
    // A package is its own source if nothing else is said.
    fs::write(
        directory.join("control"),
        control.replace("Package: uswap\nSource: uswap\n", "Package: uswap\n"),
    )?;
    let mut regular = places.clone();
    regular.retain(|place| !tree.join(place).is_symlink());
    let sums = output(Command::new("md5sum").args(&regular).current_dir(tree))?;
    fs::write(directory.join("md5sums"), format!("{sums}\n"))?;
    if deb.content == Package::Library {
        let number = C_LIBRARY_SONAME.trim_start_matches("libusw.so.");
        fs::write(directory.join("shlibs"), format!("libusw {number} libusw0 (>= {VERSION})\n"))?;
        fs::write(directory.join("triggers"), "activate-noawait ldconfig\n")?;
    }
    Ok(())
}

/// Other packages that must be there.
fn depends(deb: &Deb, tree: &Path) -> Result<String> {
    let own = |name: &str| format!("{name} (= {VERSION}-{REVISION})");
    let linked = |place: &str| {
        let glibc = libraries::newest_glibc(&[tree.join(place)])?;
        ensure!(glibc > 0, "{place} needs no version of glibc: it was not built for it");
        anyhow::Ok(format!("libc6 (>= 2.{glibc}), libgcc-s1 (>= 4.2)"))
    };
    match deb.content {
        Package::Command => linked("usr/bin/uswap"),
        Package::Library => {
            let library = format!("usr/lib/x86_64-linux-gnu/{C_LIBRARY_SONAME}");
            // It starts the command, and they understand each other only if they are of the same version.
            Ok(format!("{}, {}", linked(&library)?, own("uswap")))
        }
        Package::Development => Ok(own("libusw0")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_licence_is_quoted_whole() {
        let text = copyright().expect("LICENSE-MIT is there");
        for wanted in
            ["\n .\n", " Permission is hereby granted", "WARRANTY", "\nCopyright: 20", "\nLicense: MIT\n"]
        {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert!(!text.contains("\n\n\n"), "{text}");
    }

    #[test]
    fn descriptions_are_as_debian_wants_them() {
        for deb in &DEBS {
            let first = deb.description[0];
            assert!(first.len() <= 80 && !first.ends_with('.'), "{first}");
            assert!(deb.description.iter().all(|line| line.len() <= 79), "{}", deb.name);
            let overrides = root().join("packaging/deb").join(format!("{}.overrides", deb.name));
            assert!(overrides.is_file(), "{}", overrides.display());
        }
    }

    #[test]
    fn what_is_linked_in_is_named_with_its_licence() {
        let text = linked_in(&["uswap-cli"]).expect("cargo knows");
        let line = text.lines().find(|line| line.starts_with("clap v")).expect("it is linked in");
        assert!(line.contains("MIT OR Apache-2.0") || line.contains("Apache-2.0 OR MIT"), "{line}");
        assert!(!text.contains("uswap-core"), "{text}");
    }
}
