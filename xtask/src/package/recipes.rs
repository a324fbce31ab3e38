//! Tests: what lies in `packaging` as text can be read by what it is for, as far as that is here, and says what it
//! must.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

use super::content::files_below;
use crate::tree::root;

fn packaging() -> PathBuf {
    root().join("packaging")
}

fn text(place: &str) -> String {
    fs::read_to_string(packaging().join(place)).unwrap_or_else(|error| panic!("{place}: {error}"))
}

fn places(ending: &str) -> Vec<String> {
    let mut places = files_below(&packaging()).expect("it is in the repository");
    places.retain(|place| place.ends_with(ending));
    assert!(!places.is_empty(), "there is no {ending}");
    places
}

fn succeeds(output: Output, what: &str) {
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.is_empty(), "{what}: {said}");
}

#[test]
fn shells_can_read_the_scripts() {
    for place in places(".sh").iter().map(String::as_str).chain(["arch/PKGBUILD"]) {
        let is_for_bash = place == "arch/PKGBUILD" || text(place).starts_with("#!/usr/bin/env bash");
        for shell in if is_for_bash { &["bash"][..] } else { &["sh", "bash"] } {
            let output = Command::new(shell).arg("-n").arg(packaging().join(place)).output();
            succeeds(output.expect("it is there"), place);
        }
    }
}

#[test]
fn json_is_json() {
    for place in places(".json") {
        serde_json::from_str::<Value>(&text(&place)).unwrap_or_else(|error| panic!("{place}: {error}"));
    }
    let device: Value = serde_json::from_str(&text("cdi/uswap.json")).expect("as above");
    assert_eq!(device["kind"], "uswap.dev/userfaultfd");
    let node = &device["devices"][0]["containerEdits"]["deviceNodes"][0];
    assert_eq!((node["path"].as_str(), node["fileMode"].as_u64()), (Some("/dev/userfaultfd"), Some(0o666)));
}

#[test]
fn a_profile_gets_the_calls_of_uswap_and_keeps_its_own() {
    let directory = super::scratch("seccomp");
    let profile = directory.join("default.json");
    let given = r#"{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW"}]}"#;
    fs::write(&profile, given).expect("it is ours");
    let output = Command::new("sh").arg(packaging().join("seccomp/add.sh")).arg(&profile).output();
    fs::remove_dir_all(&directory).expect("it is ours");
    let output = output.expect("there is a shell");
    if output.status.code() == Some(127) {
        return println!("SKIP: there is no jq");
    }
    let made: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(made["defaultAction"], "SCMP_ACT_ERRNO");
    assert_eq!(made["syscalls"][0]["names"][0], "read");
    assert_eq!(made["syscalls"][1]["names"][0], "userfaultfd");
    assert_eq!(made["syscalls"][1]["action"], "SCMP_ACT_ALLOW");
}

/// The documents of a YAML file, read by Python's parser. None: it is not there.
fn documents(place: &str) -> Option<Vec<Value>> {
    let script = "import json, sys, yaml; json.dump(list(yaml.safe_load_all(open(sys.argv[1]))), sys.stdout)";
    let output = Command::new("/usr/bin/python3").args(["-c", script]).arg(packaging().join(place)).output();
    let Ok(output) = output else { return None };
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("No module named 'yaml'") {
        return None;
    }
    assert!(output.status.success(), "{place}: {errors}");
    Some(serde_json::from_slice(&output.stdout).expect("Python writes JSON"))
}

#[test]
fn yaml_is_yaml_and_pods_have_no_privilege() {
    for place in places(".yaml") {
        let Some(documents) = documents(&place) else {
            return println!("SKIP: there is no Python with a YAML parser: apt-get install python3-yaml");
        };
        assert_eq!(documents.len(), 1, "{place}");
        if documents[0]["kind"] == "Pod" {
            has_no_privilege(&place, &documents[0]["spec"]);
        }
    }
}

