//! Records of the managed processes.
//!
//! A record is taken by the process itself when its agent starts (or by its parent at fork) and given back by the
//! supervisor when the process is gone.
//!
//! A process holds a lock on its record that the kernel takes away when the process ends or executes another program
//! (`uswap_os::record_lock`): whose record it is, and whether that process lives, is what the kernel says of the lock.
//! The process id in the record is what the supervisor has found out in this way, and nobody else writes it.
//!
//! Must hold: the state of a record and who holds it are one word, so the reaper knows of each record that is
//! being filled in or cleaned up by whom. A record is free only after all else that its process had is given back. No
//! two processes have the same [`number`](MmRecord::number). Called by `host`, which takes and claims records, by
//! `engine` and `sim`, which act as one of these processes, by the supervisor, which looks at all of them, and by
//! `experiments`.
//!
//! Memory order: whoever changes the state of a record has written the rest of it before (Release: `announce`,
//! `withdraw`, `set_state`, `set_forked`, `claim_forked`, `begin_reaping`, `free`), and whoever looks at the state sees
//! that (Acquire: `state`, `pid`, `has_process`, `is_held_by`, and `take`, which finds it emptied). `set_root` pairs
//! with `root`: the page of the root was zeroed before. `end` pairs with `is_in_the_middle`: whoever sees nothing begun
//! sees all of it done. The plain numbers, from the resident pages to the weight, guard nothing: each is read for
//! itself, and needs none of the orders that it has (`plain_fields`).

use crate::fairness::{Account, Holding};
use crate::held_files::HeldFiles;
use crate::plant::{Plant, is_planted};
use crate::refault_stats::RefaultStats;
use crate::stall::Stall;
use uswap_sync::{AtomicU64, Ordering, fence};
use uswap_units::{FileId, MmId, ProcessNumber, TableId};

/// Declares the words of a record, one behind the other, each with what is in it.
macro_rules! record_words {
    ($at:expr;) => {
        const WORDS_USED: usize = $at;
    };
    ($at:expr; $name:ident $count:literal $text:literal; $($rest:tt)*) => {
        #[doc = $text]
        const $name: usize = $at;
        record_words! { $at + $count; $($rest)* }
    };
}

record_words! {
    0;
    STATE 1 "State (8 bits), its holder + 1 (16), process id (32).";
    ROOT 1 "Root of its page table.";
    RESIDENT 1 "Resident anonymous pages.";
    SHARED 1 "Resident pages that it shares with a forked relative.";
    MANAGED 1 "Pages of address space under management.";
    PARENT 1 "Record of its parent + 1; 0: none.";
    BEGUN 1 "What it has begun in the swap table and not ended.";
    NUMBER 1 "Which of all processes it is.";
    HELD_FILES 1 "The swap files that it has open.";
    STALL_UNTIL 1 "Until when stalls are counted, in ns.";
    STALL_TOTAL 1 "Their sum in ns.";
    REFAULT_STATS 5 "What reclaim took, and what came back: see `refault_stats`.";
    PASS 1 "Its account of reclaim: see `fairness`.";
    LOOKED_AT 1 "When its kswapd looked last, in ns.";
    HAS_NOTHING_UNTIL 1 "Until when it has nothing to reclaim, in ns.";
    PROTECTED 1 "Protected pages.";
    WEIGHT 1 "Its weight.";
    WAITS 1 "Threads that wait for a page (32 bits), and those of them that sleep (32).";
    NAME 2 "Its name.";
    GIVEN_BACK 1 "Whether the record was ever given back.";
}

/// Words of one record: whole cache lines.
pub(crate) const MM_WORDS: usize = 32;
const _: () = assert!(WORDS_USED <= MM_WORDS);

const STATE_SHIFT: u32 = 56;
const HOLDER_SHIFT: u32 = 32;
/// In place of the number of a record: the process itself.
const PROCESS: u64 = 0xFFFF;
const PID_MASK: u64 = 0xFFFF_FFFF;
const ASLEEP_SHIFT: u32 = 32;

/// The byte of the segment's file whose lock the process of a record holds.
pub const fn lock_byte(mm: MmId) -> u64 {
    mm.number() as u64
}

/// The byte whose lock the supervisor holds.
pub const SUPERVISOR_LOCK_BYTE: u64 = 1 << 32;

