//! Where the threads of a run may be: on all processors, or together on one while they mostly wait for each other.
//!
//! A fault that a handler serves takes two wake-ups. Across processors they cost several times as much as on one (ADR
//! 0004), and reclaim on another processor must interrupt the one that runs the program to flush its TLB. Whether that
//! outweighs what a second processor does, differs between machines and programs, so it is measured: the supervisor
//! counts the pages that faults brought in both placements by turns ([`Trials`]) and keeps the better one.
//!
//! [`Placement`] is what processes see of it, in shared words:
//! ```text
//! word 0: 63 LEFT (to the programs) | 62..32 zero | 31..0 processor + 1 while all share it, else 0     words 8..24: the processors of the run
//!
//!            place_on              let_go
//!      0 -------------> processor ---------> 0        The supervisor moves threads only while the word names a processor.
//!      |                    |
//!      | leave_to_programs  | leave_to_programs       A program does so before it places a thread, and waits until no processor is named.
//!      v                    v          let_go
//!    LEFT            LEFT | processor ------> LEFT    LEFT is never taken back, and nothing leads from LEFT to a processor.
//! ```
//! Both are in one word so that neither side passes the other: of `place_on` and `leave_to_programs` one comes first,
//! and the other sees it.

use uswap_sync::{AtomicU64, Ordering};

/// Words of the placement in the segment.
pub(crate) const PLACEMENT_WORDS: usize = 3 * 8;

const TOGETHER: usize = 0;
const PROCESSORS: usize = 8;

/// In the word `TOGETHER`: programs place their threads themselves.
const LEFT: u64 = 1 << 63;

/// Processors 0..1024 as bits, as the kernel's calls take them.
pub type Processors = [u64; 16];

/// View of the placement.
#[derive(Clone, Copy)]
pub struct Placement<'a> {
    pub(crate) words: &'a [AtomicU64],
}

impl Placement<'_> {
    /// The processor that all share. None: the supervisor moves nobody, each runs where it likes.
    pub fn together(&self) -> Option<u32> {
        // Acquire pairs with `place_on`: the processors of the run are known. And with `let_go`: the last thread has
        // been moved.
        named(self.words[TOGETHER].load(Ordering::Acquire))
    }
    /// Says that all share a processor, if they may. Before the first thread is moved there, and before each later walk
    /// that moves others there.
    pub fn place_on(&self, cpu: u32) -> PlaceOn {
        let placed = u64::from(cpu) + 1;
        // Release pairs with `together`.
        match self.words[TOGETHER].compare_exchange(0, placed, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => PlaceOn::Granted,
            Err(seen) if seen == placed => PlaceOn::Granted,
            Err(_) => PlaceOn::Refused,
        }
    }
    /// Says that no processor is shared any longer. After the last thread has its freedom back.
    pub fn let_go(&self) {
        // Release pairs with `together` and `leave_to_programs`.
        self.words[TOGETHER].fetch_and(LEFT, Ordering::Release);
    }
    /// Notes that programs of the run place their threads themselves: from then on nobody else begins to. The processor
    /// that all share until the supervisor has let go: a thread that is placed before that may be moved.
    #[must_use]
    pub fn leave_to_programs(&self) -> Option<u32> {
        // Acquire pairs with `let_go`.
        named(self.words[TOGETHER].fetch_or(LEFT, Ordering::Acquire))
    }
    /// A program of the run has asked to place its threads itself.
    pub fn is_left_to_programs(&self) -> bool {
        self.words[TOGETHER].load(Ordering::Relaxed) & LEFT != 0
    }
    /// The processors that the run may use.
    pub fn processors(&self) -> Processors {
        core::array::from_fn(|index| self.words[PROCESSORS + index].load(Ordering::Relaxed))
    }
    /// Sets the processors that the run may use.
    pub fn set_processors(&self, processors: &Processors) {
        for (word, &value) in self.words[PROCESSORS..].iter().zip(processors) {
            word.store(value, Ordering::Relaxed);
        }
    }
}

/// The processor in the word `TOGETHER`.
fn named(word: u64) -> Option<u32> {
    (word as u32).checked_sub(1)
}

/// What came of [`Placement::place_on`].
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlaceOn {
    /// Threads may be moved there, until `let_go`.
    Granted,
    /// Nobody may be moved there: a program places its threads itself, or all share another processor.
    Refused,
}

/// The set of one processor.
pub fn only(cpu: u32) -> Processors {
    let mut set = [0; 16];
    if let Some(word) = set.get_mut(cpu as usize / 64) {
        *word = 1 << (cpu % 64);
    }
    set
}

/// The processors of a set.
pub fn members(set: &Processors) -> impl Iterator<Item = u32> {
    (0..set.len() as u32 * 64).filter(|cpu| set[*cpu as usize / 64] & (1 << (cpu % 64)) != 0)
}

/// Where the threads of a run may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Anywhere.
    Spread,
    /// All on one processor.
    Together,
}

