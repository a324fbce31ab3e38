//! Tests: what can be run of the recipes is run, or read by a tool that knows more than a parser.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use super::content::files_below;
use crate::tree::root;

/// What a command says; `None` if its program is not there, which is said.
fn output(mut command: Command, package: &str) -> Option<Output> {
    match command.output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("SKIP: there is no {:?}: apt-get install {package}", command.get_program());
            None
        }
        Err(error) => panic!("{command:?}: {error}"),
    }
}

/// What shellcheck finds wrong in a script. Empty: nothing. None: it is not there.
fn found_wrong(script: &Path, options: &[&str]) -> Option<String> {
    let mut command = Command::new("shellcheck");
    command.args(["--severity=warning", "--format=gcc"]).args(options).arg(script);
    let output = output(command, "shellcheck")?;
    Some(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn shellcheck_finds_nothing_wrong_in_the_scripts() {
    let mut scripts = Vec::new();
    for directory in ["packaging", "examples", "tests/scripts"] {
        let mut places = files_below(&root().join(directory)).expect("it is in the repository");
        places.retain(|place| place.ends_with(".sh"));
        assert!(!places.is_empty(), "{directory} has no scripts");
        scripts.extend(places.iter().map(|place| {
            let script = root().join(directory).join(place);
            let text = fs::read_to_string(&script).expect("it is text");
            // Without a first line that names a shell it is read by a user's own.
            let options = if text.starts_with("#!") { &[][..] } else { &["--shell=bash"][..] };
            (script, options)
        }));
    }
    // makepkg reads what seems unused, sets what seems unset, and stops at the first error.
    let recipe = root().join("packaging/arch/PKGBUILD");
    scripts.push((recipe, &["--shell=bash", "--exclude=SC2034,SC2154,SC2164"][..]));
    // Not in an archive of the sources.
    let ours = [".ci/run", ".ci/packages"].map(|place| root().join(place));
    scripts.extend(ours.into_iter().filter(|path| path.exists()).map(|path| (path, &[][..])));
    for (script, options) in scripts {
        let Some(wrong) = found_wrong(&script, options) else { return };
        assert_eq!(wrong, "");
    }
    // It does have something to say about others.
    let directory = super::scratch("shellcheck");
    let script = directory.join("wrong.sh");
    fs::write(&script, "#!/bin/sh\ncd \"$1\"\nrm -r old\n").expect("it is ours");
    let wrong = found_wrong(&script, &[]);
    fs::remove_dir_all(&directory).expect("it is ours");
    assert!(wrong.is_some_and(|wrong| wrong.contains("SC2164")));
}

/// The flake is evaluated with something that stands for nixpkgs: a package is what it is made from.
#[test]
fn nix_evaluates_the_flake() {
    let flake = root().join("packaging/nix/flake.nix");
    let expression = format!(
        "let
           flake = import {};
           pkgs = {{
             rustPlatform.buildRustPackage = recipe: recipe;
             lib.licenses = {{ mit = \"MIT\"; asl20 = \"Apache-2.0\"; }};
           }};
           outputs = flake.outputs {{ self = null; nixpkgs.legacyPackages.x86_64-linux = pkgs; }};
           package = outputs.packages.x86_64-linux.default;
         in {{
           inherit (flake) description;
           inherit (package) pname version buildPhase installPhase meta;
           source = toString package.src;
           lock = toString package.cargoLock.lockFile;
         }}",
        flake.display()
    );
    let mut command = Command::new("nix-instantiate");
    // Nothing is built, so there need be no store.
    command.args(["--eval", "--strict", "--json", "--expr", &expression]).env("NIX_REMOTE", "dummy://");
    let Some(output) = output(command, "nix-bin") else { return };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let package: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"));
    assert_eq!((&package["pname"], &package["version"]), (&"uswap".into(), &super::VERSION.into()));
    assert_eq!(package["meta"]["license"].as_array().map(Vec::len), Some(2));
    let source = package["source"].as_str().expect("it is a path");
    assert!(Path::new(source).join("xtask/Cargo.toml").is_file(), "{source}");
    let lock = package["lock"].as_str().expect("it is a path");
    assert!(Path::new(lock).is_file(), "{lock}");
    for phase in ["buildPhase", "installPhase"] {
        assert!(package[phase].as_str().is_some_and(|text| text.starts_with("cargo xtask ")), "{phase}");
    }
}

/// The job runs with a `uswap` that writes down how it is called.
#[test]
fn a_slurm_job_asks_the_doctor_and_then_runs_its_program() {
    let directory = super::scratch("slurm");
    let stand_in = directory.join("uswap");
    fs::write(&stand_in, "#!/bin/sh\necho \"$*\"\n").expect("it is ours");
    fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let job = |scratch: Option<&str>| {
        let path = format!("{}:/usr/bin:/bin", directory.display());
        let mut command = Command::new("/bin/sh");
        command.arg(root().join("packaging/slurm/job.sh"));
        command.env_clear().env("PATH", path).env("SLURM_JOB_ID", "7");
        if let Some(scratch) = scratch {
            command.env("TMPDIR", scratch);
        }
        let output = command.output().expect("there is a shell");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("it is text")
    };
    let said = [Some("/scratch/7"), None].map(job);
    fs::remove_dir_all(&directory).expect("it is ours");
    let wanted = |scratch: &str| {
        format!(
            "doctor --swap {scratch}\nrun --ram auto --swap {scratch} --swap-min-free 10G --json uswap-7.json -- \
             ./solver input\n"
        )
    };
    assert_eq!(said, [wanted("/scratch/7"), wanted("/var/tmp")]);
}
