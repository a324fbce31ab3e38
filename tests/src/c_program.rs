//! Programs in C that a test has in itself. Called by the tests that have some.

use crate::places::Scratch;
use crate::run::Run;
use std::path::PathBuf;

/// Compiles a program with threads, and answers where it is. A scratch directory has one program.
#[track_caller]
pub fn compile(scratch: &Scratch, text: &str) -> PathBuf {
    compile_by("gcc", scratch, text)
}

/// The same by another compiler. Symbols of the program are there for libraries, too.
#[track_caller]
pub fn compile_by(compiler: &str, scratch: &Scratch, text: &str) -> PathBuf {
    let (source, program) = (scratch.file("program.c"), scratch.file("program"));
    std::fs::write(&source, text).expect("the scratch directory is writable");
    let run = Run::plain(compiler).args(["-O1", "-pthread", "-rdynamic", "-o"]).arg(&program);
    run.arg(&source).finish().must_succeed();
    program
}