/// What was seen in one epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Epoch {
    /// Faults that were served: so often the program waited.
    pub faults: u64,
    /// Pages that they brought: how far it got meanwhile, if it mostly waits.
    pub pages: u64,
    /// How long it was.
    pub elapsed_ns: u64,
}

impl Epoch {
    fn faults_per_second(self) -> u64 {
        self.per_second(self.faults)
    }
    fn pages_per_second(self) -> u64 {
        self.per_second(self.pages)
    }
    fn per_second(self, count: u64) -> u64 {
        (u128::from(count) * 1_000_000_000 / u128::from(self.elapsed_ns.max(1))) as u64
    }
}

/// Length of an epoch.
pub const EPOCH_NS: u64 = 50_000_000;

/// With fewer faults a second, wake-ups are not what a program waits for: 1000 of 50 us are a twentieth of its time.
const FAULTS_PER_SECOND_MIN: u64 = 1000;

/// Two epochs of each, in an order that a steady trend favours neither in; or one of each when that says enough.
const TRIAL: [Wish; 4] = [Wish::Spread, Wish::Together, Wish::Together, Wish::Spread];

/// Together must bring a tenth more: what a program computes beside its faults may want the other processors.
const GAIN_PERCENT_MIN: u64 = 110;

/// One epoch of each says enough when one of them brings half as much again.
const CLEAR_PERCENT: u64 = 150;

/// Epochs from one trial to the next: half a second at first, since what a program does when it begins says little of
/// what comes; twice as many after each that said the same again.
const HOLD_EPOCHS: u32 = 10;
const HOLD_TOGETHER_MAX: u32 = 160;
const HOLD_SPREAD_MAX: u32 = 320;

/// Tries both placements by turns and keeps the better one.
#[derive(Debug)]
pub struct Trials {
    wish: Wish,
    /// Step of the trial that is under way.
    step: Option<usize>,
    spread: Epoch,
    together: Epoch,
    /// Epochs until the next trial, and how many it were when the last ended.
    hold: u32,
    held: u32,
}

const NOTHING: Epoch = Epoch { faults: 0, pages: 0, elapsed_ns: 0 };

impl Trials {
    /// Everywhere at first.
    pub const fn new() -> Trials {
        Trials { wish: Wish::Spread, step: None, spread: NOTHING, together: NOTHING, hold: 0, held: 0 }
    }

    /// An epoch ended in which the threads were where the last answer said. Where they should be in the next.
    pub fn next(&mut self, epoch: Epoch) -> Wish {
        match self.step {
            Some(step) => self.go_on(step, epoch),
            None if epoch.faults_per_second() < FAULTS_PER_SECOND_MIN => {
                // It computes, or waits for something else.
                self.hold = if self.wish == Wish::Together { 0 } else { self.hold.saturating_sub(1) };
                self.wish = Wish::Spread;
            }
            None if self.hold > 0 => self.hold -= 1,
            None => {
                (self.spread, self.together) = (NOTHING, NOTHING);
                self.step = Some(0);
                return TRIAL[0];
            }
        }
        self.step.map_or(self.wish, |step| TRIAL[step])
    }

    /// What the last answer was.
    #[cfg(test)]
    fn wish_now(&self) -> Wish {
        self.step.map_or(self.wish, |step| TRIAL[step])
    }

    fn go_on(&mut self, step: usize, epoch: Epoch) {
        let sum = match TRIAL[step] {
            Wish::Spread => &mut self.spread,
            Wish::Together => &mut self.together,
        };
        sum.faults += epoch.faults;
        sum.pages += epoch.pages;
        sum.elapsed_ns += epoch.elapsed_ns;
        let clear = step == 1 && self.is_clear();
        self.step = Some(step + 1).filter(|&next| next < TRIAL.len() && !clear);
        if self.step.is_none() {
            self.decide();
        }
    }

    fn is_clear(&self) -> bool {
        let (spread, together) = (self.spread.pages_per_second(), self.together.pages_per_second());
        spread.max(together) * 100 > spread.min(together) * CLEAR_PERCENT
    }

    fn decide(&mut self) {
        let (spread, together) = (self.spread.pages_per_second(), self.together.pages_per_second());
        let gain = together * 100 > spread * GAIN_PERCENT_MIN;
        let (best, most) =
            if gain { (Wish::Together, HOLD_TOGETHER_MAX) } else { (Wish::Spread, HOLD_SPREAD_MAX) };
        self.held = if best == self.wish { (self.held * 2).clamp(HOLD_EPOCHS, most) } else { HOLD_EPOCHS };
        self.hold = self.held;
        self.wish = best;
    }
}

impl Default for Trials {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Runs a program that makes so many faults a second in each placement; the placements of the epochs.
    fn placements(trials: &mut Trials, epochs: u32, faults: impl Fn(Wish) -> u64) -> (u32, u32) {
        let (mut wish, mut together) = (trials.wish, 0);
        for _ in 0..epochs {
            together += u32::from(wish == Wish::Together);
            let faults = faults(wish) / 20;
            wish = trials.next(Epoch { faults, pages: faults, elapsed_ns: EPOCH_NS });
        }
        (epochs - together, together)
    }

