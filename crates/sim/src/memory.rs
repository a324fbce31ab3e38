//! The memory of one simulated process as its kernel keeps it: what is mapped, present, registered with userfaultfd,
//! protected for it, and locked.
//!
//! It does what was seen of Linux 6.18, also where that is inconvenient: a protecting call passes over what is missing,
//! fork and mremap lose registration and protection, and a mapping that is moved beside a registered one takes the
//! registration from that too. All here takes effect at once; the callers wait in between.

use crate::engine::{FillAs, Install, Touch};
use std::collections::BTreeMap;
use std::rc::Rc;
use uswap_codec::{PAGE_BYTES, Page};
use uswap_units::{PageId, PageRange};

/// What the program may do with a page, as `mprotect` has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rights {
    /// PROT_NONE.
    Nothing,
    /// PROT_READ.
    Read,
    /// PROT_READ and PROT_WRITE.
    Write,
}

/// What a mapping is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Private anonymous memory, which may be managed.
    Plain,
    /// Something else: never managed.
    Other,
}

/// One mapped page. Neighbours with the same flags are one mapping to the kernel.
#[derive(Clone)]
pub struct MappedPage {
    /// What the program may do.
    pub rights: Rights,
    /// What it was mapped as.
    pub kind: Kind,
    /// A forked child has it too: not MADV_DONTFORK.
    pub is_inherited: bool,
    /// Locked in memory.
    pub locked: bool,
    /// Where it is missing, a touch is a fault of ours.
    pub registered: bool,
    /// The next write is a fault of ours.
    pub protected: bool,
    /// What is present is the kernel's page of zeros.
    pub is_zero_page: bool,
    /// What is present.
    pub content: Option<Rc<Page>>,
}

impl MappedPage {
    /// A new page of this kind.
    pub fn new(kind: Kind) -> MappedPage {
        let rights = Rights::Write;
        let (is_inherited, locked, registered, protected, is_zero_page) = (true, false, false, false, false);
        MappedPage { rights, kind, is_inherited, locked, registered, protected, is_zero_page, content: None }
    }
    /// The same without content.
    pub fn emptied(&self) -> MappedPage {
        MappedPage { content: None, protected: false, is_zero_page: false, ..self.clone() }
    }
    /// What tells one mapping from its neighbour.
    pub fn flags(&self) -> (Rights, Kind, bool, bool, bool) {
        (self.rights, self.kind, self.is_inherited, self.locked, self.registered)
    }
    fn allows(&self, touch: Touch) -> bool {
        match self.rights {
            Rights::Nothing => false,
            Rights::Read => touch == Touch::Read,
            Rights::Write => true,
        }
    }
}

/// What an access meets.
pub enum Found {
    /// Content is there, and may be touched so.
    Present(Rc<Page>),
    /// A fault of ours: missing, or protected against this write.
    Fault,
    /// The program may not do that.
    Forbidden,
    /// Nothing is mapped.
    Unmapped,
}

/// Memory of one process.
pub struct Memory {
    /// Mapped pages by number.
    pub pages: BTreeMap<u64, MappedPage>,
    zeros: Rc<Page>,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { pages: BTreeMap::new(), zeros: Rc::new([0; PAGE_BYTES]) }
    }
}

