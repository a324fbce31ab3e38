//! The memory of one made-up process as the kernel keeps it: mapped pages, arena frames, and the queue of its
//! userfaultfd.
//!
//! It copies what was seen of Linux 6.18, also where that is inconvenient: MOVE takes pages from any mapping at an
//! address; COPY, MOVE and ZEROPAGE answer "again" while the count `changing` is above 0; faults are read before
//! events; registering a range skips its holes. Everything here takes effect at once; `process` adds the waits around
//! it.

use crate::executor::TaskId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use uswap_codec::{PAGE_BYTES, Page};
use uswap_engine::platform::{Install, Message, MoveOut, MoveStop, Touch};
use uswap_units::{BLOCK_PAGES, PageId, PageRange};

/// One mapped page.
#[derive(Clone, Default)]
pub struct MappedPage {
    /// The mapping that it was made with. Moves keep it.
    pub mapping: u64,
    /// Its page number when it was made. Moves keep that too: neighbours of one mapping that are neighbours again where
    /// they were moved to, or back where they were, are joined again (seen of Linux 6.18).
    pub home: u64,
    /// Its faults come as messages.
    pub registered: bool,
    /// Mapped writable.
    pub writable: bool,
    /// What is present.
    pub content: Option<Rc<Page>>,
    /// Marked shared by a fork: MOVE refuses it.
    pub shared: bool,
    /// Pinned by a device: MOVE refuses it.
    pub pinned: bool,
    /// Gives SIGBUS.
    pub poisoned: bool,
    /// Part of a huge page, at this place in it. It is one while all its parts are there.
    pub in_huge: Option<u64>,
}

impl MappedPage {
    /// A page without content, so many pages behind this one in the same mapping.
    pub fn empty_neighbour(&self, distance: u64) -> MappedPage {
        let MappedPage { mapping, registered, writable, .. } = *self;
        MappedPage { mapping, registered, writable, home: self.home + distance, ..MappedPage::default() }
    }
    /// True when the kernel has this page and one that lies directly behind it in one mapping. What is protected
    /// otherwise is a mapping of its own.
    fn is_joined_with(&self, next: &MappedPage) -> bool {
        let like = |page: &MappedPage| (page.mapping, page.registered, page.writable);
        like(self) == like(next) && self.home + 1 == next.home
    }
    /// MOVE says "busy".
    fn is_stuck(&self) -> bool {
        self.content.is_some() && (self.pinned || self.shared)
    }
}

/// One frame of the arena.
#[derive(Clone, Default)]
pub struct Frame {
    /// What it holds.
    pub content: Option<Rc<Page>>,
    /// Marked shared by a fork.
    pub shared: bool,
    /// Zeros that are there because somebody looked (a debugger, for instance): nothing was moved there.
    pub looked_at: bool,
    /// As of a mapped page.
    pub in_huge: Option<u64>,
}

/// An event that was queued, and who is blocked until it is read.
#[derive(Clone, Copy)]
pub struct QueuedEvent {
    /// What it says.
    pub message: Message,
    /// The thread in the system call.
    pub waiter: TaskId,
    /// Number of the event.
    pub ticket: u64,
}

/// Memory of one process.
#[derive(Default)]
pub struct Memory {
    /// Mapped pages by number.
    pub pages: BTreeMap<u64, MappedPage>,
    /// The arena.
    pub frames: Vec<Frame>,
    /// Changes under way (`mmap_changing`): counted by the thread in the system call, before the change and until it
    /// runs again after its event was read.
    pub changing: u32,
    /// Pages that MOVE out ever refused, for a fork or a device.
    pub refused: BTreeSet<u64>,
    faults: VecDeque<(u64, Touch)>,
    events: VecDeque<QueuedEvent>,
    /// Tickets up to this number were read. Events are read in order.
    read_up_to: u64,
    tickets: u64,
    waiting: BTreeMap<u64, Vec<TaskId>>,
    /// Mappings that were made.
    mappings: u64,
}

