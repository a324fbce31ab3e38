//! The page word against its fields as plain values.

use crate::page_word::{
    Afterwards, Commit, EVICTORS_MAX, EvictableChunks, EvictedContent, EvictorId, PageWord, PageWordRef,
    Place, Remove, TryLock, Warmth, inherited,
};
use crate::reuse::StoreTime;
use proptest::prelude::*;
use std::vec;
use uswap_sync::AtomicU64;
use uswap_units::SwapId;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Model {
    managed: bool,
    active: bool,
    pinned: bool,
    locked: bool,
    removed: bool,
    heat: u32,
    rest: u32,
    hole: bool,
    evicted_at: StoreTime,
    protected: bool,
    evictor: Option<EvictorId>,
    rewritten: bool,
    zero_page: bool,
    place: Place,
    swap: Option<SwapId>,
}

/// Of a page that is not swapped.
const NO_TIME: StoreTime = StoreTime::new(0);

const NOTHING: Model = Model {
    managed: false,
    active: false,
    pinned: false,
    locked: false,
    removed: false,
    heat: 0,
    rest: 0,
    hole: false,
    evicted_at: NO_TIME,
    protected: false,
    evictor: None,
    rewritten: false,
    zero_page: false,
    place: Place::Fresh,
    swap: None,
};