impl Memory {
    /// The mapped pages of a range.
    pub fn in_range(&self, range: PageRange) -> impl Iterator<Item = (PageId, &MappedPage)> {
        self.pages.range(range.numbers()).map(|(&page, mapped)| (PageId::new(page), mapped))
    }
    /// The same, to be changed.
    pub fn in_range_mut(&mut self, range: PageRange) -> impl Iterator<Item = &mut MappedPage> {
        self.pages.range_mut(range.numbers()).map(|(_, mapped)| mapped)
    }
    /// Something of a range is mapped.
    pub fn has_some(&self, range: PageRange) -> bool {
        self.in_range(range).next().is_some()
    }
    /// All of a range is mapped, and is so.
    pub fn is_all(&self, range: PageRange, is_so: impl Fn(&MappedPage) -> bool) -> bool {
        self.in_range(range).filter(|(_, mapped)| is_so(mapped)).count() as u64 == range.pages()
    }
    fn is_none(&self, range: PageRange, is_so: impl Fn(&MappedPage) -> bool) -> bool {
        !self.in_range(range).any(|(_, mapped)| is_so(mapped))
    }
    /// Pages that take memory.
    pub fn resident_pages(&self) -> u64 {
        self.pages.values().filter(|mapped| mapped.content.is_some() && !mapped.is_zero_page).count() as u64
    }
    /// The parts of a range that are one mapping each.
    pub fn mappings_in(&self, range: PageRange) -> Vec<(PageRange, MappedPage)> {
        let mut found: Vec<(PageRange, MappedPage)> = Vec::new();
        for (page, mapped) in self.in_range(range) {
            match found.last_mut() {
                Some((run, like)) if run.end() == page && like.flags() == mapped.flags() => {
                    *run = run.with_next();
                }
                _ => found.push((PageRange::of_pages(page, 1), mapped.emptied())),
            }
        }
        found
    }

    /// All of a range is one mapping: the kernel fills no other at once.
    pub fn is_in_one_mapping(&self, range: PageRange) -> bool {
        let first = self.pages.get(&range.start().number()).map(MappedPage::flags);
        first.is_some_and(|flags| self.is_all(range, |mapped| mapped.flags() == flags))
    }

    /// A thread, or the kernel for it, touches a page. What is missing and not registered, the kernel fills with zeros.
    pub fn touch(&mut self, page: PageId, touch: Touch) -> Found {
        let Some(mapped) = self.pages.get_mut(&page.number()) else { return Found::Unmapped };
        if !mapped.allows(touch) {
            return Found::Forbidden;
        }
        match &mapped.content {
            None if mapped.registered => Found::Fault,
            None => {
                mapped.content = Some(self.zeros.clone());
                mapped.is_zero_page = touch == Touch::Read;
                Found::Present(self.zeros.clone())
            }
            Some(_) if touch == Touch::Write && mapped.protected => Found::Fault,
            Some(content) => Found::Present(content.clone()),
        }
    }
    /// The thread writes what it has found present.
    pub fn write(&mut self, page: PageId, content: Page) {
        if let Some(mapped) = self.pages.get_mut(&page.number()) {
            (mapped.content, mapped.is_zero_page) = (Some(Rc::new(content)), false);
        }
    }

    /// UFFDIO_COPY of one page.
    pub fn fill(&mut self, page: PageId, content: &Page, access: FillAs) -> Install {
        match self.pages.get_mut(&page.number()) {
            Some(mapped) if mapped.registered => match mapped.content {
                Some(_) => Install::AlreadyMapped,
                None => {
                    mapped.content = Some(Rc::new(*content));
                    mapped.protected = access == FillAs::Protected;
                    Install::Done
                }
            },
            _ => Install::NotMapped,
        }
    }
    /// UFFDIO_ZEROPAGE of one page, or UFFDIO_COPY of zeros for a thread that writes.
    pub fn fill_zeros(&mut self, page: PageId, touch: Touch) -> Install {
        let zeros = self.zeros.clone();
        let install = self.fill(page, &zeros, FillAs::Writable);
        if let (Install::Done, Touch::Read, Some(mapped)) =
            (install, touch, self.pages.get_mut(&page.number()))
        {
            mapped.is_zero_page = true;
        }
        install
    }
    /// UFFDIO_WRITEPROTECT: only what is present gets protected. False: it met a mapping that is not registered, and
    /// has done what lies in front of that.
    pub fn protect(&mut self, range: PageRange) -> bool {
        for mapped in self.in_range_mut(range) {
            if !mapped.registered {
                return false;
            }
            mapped.protected |= mapped.content.is_some();
        }
        true
    }
    /// The same the other way.
    pub fn unprotect(&mut self, range: PageRange) {
        self.in_range_mut(range).for_each(|mapped| mapped.protected = false);
    }
    /// UFFDIO_REGISTER of what is mapped of a range.
    pub fn register(&mut self, range: PageRange) {
        self.in_range_mut(range).for_each(|mapped| mapped.registered = true);
    }
    /// khugepaged makes a huge page of some pages that are not registered: what is missing of them becomes zeros. How
    /// many were.
    pub fn collapse(&mut self, range: PageRange) -> u64 {
        let zeros = self.zeros.clone();
        let is_eligible = |mapped: &MappedPage| mapped.kind == Kind::Plain && !mapped.registered;
        let is_there = |mapped: &MappedPage| mapped.content.is_some();
        if !self.is_in_one_mapping(range) || !self.is_all(range, is_eligible) || self.is_none(range, is_there)
        {
            return 0;
        }
        let missing = self.in_range_mut(range).filter(|mapped| mapped.content.is_none());
        missing.map(|mapped| mapped.content = Some(zeros.clone())).count() as u64
    }

