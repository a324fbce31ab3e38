//! The table has a row for every number that Linux has.

use crate::table::{NUMBER_MAX, row, rows};
use std::string::String;
use std::vec::Vec;

/// The numbers of x86-64: those of the early years, two traps, and those that all architectures share.
fn numbers_of_linux() -> impl Iterator<Item = usize> {
    (0..=336).chain(424..=469)
}

#[test]
fn every_number_has_a_row() {
    let missing: Vec<usize> = numbers_of_linux().filter(|number| row(*number).is_none()).collect();
    assert!(missing.is_empty(), "numbers without a row: {missing:?}");
    assert_eq!(rows().count(), numbers_of_linux().count(), "no row is of a number that Linux does not have");
    assert_eq!(numbers_of_linux().max(), Some(NUMBER_MAX));
}

#[test]
fn a_row_is_found_by_its_number() {
    for each in rows() {
        assert_eq!(row(each.number() as usize).map(|found| found.name()), Some(each.name()));
    }
    assert!(
        row(337).is_none()
            && row(423).is_none()
            && row(NUMBER_MAX + 1).is_none()
            && row(usize::MAX).is_none()
    );
}

/// The headers of the machine may be older than the table, and know nothing that it does not.
#[test]
fn names_and_numbers_are_those_of_the_installed_headers() {
    let paths = ["/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"];
    let Some(text) = paths.iter().find_map(|path| std::fs::read_to_string(path).ok()) else {
        std::eprintln!("no header of system call numbers is installed here");
        return;
    };
    let mut seen = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["#define", symbol, number] = words[..] else { continue };
        let Some(name) = symbol.strip_prefix("__NR_") else { continue };
        let number: usize = number.parse().expect("a number follows its name");
        assert_eq!(row(number).map(|row| String::from(row.name())).as_deref(), Some(name), "{number}");
        seen += 1;
    }
    assert!(seen > 300, "the header names {seen} calls");
}
