//! How much private memory a family of forked processes has, each page once: between two walks of the kernel over
//! their page tables it is told from cheap numbers.
//!
//! A fork leaves all anonymous pages shared. The sum of the proportional pages of all (`Pss_Anon`) is the truth, but
//! dear: about 15 us a MiB of each process. In between:
//! - a new member shares all with the others but what it has faulted since it was forked;
//! - pages that come to a member are new ones, and of its other faults a part: a copy after a write is a fault, and so
//!   are some things that make no page; what part it is, the last counts have shown;
//! - what a member gives away was its own and shared as the rest of it is;
//! - of a member that ends, only what was its own is gone.
//!
//! What must hold: a family of one is exactly its resident anonymous memory; any family is at least its largest member
//! and what the others have for themselves, and at most the sum of all. Pure: what is asked of the kernel is asked by
//! [`super`].

use std::collections::BTreeMap;

use super::texts::Rollup;

/// What part of faults were copies is learned from so many of them.
const COPIES_KNOWN_PAGES: u64 = 256;

/// More than four times of what was told is not believed of it.
const TRUE_PART_MAX: u64 = 4096;

/// What is known cheaply of one process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// Its resident anonymous pages.
    pub anonymous: u64,
    /// Its faults since it was forked, as last read.
    pub faults: u64,
}

/// The kernel's count of one process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count {
    pub pid: u32,
    /// Its faults then.
    pub faults: u64,
    pub pages: Rollup,
    /// How many members had memory then.
    pub relatives: u64,
}

impl Count {
    /// What counts for it if its shared pages are shared by so many. Members are counted one after the other, and the
    /// family grows and shrinks meanwhile: what was in twelve parts for the first may be in forty for the last.
    fn proportional_among(&self, relatives: u64) -> u64 {
        let Rollup { proportional, exclusive, .. } = self.pages;
        let shared = proportional.saturating_sub(exclusive);
        exclusive + (u128::from(shared) * u128::from(self.relatives) / u128::from(relatives.max(1))) as u64
    }
}

/// What was known when the family was last counted, or when the process came into it.
#[derive(Clone, Copy, Debug)]
struct Basis {
    anonymous: u64,
    faults: u64,
    /// Of that: pages counted for this process.
    proportional: u64,
    /// Of those: pages of nobody else.
    exclusive: u64,
    /// By how much `proportional` may be off.
    doubt: u64,
}

impl Basis {
    /// What was not counted.
    fn told(now: Now, proportional: u64, doubt: u64) -> Basis {
        let Now { anonymous, faults } = now;
        Basis { anonymous, faults, proportional, exclusive: 0, doubt }
    }
}

#[derive(Clone, Copy, Debug)]
struct Member {
    now: Now,
    /// The most anonymous pages that it was seen to have.
    most: u64,
    basis: Basis,
}

impl Member {
    /// Pages by which there are more now.
    fn came(&self) -> u64 {
        self.now.anonymous.saturating_sub(self.basis.anonymous)
    }

    /// Other faults: each may have made a page of its own of one that was shared, if there was one.
    fn copies_max(&self) -> u64 {
        let faults = self.now.faults.saturating_sub(self.basis.faults);
        faults.saturating_sub(self.came()).min(self.basis.anonymous - self.basis.exclusive)
    }

    fn new_pages(&self, copied: Part) -> u64 {
        self.came() + copied.of(self.copies_max())
    }

    /// A part of what it had, scaled by what it gave away.
    fn left(&self, pages: u64) -> u64 {
        if self.now.anonymous >= self.basis.anonymous {
            return pages;
        }
        (u128::from(pages) * u128::from(self.now.anonymous) / u128::from(self.basis.anonymous)) as u64
    }

    /// What it adds to the family: when it copies a page that it shared, the others keep theirs.
    fn adds(&self, copied: Part) -> u64 {
        self.left(self.basis.proportional) + self.new_pages(copied)
    }

    /// Of its own pages those that are counted for it.
    fn pages(&self, copied: Part) -> u64 {
        self.adds(copied).min(self.now.anonymous)
    }

    fn own_pages(&self, copied: Part) -> u64 {
        (self.left(self.basis.exclusive) + self.new_pages(copied)).min(self.pages(copied))
    }

    /// How far [`Member::adds`] may be off.
    fn doubt(&self) -> u64 {
        let gone = self.basis.anonymous.saturating_sub(self.now.anonymous);
        self.basis.doubt + gone + self.new_pages(Part::ALL)
    }
}

/// A part of a whole, in 1/1024.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part(u64);

impl Part {
    const ALL: Part = Part(1024);

    fn of(self, whole: u64) -> u64 {
        (u128::from(whole) * u128::from(self.0) / 1024) as u64
    }