impl Model {
    /// It is not stored, and nobody works on it or stores it.
    fn is_at_rest(&self) -> bool {
        !self.locked && self.evictor.is_none() && self.place != Place::Swapped
    }
    /// How warm it is then, and how often it rests.
    fn comes_back(&self, warmth: Warmth) -> (u32, u32) {
        let Warmth::Warmer { round } = warmth else { return (0, 0) };
        let heat = (self.heat + 1).min(3);
        let period = [1, 2, 4, 8][heat as usize];
        let next = (0..period).find(|later| (round + later) % period == 0).expect("one is");
        (heat, u32::from(next < period / 2))
    }
    fn of(word: PageWord) -> Model {
        Model {
            managed: word.is_managed(),
            active: word.is_active(),
            pinned: word.is_pinned(),
            locked: word.is_locked(),
            removed: word.is_removed(),
            heat: word.heat(),
            rest: word.rest(),
            hole: word.is_hole(),
            evicted_at: if word.place() == Place::Swapped { word.evicted_at() } else { NO_TIME },
            protected: word.is_protected(),
            evictor: word.isolated_by(),
            rewritten: word.is_rewritten(),
            zero_page: word.is_zero_page(),
            place: word.place(),
            swap: word.swap(),
        }
    }
    fn at(self, place: Place, swap: Option<SwapId>) -> Model {
        let (heat, rest) = match place {
            Place::Fresh | Place::Swapped => (0, 0),
            Place::Present => (self.heat, self.rest),
        };
        let stays = place == Place::Swapped && self.place == Place::Swapped;
        let evicted_at = if stays { self.evicted_at } else { NO_TIME };
        let rewritten = stays && self.rewritten;
        Model {
            place,
            swap,
            heat,
            rest,
            hole: false,
            evicted_at,
            protected: false,
            evictor: None,
            rewritten,
            zero_page: false,
            ..self
        }
    }
    /// Present, as warm as it was.
    fn present(self, clean: Option<SwapId>) -> Model {
        let (place, swap, protected) = (Place::Present, clean, clean.is_some());
        let (evictor, hole, evicted_at, zero_page) = (None, false, NO_TIME, false);
        Model { place, swap, protected, evictor, hole, evicted_at, zero_page, ..self }
    }
    fn is_clean(self) -> bool {
        self.protected && self.swap.is_some()
    }
    fn emptied(self) -> Model {
        Model { managed: self.managed, active: self.active, pinned: self.pinned, ..NOTHING }
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    TryLock,
    Commit(Place, Option<SwapId>),
    CommitHole,
    Look,
    Remove(Afterwards),
    FinishRemoved,
    Adopt,
    Activate,
    Pin,
    Unpin,
    Cool,
    PassBy,
    PassByIn(u32),
    Take,
    PutBack,
    Inherit,
    CommitIsolated(EvictorId),
    CommitProtected(Option<SwapId>),
    LockIsolated,
    CommitEvicted(StoreTime, EvictedContent),
    CommitPresent(Option<SwapId>, Warmth),
    CommitRewritten(Warmth),
    CommitWritten,
    CommitWrittenAtRest,
    UnlockUnchanged,
    CommitZeroPage,
}

fn content() -> impl Strategy<Value = (Place, Option<SwapId>)> {
    let swap = prop_oneof![Just(1), Just(u32::MAX), 1..u32::MAX];
    let place = prop_oneof![Just(Place::Fresh), Just(Place::Present), Just(Place::Swapped)];
    (place, prop::option::of(swap.prop_map(SwapId::new)))
        .prop_filter("a swapped page has an entry", |(place, swap)| {
            *place != Place::Swapped || swap.is_some()
        })
}

fn clean() -> impl Strategy<Value = Option<SwapId>> {
    prop::option::of((1..9_u32).prop_map(SwapId::new))
}

fn evicted() -> impl Strategy<Value = EvictedContent> {
    prop_oneof![Just(EvictedContent::Unchanged), Just(EvictedContent::StoredAnew)]
}

fn warmth() -> impl Strategy<Value = Warmth> {
    prop_oneof![(0..8_u32).prop_map(|round| Warmth::Warmer { round }), Just(Warmth::Cold)]
}

fn operation() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => Just(Op::TryLock),
        4 => content().prop_map(|(place, swap)| Op::Commit(place, swap)),
        4 => Just(Op::Commit(Place::Present, None)),
        2 => Just(Op::CommitHole),
        2 => Just(Op::Look),
        1 => Just(Op::Remove(Afterwards::StillManaged)),
        1 => Just(Op::Remove(Afterwards::Unmanaged)),
        2 => Just(Op::FinishRemoved),
        3 => Just(Op::Adopt),
        2 => Just(Op::Activate),
        1 => Just(Op::Pin),
        1 => Just(Op::Unpin),
        1 => Just(Op::Cool),
        1 => Just(Op::PassBy),
        2 => (0..8_u32).prop_map(Op::PassByIn),
        1 => Just(Op::Take),
        1 => Just(Op::PutBack),
        1 => Just(Op::Inherit),
        4 => (0..EVICTORS_MAX).prop_map(|index| Op::CommitIsolated(EvictorId::new(index))),
        1 => clean().prop_map(Op::CommitProtected),
        3 => Just(Op::LockIsolated),
        2 => (0..1_u64 << 20, evicted()).prop_map(|(time, content)| Op::CommitEvicted(StoreTime::new(time), content)),
        3 => (clean(), warmth()).prop_map(|(clean, warmth)| Op::CommitPresent(clean, warmth)),
        2 => warmth().prop_map(Op::CommitRewritten),
        2 => Just(Op::CommitWritten),
        1 => Just(Op::CommitWrittenAtRest),
        1 => Just(Op::UnlockUnchanged),
        2 => Just(Op::CommitZeroPage),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1024, ..ProptestConfig::default() })]
    #[test]
    fn transitions_are_those_of_the_model(ops in prop::collection::vec(operation(), 1..60)) {
        let (word, chunks) = (AtomicU64::new(0), AtomicU64::new(0));
        let word_ref = PageWordRef { word: &word, evictable: EvictableChunks(&chunks), chunk_in_block: 5 };
        let (mut model, mut taken) = (NOTHING, None);
        // What the last isolation returned: it need not be the word any more.
        let mut isolated = None;
        for op in ops {
            match op {
                Op::TryLock => match word_ref.try_lock() {
                    TryLock::Locked(was) => {
                        assert!(model.managed && !model.locked);
                        assert_eq!(Model::of(was), model);
                        model.locked = true;
                    }
                    TryLock::Busy => assert!(model.locked),
                    TryLock::Unmanaged => assert!(!model.managed && !model.locked),
                },
                Op::Commit(place, swap) if model.locked => match word_ref.commit(place, swap) {
                    Commit::Done => {
                        assert!(!model.removed);
                        model = Model { locked: false, ..model.at(place, swap) };
                    }
                    Commit::Removed(seen) => {
                        assert!(model.removed);
                        assert_eq!(Model::of(seen), model);
                    }
                },
                Op::CommitHole if model.locked && !model.removed => {
                    assert_eq!(word_ref.commit_hole(), Commit::Done);
                    model = Model { locked: false, hole: model.place == Place::Fresh, ..model };
                }
                Op::Look => {
                    word_ref.evictable.begin_look(5);
                    if word_ref.load().may_be_evicted() {
                        word_ref.evictable.set(5);
                    }
                }
                Op::Remove(afterwards) => {
                    let before = model;
                    let kept = if afterwards == Afterwards::StillManaged { model.emptied() } else { NOTHING };
                    match word_ref.remove(afterwards) {
                        Remove::Was(was) => {
                            assert!(before.managed && !before.locked);
                            assert_eq!(Model::of(was), before);
                            model = kept;
                        }
                        Remove::Deferred => {
                            assert!(before.locked);
                            let Model { managed, active, pinned, .. } = kept;
                            model = Model { managed, active, pinned, removed: true, ..before };
                        }
                        Remove::Unmanaged => assert!(!before.managed && !before.locked),
                    }
                }
                Op::FinishRemoved if model.removed => {
                    word_ref.finish_removed();
                    model = model.emptied();
                }
                Op::Adopt => {
                    assert_eq!(word_ref.adopt(), model == NOTHING);
                    model.managed |= model == NOTHING;
                }
                Op::Activate => {
                    word_ref.activate();
                    model.active |= model.managed;
                }
                Op::Pin => {
                    word_ref.pin();
                    model.evictor = model.evictor.filter(|_| model.pinned || !model.managed);
                    model.pinned |= model.managed;
                }
                Op::Unpin => {
                    word_ref.unpin();
                    model.pinned = false;
                }
                Op::Cool => {
                    word_ref.cool();
                    if model.is_at_rest() {
                        (model.heat, model.rest) = (0, 0);
                    }
                }
                Op::PassBy => {
                    assert_eq!(word_ref.pass_by(), model.rest > 0);
                    model.rest -= u32::from(model.rest > 0 && model.is_at_rest());
                }
                Op::PassByIn(round) => {
                    let looks = round % [1, 2, 4, 8][model.heat as usize] == 0;
                    assert_eq!(word_ref.pass_by_in(round), !looks || model.rest > 0);
                    model.rest -= u32::from(looks && model.rest > 0 && model.is_at_rest());
                }
                Op::Take => match word_ref.take() {
                    Some(was) => {
                        assert!(!model.locked);
                        assert_eq!(Model::of(was), model);
                        (taken, model) = (Some(was), NOTHING);
                    }
                    None => assert!(model.locked),
                },
                Op::PutBack => {
                    if let Some(back) = taken {
                        assert_eq!(word_ref.put_back(back), model == NOTHING);
                        if model == NOTHING {
                            (taken, model) = (None, Model::of(back));
                        }
                    }
                }
                Op::Inherit => {
                    let child = Model::of(inherited(word_ref.load()));
                    let wanted = if model.removed { model.emptied() } else { Model { locked: false, ..model } };
                    let clean = wanted.swap.filter(|_| wanted.protected);
                    let present = wanted.present(wanted.swap);
                    let of_present = Model { protected: clean.is_some(), ..present };
                    let elsewhere = Model { hole: false, ..wanted };
                    assert_eq!(child, if wanted.place == Place::Present { of_present } else { elsewhere });
                }
                Op::CommitIsolated(evictor) if model.locked => {
                    let now = word_ref.commit_isolated(evictor);
                    assert_eq!(now.is_none(), model.removed);
                    if let Some(now) = now {
                        let present = model.present(model.swap);
                        model = Model { locked: false, protected: true, evictor: Some(evictor), ..present };
                        isolated = Some((now, model));
                    }
                }
                Op::CommitProtected(clean) if model.locked && !model.removed => {
                    assert_eq!(word_ref.commit_protected(clean), Commit::Done);
                    let rewritten = model.rewritten || model.is_clean() && clean.is_none();
                    model = Model { locked: false, protected: true, rewritten, ..model.present(clean) };
                }
                Op::LockIsolated => {
                    if let Some((word, of)) = isolated {
                        let is_locked = word_ref.lock_isolated(word);
                        assert_eq!(is_locked, of == model);
                        model.locked |= is_locked;
                    }
                }
                Op::CommitEvicted(time, content) if model.locked && !model.removed => {
                    assert_eq!(word_ref.commit_evicted(SwapId::new(8), time, content), Commit::Done);
                    let rewritten = model.rewritten && content == EvictedContent::StoredAnew;
                    let swapped = Model { heat: model.heat, ..model.at(Place::Swapped, Some(SwapId::new(8))) };
                    model = Model { locked: false, evicted_at: time, rewritten, ..swapped };
                }
                Op::CommitPresent(clean, warmth) if model.locked && !model.removed => {
                    assert_eq!(word_ref.commit_present(clean, warmth), Commit::Done);
                    let (heat, rest) = model.comes_back(warmth);
                    model = Model { locked: false, heat, rest, ..model.present(clean) };
                }
                Op::CommitRewritten(warmth) if model.locked && !model.removed => {
                    assert_eq!(word_ref.commit_rewritten(warmth), Commit::Done);
                    let (heat, rest) = model.comes_back(warmth);
                    model = Model { locked: false, heat, rest, rewritten: true, ..model.present(None) };
                }
                Op::CommitWritten if model.locked && !model.removed => {
                    assert_eq!(word_ref.commit_written(), Commit::Done);
                    let rewritten = model.rewritten || model.is_clean();
                    model = Model { locked: false, rewritten, ..model.present(None) };
                }
                Op::CommitWrittenAtRest if model.locked && !model.removed => {
                    assert_eq!(word_ref.commit_written_at_rest(), Commit::Done);
                    let rewritten = model.rewritten || model.is_clean();
                    model = Model { locked: false, rewritten, rest: 7, ..model.present(None) };
                }
                Op::UnlockUnchanged if model.locked && !model.removed => {
                    assert_eq!(word_ref.unlock_unchanged(), Commit::Done);
                    model = Model { locked: false, evictor: None, ..model };
                }
                Op::CommitZeroPage if model.locked && !model.removed => {
                    assert_eq!(word_ref.commit_zero_page(), Commit::Done);
                    let cold = Model { heat: 0, rest: 0, ..model.present(None) };
                    model = Model { locked: false, protected: true, zero_page: true, ..cold };
                }
                Op::Commit(..)
                | Op::CommitHole
                | Op::FinishRemoved
                | Op::CommitIsolated(_)
                | Op::CommitProtected(_)
                | Op::CommitEvicted(..)
                | Op::CommitRewritten(_)
                | Op::CommitPresent(..)
                | Op::CommitWritten
                | Op::CommitWrittenAtRest
                | Op::UnlockUnchanged
                | Op::CommitZeroPage => {}
            }
            let now = word_ref.load();
            assert_eq!(Model::of(now), model);
            assert_eq!(PageWord::from_raw(now.raw()), now);
            let evictable = model.managed && model.active && !model.pinned && !model.locked;
            let may_be_there = matches!(model.place, Place::Fresh | Place::Present);
            let is_there = may_be_there && !model.hole && !model.zero_page;
            assert_eq!(now.may_be_evicted(), evictable && is_there);
            assert_eq!(now.may_be_isolated(), evictable && is_there && model.evictor.is_none());
            assert!(!now.may_be_evicted() || word_ref.evictable.chunks() == 1 << 5, "nobody would look for it");
        }
    }

    #[test]
    fn with_keeps_the_flags(raw in 0..32_u64, (place, swap) in content()) {
        // The five flags are the top bits.
        let word = PageWord::from_raw(raw << 59);
        let changed = word.with(place, swap);
        assert_eq!(Model::of(changed), Model { place, swap, ..Model::of(word) });
        assert_eq!(changed.with(Place::Fresh, None), word);
    }
}

