//! What programs rely on that were linked with the library is written down in `abi.txt`, so that nobody changes it
//! without meaning to: the name of the library, its functions, and the layout of what passes between both.
//!
//! `cargo xtask semver` compares the same list with what the shared library exports.

use std::path::Path;

use crate::header_tests::{OF_HEADER, prototypes};

const HEAD: &str = "# What programs rely on that were linked with libusw. `cargo xtask semver --update` writes it.\n\
    # A line that goes or changes breaks them: then the number in build.rs grows. A new line breaks nobody.\n";

/// The name that programs keep of the library.
fn library() -> String {
    let name = include_str!("../build.rs").split("-soname,").nth(1).and_then(|rest| rest.split('"').next());
    format!("library {}", name.expect("build.rs gives the library its name"))
}

/// The struct, its members and the constants, as a compiler of C sees them in the header.
fn layouts() -> Vec<String> {
    let mut structure = String::new();
    let lines = OF_HEADER.iter().filter(|line| !line.starts_with("USW_VERSION"));
    let described = lines.map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            [name, value] => format!("constant {name} {value}"),
            [name, bytes, alignment] if name.starts_with("usw_") => {
                name.clone_into(&mut structure);
                format!("struct {name}: {bytes} bytes, aligned to {alignment}")
            }
            [member, offset, bytes] => format!("struct {structure}.{member}: {bytes} bytes at {offset}"),
            _ => panic!("{line}"),
        }
    });
    described.collect()
}

#[test]
fn what_linked_programs_rely_on_is_as_it_was() {
    let functions = prototypes().into_iter().map(|prototype| format!("function {prototype}"));
    let lines: Vec<String> = [library()].into_iter().chain(functions).chain(layouts()).collect();
    let text = format!("{HEAD}{}\n", lines.join("\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("abi.txt");
    if std::env::var_os("USWAP_UPDATE_ABI").is_some() {
        std::fs::write(&path, &text).expect("the sources are writable");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let only = |mark: &str, lines: &str, others: &str| {
        let lines = lines.lines().filter(|line| !others.lines().any(|other| other == *line));
        lines.map(|line| format!("\n  {mark} {line}")).collect::<String>()
    };
    assert!(
        text == written,
        "what linked programs rely on is another than abi.txt says:{}{}\nIf a line with - is meant to go or to change, \
         let the number in build.rs grow. Then write the list anew by `cargo xtask semver --update`, and say in \
         CHANGELOG.md what changes for programs.",
        only("-", &written, &text),
        only("+", &text, &written)
    );
}
