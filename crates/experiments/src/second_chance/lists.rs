//! Lists of pages, youngest to oldest, through links in the pages themselves: millions of moves, no allocation.

/// No page.
const NONE: u32 = u32::MAX;

/// Neighbours of a page in its list.
#[derive(Clone, Copy, Debug)]
pub struct Links {
    older: u32,
    younger: u32,
}

impl Default for Links {
    fn default() -> Self {
        Links { older: NONE, younger: NONE }
    }
}

/// What has links.
pub trait Linked {
    /// They are the list's alone.
    fn links(&mut self) -> &mut Links;
}

/// A list of pages, each of which is in one list at most.
#[derive(Clone, Copy, Debug)]
pub struct List {
    oldest: u32,
    youngest: u32,
    length: u64,
}

impl Default for List {
    fn default() -> Self {
        List { oldest: NONE, youngest: NONE, length: 0 }
    }
}

impl List {
    /// Pages in it.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The one that came first.
    #[must_use]
    pub fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// Adds a page at the young end.
    pub fn add(&mut self, pages: &mut [impl Linked], page: u32) {
        *pages[page as usize].links() = Links { older: self.youngest, younger: NONE };
        match self.youngest {
            NONE => self.oldest = page,
            other => pages[other as usize].links().younger = page,
        }
        self.youngest = page;
        self.length += 1;
    }

    /// Takes a page out, which is in this list.
    pub fn remove(&mut self, pages: &mut [impl Linked], page: u32) {
        let Links { older, younger } = std::mem::take(pages[page as usize].links());
        match older {
            NONE => self.oldest = younger,
            other => pages[other as usize].links().younger = younger,
        }
        match younger {
            NONE => self.youngest = older,
            other => pages[other as usize].links().older = older,
        }
        self.length -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use uswap_units::Prng;

    use super::*;

    impl Linked for Links {
        fn links(&mut self) -> &mut Links {
            self
        }
    }

    #[test]
    fn a_list_is_as_a_queue_from_which_any_page_may_be_taken() {
        let mut pages = [Links::default(); 8];
        let (mut list, mut model, mut prng) = (List::default(), VecDeque::new(), Prng::new(7));
        for _ in 0..2000 {
            let page = prng.below(8) as u32;
            if let Some(index) = model.iter().position(|&other| other == page) {
                list.remove(&mut pages, page);
                model.remove(index);
            } else {
                list.add(&mut pages, page);
                model.push_back(page);
            }
            assert_eq!((list.oldest(), list.length()), (model.front().copied(), model.len() as u64));
        }
        while let Some(page) = list.oldest() {
            list.remove(&mut pages, page);
            assert_eq!(model.pop_front(), Some(page));
        }
        assert!(model.is_empty());
    }
}