fn has_no_privilege(place: &str, spec: &Value) {
    assert_eq!(spec["securityContext"]["runAsNonRoot"], true, "{place}");
    for kind in ["initContainers", "containers"] {
        let container = &spec[kind][0];
        assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false, "{place}");
        assert_eq!(container["securityContext"]["capabilities"]["drop"][0], "ALL", "{place}");
    }
    // The command and its agent side by side, where the program's container finds them.
    let brought = spec["initContainers"][0]["command"].to_string();
    assert!(brought.contains("libuswap_agent.so") && brought.contains("\"/uswap/\""), "{place}: {brought}");
    assert_eq!(spec["containers"][0]["command"][0], "/uswap/uswap", "{place}");
    assert!(spec["volumes"].to_string().contains("emptyDir"), "{place}");
}

#[test]
fn images_are_made_in_stages_and_run_without_root() {
    let recipe = text("container/Dockerfile");
    let known = ["FROM", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "ENTRYPOINT", "CMD"];
    let mut is_continued = false;
    for line in recipe.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let word = line.split_whitespace().next().unwrap_or_default();
        assert!(is_continued || known.contains(&word), "{line}");
        is_continued = line.ends_with('\\');
    }
    assert_eq!(recipe.matches("\nFROM ").count(), 2);
    let user = recipe.lines().rfind(|line| line.starts_with("USER ")).expect("it names one");
    assert!(!user.contains("root") && !user.contains(" 0"), "{user}");
}

#[test]
fn versions_are_those_of_what_is_packed() {
    let version = super::VERSION;
    for (place, wanted) in [
        ("arch/PKGBUILD", format!("pkgver={version}\n")),
        ("nix/flake.nix", format!("version = \"{version}\";")),
        ("apptainer/uswap.def", format!("uswap_{version}-1_amd64.deb")),
        ("kubernetes/pod.yaml", format!("image: uswap:{version} ")),
        ("kubernetes/pod-device.yaml", format!("image: uswap:{version} ")),
    ] {
        assert!(text(place).contains(&wanted), "{place} does not have {wanted}");
    }
}

#[test]
fn an_apptainer_recipe_has_its_sections() {
    let recipe = text("apptainer/uswap.def");
    for wanted in ["\nBootstrap: ", "\nFrom: ", "\n%post\n", "\n%runscript\n"] {
        assert!(recipe.contains(wanted), "{wanted}");
    }
}

/// What the prompt shows in an environment, with a command `uswap` that answers this.
fn prompt(run: Option<&str>, answer: &str) -> String {
    let script = format!("uswap() {{ {answer}; }}; PS1='$ '; . \"$0\"; uswap_prompt; echo \"|$PS1\"");
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).arg(packaging().join("shell/uswap-prompt.sh")).env_remove("USWAP_RUN");
    if let Some(run) = run {
        bash.env("USWAP_RUN", run);
    }
    let output = bash.output().expect("bash is there");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it is text").trim_end().to_owned()
}

#[test]
fn the_prompt_shows_the_budget_within_a_run_and_nothing_elsewhere() {
    let run = Some("812:3:99:00000000deadbeef:0:0:/usr/lib/uswap/libuswap_agent.so");
    let says = |ram: &str| {
        format!("test \"$*\" = 'stat --json 812' && echo '{{\"pid\":812,\"ram_bytes\":{ram},\"x\":1}}'")
    };
    assert_eq!(prompt(run, &says("536870912")), "[uswap 512M] |$(uswap_prompt)$");
    assert_eq!(prompt(run, &says("4294967296")), "[uswap 4G] |$(uswap_prompt)$");
    assert_eq!(prompt(run, &says("1610612736")), "[uswap 1536M] |$(uswap_prompt)$");
    // The run has ended, or does not answer.
    assert_eq!(prompt(run, "false"), "|$(uswap_prompt)$");
    assert_eq!(prompt(run, "echo nonsense"), "|$(uswap_prompt)$");
    assert_eq!(prompt(Some("filtered"), "echo called >&2"), "|$(uswap_prompt)$");
    assert_eq!(prompt(None, "echo called >&2"), "|$");
}