/// Who works on a record that is being filled in or cleaned up. In the same word as the state, so that a record is
/// never without one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordHolder {
    /// The process that the record will be of. It holds the lock of the record.
    Process,
    /// The process of another record: a parent that forks, or gives up a child. When that is cleaned up, so is this
    /// one.
    Mm(MmId),
    /// The supervisor, or a test, which live as long as the run.
    Run,
}

impl RecordHolder {
    const fn bits(self) -> u64 {
        match self {
            RecordHolder::Process => PROCESS << HOLDER_SHIFT,
            RecordHolder::Mm(mm) => mm.to_word() << HOLDER_SHIFT,
            RecordHolder::Run => 0,
        }
    }
}

/// Threads of a process that wait for a page, at one moment.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Waits {
    /// All of them. Most serve their faults themselves, and run or wait for the disk.
    pub threads: u32,
    /// Those that sleep until somebody else has made room, or has served the same page.
    pub asleep: u32,
}

impl Waits {
    /// True if no thread waits.
    pub fn is_empty(self) -> bool {
        self.threads == 0
    }
}

/// Where a record is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MmState {
    /// Nobody's.
    Free,
    /// Being filled in.
    Taken,
    /// Its process runs with an agent.
    Live,
    /// Made by a process that forks, for its child, which has not claimed it yet.
    Forked,
    /// The supervisor cleans up.
    Reaping,
}

impl MmState {
    const fn from_raw(raw: u64) -> MmState {
        match raw >> STATE_SHIFT {
            0 => MmState::Free,
            1 => MmState::Taken,
            2 => MmState::Live,
            3 => MmState::Forked,
            _ => MmState::Reaping,
        }
    }
}

/// How far the processes of the run follow a change of its swap files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HaveOpen {
    /// All have done it.
    All,
    /// This process has not yet.
    NotYet(u32),
    /// This process cannot.
    Refused(u32),
}

/// View of one record.
#[derive(Clone, Copy)]
pub struct MmRecord<'a> {
    pub(crate) words: &'a [AtomicU64],
    pub(crate) id: MmId,
}

/// View of all records.
#[derive(Clone, Copy)]
pub struct MmTable<'a> {
    pub(crate) words: &'a [AtomicU64],
    /// Processes that ever asked for a record.
    pub(crate) taken_total: &'a AtomicU64,
}

