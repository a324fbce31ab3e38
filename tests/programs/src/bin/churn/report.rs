//! The line that says which page was wrong and how. Runs in children too: nothing here allocates.

use crate::table::{Table, Word};
use uswap_test_programs::message::end_process;
use uswap_test_programs::pattern::{Page, first_difference, writer_of};

/// A page that does not hold what it must.
pub struct Mismatch<'a> {
    pub table: &'a Table,
    pub who: &'a str,
    pub writer: u32,
    pub address: usize,
    pub word: Word,
    pub wanted: &'a Page,
    pub found: &'a Page,
}

/// Prints the mismatch and ends the process with status 1.
pub fn mismatch(wrong: &Mismatch<'_>) -> ! {
    let Mismatch { table, who, writer, address, word, wanted, found } = wrong;
    let offset = first_difference(wanted, found).expect("the caller compared them");
    let end = (offset + 16).min(wanted.len());
    let differing = wanted.iter().zip(found.iter()).filter(|(wanted, found)| wanted != found).count();
    let zero = found.iter().all(|&byte| byte == 0);
    let named = writer_of(found);
    end_process(
        1,
        format_args!(
            "MISMATCH in {who}: address {address:#x} thread {} operation {} ({}) seed {}; must be {:?} number {} \
             stamp {} by writer {writer}; {differing} bytes differ, first at {offset}: wanted {:02x?} found {:02x?}; \
             found page is all zero: {zero}; found page says it is (writer, number) {named:?}",
            table.thread,
            table.operation,
            crate::worker::NAMES[table.running as usize % crate::worker::NAMES.len()],
            table.seed,
            word.state(),
            word.number(),
            word.stamp(),
            &wanted[offset..end],
            &found[offset..end],
        ),
    )
}
