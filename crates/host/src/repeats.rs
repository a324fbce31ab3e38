//! A thread that faults on one page again and again, though the page is there as far as its word says: what the word
//! says and what the kernel has may differ, and then the thread would go on so for ever, without a word.
//!
//! That is normal for a moment: others may have been faster, and may protect the page again. So nothing is done because
//! of a number. After many faults in a row the kernel is asked, while the word is locked and no mapping changes.
//!
//! Must hold: the program is ended only if the page is not there, in a look in which nobody else could have it: another
//! process has changed this one's memory, or this library is wrong. Called by [`crate::faults`].

use crate::messages::stop_program;
use crate::process::Space;
use crate::thread_words;
use core::sync::atomic::Ordering;
use uswap_core::counters::FaultSource;
use uswap_core::page_word::PageWord;
use uswap_engine::world::Touch;
use uswap_engine::{Memory as _, block_on};
use uswap_interpose::thread::{self, Slot};
use uswap_os::pagemap::PageState;
use uswap_units::{PageId, PageRange};

/// A thread that is merely slower than others does not make this many faults in a row, of some 3 us each.
const REPEATS_MAX: usize = 1000;

/// How a page that is there, as its word says, differs from what the kernel has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Difference {
    /// It is not there.
    IsGone,
    /// It is protected, and its word does not say so.
    IsProtected,
}

fn difference(word: PageWord, kernel: PageState) -> Option<Difference> {
    match kernel {
        PageState { is_held: false, .. } => Some(Difference::IsGone),
        PageState { is_protected: true, .. } if !word.is_protected() => Some(Difference::IsProtected),
        _ => None,
    }
}

/// Notes the outcome of a fault of this thread; how many in a row have found this page there.
fn note(slot: &Slot, page: PageId, source: FaultSource) -> usize {
    let words = [thread_words::REPEATED_PAGE, thread_words::REPEATS].map(|index| &slot.user[index]);
    let [last, repeats] = words.map(|word| word.load(Ordering::Relaxed));
    let (last, repeats) = match source {
        FaultSource::Woken if last == page.number() as usize => (last, repeats + 1),
        FaultSource::Woken => (page.number() as usize, 1),
        _ => (0, 0),
    };
    words[0].store(last, Ordering::Relaxed);
    words[1].store(if repeats == REPEATS_MAX { 0 } else { repeats }, Ordering::Relaxed);
    repeats
}

/// A fault was served so. With all signals blocked.
pub(crate) fn see_to(space: &Space, page: PageId, touch: Touch, source: FaultSource) {
    if note(thread::current(), page, source) == REPEATS_MAX {
        look(space, page, touch);
    }
}

#[cold]
fn look(space: &Space, page: PageId, touch: Touch) {
    let world = space.world();
    let found = block_on(space.look_at_present(page, |word| {
        let kernel = world.pagemap.look_at(page.address() as usize).ok()?;
        let found = difference(word, kernel)?;
        if found == Difference::IsProtected {
            // The word names no copy that would have to go first, so whoever writes may.
            world.unprotect(PageRange::of_pages(page, 1));
        }
        Some(found)
    }));
    if found.flatten() == Some(Difference::IsGone) {
        let does = if touch == Touch::Write { "writes to" } else { "reads" };
        stop_program(
            format_args!(
                "a thread {does} the page at {:#x}, which uswap has put there, and the kernel has it no more",
                page.address()
            ),
            "Something has changed this memory behind uswap, as a debugger can, or a process with a userfaultfd of \
             this one: run the program without that. If there is nothing of the kind it is a fault of uswap: please \
             report it",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_faults_of_one_page_in_a_row_that_find_it_there_are_repeats() {
        let slot = Slot::default();
        for count in 1..REPEATS_MAX {
            assert_eq!(note(&slot, PageId::new(7), FaultSource::Woken), count);
        }
        assert_eq!(note(&slot, PageId::new(8), FaultSource::Woken), 1);
        assert_eq!(note(&slot, PageId::new(8), FaultSource::Woken), 2);
        assert_eq!(note(&slot, PageId::new(8), FaultSource::Pool), 0);
        for count in 1..=REPEATS_MAX {
            assert_eq!(note(&slot, PageId::new(8), FaultSource::Woken), count);
        }
        assert_eq!(note(&slot, PageId::new(8), FaultSource::Woken), 1);
    }

    #[test]
    fn a_page_differs_if_it_is_gone_or_protected_and_its_word_does_not_say_so() {
        const PRESENT: PageWord = PageWord::from_raw(1 << 63 | 1 << 57);
        let kernel = |is_held, is_protected| PageState { is_held, is_protected };
        assert_eq!(difference(PRESENT, kernel(true, false)), None);
        assert_eq!(difference(PRESENT, kernel(true, true)), Some(Difference::IsProtected));
        assert_eq!(difference(PRESENT, kernel(false, false)), Some(Difference::IsGone));
    }
}
