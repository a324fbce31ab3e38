//! `cargo xtask package --out DIR [deb|tarball|all]`: what a stranger installs, with the sums to check it by.
//!
//! All of it is made of one list of files ([`content`]), which `cargo xtask install` uses too. Must hold: the same
//! commit makes the same files, byte for byte, on the same machine; and who removes a package has nothing left of it.

pub mod content;
mod deb;
mod libraries;
pub mod manual;
pub mod put;
#[cfg(test)]
mod recipes;
#[cfg(test)]
mod recipes_run;
mod tarball;
#[cfg(test)]
mod tarball_tests;
#[cfg(test)]
mod units_tests;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::commands::{self, succeed, target_directory};
use crate::tree::root;
use content::{Item, Source};

/// The version of all that is packed.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    Deb,
    Tarball,
    All,
}

impl What {
    /// As it is typed.
    ///
    /// # Errors
    /// It is none of them.
    pub fn parse(word: &str) -> Result<What> {
        match word {
            "deb" => Ok(What::Deb),
            "tarball" => Ok(What::Tarball),
            "all" => Ok(What::All),
            _ => bail!("`{word}` is none of deb, tarball, all"),
        }
    }
}

/// Builds, then packs.
///
/// # Errors
/// The build fails, a tool is missing, or a file cannot be written.
pub fn run(out: &Path, what: What) -> Result<()> {
    commands::build()?;
    let share = manual::make()?;
    fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    let time = Time::of_sources()?;
    let mut made = Vec::new();
    if what != What::Deb {
        made.push(tarball::make(out, &share, &time)?);
    }
    if what != What::Tarball {
        made.extend(deb::make(out, &share, &time)?);
    }
    write_sums(out, &made)?;
    made.iter().for_each(|path| println!("made {}", path.display()));
    Ok(())
}

/// When the sources were changed last, in seconds since 1970: the time of all files that are packed.
pub struct Time(String);

impl Time {
    /// `SOURCE_DATE_EPOCH`, or the time of the commit; or now.
    fn of_sources() -> Result<Time> {
        let said = std::env::var("SOURCE_DATE_EPOCH").ok();
        let committed =
            || output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root())).ok();
        let seconds = match said.or_else(committed).filter(|seconds| !seconds.is_empty()) {
            Some(seconds) => seconds,
            None => output(Command::new("date").arg("+%s"))?,
        };
        ensure!(seconds.parse::<u64>().is_ok(), "SOURCE_DATE_EPOCH is not a number of seconds: {seconds}");
        Ok(Time(seconds))
    }

    /// As `Sun, 29 Nov 2026 10:30:33 +0000`.
    fn in_words(&self) -> Result<String> {
        output(Command::new("date").args(["-R", "-u", "-d"]).arg(format!("@{}", self.0)).env("LC_ALL", "C"))
    }

    /// For tools that follow the rules for builds that can be repeated.
    fn tell(&self, command: &mut Command) {
        command.env("SOURCE_DATE_EPOCH", &self.0);
    }
}

/// An empty directory for the files of a package, below the directory of what is built.
fn stage(name: &str) -> Result<PathBuf> {
    let stage = target_directory().join("package").join(name);
    let _there_was_none = fs::remove_dir_all(&stage);
    fs::create_dir_all(&stage).with_context(|| format!("making {}", stage.display()))?;
    Ok(stage)
}

/// Makes the files of a package below a prefix, without what only debuggers want.
fn put_stripped(items: &[Item], prefix: &Path) -> Result<()> {
    for item in items {
        let path = put::put(item, prefix)?;
        if let (Some(option), Source::File(_)) = (item.kind.strip(), &item.source) {
            let mut strip = Command::new("strip");
            strip.args([option, "--enable-deterministic-archives"]).arg(path);
            succeed(strip)?;
        }
    }
    Ok(())
}

/// `SHA256SUMS` beside what was made.
fn write_sums(out: &Path, made: &[PathBuf]) -> Result<()> {
    let names = made.iter().filter_map(|path| path.file_name());
    let sums = output(Command::new("sha256sum").args(names).current_dir(out))?;
    Ok(fs::write(out.join("SHA256SUMS"), format!("{sums}\n"))?)
}

/// What a program says, without the end of its last line.
fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} of {command:?}: {errors}", output.status);
    Ok(String::from_utf8(output.stdout).context("it is no text")?.trim_end().to_owned())
}

/// An empty directory of a test.
#[cfg(test)]
pub fn scratch(name: &str) -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let directory = std::env::temp_dir().join(format!("uswap-xtask-{name}-{}-{number}", std::process::id()));
    fs::create_dir(&directory).expect("the temporary directory can be written");
    directory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_named() {
        assert_eq!(What::parse("deb").expect("it is one"), What::Deb);
        assert!(What::parse("rpm").expect_err("it is none").to_string().contains("deb, tarball, all"));
    }

    #[test]
    fn a_time_is_said_in_words() {
        let time = Time("1764412233".to_owned());
        assert_eq!(time.in_words().expect("date is there"), "Sat, 29 Nov 2025 10:30:33 +0000");
    }

    #[test]
    fn sums_are_those_of_the_files() {
        let directory = scratch("sums");
        let file = directory.join("a");
        fs::write(&file, "abc").expect("it is ours");
        write_sums(&directory, &[file]).expect("sha256sum is there");
        let mut check = Command::new("sha256sum");
        check.args(["--check", "--quiet", "SHA256SUMS"]).current_dir(&directory);
        assert_eq!(output(&mut check).expect("they are right"), "");
        fs::write(directory.join("a"), "abd").expect("it is ours");
        assert!(output(&mut check).is_err());
        fs::remove_dir_all(&directory).expect("it is ours");
    }
}