/// What an access meets.
pub enum Access {
    /// Content is there.
    Present(Rc<Page>),
    /// The thread waits for a handler.
    Missing,
    /// SIGBUS.
    Poisoned,
    /// SIGSEGV.
    Unmapped,
}

impl Memory {
    /// Nothing mapped, and an arena of so many frames.
    pub fn with_arena(frames: usize) -> Memory {
        Memory { frames: vec![Frame::default(); frames], ..Memory::default() }
    }

    /// Pages and frames that hold memory.
    pub fn resident_pages(&self) -> u64 {
        let pages = self.pages.values().filter(|page| page.content.is_some()).count();
        (pages + self.frames.iter().filter(|frame| frame.content.is_some()).count()) as u64
    }

    /// A thread touches a page, to do that to it. A missing page of a registered range becomes a message, and the
    /// thread a waiter.
    pub fn touch(&mut self, page: PageId, touch: Touch, task: TaskId) -> Access {
        let Some(mapped) = self.pages.get_mut(&page.0) else { return Access::Unmapped };
        if mapped.poisoned {
            return Access::Poisoned;
        }
        if let Some(content) = &mapped.content {
            return Access::Present(content.clone());
        }
        if mapped.registered {
            self.faults.push_back((page.0, touch));
            self.waiting.entry(page.0).or_default().push(task);
            return Access::Missing;
        }
        let zeros = Rc::new([0; PAGE_BYTES]);
        mapped.content = Some(zeros.clone());
        Access::Present(zeros)
    }

    /// A thread writes a present page: copy on write gives it a page of its own.
    pub fn write(&mut self, page: PageId, content: Page) {
        if let Some(mapped) = self.pages.get_mut(&page.0) {
            (mapped.content, mapped.shared) = (Some(Rc::new(content)), false);
        }
    }

    /// Those that wait for a page.
    pub fn waiters(&mut self, page: PageId) -> Vec<TaskId> {
        self.waiting.remove(&page.0).unwrap_or_default()
    }
    /// Everyone that waits for a page.
    pub fn all_waiters(&mut self) -> Vec<TaskId> {
        self.faults.clear();
        core::mem::take(&mut self.waiting).into_values().flatten().collect()
    }
    /// True when something can be read.
    pub fn has_messages(&self) -> bool {
        !self.faults.is_empty() || !self.events.is_empty()
    }

    /// Queues an event; its ticket.
    pub fn queue_event(&mut self, message: Message, waiter: TaskId) -> u64 {
        self.tickets += 1;
        self.events.push_back(QueuedEvent { message, waiter, ticket: self.tickets });
        self.tickets
    }
    /// True when an event was read.
    pub fn was_read(&self, ticket: u64) -> bool {
        ticket <= self.read_up_to
    }
    /// Reads messages, faults first. Gives also the threads that may go on.
    pub fn read(&mut self, messages: &mut [Message]) -> (usize, Vec<TaskId>) {
        let (mut count, mut go_on) = (0, Vec::new());
        for place in messages {
            if let Some((page, touch)) = self.faults.pop_front() {
                *place = Message::Fault(PageId(page), touch);
            } else if let Some(event) = self.events.pop_front() {
                *place = event.message;
                self.read_up_to = event.ticket;
                go_on.push(event.waiter);
            } else {
                break;
            }
            count += 1;
        }
        (count, go_on)
    }

    /// Somebody looks at a frame. True if it was empty.
    pub fn look_at(&mut self, frame: u32) -> bool {
        let frame = &mut self.frames[frame as usize];
        let was_empty = frame.content.is_none();
        if was_empty {
            *frame = Frame { content: Some(Rc::new([0; PAGE_BYTES])), looked_at: true, ..Frame::default() };
        }
        was_empty
    }