impl<'a> MmTable<'a> {
    /// Number of records.
    pub fn count(&self) -> u32 {
        (self.words.len() / MM_WORDS) as u32
    }
    /// Record `id`.
    pub fn record(&self, id: MmId) -> MmRecord<'a> {
        MmRecord { words: &self.words[id.index() * MM_WORDS..][..MM_WORDS], id }
    }
    /// All records that are not free.
    pub fn in_use(&self) -> impl Iterator<Item = MmRecord<'a>> + use<'a> {
        let table = *self;
        // The first that is free is taken: behind one that was never used none was, and they are not in memory.
        (0..table.count() as u16)
            .map(move |id| table.record(MmId::new(id)))
            .take_while(|mm| !mm.was_never_used())
            .filter(|mm| mm.state() != MmState::Free)
    }
    /// Takes a free record. None: too many processes.
    pub fn take(&self, holder: RecordHolder) -> Option<MmRecord<'a>> {
        self.take_with_lock(holder, |_| true, |_| ())
    }
    /// Takes a free record whose lock `try_lock` got; `unlock` gives up the lock of one that was taken meanwhile. So
    /// whoever finds a record that a process holds, and its lock free, knows that this process is gone.
    pub fn take_with_lock(
        &self,
        holder: RecordHolder,
        mut try_lock: impl FnMut(MmId) -> bool,
        mut unlock: impl FnMut(MmId),
    ) -> Option<MmRecord<'a>> {
        let number = self.taken_total.fetch_add(1, Ordering::Relaxed) + 1;
        for id in 0..self.count() as u16 {
            let mm = self.record(MmId::new(id));
            let taken = (MmState::Taken as u64) << STATE_SHIFT | holder.bits();
            if mm.words[STATE].load(Ordering::Relaxed) != 0 || !try_lock(mm.id) {
                continue;
            }
            // Acquire pairs with `free`.
            if mm.words[STATE].compare_exchange(0, taken, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                mm.words[NUMBER].store(number, Ordering::Relaxed);
                return Some(mm);
            }
            unlock(mm.id);
        }
        None
    }
    /// Processes that ever asked for a record.
    pub fn taken_total(&self) -> u64 {
        self.taken_total.load(Ordering::Relaxed)
    }
    /// Whether all who read swap files have this one open, which was in the table before.
    ///
    /// Only whoever lives is asked: a child that has not claimed its record reads nothing yet, and whoever says that it
    /// lives looks at the table afterwards.
    pub fn have_open(&self, file: FileId) -> HaveOpen {
        self.look_for(|held| match held {
            held if held.reads_none() => None,
            held if held.refused(file) => Some(HaveOpen::Refused),
            held if held.has(file) => None,
            _ => Some(HaveOpen::NotYet),
        })
    }
    /// Whether all have closed this file.
    pub fn have_closed(&self, file: FileId) -> HaveOpen {
        self.look_for(|held| held.has(file).then_some(HaveOpen::NotYet))
    }
    /// Whether all read no file any more: their memory is at home for good.
    pub fn have_left_all_files(&self) -> HaveOpen {
        self.look_for(|held| (!held.reads_none()).then_some(HaveOpen::NotYet))
    }
    /// What is in the way at the first process where something is.
    fn look_for(&self, hindrance: impl Fn(HeldFiles) -> Option<fn(u32) -> HaveOpen>) -> HaveOpen {
        if !is_planted(Plant::NoFenceBehindAChangeOfFiles) {
            // Pairs with that in `SwapFiles::to_follow`: whoever is not seen here sees what was changed ahead of this.
            fence(Ordering::SeqCst);
        }
        let live = self.in_use().filter(|mm| mm.state() == MmState::Live);
        let mut hindered = live.filter_map(|mm| hindrance(mm.held_files()).map(|of_pid| of_pid(mm.pid())));
        hindered.next().unwrap_or(HaveOpen::All)
    }
    /// Resident pages of all processes, as last measured; those that forks share once.
    pub fn resident_pages(&self) -> u64 {
        self.in_use().map(|mm| mm.resident_pages().saturating_sub(mm.shared_pages())).sum()
    }
}

macro_rules! plain_fields {
    ($($index:ident $get:ident $set:ident $text:literal;)*) => {
        $(
            #[doc = $text]
            pub fn $get(&self) -> u64 {
                self.words[$index].load(Ordering::Acquire)
            }
            #[doc = concat!("Sets: ", $text)]
            pub fn $set(&self, value: u64) {
                self.words[$index].store(value, Ordering::Release);
            }
        )*
    };
}

