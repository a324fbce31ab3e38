//! The header and this library say the same: a C program prints what a compiler makes of each struct and constant of
//! the header, and that is compared with what Rust makes of its own.

use std::collections::BTreeSet;
use std::mem::offset_of;
use std::process::Command;
use std::sync::LazyLock;

use crate::structs::{Opts, StatsStruct};

const HEADER: &str = include_str!("../include/usw.h");
const SOURCE: &str = include_str!("lib.rs");

/// What Rust makes of a struct: a line for itself, and one for each member in the order of their offsets.
macro_rules! layout {
    ($name:literal, $type:ident: $($member:ident),+) => {{
        // All of them: one that is missing here does not compile.
        let size_of_member = |whole: &$type| {
            let $type { $($member),+ } = whole;
            [$(size_of_val($member)),+]
        };
        // SAFETY:
        // 1. Zeros are numbers and raw pointers.
        let sizes = size_of_member(&unsafe { std::mem::zeroed() });
        let names = [$(stringify!($member)),+];
        let offsets = [$(offset_of!($type, $member)),+];
        let members = (0..names.len()).map(|index| format!("{} {} {}", names[index], offsets[index], sizes[index]));
        [format!("{} {} {}", $name, size_of::<$type>(), align_of::<$type>())].into_iter().chain(members).collect()
    }};
}

fn of_rust() -> Vec<String> {
    let opts: Vec<String> = layout!("usw_opts", Opts: size, ram, dir, command, options);
    let stats: Vec<String> = layout!("usw_stats", StatsStruct: size, ram_bytes, used_bytes, resident_bytes,
        pool_bytes, pool_bytes_max, swap_file_bytes);
    let constants = [
        format!("USW_COLD {}", crate::COLD),
        format!("USW_PAGEOUT {}", crate::PAGEOUT),
        format!("USW_WILLNEED {}", crate::WILLNEED),
        format!("USW_DEAD {}", crate::DEAD),
        format!("USW_VERSION {}", crate::VERSION.trim_end_matches('\0')),
    ];
    [opts, stats, constants.to_vec()].concat()
}

/// The members of a struct in the header, in order.
fn members_of(name: &str) -> Vec<&'static str> {
    let body = HEADER.split(&format!("typedef struct {name} {{")).nth(1).expect("the header has it");
    let body = body.split(&format!("}} {name};")).next().expect("it ends");
    let lines = body.lines().filter_map(|line| line.trim().strip_suffix(';'));
    lines.map(|line| line.rsplit([' ', '*']).next().expect("a line has a word")).collect()
}

/// Names of constants in the header, but for the guard.
fn constants() -> Vec<&'static str> {
    let values = HEADER.lines().filter_map(|line| line.trim().split_once(" = "));
    values.map(|(name, _)| name).filter(|name| name.starts_with("USW_")).collect()
}

/// A program that prints the same of the header.
fn program() -> String {
    let mut lines = Vec::new();
    for name in ["usw_opts", "usw_stats"] {
        let alignment = format!("offsetof(struct {{ char first; {name} then; }}, then)");
        lines.push(format!("printf(\"{name} %zu %zu\\n\", sizeof({name}), {alignment});"));
        for member in members_of(name) {
            let (offset, size) =
                (format!("offsetof({name}, {member})"), format!("sizeof((({name} *)0)->{member})"));
            lines.push(format!("printf(\"{member} %zu %zu\\n\", {offset}, {size});"));
        }
    }
    lines.extend(constants().iter().map(|name| format!("printf(\"{name} %d\\n\", (int){name});")));
    lines.push("printf(\"USW_VERSION %s\\n\", USW_VERSION);".to_owned());
    format!(
        "#include \"usw.h\"\n#include <stdio.h>\nint main(void) {{\n{}\nreturn 0;\n}}\n",
        lines.join("\n")
    )
}

/// What the header says, to a compiler of C. It is asked once: a program is not written while it runs.
pub static OF_HEADER: LazyLock<Vec<String>> = LazyLock::new(of_header);

fn of_header() -> Vec<String> {
    let directory = std::env::temp_dir().join(format!("uswap-c-header-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the temporary directory is writable");
    let (source, binary) = (directory.join("header.c"), directory.join("header"));
    std::fs::write(&source, program()).expect("as above");
    // The linker of cargo is a compiler of C.
    let built = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/include"))
        .arg(&source)
        .arg("-o")
        .arg(&binary)
        .status();
    assert!(built.is_ok_and(|status| status.success()), "the header is not right:\n{}", program());
    let output = Command::new(&binary).output().expect("it was just built");
    std::fs::remove_dir_all(&directory).expect("it is ours");
    let text = String::from_utf8(output.stdout).expect("it prints text");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_header_and_the_library_have_the_same_layout_and_constants() {
    assert_eq!(*OF_HEADER, of_rust());
}

/// Functions that the header declares, as it declares them.
pub fn prototypes() -> Vec<&'static str> {
    let lines = HEADER.lines().filter(|line| !line.starts_with([' ', '/']));
    lines.filter_map(|line| line.strip_suffix(';')).filter(|line| line.ends_with(')')).collect()
}

#[test]
fn the_header_declares_what_the_library_has() {
    let heads = prototypes().into_iter().filter_map(|prototype| prototype.split('(').next());
    let declared: BTreeSet<String> =
        heads.filter_map(|head| head.rsplit([' ', '*']).next()).map(str::to_owned).collect();
    let defined = SOURCE.lines().filter_map(|line| line.split_once("extern \"C\" fn ")?.1.split('(').next());
    let defined: BTreeSet<String> = defined.map(str::to_owned).collect();
    assert!(defined.len() > 15, "{defined:?}");
    assert_eq!(declared, defined);
}