    fn better_together(wish: Wish) -> u64 {
        if wish == Wish::Together { 20_000 } else { 12_000 }
    }
    fn better_spread(wish: Wish) -> u64 {
        if wish == Wish::Together { 20_000 } else { 19_000 }
    }

    #[test]
    fn a_program_that_gets_further_on_one_processor_is_kept_there() {
        let (spread, together) = placements(&mut Trials::new(), 1000, better_together);
        assert!(together > 900, "{spread} {together}");
        // It is asked again now and then.
        assert!(spread > 10, "{spread} {together}");
    }

    #[test]
    fn a_program_that_gets_little_from_it_is_left_alone_and_seldom_asked() {
        let (spread, together) = placements(&mut Trials::new(), 1000, better_spread);
        assert!((4..40).contains(&together), "{spread} {together}");
    }

    #[test]
    fn a_clear_difference_is_seen_after_one_epoch_of_each() {
        let mut trials = Trials::new();
        let mut wishes = std::vec::Vec::new();
        for _ in 0..4 {
            let faults = if trials.wish_now() == Wish::Together { 4000 } else { 1000 };
            wishes.push(trials.next(Epoch { faults, pages: faults, elapsed_ns: EPOCH_NS }));
        }
        // The first epoch only shows that there are faults.
        assert_eq!(wishes, [Wish::Spread, Wish::Together, Wish::Together, Wish::Together]);
        assert_eq!((trials.step, trials.wish), (None, Wish::Together));
    }

    #[test]
    fn what_counts_is_pages_not_faults() {
        let mut trials = Trials::new();
        for _ in 0..100 {
            // In smaller runs: more faults for fewer pages.
            let (faults, pages) =
                if trials.wish_now() == Wish::Together { (4000, 6000) } else { (1000, 8000) };
            trials.next(Epoch { faults, pages, elapsed_ns: EPOCH_NS });
        }
        assert_eq!(trials.wish, Wish::Spread);
    }

    #[test]
    fn a_program_with_few_faults_is_never_moved() {
        let (_, together) = placements(&mut Trials::new(), 1000, |_| 900);
        assert_eq!(together, 0);
    }

    #[test]
    fn who_begins_to_compute_gets_all_processors_at_once() {
        let mut trials = Trials::new();
        let _ = placements(&mut trials, 50, better_together);
        assert_eq!(trials.wish, Wish::Together);
        let (_, together) = placements(&mut trials, 50, |_| 0);
        assert!(together <= 1 + TRIAL.len() as u32, "{together}");
        // And when it waits again, it is asked again at once.
        let (spread, together) = placements(&mut trials, 50, better_together);
        assert!(together > 40, "{spread} {together}");
    }

    #[test]
    fn a_change_of_mind_is_seen_within_a_hold() {
        let mut trials = Trials::new();
        let _ = placements(&mut trials, 1000, better_together);
        let (_, together) = placements(&mut trials, 1000, better_spread);
        assert!(together < HOLD_TOGETHER_MAX + 60, "{together}");
    }

    #[test]
    fn sets_of_processors() {
        assert_eq!(members(&only(1023)).collect::<std::vec::Vec<_>>(), [1023]);
        assert_eq!(only(1024), [0; 16]);
        assert_eq!(members(&[5; 16]).take(4).collect::<std::vec::Vec<_>>(), [0, 2, 64, 66]);
    }

    #[test]
    fn what_processes_see() {
        let words: std::vec::Vec<AtomicU64> = (0..PLACEMENT_WORDS).map(|_| AtomicU64::new(0)).collect();
        let placement = Placement { words: &words };
        assert_eq!(placement.together(), None);
        placement.set_processors(&[7; 16]);
        assert_eq!(placement.place_on(0), PlaceOn::Granted);
        assert_eq!((placement.together(), placement.processors()), (Some(0), [7; 16]));
        assert_eq!((placement.place_on(0), placement.place_on(1)), (PlaceOn::Granted, PlaceOn::Refused));
        placement.let_go();
        assert_eq!(placement.together(), None);
        assert_eq!(placement.place_on(1023), PlaceOn::Granted);
        assert!(!placement.is_left_to_programs());
    }

    #[test]
    fn what_is_left_to_programs_stays_theirs() {
        let words: std::vec::Vec<AtomicU64> = (0..PLACEMENT_WORDS).map(|_| AtomicU64::new(0)).collect();
        let placement = Placement { words: &words };
        assert_eq!(placement.place_on(3), PlaceOn::Granted);
        assert_eq!(placement.leave_to_programs(), Some(3));
        assert_eq!((placement.together(), placement.place_on(3)), (Some(3), PlaceOn::Refused));
        placement.let_go();
        assert_eq!((placement.together(), placement.leave_to_programs()), (None, None));
        assert_eq!(placement.place_on(3), PlaceOn::Refused);
        assert!(placement.is_left_to_programs());
    }
}
