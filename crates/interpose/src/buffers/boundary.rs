//! The flow of one call: its ranges are published and made present, the kernel is asked, the ranges are let go.
//!
//! Must hold: from `before` to `after` each kept page of the ranges stays present. A call that has lost something by
//! EFAULT is not made a second time. Called by `host`, on the thread that makes the call.

use super::deferred_signals::PendingHandlers;
use super::file_kind::is_intact;
use super::hazards::{HazardSlot, StackPoint};
use super::holder::{Held, Holder};
use super::interrupted;
use super::parts::{self, Manner, Part};
use super::residency::{Make, Residency};
use crate::Call;
use crate::kernel::nr;
use crate::plant::{Plant, is_planted};
use crate::table::{Parts, Row, row};
use linux_raw_sys::errno::EFAULT;

/// What became of a call before the kernel was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Begun {
    /// It touches no kept memory: nothing to do afterwards.
    Free,
    /// Its ranges are present and held until [`Boundary::after`].
    Held,
    /// It went in parts, and this is the answer.
    Answered(isize),
}

/// The boundary of one thread.
pub struct Boundary<'a, R> {
    holder: Holder<'a, R>,
}

/// Times that a call is repeated after EFAULT: its structures may have been changed by another thread meanwhile.
const REPEATS_MAX: u32 = 3;

impl<'a, R: Residency> Boundary<'a, R> {
    /// `slot` is the calling thread's.
    pub const fn new(residency: &'a R, slot: &'a HazardSlot) -> Boundary<'a, R> {
        Boundary { holder: Holder { residency, slot } }
    }

    /// Readies a call. `make` is for calls that go in parts.
    #[inline]
    pub fn before(&self, call: &Call, at: StackPoint, make: &mut Make<'_>) -> Begun {
        let Some(row) = row(call.number) else {
            self.holder.residency.unknown_call(call.number);
            return Begun::Free;
        };
        if row.buffers().is_empty() && row.nested().is_none() {
            return self.without_ranges(call, at);
        }
        let bytes_max = match row.parts() {
            Parts::Whole => u64::MAX,
            _ => self.holder.part_bytes(),
        };
        let (held, due) = self.holder.hold(row, call, at, bytes_max, make);
        match held {
            Held::Nothing => self.without_ranges(call, at),
            Held::All => self.unless_interrupted(row, call, at, due, make),
            Held::TooMuch => self.transfer(row, call, at, due, make),
        }
    }

    /// A call that holds nothing. One by which a child begins has a frame all the same: a child of vfork or posix_spawn
    /// makes its calls in this slot, and does not come back from the last of them. Their frames go with this one.
    #[inline]
    fn without_ranges(&self, call: &Call, at: StackPoint) -> Begun {
        if !matches!(call.number, nr::VFORK | nr::CLONE | nr::CLONE3) {
            return Begun::Free;
        }
        self.holder.slot.begin(at);
        Begun::Held
    }

    /// The ranges of a call are held. `due`: signals that arrived meanwhile.
    #[inline]
    fn unless_interrupted(
        &self,
        row: &Row,
        call: &Call,
        at: StackPoint,
        due: PendingHandlers,
        make: &mut Make<'_>,
    ) -> Begun {
        if !due.is_any {
            return Begun::Held;
        }
        match interrupted::answer(&self.holder, row, call, due, make) {
            Some(answer) => {
                self.holder.slot.end(at);
                Begun::Answered(answer)
            }
            None => Begun::Held,
        }
    }

    /// Makes the call; its ranges are too large to be held at once. `due`: signals that arrived before that was known.
    fn transfer(
        &self,
        row: &Row,
        call: &Call,
        at: StackPoint,
        due: PendingHandlers,
        make: &mut Make<'_>,
    ) -> Begun {
        let whole = |make: &mut Make<'_>| match self.holder.hold(row, call, at, u64::MAX, make) {
            (Held::Nothing, _) => Begun::Free,
            (_, later) => self.unless_interrupted(row, call, at, due.or(later), make),
        };
        let manner = parts::manner(call, make);
        if manner == Manner::Whole {
            return whole(make);
        }
        let (mut done, mut due) = (0_u64, due);
        loop {
            let Some(part) = Part::new(row.parts(), call, done, self.holder.part_bytes(), &self.holder)
            else {
                // Something about it is wrong: the kernel says what.
                return if done == 0 { whole(make) } else { Begun::Answered(done as isize) };
            };
            let (bytes, is_last) = (part.bytes, part.is_last);
            if bytes == 0 && done > 0 {
                return Begun::Answered(done as isize);
            }
            let answer = self.make_part(part, row, at, due, make);
            due = PendingHandlers::default();
            if answer <= 0 {
                return Begun::Answered(if done > 0 { done as isize } else { answer });
            }
            done += answer as u64;
            if manner == Manner::Cut || (answer as u64) < bytes || is_last {
                return Begun::Answered(done as isize);
            }
        }
    }

    /// Makes the part. `due`: signals that have arrived since the call began.
    fn make_part(
        &self,
        mut part: Part,
        row: &Row,
        at: StackPoint,
        due: PendingHandlers,
        make: &mut Make<'_>,
    ) -> isize {
        part.set_up(row);
        let (_, later) = self.holder.hold(row, &part.call, at, u64::MAX, make);
        match self.unless_interrupted(row, &part.call, at, due.or(later), make) {
            Begun::Answered(answer) => answer,
            Begun::Free | Begun::Held => {
                let answer = make(&part.call);
                self.after(&part.call, answer, at, make)
            }
        }
    }

    /// Lets a call's ranges go. If it was answered EFAULT though nothing but a page was wrong, it is repeated.
    #[inline]
    pub fn after(&self, call: &Call, answer: isize, at: StackPoint, make: &mut Make<'_>) -> isize {
        self.holder.slot.end(at);
        if answer == -(EFAULT as isize) { self.repeat(call, at, make) } else { answer }
    }

    /// A whole call: readied, made, and let go.
    pub fn call(&self, call: &Call, at: StackPoint, make: &mut Make<'_>) -> isize {
        match self.before(call, at, make) {
            Begun::Free => make(call),
            Begun::Answered(answer) => answer,
            Begun::Held => {
                if is_planted(Plant::ClearedEarly) {
                    self.holder.slot.end(at);
                }
                let answer = make(call);
                self.after(call, answer, at, make)
            }
        }
    }

    /// The last net. A call that has lost something is not repeated.
    #[cold]
    fn repeat(&self, call: &Call, at: StackPoint, make: &mut Make<'_>) -> isize {
        let fault = -(EFAULT as isize);
        let Some(row) = row(call.number) else { return fault };
        for _ in 0..REPEATS_MAX {
            if !self.holder.has_missing_page(row, call) || !is_intact(row, call, make) {
                return fault;
            }
            let _handlers_have_run = self.holder.hold(row, call, at, u64::MAX, make);
            let answer = make(call);
            self.holder.slot.end(at);
            if answer != fault {
                return answer;
            }
        }
        fault
    }
}