impl MmRecord<'_> {
    /// Its number.
    pub fn id(&self) -> MmId {
        self.id
    }
    /// Where it is in its life.
    pub fn state(&self) -> MmState {
        MmState::from_raw(self.words[STATE].load(Ordering::Acquire))
    }
    /// Process id as the supervisor has it; 0 while not known.
    pub fn pid(&self) -> u32 {
        let word = self.words[STATE].load(Ordering::Acquire);
        if MmRecord::is_of_process(word) { word as u32 } else { 0 }
    }
    /// The supervisor has found out whose record this is; 0: nobody's any more. False: it has no process of its own.
    pub fn set_pid(&self, pid: u32) -> bool {
        self.change_if(|word| MmRecord::is_of_process(word).then_some(word & !PID_MASK | u64::from(pid)))
    }
    /// True while the process that it is of holds its lock, or is gone: it is live, or that process fills it in.
    pub fn has_process(&self) -> bool {
        MmRecord::is_of_process(self.words[STATE].load(Ordering::Acquire))
    }
    fn is_of_process(word: u64) -> bool {
        match MmState::from_raw(word) {
            MmState::Live => true,
            MmState::Taken => word >> HOLDER_SHIFT & 0xFFFF == PROCESS,
            MmState::Free | MmState::Forked | MmState::Reaping => false,
        }
    }
    /// Its process lives in the run, and is asked about swap files from now on. Release: what else is in the record was
    /// written before, but for the files that it has open.
    pub fn announce(&self) -> bool {
        self.change_if(|word| {
            (MmState::from_raw(word) == MmState::Taken)
                .then_some((MmState::Live as u64) << STATE_SHIFT | word & PID_MASK)
        })
    }
    /// Its process has nothing that is managed, and does not live in the run after all.
    pub fn withdraw(&self) -> bool {
        self.change_if(|word| {
            let taken = (MmState::Taken as u64) << STATE_SHIFT | RecordHolder::Process.bits();
            (MmState::from_raw(word) == MmState::Live).then_some(taken | word & PID_MASK)
        })
    }
    fn change_if(&self, next: impl Fn(u64) -> Option<u64>) -> bool {
        self.words[STATE].fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
    }
    /// Sets state and process id. Release: everything else in the record was written before.
    pub fn set_state(&self, state: MmState, pid: u32) {
        self.words[STATE].store(((state as u64) << STATE_SHIFT) | u64::from(pid), Ordering::Release);
    }
    /// Reaping, held by `holder`.
    pub fn begin_reaping(&self, holder: RecordHolder) {
        self.words[STATE]
            .store(((MmState::Reaping as u64) << STATE_SHIFT) | holder.bits(), Ordering::Release);
    }
    /// True while the process of another record fills this one in, or cleans it up.
    pub fn is_held_by(&self, other: MmId) -> bool {
        let (word, holder) = (self.words[STATE].load(Ordering::Acquire), RecordHolder::Mm(other).bits());
        let under_way = matches!(MmState::from_raw(word), MmState::Taken | MmState::Reaping);
        under_way && word & (0xFFFF << HOLDER_SHIFT) == holder
    }
    /// The record of a forked child is complete. Its [`number`](Self::number) is in the place of the process id: a
    /// child that is late must not claim the record of another one, to which its own was given meanwhile. Release:
    /// everything else in the record was written before.
    pub fn set_forked(&self) {
        self.words[STATE].store(Self::forked(self.number()), Ordering::Release);
    }
    fn forked(number: ProcessNumber) -> u64 {
        (MmState::Forked as u64) << STATE_SHIFT | number.to_word() & PID_MASK
    }
    /// Forked -> taken: the child of this number, which has the lock, takes over its record. False: the reaper was
    /// faster.
    #[must_use]
    pub fn claim_forked(&self, number: ProcessNumber) -> bool {
        let next = (MmState::Taken as u64) << STATE_SHIFT | RecordHolder::Process.bits();
        let word = &self.words[STATE];
        if is_planted(Plant::ClaimedWithoutNumber) {
            return self.change_if(|word| (MmState::from_raw(word) == MmState::Forked).then_some(next));
        }
        word.compare_exchange(Self::forked(number), next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
    /// Forked -> reaping: nobody claimed the record. False: the child did.
    #[must_use]
    pub fn reap_forked(&self) -> bool {
        let next = (MmState::Reaping as u64) << STATE_SHIFT | RecordHolder::Run.bits();
        self.change_if(|word| (MmState::from_raw(word) == MmState::Forked).then_some(next))
    }
    /// Gives the record back.
    pub fn free(&self) {
        for (index, word) in self.words.iter().enumerate().skip(1) {
            word.store(u64::from(index == GIVEN_BACK), Ordering::Relaxed);
        }
        self.words[STATE].store(0, Ordering::Release);
    }
    /// True of a record that nobody has taken so far.
    fn was_never_used(&self) -> bool {
        // Acquire pairs with `free`: whoever sees it free again sees that it was given back.
        self.words[STATE].load(Ordering::Acquire) == 0 && self.words[GIVEN_BACK].load(Ordering::Relaxed) == 0
    }
    /// Root of its page table, once it has one.
    pub fn root(&self) -> Option<TableId> {
        match self.words[ROOT].load(Ordering::Acquire) as u32 {
            0 => None,
            id => Some(TableId::new(id)),
        }
    }
    /// Sets the root of its page table.
    pub fn set_root(&self, root: TableId) {
        self.words[ROOT].store(u64::from(root.number()), Ordering::Release);
    }
    /// Which of all processes that ever took a record it is: no two have the same, though they have the same record one
    /// after the other.
    pub fn number(&self) -> ProcessNumber {
        ProcessNumber::from_word(self.words[NUMBER].load(Ordering::Relaxed))
    }
    /// The process that forked it.
    pub fn parent(&self) -> Option<MmId> {
        MmId::from_word(self.words[PARENT].load(Ordering::Acquire))
    }
    /// Sets the process that forked it.
    pub fn set_parent(&self, parent: Option<MmId>) {
        self.words[PARENT].store(parent.map_or(0, MmId::to_word), Ordering::Release);
    }
    /// Begins something that leaves traces if the process dies before `end`.
    pub(crate) fn begin(&self) {
        // Acquire: what follows is not done before it is counted.
        self.words[BEGUN].fetch_add(1, Ordering::Acquire);
    }
    pub(crate) fn end(&self) {
        // Release: all of it is done.
        self.words[BEGUN].fetch_sub(1, Ordering::Release);
    }
    /// Whether it has begun something in the swap table or the slot map that it has not ended.
    pub fn is_in_the_middle(&self) -> bool {
        self.words[BEGUN].load(Ordering::Acquire) != 0
    }
    /// How long its threads have waited for its pages.
    pub fn stall(&self) -> Stall<'_> {
        Stall { counted_until_ns: &self.words[STALL_UNTIL], total_ns: &self.words[STALL_TOTAL] }
    }
    /// What reclaim has taken from it, and what came back.
    pub fn refault_stats(&self) -> RefaultStats<'_> {
        RefaultStats {
            words: self.words[REFAULT_STATS..REFAULT_STATS + 5].try_into().expect("they are five"),
        }
    }
    /// How it stands when pages are to be taken.
    pub fn account(&self) -> Account {
        let holding = Holding {
            resident_pages: self.resident_pages(),
            protected_pages: self.protected_pages(),
            weight: self.weight(),
            lately: self.refault_stats().lately(),
        };
        Account { holding, pass: self.words[PASS].load(Ordering::Relaxed) }
    }
    /// Its account grows.
    pub fn add_pass(&self, stride: u64) {
        self.words[PASS].fetch_add(stride, Ordering::Relaxed);
    }
    /// It was away, or had nothing: what it has not given meanwhile is not asked for.
    pub fn raise_pass_to(&self, pass: u64) {
        self.words[PASS].fetch_max(pass, Ordering::Relaxed);
    }
    /// One more of its threads waits for a page. Whoever dies in between takes the count along, since the record ends
    /// with the process.
    pub fn begin_wait(&self) {
        self.words[WAITS].fetch_add(1, Ordering::Relaxed);
    }
    /// One waits no longer.
    pub fn end_wait(&self) {
        self.words[WAITS].fetch_sub(1, Ordering::Relaxed);
    }
    /// One of those that wait does nothing for its page now, but sleeps.
    pub fn begin_sleep(&self) {
        self.words[WAITS].fetch_add(1 << ASLEEP_SHIFT, Ordering::Relaxed);
    }
    /// It goes on.
    pub fn end_sleep(&self) {
        self.words[WAITS].fetch_sub(1 << ASLEEP_SHIFT, Ordering::Relaxed);
    }
    /// Threads that wait for a page now.
    pub fn waits(&self) -> Waits {
        let word = self.words[WAITS].load(Ordering::Relaxed);
        Waits { threads: word as u32, asleep: (word >> ASLEEP_SHIFT) as u32 }
    }
    /// Its name, as the kernel shows it; zeros behind.
    pub fn name(&self) -> [u8; 16] {
        let halves =
            [&self.words[NAME], &self.words[NAME + 1]].map(|half| half.load(Ordering::Relaxed).to_le_bytes());
        core::array::from_fn(|index| halves[index / 8][index % 8])
    }
    /// Sets its name, of which 16 bytes are kept.
    pub fn set_name(&self, name: &[u8]) {
        for (index, word) in self.words[NAME..NAME + 2].iter().enumerate() {
            let byte = |at: usize| name.get(8 * index + at).copied().unwrap_or(0);
            word.store(u64::from_le_bytes(core::array::from_fn(byte)), Ordering::Relaxed);
        }
    }
    /// The swap files that it has open.
    pub fn held_files(&self) -> HeldFiles {
        // Acquire pairs with `set_held_files`.
        HeldFiles(self.words[HELD_FILES].load(Ordering::Acquire))
    }
    /// Says which swap files it has open. Release: they are.
    pub fn set_held_files(&self, held: HeldFiles) {
        self.words[HELD_FILES].store(held.0, Ordering::Release);
    }
    plain_fields! {
        RESIDENT resident_pages set_resident_pages "Resident anonymous pages, as last measured.";
        SHARED shared_pages set_shared_pages "Resident pages that it shares with a forked relative and that are \
            counted elsewhere.";
        MANAGED managed_pages set_managed_pages "Pages of address space under management.";
        LOOKED_AT looked_at_ns set_looked_at_ns "When its kswapd looked last whether there is something to do.";
        HAS_NOTHING_UNTIL has_nothing_until_ns set_has_nothing_until_ns "Until then nothing can be reclaimed from it, \
            as far as is known.";
        PROTECTED protected_pages set_protected_pages "Pages of it that are not reclaimed while others have something.";
        WEIGHT weight set_weight "Its weight in reclaim; 0: the default.";
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn only_as_many_are_looked_at_as_were_in_use_at_once() {
        let words: Vec<AtomicU64> = (0..100 * MM_WORDS).map(|_| AtomicU64::new(0)).collect();
        let total = AtomicU64::new(0);
        let mms = MmTable { words: &words, taken_total: &total };
        let take = || mms.take(RecordHolder::Run).expect("a hundred are enough");
        let ids = || mms.in_use().map(|mm| mm.id().number()).collect::<Vec<_>>();
        assert_eq!(ids(), []);
        let stays = [take(), take(), take()];
        for _ in 0..1000 {
            take().free();
        }
        assert_eq!(mms.taken_total(), 1003);
        assert_eq!(ids(), [0, 1, 2]);
        let touched = (0..100).take_while(|&id| !mms.record(MmId::new(id)).was_never_used()).count();
        assert_eq!(touched, 4);
        // Those behind a hole are found.
        stays[0].free();
        stays[1].free();
        assert_eq!(ids(), [2]);
        stays[2].free();
        assert_eq!(ids(), []);
    }

    #[test]
    fn a_record_whose_lock_another_has_is_passed_over() {
        let words: Vec<AtomicU64> = (0..4 * MM_WORDS).map(|_| AtomicU64::new(0)).collect();
        let total = AtomicU64::new(0);
        let mms = MmTable { words: &words, taken_total: &total };
        let taken = mms.take_with_lock(
            RecordHolder::Process,
            |id| id.number() > 0,
            |_| unreachable!("nobody else takes"),
        );
        assert_eq!(taken.map(|record| record.id().number()), Some(1));
        // Somebody takes the record that has just been locked.
        let mut unlocked = Vec::new();
        let faster = |id: MmId| {
            id.number() != 0 || mms.take(RecordHolder::Run).is_some_and(|record| record.id() == id)
        };
        let taken = mms.take_with_lock(RecordHolder::Process, faster, |id| unlocked.push(id.number()));
        assert_eq!((taken.map(|record| record.id().number()), unlocked), (Some(2), std::vec![0]));
    }

    #[test]
    fn only_a_record_of_a_process_gets_a_process_id() {
        let words: Vec<AtomicU64> = (0..4 * MM_WORDS).map(|_| AtomicU64::new(0)).collect();
        let total = AtomicU64::new(0);
        let mms = MmTable { words: &words, taken_total: &total };
        let child = mms.take(RecordHolder::Mm(MmId::new(3))).expect("all are free");
        assert!(!child.has_process() && !child.set_pid(7), "its parent fills it in");
        child.set_forked();
        assert!(!child.has_process() && !child.set_pid(7) && child.pid() == 0, "its parent serves it");
        let number = child.number();
        let earlier = ProcessNumber::from_word(number.to_word() - 1);
        assert!(!child.claim_forked(earlier), "a child that is late knows another number");
        assert!(child.claim_forked(number) && child.has_process() && child.set_pid(7));
        assert!(child.announce() && !child.announce(), "once");
        assert_eq!((child.state(), child.pid(), child.has_process()), (MmState::Live, 7, true));
        assert!(child.withdraw() && !child.withdraw(), "once");
        assert_eq!((child.state(), child.pid(), child.has_process()), (MmState::Taken, 7, true));
        assert!(child.announce() && child.set_pid(0) && child.pid() == 0);
        child.begin_reaping(RecordHolder::Run);
        assert!(!child.has_process() && !child.set_pid(7) && !child.announce());
    }
}