/// The round in which a page is looked at that was warm so often in a row, and comes back in this one.
fn looked_at_in(times: u32, round: u32) -> u32 {
    let (word, chunks) = (AtomicU64::new(0), AtomicU64::new(0));
    let word_ref = PageWordRef { word: &word, evictable: EvictableChunks(&chunks), chunk_in_block: 5 };
    assert!(word_ref.adopt());
    for _ in 0..times {
        assert!(matches!(word_ref.try_lock(), TryLock::Locked(_)));
        assert_eq!(word_ref.commit_present(None, Warmth::Warmer { round }), Commit::Done);
    }
    (round..).find(|&round| !word_ref.pass_by_in(round)).expect("one comes")
}

#[test]
fn warm_pages_rest_for_half_of_their_rounds_at_least_and_go_together() {
    for (times, period) in [(1, 2), (2, 4), (3, 8), (9, 8)] {
        let mut rounds = std::collections::BTreeSet::new();
        for round in 0..32 {
            let at = looked_at_in(times, round);
            assert!((round + period / 2..round + period / 2 + period).contains(&at), "{round} {at} {period}");
            rounds.insert(at);
        }
        assert!(rounds.iter().all(|at| at % period == 0));
    }
    assert_eq!(looked_at_in(0, 3), 3, "what is cold does not rest");
}
