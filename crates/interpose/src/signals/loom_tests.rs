//! An action is taken for a signal while another thread changes it, with the memory model of the language.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p uswap-interpose --lib loom_tests`.

use super::shared_action::SharedAction;
use crate::kernel::Action;
use crate::plant::{Plant, Planted};
use loom::sync::Arc;
use loom::thread;
use std::sync::Mutex;
use std::vec::Vec;

/// One whose words are all the same; 0: the default.
fn action_of(number: usize) -> Action {
    Action { handler: number, flags: number, restorer: number, mask: number as u64 }
}

/// The program changes an action while a thread takes it. Answers which numbers it met, now and before.
fn explore() -> Vec<(usize, usize)> {
    let met = std::sync::Arc::new(Mutex::new(Vec::new()));
    let inside = std::sync::Arc::clone(&met);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let kept = Arc::new(SharedAction::new());
        kept.store(&action_of(2));
        let writer = {
            let kept = Arc::clone(&kept);
            thread::spawn(move || kept.store(&action_of(3)))
        };
        let (now, former) = kept.load_both();
        for action in [now, former] {
            assert_eq!(action, action_of(action.handler), "parts of two actions");
        }
        let pair = (now.handler, former.handler);
        let mut met = inside.lock().expect("no panic");
        if !met.contains(&pair) {
            met.push(pair);
        }
        drop(met);
        writer.join().expect("no panic");
        assert_eq!(kept.load_both(), (action_of(3), action_of(2)));
    });
    let mut met = met.lock().expect("no panic").clone();
    met.sort_unstable();
    met
}

#[test]
fn an_action_is_read_whole_while_it_changes() {
    assert_eq!(explore(), [(2, 0), (3, 2)]);
}

#[test]
#[should_panic(expected = "parts of two actions")]
fn loom_finds_a_dropped_fence_behind_the_odd_version() {
    let _planted = Planted::new(Plant::NoFenceBehindOddVersion);
    explore();
}