    /// True when a block of the program is one huge page.
    pub fn is_huge(&self, first: PageId) -> bool {
        let mut parts = (0..BLOCK_PAGES).map(|index| (index, self.pages.get(&(first.0 + index))));
        let Some(whole) = self.pages.get(&first.0) else { return false };
        let like = (whole.mapping, whole.writable);
        parts.all(|(index, page)| {
            page.is_some_and(|page| {
                page.in_huge == Some(index) && page.content.is_some() && (page.mapping, page.writable) == like
            })
        })
    }
    /// The same of a block of the arena.
    pub fn is_huge_frame(&self, first: u32) -> bool {
        let frames = &self.frames[first as usize..][..BLOCK_PAGES as usize];
        frames.iter().zip(0..).all(|(frame, index)| frame.in_huge == Some(index) && frame.content.is_some())
    }
    /// A huge page that is touched as a whole for the first time.
    pub fn make_huge(&mut self, first: PageId) {
        for index in 0..BLOCK_PAGES {
            if let Some(page) = self.pages.get_mut(&(first.0 + index)) {
                (page.content, page.in_huge) = (Some(Rc::new([0; PAGE_BYTES])), Some(index));
            }
        }
    }

    /// MOVE out of the program. Err: what the engine did wrong.
    pub fn move_out(&mut self, page: PageId, frame: u32, count: u32) -> Result<MoveOut, String> {
        let mut out = MoveOut { pages: 0, stop: None };
        if self.changing > 0 {
            out.stop = Some(MoveStop::EventPending);
            return Ok(out);
        }
        let whole = u64::from(count) == BLOCK_PAGES
            && self.is_huge(page)
            && self.frames[frame as usize..][..BLOCK_PAGES as usize]
                .iter()
                .all(|frame| frame.content.is_none());
        if whole
            && (0..BLOCK_PAGES)
                .any(|index| self.pages.get(&(page.0 + index)).is_some_and(MappedPage::is_stuck))
        {
            // All of it, or nothing.
            out.stop = Some(MoveStop::Busy);
            return Ok(out);
        }
        for index in 0..count {
            let target = &mut self.frames[(frame + index) as usize];
            out.stop = match self.pages.get_mut(&(page.0 + u64::from(index))) {
                None => Some(MoveStop::Refused),
                Some(mapped) if !mapped.writable || mapped.poisoned => Some(MoveStop::Refused),
                Some(mapped) if mapped.is_stuck() => Some(MoveStop::Busy),
                // "Exists". What comes before it was moved: the next call begins here.
                Some(mapped) if target.content.is_some() => {
                    if mapped.content.is_some() && !target.looked_at {
                        return Err(format!(
                            "{page:?}+{index} is moved into frame {} that holds something",
                            frame + index
                        ));
                    }
                    if out.pages > 0 {
                        return Ok(out);
                    }
                    Some(MoveStop::Refused)
                }
                Some(mapped) => {
                    let in_huge = mapped.in_huge.take().filter(|_| whole);
                    if let Some(content) = mapped.content.take() {
                        *target = Frame { content: Some(content), in_huge, ..Frame::default() };
                    }
                    None
                }
            };
            if out.stop.is_some() {
                break;
            }
            out.pages += 1;
        }
        Ok(out)
    }

    /// MOVE of a block back into the program: how many pages, and what came of the next one.
    pub fn move_block_in(&mut self, first: u32, page: PageId) -> Result<(u32, Install), String> {
        let stays_one = self.is_huge_frame(first)
            && (page.0..page.0 + BLOCK_PAGES)
                .all(|page| self.pages.get(&page).is_some_and(|page| page.content.is_none()));
        for index in 0..BLOCK_PAGES as u32 {
            match self.move_in(first + index, page.plus(u64::from(index)))? {
                Install::Done => (),
                stop => return Ok((index, stop)),
            }
        }
        if stays_one {
            for index in 0..BLOCK_PAGES {
                self.pages.get_mut(&(page.0 + index)).expect("it was moved to").in_huge = Some(index);
            }
        }
        Ok((BLOCK_PAGES as u32, Install::Done))
    }