    /// UFFDIO_UNREGISTER: what is missing reads as zeros from now on.
    pub fn unregister(&mut self, range: PageRange) {
        self.in_range_mut(range).for_each(|mapped| (mapped.registered, mapped.protected) = (false, false));
    }

    /// MADV_DONTNEED of a range. It ends at the first mapping that is locked: how far it came.
    pub fn drop_content(&mut self, range: PageRange) -> PageId {
        for (&page, mapped) in self.pages.range_mut(range.numbers()) {
            if mapped.locked {
                return PageId::new(page);
            }
            (mapped.content, mapped.protected, mapped.is_zero_page) = (None, false, false);
        }
        range.end()
    }
    /// munmap.
    pub fn unmap(&mut self, range: PageRange) {
        self.pages.retain(|&page, _| !range.contains(PageId::new(page)));
    }
    /// mmap of a range in which nothing is mapped.
    pub fn map(&mut self, range: PageRange, like: &MappedPage) {
        for page in range.numbers() {
            let before = self.pages.insert(page, like.emptied());
            assert!(before.is_none(), "what is mapped over was unmapped");
        }
    }
    /// The pages of one mapping go elsewhere. They lose registration and protection, and so does a registered neighbour
    /// that the kernel joins them with there, if they were registered.
    pub fn move_to(&mut self, from: PageRange, to: PageId) {
        let mut was_registered = false;
        for index in 0..from.pages() {
            let mut moved =
                self.pages.remove(&from.start().plus(index).number()).expect("a mapping has no holes");
            was_registered |= moved.registered;
            (moved.registered, moved.protected) = (false, false);
            self.pages.insert(to.plus(index).number(), moved);
        }
        if was_registered {
            self.unregister_neighbours(PageRange::of_pages(to, from.pages()));
        }
    }
    fn unregister_neighbours(&mut self, range: PageRange) {
        let is_registered =
            |memory: &Memory, page: u64| memory.pages.get(&page).is_some_and(|page| page.registered);
        let below =
            (0..range.start().number()).rev().take_while(|&page| is_registered(self, page)).count() as u64;
        let above = (range.end().number()..).take_while(|&page| is_registered(self, page)).count() as u64;
        self.unregister(PageRange::new(range.start().minus(below), range.end().plus(above)));
    }

    /// What a forked child gets: nothing is registered, protected or locked.
    pub fn forked(&self) -> Memory {
        let inherited = self.pages.iter().filter(|(_, mapped)| mapped.is_inherited);
        let pages = inherited.map(|(&page, mapped)| {
            (page, MappedPage { registered: false, protected: false, locked: false, ..mapped.clone() })
        });
        Memory { pages: pages.collect(), ..Memory::default() }
    }
}