    /// Half of what it was and half of `found` in `whole`.
    fn toward(self, found: u64, whole: u64) -> Part {
        let found = (u128::from(found) * 1024 / u128::from(whole.max(1))) as u64;
        Part((self.0 + found.min(1024)).div_ceil(2))
    }
}

/// The processes that were forked, and not executed anew, from one that was.
#[derive(Debug)]
pub struct Family {
    members: BTreeMap<u32, Member>,
    /// What part of the faults that could be copies were some, as counts have shown.
    copied: Part,
    /// Pages of members that ended, which the others have too, as far as is known.
    left_behind: u64,
}

impl Default for Family {
    fn default() -> Family {
        Family { members: BTreeMap::new(), copied: Part::ALL, left_behind: 0 }
    }
}

impl Family {
    /// A process is found in it, forked by `parent` if that is of the family. The first one has all that it has to
    /// itself.
    pub fn join(&mut self, pid: u32, parent: u32, now: Now) {
        // From now on others may have what they have: a count of one alone says nothing any more.
        if let [member] = self.members.values_mut().collect::<Vec<_>>().as_mut_slice() {
            member.basis = Basis::told(member.now, member.now.anonymous, 0);
            self.left_behind = 0;
        } else if let Some(parent) = self.members.get_mut(&parent) {
            // What it had for itself it shares now.
            parent.basis = Basis::told(parent.now, parent.adds(self.copied), parent.doubt());
        }
        let largest = || self.members.values().map(|member| member.most).max().unwrap_or(0);
        let inherited = self.members.get(&parent).map_or_else(largest, |parent| parent.now.anonymous);
        // More than its parent has (if that is gone, more than any relative ever had) is its own: huge pages come by
        // one fault each. The rest it was forked with, and its faults since then may have been copies.
        let came = now.anonymous.saturating_sub(inherited);
        let basis = Basis::told(Now { anonymous: now.anonymous - came, faults: 0 }, 0, 0);
        self.members.insert(pid, Member { now, most: now.anonymous, basis });
    }

    /// It has ended, or executed another program.
    pub fn leave(&mut self, pid: u32) {
        if let Some(member) = self.members.remove(&pid) {
            self.left_behind += member.pages(self.copied) - member.own_pages(self.copied);
        }
    }

    /// Resident anonymous pages of a member.
    pub fn anonymous_pages(&self, pid: u32) -> u64 {
        self.members.get(&pid).map_or(0, |member| member.now.anonymous)
    }

    /// News of a member.
    pub fn set_anonymous(&mut self, pid: u32, anonymous: u64) {
        if let Some(member) = self.members.get_mut(&pid) {
            member.now.anonymous = anonymous;
            member.most = member.most.max(anonymous);
        }
    }

    /// News of a member.
    pub fn set_faults(&mut self, pid: u32, faults: u64) {
        if let Some(member) = self.members.get_mut(&pid) {
            member.now.faults = faults;
        }
    }

    /// The kernel has counted these members. Answers what part of [`Family::told_pages`] was true, in 1/1024; `None` if
    /// they were too few to say.
    pub fn set_counted(&mut self, counts: &[Count]) -> Option<u64> {
        let among = counts.len() as u64;
        let counted: u64 = counts.iter().map(|count| count.proportional_among(among)).sum();
        let found = counted.saturating_sub(self.pages_with(Part(0)));
        let told = self.told_pages();
        let true_part = (told >= COPIES_KNOWN_PAGES).then(|| (found * 1024 / told).min(TRUE_PART_MAX));
        let copies_max: u64 = self.members.values().map(Member::copies_max).sum();
        if copies_max >= COPIES_KNOWN_PAGES {
            self.copied = self.copied.toward(found, copies_max);
        }
        for count in counts {
            if let Some(member) = self.members.get_mut(&count.pid) {
                member.basis = Basis {
                    anonymous: count.pages.anonymous,
                    faults: count.faults,
                    proportional: count.proportional_among(among),
                    exclusive: count.pages.exclusive,
                    doubt: 0,
                };
            }
        }
        self.left_behind = 0;
        true_part
    }

    /// Some of the family were counted, as for [`Family::set_counted`]. What part of the pages that were told of them
    /// was true, in 1/1024; `None` if they were too few to say.
    pub fn true_part_of(&self, counts: &[Count]) -> Option<u64> {
        let (mut told, mut found) = (0, 0);
        for count in counts {
            let Some(&member) = self.members.get(&count.pid) else { continue };
            let now = Now { anonymous: count.pages.anonymous, faults: count.faults };
            let then = Member { now, ..member };
            let copies = self.copied.of(then.copies_max());
            let own = count.pages.exclusive.saturating_sub(then.left(then.basis.exclusive) + then.came());
            told += copies;
            // What relatives that have ended leave behind is its own too now.
            found += own.min(copies);
        }
        (told >= COPIES_KNOWN_PAGES).then(|| found * 1024 / told)
    }

