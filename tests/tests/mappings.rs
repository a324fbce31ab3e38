//! Mappings that lie next to each other, in programs that serve their own faults.

use uswap_tests::{Run, Scratch, needs, turn, uswap_binary};

const RAM_MIB: u64 = 24;

/// 48 MiB in mappings of five pages each: neighbours have other rights, or are left out of core files, so that the
/// kernel does not join them. It is gone through in order, so that pages are brought along.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 12288, PART = 5 };

int main(int count, char **words) {
    char *block = mmap(0, PAGES * (long)PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return 3;
    for (long page = 0; page < PAGES; page += 2 * PART)
        if (madvise(block + page * PAGE, PART * PAGE, MADV_DONTDUMP)) return 4;
    int is_written = count > 1;
    unsigned long wrong = 0;
    for (long page = 0; is_written && page < PAGES; page++) memset(block + page * PAGE, page % 251, PAGE);
    for (int round = 0; round < 3; round++)
        for (long page = 0; page < PAGES; page++)
            wrong += block[page * PAGE + round] != (char)(is_written ? page % 251 : 0);
    printf("%s: %lu wrong\n", is_written ? words[1] : "fresh", wrong);
    return 0;
}
"#;

#[test]
fn mappings_are_gone_through_with_one_fault_for_several_of_them() {
    let _turn = turn();
    if !needs(&["gcc"]) {
        return;
    }
    let Some(binary) = uswap_binary() else { return };
    let scratch = Scratch::new();
    let (source, program) = (scratch.file("program.c"), scratch.file("program"));
    std::fs::write(&source, PROGRAM).expect("the scratch directory is writable");
    Run::plain("gcc").args(["-O1", "-o"]).arg(&program).arg(&source).finish().must_succeed();
    let ram = format!("{RAM_MIB}M");
    for word in [None, Some("written")] {
        let run = Run::plain(&binary).args(["run", "--ram", &ram, "--"]).arg(&program);
        let outcome = run.args(word).timeout(std::time::Duration::from_secs(120)).finish();
        outcome.must_succeed();
        assert_eq!(outcome.stdout, format!("{}: 0 wrong\n", word.unwrap_or("fresh")));
    }
}
