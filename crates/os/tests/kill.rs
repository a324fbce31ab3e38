//! SIGKILL of one of four processes that work on one segment, again and again: the others go on, and nothing is
//! damaged.
//!
//! The parent plays the supervisor. It kills a process after some micro- or milliseconds, breaks its locks, drops what
//! it had, and starts another one; meanwhile it writes blobs back to a file that is not there, and gives empty clusters
//! of entries back. Every few rounds all stand still, and `audit` compares each table with who refers to it.
//!
//! Must hold: nothing waits for a dead process; nothing is owned twice; all that the dead had is there again, except
//! what one process may have in hand. `USWAP_TEST_FULL=1` kills 1000 times. `USWAP_KILL_SEED` is the seed of all that
//! is random here; what the scheduler does is not in it.

#[path = "kill/audit.rs"]
mod audit;
#[path = "kill/stage.rs"]
mod stage;
#[path = "kill/worker.rs"]
mod worker;

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use audit::Leaks;
use stage::{GEOMETRY, Stage};
use uswap_core::clusters::lock::{Holder, SUPERVISOR};
use uswap_core::mm::{MmState, MmTable, RecordHolder};
use uswap_core::swap_table::WritebackEnd;
use uswap_core::swap_word::Content;
use uswap_engine::pool::release::release_content;
use uswap_engine::reaper::{drop_mm, trim_clusters};
use uswap_os::{clock, process, thread};
use uswap_units::{MmId, Prng, SwapId};

const PROCESSES: usize = 4;
/// In the environment of a process: see `worker::accept`.
const INVITATION: &str = "USWAP_KILL_TEST";
/// Rounds between two looks at everything.
const LOOK_EVERY: u64 = 4;
/// Nothing here takes so long, however busy the machine is.
const HANG: Duration = Duration::from_secs(120);
/// The thread that writes back, among those that stand still.
const WRITER: usize = GEOMETRY.mms as usize;

/// As the supervisor's threads wait: not for the dead, since they are who cleans up after them.
fn wait_for_lock(mms: MmTable<'_>, holder: MmId, tries: u32) -> Holder {
    if tries < 64 {
        std::hint::spin_loop();
        return Holder::Lives;
    }
    thread::yield_now();
    // Another thread of the supervisor.
    if u32::from(holder.number()) >= mms.count() || !tries.is_multiple_of(64) {
        return Holder::Lives;
    }
    let record = mms.record(holder);
    let is_gone = match record.state() {
        MmState::Live => !process::is_alive(record.pid()),
        MmState::Reaping => true,
        MmState::Taken | MmState::Forked | MmState::Free => false,
    };
    if is_gone { Holder::IsGone } else { Holder::Lives }
}

/// A process of the four.
struct Member {
    child: Child,
    me: MmId,
}

impl Member {
    fn start(stage: &Stage, seed: u64) -> Member {
        let record =
            stage.segment.mms().take(RecordHolder::Run).expect("there are more records than processes");
        let invitation =
            format!("{}:{}:{}:{seed}", std::process::id(), stage.memfd.raw(), record.id().number());
        let child = Command::new(std::env::current_exe().expect("this program has a path"))
            .args(["a_process_that_is_killed", "--exact", "--nocapture"])
            .env(INVITATION, invitation)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("this program can be started again");
        record.set_state(MmState::Live, child.id());
        Member { child, me: record.id() }
    }

    /// Ends it by SIGKILL; it must not have ended before.
    fn kill(&mut self) {
        self.must_run();
        self.child.kill().expect("our own child can be killed");
        let status = self.child.wait().expect("our own child can be waited for");
        assert_eq!(status.signal(), Some(9), "a process ended by itself: {status}");
    }

    fn must_run(&mut self) {
        let status = self.child.try_wait().expect("our own child can be waited for");
        assert!(status.is_none(), "a process ended by itself: {}", status.expect("just seen"));
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The part of a process: started by the test below, and by nobody else.
#[test]
fn a_process_that_is_killed() {
    if let Ok(invitation) = std::env::var(INVITATION) {
        worker::accept(&invitation);
    }
}

/// Takes blobs to slots of the file; some writes fail.
fn write_back(stage: &Stage, is_over: &AtomicBool, mut prng: Prng) {
    let segment = stage.segment;
    let (table, slots) = (segment.swap_table(), segment.slots());
    while !is_over.load(Ordering::Acquire) {
        stage.stand_still(WRITER, || ());
        let id = SwapId::new(1 + prng.below(u64::from(table.entry_count()) - 1) as u32);
        let seen = table.load(id);
        let Content::Blob { length, .. } = seen.content() else { continue };
        if prng.chance(1, 2) || seen.count() == 0 || seen.is_writeback() || !table.begin_writeback(id, seen) {
            continue;
        }
        let bytes = u64::from(length).next_multiple_of(64);
        let run = if prng.chance(1, 8) {
            None
        } else {
            let files: Vec<_> = slots.files().all().collect();
            slots.take_run(&files[prng.below(files.len() as u64) as usize], 1, 1 + prng.below(8))
        };
        let Some(run) = run else {
            if let Some(content) = table.abort_writeback(id) {
                release_content(segment, stage, content);
            }
            continue;
        };
        // Somewhere in the run, across a border of slots if there is one.
        let offset = run.start().plus(prng.below((run.bytes() - bytes) / 64 + 1) * 64);
        slots.add_blob(offset, bytes);
        let slot = Content::Slot { offset, length: bytes as u32 };
        if table.finish_writeback(id, slot) == WritebackEnd::Orphaned {
            release_content(segment, stage, slot);
        }
        release_content(segment, stage, seen.content());
        slots.end_run(run);
    }
}

/// The processes, and what is counted while they are killed.
struct Family<'s> {
    stage: &'s Stage,
    members: Vec<Member>,
    prng: Prng,
    kills: u64,
    kills_since_look: u64,
    /// Kills of processes that had begun something in the tables, and of those that held a lock of the runs.
    in_the_middle: u64,
    with_a_lock: u64,
    /// Looks that found a space without one free slot.
    full: u64,
    leaks: Leaks,
}

impl Family<'_> {
    /// Kills one, does what the supervisor does for it, and starts another one.
    fn kill_one(&mut self) {
        let pick = self.prng.below(PROCESSES as u64) as usize;
        let stage = self.stage;
        let mut dead = self.members.swap_remove(pick);
        dead.kill();
        let record = stage.segment.mms().record(dead.me);
        self.in_the_middle += u64::from(record.is_in_the_middle());
        self.with_a_lock += u64::from(stage.holds_a_lock(dead.me));
        let number = record.number().to_word();
        stage.runs(SUPERVISOR, number, wait_for_lock).break_locks(dead.me);
        if self.prng.chance(1, 2) {
            // Meanwhile others take and free in the clusters that the dead has left.
            clock::sleep_ns(self.prng.below(1_000_000));
        }
        audit::free_runs_of(stage, number, wait_for_lock);
        stage.forget_reserver(number);
        drop_mm(stage.segment, stage, dead.me);
        self.kills += 1;
        self.kills_since_look += 1;
        self.members.push(Member::start(stage, self.prng.next_u64()));
    }