    /// Pages of [`Family::pages`] that are there only if faults were copies.
    pub fn told_pages(&self) -> u64 {
        self.pages() - self.pages_with(Part(0)).min(self.pages())
    }

    pub fn members(&self) -> impl Iterator<Item = u32> + '_ {
        self.members.keys().copied()
    }

    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Its pages, each once, as far as is known.
    pub fn pages(&self) -> u64 {
        self.pages_with(self.copied)
    }

    fn pages_with(&self, copied: Part) -> u64 {
        let sum: u64 = self.members.values().map(|member| member.now.anonymous).sum();
        if self.size() < 2 {
            return sum;
        }
        let own: u64 = self.members.values().map(|member| member.own_pages(copied)).sum();
        // All of the one, and what the others have for themselves.
        let with_own = |member: &Member| member.now.anonymous + (own - member.own_pages(copied));
        let least = self.members.values().map(with_own).max().unwrap_or(0);
        self.told(copied).clamp(least.min(sum), sum)
    }

    fn told(&self, copied: Part) -> u64 {
        self.members.values().map(|member| member.adds(copied)).sum::<u64>() + self.left_behind
    }

    /// How far [`Family::pages`] may be off: a count would tell.
    pub fn doubt(&self) -> u64 {
        if self.size() < 2 {
            return 0;
        }
        self.members.values().map(Member::doubt).sum::<u64>() + self.left_behind
    }

    /// What of a member is counted elsewhere.
    pub fn shared_pages(&self, pid: u32) -> u64 {
        if self.size() < 2 {
            return 0;
        }
        self.members.get(&pid).map_or(0, |member| member.now.anonymous - member.pages(self.copied))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(anonymous: u64, faults: u64) -> Now {
        Now { anonymous, faults }
    }

    fn count(pid: u32, faults: u64, pages: Rollup, relatives: u64) -> Count {
        Count { pid, faults, pages, relatives }
    }

    #[test]
    fn a_family_of_one_is_what_it_has() {
        let mut family = Family::default();
        family.join(1, 1, now(1000, 5000));
        assert_eq!((family.pages(), family.doubt()), (1000, 0));
        family.set_anonymous(1, 400);
        assert_eq!(family.pages(), 400);
    }

    #[test]
    fn children_that_only_read_add_what_they_faulted() {
        let mut family = Family::default();
        family.join(1, 1, now(1000, 5000));
        for pid in 2..102 {
            family.join(pid, 1, now(1000, 7));
        }
        assert_eq!(family.pages(), 1000 + 100 * 7);
        for pid in 2..102 {
            family.leave(pid);
        }
        assert_eq!(family.pages(), 1000);
    }

    #[test]
    fn a_write_on_either_side_is_a_page_more_and_never_more_than_all() {
        let mut family = Family::default();
        family.join(1, 1, now(1000, 5000));
        family.join(2, 1, now(1000, 0));
        family.set_faults(1, 5300);
        family.set_faults(2, 200);
        assert_eq!(family.pages(), 1500);
        family.set_faults(2, 100_000);
        assert_eq!(family.pages(), 2000);
        assert!(family.doubt() >= 1000, "so it is counted soon");
    }

    #[test]
    fn a_count_replaces_what_was_told() {
        let mut family = Family::default();
        family.join(1, 1, now(1000, 5000));
        family.join(2, 1, now(1000, 800));
        let half = Rollup { anonymous: 1000, proportional: 550, exclusive: 100 };
        family.set_counted(&[count(1, 5000, half, 2), count(2, 800, half, 2)]);
        assert_eq!((family.pages(), family.doubt()), (1100, 0));
        // What was shared stays when one ends, and one alone has what it has.
        family.join(3, 1, now(1000, 0));
        family.leave(2);
        assert_eq!(family.pages(), 1000);
        family.leave(3);
        assert_eq!(family.pages(), 1000);
    }

    #[test]
    fn faults_that_make_no_page_are_known_after_some_counts() {
        let mut family = Family::default();
        family.join(1, 1, now(10_000, 0));
        family.join(2, 1, now(10_000, 0));
        let half = Rollup { anonymous: 10_000, proportional: 5000, exclusive: 0 };
        for round in 0..8 {
            family.set_counted(&[count(1, 0, half, 2), count(2, round * 4000, half, 2)]);
            family.set_faults(2, (round + 1) * 4000);
        }
        assert!(family.pages() < 10_000 + 4000 / 64, "{}", family.pages());
        assert!(family.doubt() >= 4000, "they may be copies this time");
        let copied = Rollup { anonymous: 10_000, proportional: 7000, exclusive: 4000 };
        for round in 8..16 {
            family.set_counted(&[count(1, 0, half, 2), count(2, round * 4000, half, 2)]);
            family.set_faults(2, (round + 1) * 4000);
            family.set_counted(&[count(1, 0, copied, 2), count(2, (round + 1) * 4000, copied, 2)]);
        }
        family.set_counted(&[count(1, 0, half, 2), count(2, 64_000, half, 2)]);
        family.set_faults(2, 68_000);
        assert!(family.pages() > 13_900, "{}", family.pages());
    }

    /// Forked children that only read, each with `own` pages for itself: the kernel's count of one of so many.
    fn of_so_many(own: u64, relatives: u64) -> Rollup {
        let shared = (10_000 - own) / relatives;
        Rollup { anonymous: 10_000, proportional: own + shared, exclusive: own }
    }

    #[test]
    fn a_family_that_grows_and_shrinks_while_it_is_counted_is_counted_once() {
        for sizes in [[5, 10, 20, 40], [40, 30, 10, 4], [4, 40, 40, 4]] {
            let mut family = Family::default();
            family.join(1, 1, now(10_000, 0));
            for pid in 2..=40 {
                family.join(pid, 1, now(10_000, 30));
            }
            let size = sizes[3];
            for pid in size as u32 + 1..=40 {
                family.leave(pid);
            }
            let at = |pid: u32| sizes[pid as usize * 4 / (size as usize + 1)];
            let counts: Vec<_> =
                (1..=size as u32).map(|pid| count(pid, 30, of_so_many(20, at(pid)), at(pid))).collect();
            family.set_counted(&counts);
            let pages = family.pages();
            assert!((9_900..10_000 + 20 * size + 200).contains(&pages), "{sizes:?}: {pages}");
        }
    }

    #[test]
    fn a_count_of_some_says_what_part_of_the_faults_were_copies() {
        let mut family = Family::default();
        family.join(1, 1, now(10_000, 0));
        for pid in 2..42 {
            family.join(pid, 1, now(10_000, 120));
        }
        assert_eq!((family.pages(), family.told_pages()), (10_000 + 40 * 120, 40 * 120));
        let counted = Rollup { anonymous: 10_000, proportional: 260, exclusive: 15 };
        assert_eq!(family.true_part_of(&[count(2, 120, counted, 41)]), None, "one child is too few");
        let counts: Vec<_> = (2..12).map(|pid| count(pid, 120, counted, 41)).collect();
        assert_eq!(family.true_part_of(&counts), Some(128));
    }

    #[test]
    fn what_is_evicted_goes_in_parts_until_all_have_evicted_it() {
        let mut family = Family::default();
        family.join(1, 1, now(1000, 0));
        family.join(2, 1, now(1000, 0));
        let half = Rollup { anonymous: 1000, proportional: 500, exclusive: 0 };
        family.set_counted(&[count(1, 0, half, 2), count(2, 0, half, 2)]);
        family.set_anonymous(1, 0);
        assert_eq!(family.pages(), 1000, "the other one has them all");
        family.set_anonymous(2, 500);
        assert_eq!(family.pages(), 500);
        assert_eq!(family.shared_pages(2), 250);
    }

    #[test]
    fn huge_pages_of_a_child_come_by_few_faults() {
        let mut family = Family::default();
        family.join(1, 1, now(1000, 5000));
        family.join(2, 1, now(6120, 10));
        assert_eq!(family.pages(), 6120);
        family.set_anonymous(2, 7144);
        assert_eq!(family.pages(), 7144);
    }

    #[test]
    fn what_an_earlier_child_had_says_nothing_of_the_next_one() {
        let mut family = Family::default();
        family.join(1, 1, now(700, 2000));
        family.join(2, 1, now(5000, 60_000));
        family.join(3, 1, now(700, 50));
        let counted = [(1, 700, 0), (2, 5000, 4300), (3, 700, 0)].map(|(pid, anonymous, exclusive)| {
            let pages = Rollup { anonymous, proportional: exclusive + 233, exclusive };
            count(pid, 60_000, pages, 3)
        });
        for _ in 0..8 {
            family.set_counted(&counted);
            family.set_faults(3, 70_000);
        }
        family.join(4, 1, now(4000, 9000));
        let pages = family.pages() - family.told_pages();
        assert!((700 + 4300 + 3300 - 1..).contains(&pages), "faults may be anything by now: {pages}");
        assert!(family.doubt() >= 3300);
    }

    #[test]
    fn of_one_that_ends_only_its_own_is_gone() {
        let mut family = Family::default();
        for pid in 1..=3 {
            family.join(pid, 1, now(900, 0));
        }
        let pages = Rollup { anonymous: 900, proportional: 400, exclusive: 100 };
        family.set_counted(&[1, 2, 3].map(|pid| count(pid, 0, pages, 3)));
        assert_eq!(family.pages(), 1200);
        family.leave(3);
        assert_eq!(family.pages(), 1100);
    }
}