    fn install_target(&mut self, page: PageId) -> Result<&mut MappedPage, Install> {
        if self.changing > 0 {
            return Err(Install::EventPending);
        }
        match self.pages.get_mut(&page.0) {
            Some(mapped) if !mapped.registered => Err(Install::NotMapped),
            None => Err(Install::NotMapped),
            Some(mapped) if mapped.content.is_some() || mapped.poisoned => Err(Install::AlreadyMapped),
            Some(mapped) => Ok(mapped),
        }
    }

    /// MOVE back into the program.
    pub fn move_in(&mut self, frame: u32, page: PageId) -> Result<Install, String> {
        let from = self.frames[frame as usize].clone();
        let target = match self.install_target(page) {
            Ok(target) => target,
            Err(install) => return Ok(install),
        };
        if from.shared || !target.writable {
            return Ok(Install::CannotMove);
        }
        let Some(content) = from.content else {
            return Err(format!("{page:?} should come back from frame {frame}, which is empty"));
        };
        (target.content, target.shared, target.in_huge) = (Some(content), false, None);
        self.frames[frame as usize] = Frame::default();
        Ok(Install::Done)
    }

    /// COPY and ZEROPAGE.
    pub fn copy_in(&mut self, page: PageId, content: Page) -> Install {
        match self.install_target(page) {
            Ok(target) => {
                (target.content, target.shared, target.in_huge) = (Some(Rc::new(content)), false, None);
                Install::Done
            }
            Err(install) => install,
        }
    }

    /// POISON.
    pub fn poison(&mut self, page: PageId) -> Install {
        match self.install_target(page) {
            Ok(target) => {
                target.poisoned = true;
                Install::Done
            }
            Err(install) => install,
        }
    }

    /// Registers what is mapped in a range; holes are skipped. False when nothing is mapped there.
    pub fn register(&mut self, range: PageRange) -> bool {
        let mut any = false;
        for (_, page) in self.pages.range_mut(range.start.0..range.end.0) {
            (page.registered, any) = (true, true);
        }
        any
    }

    /// The first mapping with a page in a range that is registered, as a whole.
    pub fn registered_mapping(&self, range: PageRange) -> Option<PageRange> {
        let mut pages = self.pages.range(range.start.0..range.end.0);
        let (&page, _) = pages.find(|(_, page)| page.registered)?;
        let goes_on_behind = |page: u64| match (self.pages.get(&page), self.pages.get(&(page + 1))) {
            (Some(mapped), Some(next)) => mapped.is_joined_with(next),
            _ => false,
        };
        let (mut start, mut end) = (page, page + 1);
        while goes_on_behind(start - 1) {
            start -= 1;
        }
        while goes_on_behind(end - 1) {
            end += 1;
        }
        Some(PageRange { start: PageId(start), end: PageId(end) })
    }

    /// A number for a mapping that is made.
    pub fn next_mapping(&mut self) -> u64 {
        self.mappings += 1;
        self.mappings
    }

    /// The memory that a child gets, and marks what both have now as shared. Frames that are just being read by another
    /// process are copied instead, as the kernel does with pinned pages.
    pub fn fork(&mut self, frames_are_read: bool) -> Memory {
        for page in self.pages.values_mut() {
            page.shared = page.content.is_some() && !page.pinned;
        }
        for frame in &mut self.frames {
            frame.shared = frame.content.is_some() && !frames_are_read;
        }
        let mut pages = self.pages.clone();
        for page in pages.values_mut().filter(|page| page.pinned) {
            (page.pinned, page.shared) = (false, false);
        }
        Memory { pages, frames: self.frames.clone(), mappings: self.mappings, ..Memory::default() }
    }
}
