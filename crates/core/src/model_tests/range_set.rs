//! A set of ranges against one flag a page.

use crate::range_set::RangeSet;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;
use uswap_units::{PageId, PageRange};

const PAGES: u64 = 64;

fn range() -> impl Strategy<Value = PageRange> {
    (0..PAGES, 1..16_u64).prop_map(|(start, pages)| {
        PageRange::new(PageId::new(start), PageId::new((start + pages).min(PAGES)))
    })
}

fn covered<const PLACES: usize>(set: &RangeSet<PLACES>) -> Vec<bool> {
    (0..PAGES).map(|page| set.iter().any(|range| range.contains(PageId::new(page)))).collect()
}

proptest! {
    #[test]
    fn a_set_covers_what_was_added_and_not_taken_out(ops in prop::collection::vec((any::<bool>(), range()), 1..40)) {
        // Each operation makes one range more at most for each that is there: 64 places are enough here for those that
        // overlap.
        let set = RangeSet::<256>::new();
        let mut model = vec![false; PAGES as usize];
        for (add, range) in ops {
            if add {
                prop_assert!(set.add(range).is_some());
            } else {
                set.subtract(range);
            }
            model[range.start().number() as usize..range.end().number() as usize].fill(add);
            prop_assert_eq!(covered(&set), model.clone());
        }
    }
}

const fn pages(start: u64, end: u64) -> PageRange {
    PageRange::new(PageId::new(start), PageId::new(end))
}

#[test]
fn a_full_set_takes_no_more_until_a_place_is_cleared() {
    let set = RangeSet::<2>::new();
    let first = set.add(pages(1, 3)).expect("it is empty");
    assert!(set.add(pages(5, 6)).is_some());
    assert!(set.add(pages(8, 9)).is_none());
    first.clear();
    assert!(set.add(pages(8, 9)).is_some());
    assert_eq!(set.iter().count(), 2);
    set.clear();
    assert_eq!(set.iter().count(), 0);
}

#[test]
fn without_a_second_place_a_range_that_is_cut_in_two_stays_whole() {
    let set = RangeSet::<1>::new();
    assert!(set.add(pages(10, 20)).is_some());
    set.subtract(pages(14, 15));
    assert_eq!(set.iter().next(), Some(pages(10, 20)));
    set.subtract(pages(15, 25));
    assert_eq!(set.iter().next(), Some(pages(10, 15)));
}

#[test]
fn what_does_not_fit_into_a_word_is_refused() {
    let set = RangeSet::<4>::new();
    assert!(set.add(pages(5, 5)).is_none());
    assert!(set.add(pages(0, 1 << 28)).is_none());
    assert!(set.add(pages((1 << 36) - 1, (1 << 36) + 1)).is_none());
    assert!(set.add(pages((1 << 36) - 2, 1 << 36)).is_some());
}