    /// Waits until all stand still, compares everything, and lets them go on.
    fn look(&mut self, look: u64, writer_runs: impl Fn() -> bool) {
        let stage = self.stage;
        stage.pause.store(look, Ordering::Release);
        let who: Vec<usize> = self.members.iter().map(|member| member.me.index()).chain([WRITER]).collect();
        while !who.iter().all(|&who| stage.stands_still(who)) {
            self.members.iter_mut().for_each(Member::must_run);
            assert!(writer_runs(), "the thread that writes back has panicked");
            clock::sleep_ns(100_000);
        }
        let leaks = audit::check(stage);
        self.full += u64::from(audit::check_room(stage, wait_for_lock) == 0);
        let kills = std::mem::take(&mut self.kills_since_look);
        assert!(leaks.references <= kills, "{kills} were killed since the last look: {leaks:?}");
        assert!(leaks.slot_users <= 2 * kills, "{kills} were killed since the last look: {leaks:?}");
        assert!(leaks.cells <= self.kills, "{} were killed: {leaks:?}", self.kills);
        self.leaks.references += leaks.references;
        self.leaks.slot_users += leaks.slot_users;
        self.leaks.cells = leaks.cells;
        stage.pause.store(0, Ordering::Release);
    }
}

/// Ends the threads of the parent when its test ends, in whatever way.
struct End<'a> {
    stage: &'a Stage,
    is_over: &'a AtomicBool,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.stage.pause.store(0, Ordering::Release);
    }
}

/// Ends this process if a round does not end: its children notice that, and end too.
fn watch(rounds: &AtomicU64, is_over: &AtomicBool) {
    let mut seen = (0, Instant::now());
    while !is_over.load(Ordering::Acquire) {
        let now = rounds.load(Ordering::Acquire);
        if now != seen.0 {
            seen = (now, Instant::now());
        } else if seen.1.elapsed() > HANG {
            eprintln!("round {now} hangs: somebody waits for a process that was killed, or has panicked");
            std::process::exit(101);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn one_of_four_is_killed_again_and_again() {
    let rounds = if std::env::var("USWAP_TEST_FULL").is_ok_and(|value| value == "1") { 1000 } else { 60 };
    let seed = std::env::var("USWAP_KILL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut stage = Stage::create();
    stage.segment = stage.segment.waiting_by(wait_for_lock);
    let (is_over, round) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut prng = Prng::new(seed);
    let writer_seed = Prng::new(prng.next_u64());
    std::thread::scope(|scope| {
        let _end = End { stage: &stage, is_over: &is_over };
        let writer = scope.spawn(|| write_back(&stage, &is_over, writer_seed));
        scope.spawn(|| watch(&round, &is_over));
        let members = (0..PROCESSES).map(|_| Member::start(&stage, prng.next_u64())).collect();
        let mut family = Family {
            stage: &stage,
            members,
            prng,
            kills: 0,
            kills_since_look: 0,
            in_the_middle: 0,
            with_a_lock: 0,
            full: 0,
            leaks: Leaks::default(),
        };
        while family.kills < rounds {
            // From microseconds to milliseconds, each length as likely.
            let longest_ns = 4000 << family.prng.below(12);
            clock::sleep_ns(family.prng.below(longest_ns));
            family.kill_one();
            trim_clusters(stage.segment, &stage);
            if family.kills.is_multiple_of(LOOK_EVERY) {
                family.look(family.kills, || !writer.is_finished());
            }
            round.store(family.kills, Ordering::Release);
        }
        println!(
            "seed {seed}: {} kills, {} in the middle of something, {} with a lock of the runs; a space was full at {} \
             looks; leaked: {:?}",
            family.kills, family.in_the_middle, family.with_a_lock, family.full, family.leaks
        );
    });
}
