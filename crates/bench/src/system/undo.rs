//! What the bench changed in the system, and how each change is taken back.
//!
//! What must hold: a change and its undoing are recorded in one step under one lock, so a signal finds either both or
//! neither. Each step runs exactly once, the latest first; one that fails is said with the command that mends it, and
//! the others still run.

use std::fmt;
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How one change is taken back.
pub struct Step {
    mend: String,
    action: Box<dyn FnOnce() -> anyhow::Result<()> + Send>,
}

impl Step {
    /// `mend` is the command that a person can type if `action` fails.
    pub fn new(
        mend: impl Into<String>,
        action: impl FnOnce() -> anyhow::Result<()> + Send + 'static,
    ) -> Self {
        Self { mend: mend.into(), action: Box::new(action) }
    }

    fn run(self) {
        if let Err(error) = (self.action)() {
            say(format_args!("{error:#}; to mend it: {}", self.mend));
        }
    }
}

/// Says something on stderr. The terminal may be gone by then: `eprintln!` would panic, and nothing more be undone.
pub(super) fn say(text: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "uswap bench: {text}");
}

/// All changes that are still to be undone. Clones are the same list; the whole bench shares one.
#[derive(Clone, Default)]
pub struct Undo {
    steps: Arc<Mutex<Steps>>,
}

#[derive(Default)]
struct Steps {
    next_id: u64,
    /// In the order of the changes.
    open: Vec<(u64, Step)>,
}

impl Steps {
    fn run_all(&mut self) {
        while let Some((_, step)) = self.open.pop() {
            step.run();
        }
    }
}

impl Undo {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// A part of the list that is undone when it is dropped.
    pub fn scope(&self) -> Scope {
        Scope { undo: self.clone(), ids: Vec::new() }
    }

    /// Undoes everything now. Scopes that are still held have nothing left to do.
    pub fn undo_all(&self) {
        self.lock().run_all();
    }

    /// Undoes everything and calls `end` with the list still locked: no other thread can change anything more, nor
    /// leave a scope and end the process before the work is done. `end` should not return.
    pub fn undo_all_and(&self, end: impl FnOnce()) {
        let mut steps = self.lock();
        steps.run_all();
        end();
    }

    /// As [`Self::undo_all`], unless somebody else holds the list: then false.
    pub(super) fn try_undo_all(&self) -> bool {
        match self.steps.try_lock() {
            Ok(mut steps) => steps.run_all(),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner().run_all(),
            Err(std::sync::TryLockError::WouldBlock) => return false,
        }
        true
    }

    /// A panic between two steps leaves the list whole, so poison means nothing.
    fn lock(&self) -> MutexGuard<'_, Steps> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Changes that are undone together, the latest first, when this is dropped.
#[must_use = "dropping it undoes its changes"]
pub struct Scope {
    undo: Undo,
    ids: Vec<u64>,
}

impl Scope {
    /// The list that it is a part of.
    pub fn undo(&self) -> &Undo {
        &self.undo
    }

    /// Makes a change. `action` returns what it made and how that is undone; if it fails, it must have changed nothing.
    /// It runs under the lock of the list: it must be short, and must not use the list.
    ///
    /// # Errors
    /// Those of `action`.
    pub fn change<T>(&mut self, action: impl FnOnce() -> anyhow::Result<(T, Step)>) -> anyhow::Result<T> {
        let mut steps = self.undo.lock();
        let (value, step) = action()?;
        let id = steps.next_id;
        steps.next_id += 1;
        steps.open.push((id, step));
        self.ids.push(id);
        Ok(value)
    }

    /// Drops the steps without running them: what they would undo is gone by itself.
    pub fn forget(mut self) {
        let mut steps = self.undo.lock();
        let ids = std::mem::take(&mut self.ids);
        steps.open.retain(|(id, _)| !ids.contains(id));
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        let mut steps = self.undo.lock();
        for id in self.ids.drain(..).rev() {
            if let Some(place) = steps.open.iter().position(|(open, _)| *open == id) {
                let (_, step) = steps.open.remove(place);
                step.run();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of what was undone, and a way to make changes that write to it.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u32>>>);

    impl Log {
        fn change(&self, scope: &mut Scope, number: u32) {
            let log = self.clone();
            let undone = move || {
                log.0.lock().unwrap().push(number);
                anyhow::ensure!(number != 2, "step 2 always fails");
                Ok(())
            };
            scope.change(|| Ok(((), Step::new("true", undone)))).unwrap();
        }

        fn taken(&self) -> Vec<u32> {
            std::mem::take(&mut self.0.lock().unwrap())
        }
    }

    #[test]
    fn a_scope_undoes_its_own_changes_in_reverse_order_and_a_failed_step_stops_nothing() {
        let (undo, log) = (Undo::new(), Log::default());
        let (mut first, mut second) = (undo.scope(), undo.scope());
        for (number, scope) in [(1, 0), (2, 0), (3, 1), (4, 0)] {
            log.change(if scope == 0 { &mut first } else { &mut second }, number);
        }
        drop(first);
        assert_eq!(log.taken(), [4, 2, 1]);
        drop(second);
        assert_eq!(log.taken(), [3]);
    }

    #[test]
    fn each_step_runs_once_whoever_comes_first() {
        let (undo, log) = (Undo::new(), Log::default());
        let mut scope = undo.scope();
        log.change(&mut scope, 1);
        log.change(&mut scope, 3);
        undo.undo_all();
        assert_eq!(log.taken(), [3, 1]);
        drop(scope);
        undo.undo_all();
        assert!(log.taken().is_empty());
    }

    #[test]
    fn a_failed_change_and_a_forgotten_one_are_not_undone() {
        let (undo, log) = (Undo::new(), Log::default());
        let mut scope = undo.scope();
        log.change(&mut scope, 1);
        assert!(scope.change(|| anyhow::bail!("it did not work") as anyhow::Result<((), Step)>).is_err());
        scope.forget();
        drop(undo);
        assert!(log.taken().is_empty());
    }

    #[test]
    fn at_the_end_nobody_else_can_change_anything() {
        let (undo, log) = (Undo::new(), Log::default());
        let mut scope = undo.scope();
        log.change(&mut scope, 1);
        let (other, other_log) = (undo.clone(), log.clone());
        undo.undo_all_and(|| {
            assert_eq!(log.taken(), [1]);
            assert!(!undo.try_undo_all(), "the list is locked");
            let late = std::thread::spawn(move || other_log.change(&mut other.scope(), 5));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!late.is_finished());
        });
    }
}
