//! The line that says which page was wrong and how. Runs in children too: nothing here allocates.

use crate::table::{State, Table, Word, expected};
use uswap_test_programs::PAGE_BYTES;
use uswap_test_programs::memory::copy_page_out;
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

impl Mismatch<'_> {
    /// How many pages of the same range, at most 64 before and behind, are not as they must be either.
    fn wrong_near(&self) -> usize {
        let Some((record, page)) = self.table.page_at(self.address) else { return 0 };
        let pages = self.table.records[record].pages as usize;
        let is_wrong = |near: &usize| {
            let word = self.table.word(record, *near);
            if *near == page || word.state() != State::Written || !word.readable() {
                return false;
            }
            let (mut wanted, mut found) = ([0; PAGE_BYTES], [0; PAGE_BYTES]);
            expected(self.table.seed, self.writer, word, &mut wanted);
            copy_page_out(self.table.records[record].page_address(*near), &mut found);
            wanted != found
        };
        (page.saturating_sub(64)..pages.min(page + 64)).filter(is_wrong).count()
    }
}

/// Prints the mismatch and ends the process with status 1.
pub fn mismatch(wrong: &Mismatch<'_>) -> ! {
    let Mismatch { table, who, writer, address, word, wanted, found } = wrong;
    let offset = first_difference(wanted, found).expect("the caller compared them");
    let end = (offset + 16).min(wanted.len());
    let differing = wanted.iter().zip(found.iter()).filter(|(wanted, found)| wanted != found).count();
    let zero = found.iter().all(|&byte| byte == 0);
    let named = writer_of(found);
    let rightful = named.and_then(|(_, number)| table.address_of(number)).unwrap_or(0);
    let wrong_near = wrong.wrong_near();
    end_process(
        1,
        format_args!(
            "MISMATCH in {who}: address {address:#x} thread {} operation {} ({}) seed {}; must be {:?} number {} \
             stamp {} by writer {writer}; {differing} bytes differ, first at {offset}: wanted {:02x?} found {:02x?}; \
             found page is all zero: {zero}; found page says it is (writer, number) {named:?}, which belongs to \
             address {rightful:#x}; of the 128 pages around it {wrong_near} more are wrong",
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
