//! `cargo xtask kernel`: uswap on the kernel of Debian 12, in a virtual machine, as a user without any rights.
//!
//! The kernel comes from Debian's package, of which nothing is installed. The machine is emulated, so it takes some
//! minutes, and times in it mean nothing. It has no file system but what is in its memory: an archive with the command,
//! the agent, test programs and the libraries that they need, and a disk that is a file there.
//!
//! Must hold: the command fails if one check fails, or says nothing; and it says that it is skipped where the emulator
//! or the package is missing.

mod archive;
mod guest;
mod package;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::commands::{self, PROFILE, PROGRAMS, cargo, target_directory};
use archive::Archive;

const EMULATOR: &str = "qemu-system-x86_64";
/// Bytes of memory of the machine, in MiB: the archive and the disk are there too.
const MACHINE_MIB: &str = "3072";
/// All checks together took 19 minutes beside other work (load 7).
const TIME_MAX: &str = "40m";

/// Programs of this machine that the checks need.
const PROGRAMS_NEEDED: [&str; 5] = ["sort", "setpriv", "env", "echo", "true"];

/// Runs the checks whose names begin so; `package`: a kernel package of Debian, the current one without it.
///
/// # Errors
/// A check failed, or the machine did not get that far.
pub fn run(package: Option<&str>, only: &str) -> Result<()> {
    let checks = guest::checks(only);
    ensure!(!checks.is_empty(), "no check has a name that begins with {only}");
    if let Some(missing) = [EMULATOR, "apt-get", "dpkg-deb", "ldd", "timeout", "busybox"]
        .into_iter()
        .chain(PROGRAMS_NEEDED)
        .find(|program| find(program).is_none())
    {
        println!("SKIP: {missing} is not installed (packages qemu-system-x86, busybox-static)");
        return Ok(());
    }
    let place = target_directory().join("kernel");
    std::fs::create_dir_all(&place)?;
    let Some(kernel) = package::unpack(&place, package)? else { return Ok(()) };
    let archive = place.join("archive");
    std::fs::write(&archive, contents(&kernel, &checks)?)
        .with_context(|| format!("writing {}", archive.display()))?;
    let console = place.join("console");
    println!("starting {} in {EMULATOR}; what it says is in {}", kernel.name, console.display());
    let said = start(&kernel.image, &archive, &console)?;
    let failed = guest::failures(&checks, &said);
    for failure in &failed {
        println!("\n== {} failed; the machine said\n{}", failure.check, failure.said);
    }
    ensure!(
        failed.is_empty(),
        "{} of {} checks failed; all that the machine said is in {}",
        failed.len(),
        checks.len(),
        console.display()
    );
    println!("{} checks passed on {}", checks.len(), kernel.name);
    Ok(())
}

/// Runs the machine to its end; what came over its serial line, which `console` has meanwhile.
fn start(image: &Path, archive: &Path, console: &Path) -> Result<String> {
    let mut command = Command::new("timeout");
    command.args([TIME_MAX, EMULATOR, "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2"]);
    command.args(["-m", MACHINE_MIB, "-no-reboot", "-display", "none", "-vga", "none", "-net", "none"]);
    command.args(["-monitor", "none", "-serial", "stdio", "-append", "console=ttyS0 quiet panic=-1"]);
    command.arg("-kernel").arg(image).arg("-initrd").arg(archive);
    let status = command.stdin(Stdio::null()).stdout(File::create(console)?).status();
    let status = status.context("starting the emulator")?;
    ensure!(status.success(), "{status} of {command:?}; what the machine said is in {}", console.display());
    Ok(String::from_utf8_lossy(&std::fs::read(console)?).replace('\r', ""))
}

/// All that the machine has.
fn contents(kernel: &package::Kernel, checks: &[&guest::Check]) -> Result<Vec<u8>> {
    commands::build()?;
    commands::succeed(cargo(&["build", "--release", "-p", PROGRAMS]))?;
    let mut programs: Vec<(String, PathBuf)> = ["uswap", "libuswap_agent.so", "churn", "evil"]
        .map(|name| (format!("programs/{name}"), target_directory().join("release").join(name)))
        .to_vec();
    for name in PROGRAMS_NEEDED {
        programs.push((format!("usr/bin/{name}"), find(name).expect("it was looked for")));
    }
    // Checks execute them by these paths.
    for name in ["echo", "true"] {
        programs.push((format!("bin/{name}"), find(name).expect("it was looked for")));
    }
    for test in guest::KERNEL_TESTS {
        programs.push((format!("programs/test-{test}"), test_program(test)?));
    }
    let mut archive = Archive::default();
    for directory in ["proc", "sys", "dev", "tmp", "bin", "etc", "disk", "modules"] {
        archive.directory(directory);
    }
    archive.file("init", guest::INIT.as_bytes());
    archive.file("checks", guest::script(checks).as_bytes());
    archive.file("etc/passwd", b"root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n");
    archive.copy("bin/busybox", &find("busybox").expect("it was looked for"))?;
    archive.link("bin/sh", "busybox");
    for module in package::MODULES {
        let file = kernel.module(module);
        archive.copy(&format!("modules/{}", file.file_name().expect("it is a file").display()), &file)?;
    }
    for (name, path) in &programs {
        archive.copy(name, path)?;
        for library in libraries(path)? {
            archive.copy_once(library.display().to_string().trim_start_matches('/'), &library)?;
        }
    }
    Ok(archive.finish())
}

/// Builds a test of `uswap-os`; its file.
fn test_program(test: &str) -> Result<PathBuf> {
    let words = ["test", "--profile", PROFILE, "-p", "uswap-os", "--test", test, "--no-run"];
    let output = cargo(&words).output().context("starting cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the test {test} does not build:\n{said}");
    let line = said.lines().find(|line| line.trim().starts_with("Executable "));
    let file = line.and_then(|line| line.strip_suffix(')')?.rsplit_once('('));
    let (_, file) = file.with_context(|| format!("cargo does not say where the test {test} is:\n{said}"))?;
    Ok(crate::tree::root().join(file))
}

/// The shared libraries that the loader would map for a program.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("starting ldd")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let paths = text.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    Ok(paths.map(PathBuf::from).collect())
}

/// A program in the directories where there are programs.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| path.is_file())
}
