//! The C library, in programs of C and C++ that know no Rust: what they have is right, and within the budget that they
//! asked for.
//!
//! The programs are `tests/programs/c`, compiled here with all warnings, the one of C with AddressSanitizer, too; it
//! looks for leaks of handles and blocks at its end.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use uswap_tests::{Outcome, Run, Scratch, needs, shared_turn, skip, turn, uswap_binary};

fn repository(path: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    path.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A compiled program, and the library under the names that the linker and the loader look for.
struct Program {
    _scratch: Scratch,
    path: PathBuf,
    command: String,
}

/// Compiles it. None: something is missing, which has been said, or uswap is not what is tested.
fn compile(compiler: &str, source: &str, options: &[&str]) -> Option<Program> {
    let command = uswap_binary()?;
    if !needs(&[compiler]) {
        return None;
    }
    let library = command.with_file_name("libusw.so");
    assert!(library.exists(), "{} is missing: cargo xtask build", library.display());
    let scratch = Scratch::new();
    for name in ["libusw.so", "libusw.so.0"] {
        symlink(&library, scratch.file(name)).expect("the scratch directory is writable");
    }
    let path = scratch.file("program");
    let directory = scratch.path().to_str().expect("its path is text");
    Run::plain(compiler)
        .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-g", "-pthread"])
        .args(options)
        .arg("-I")
        .arg(repository("crates/libusw/include"))
        .arg(repository(source))
        .arg("-o")
        .arg(&path)
        .args([&format!("-L{directory}"), &format!("-Wl,-rpath,{directory}"), "-lusw"])
        .finish()
        .must_succeed();
    let command = command.to_str().expect("its path is text").to_owned();
    Some(Program { _scratch: scratch, path, command })
}

impl Program {
    fn run(&self) -> Run {
        Run::plain(&self.path).env("USWAP_COMMAND", &self.command)
    }

    /// Runs a mode to its good end.
    #[track_caller]
    fn must_pass(&self, mode: &str) {
        let outcome = self.run().arg(mode).finish();
        assert_eq!(must_be_right(&outcome), "", "{mode}: there is nothing to be said");
    }
}

/// The program has found nothing wrong; what uswap has said.
#[track_caller]
fn must_be_right(outcome: &Outcome) -> &str {
    assert!(
        outcome.code == Some(0) && outcome.stdout == "OK\n",
        "code {:?}, signal {:?}: {}\n{}",
        outcome.code,
        outcome.signal,
        outcome.stdout,
        outcome.stderr
    );
    &outcome.stderr
}

fn in_c() -> Option<Program> {
    compile("gcc", "tests/programs/c/library.c", &["-std=gnu11"])
}

/// With AddressSanitizer. None: the compiler has none, too.
fn in_c_sanitized() -> Option<Program> {
    if !needs(&["gcc"]) {
        return None;
    }
    let probe = Scratch::new();
    let (source, binary) = (probe.file("empty.c"), probe.file("empty"));
    std::fs::write(&source, "int main(void) { return 0; }\n").expect("it is ours");
    let built = Run::plain("gcc").arg("-fsanitize=address").arg(&source).arg("-o").arg(&binary).finish().code;
    if built != Some(0) {
        skip("this gcc has no AddressSanitizer");
        return None;
    }
    compile("gcc", "tests/programs/c/library.c", &["-std=gnu11", "-fsanitize=address"])
}

macro_rules! modes {
    ($($test:ident $mode:literal $turn:ident;)+) => {
        $(
            #[test]
            fn $test() {
                let _turn = $turn();
                if let Some(program) = in_c() {
                    program.must_pass($mode);
                }
            }
        )+

        /// The modes that have a test.
        const MODES: &[&str] = &[$($mode),+];
    };
}

modes! {
    an_array_of_four_times_the_budget_is_right_and_within_it "array" turn;
    blocks_keep_their_content_at_every_size "blocks" turn;
    threads_hand_blocks_to_each_other "threads" shared_turn;
    advice_is_followed "advice" turn;
    what_is_pinned_stays_and_nothing_else "pin" turn;
    mistakes_are_told_and_leave_the_process_as_it_was "errors" shared_turn;
    a_command_that_is_not_there_is_told "no_command" shared_turn;
    a_budget_holds_for_all_of_the_process "limit" turn;
    a_child_has_the_same_memory_and_its_own "forked" turn;
}

#[test]
fn a_pool_in_a_run_shares_its_budget() {
    let _turn = turn();
    let Some(program) = in_c() else { return };
    let outcome = program.run().arg("in_a_run").uswap(48, &["-q"]).finish();
    assert_eq!(must_be_right(&outcome), "");
    outcome.must_hold_budget_mostly(48);
}

#[test]
fn more_than_the_tables_of_a_run_is_refused() {
    let _turn = shared_turn();
    let Some(program) = in_c() else { return };
    let outcome = program.run().arg("tables").finish();
    // The tables themselves are more than its budget.
    let said = must_be_right(&outcome);
    assert!(said.is_empty() || said.contains("tables of uswap"), "{said}");
}

#[test]
fn each_mode_has_a_test() {
    let _turn = shared_turn();
    let Some(program) = in_c() else { return };
    let listed = program.run().arg("list").finish();
    listed.must_succeed();
    let listed: Vec<&str> = listed.stdout.lines().collect();
    assert_eq!(listed, [MODES, &["tables", "forgets", "in_a_run"]].concat());
}

#[test]
fn address_sanitizer_finds_nothing() {
    let _turn = turn();
    let Some(program) = in_c_sanitized() else { return };
    for mode in ["array", "blocks", "threads", "advice", "pin", "errors"] {
        let outcome = program.run().arg(mode).finish();
        let said = must_be_right(&outcome);
        // It looks for leaks by a process that shares the memory, and stops the threads.
        assert!(
            said.is_empty() || said.contains("starts a process that shares its memory"),
            "{mode}: {said}"
        );
    }
}

/// What the test above says is true: the sanitizer sees these blocks.
#[test]
fn address_sanitizer_sees_a_pool_that_is_forgotten() {
    let _turn = shared_turn();
    let Some(program) = in_c_sanitized() else { return };
    let outcome = program.run().arg("forgets").finish();
    assert!(outcome.code != Some(0), "{}", outcome.stdout);
    assert!(outcome.stderr.contains("usw_pool_create"), "{}", outcome.stderr);
}

#[test]
fn a_vector_of_cpp_is_larger_than_its_budget() {
    let _turn = turn();
    let Some(program) = compile("g++", "tests/programs/c/library.cpp", &["-std=c++11"]) else { return };
    assert_eq!(must_be_right(&program.run().finish()), "");
}

#[test]
fn the_example_sums_a_table_that_is_larger_than_its_budget() {
    let _turn = shared_turn();
    let Some(program) = compile("gcc", "examples/c/table.c", &["-std=c99"]) else { return };
    let outcome = program.run().args(["192", "48"]).finish();
    outcome.must_succeed();
    assert!(outcome.stdout.starts_with("sum 316659336216576, which is right\n"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains(" of 192 MiB, budget 48 MiB; "), "{}", outcome.stdout);
    let refused = program.run().args(["192", "4"]).finish();
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.starts_with("no pool: ") && refused.stderr.contains("8M"), "{}", refused.stderr);
}
