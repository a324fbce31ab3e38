//! Brings the program's memory home: for good, or for a fork that the kernel does not report.

use crate::state::{self, ENGINE, Phase, Request, SEGMENT, SEGMENT_BYTES, SEGMENT_START};
use crate::sync::run;
use crate::{affinity, handlers};
use core::sync::atomic::Ordering;
use uswap_core::counters::Counter;
use uswap_os::{memory, message, process, thread};

/// Does what a thread of the program asked for and waits for.
pub fn answer(request: Request) {
    if let Some(engine) = ENGINE.get() {
        match request {
            Request::Home => bring_home(engine),
            Request::Resume => engine.resume_evicting(),
            Request::Leave | Request::LetGo | Request::LookAtLocks => (),
        }
    }
    if request == Request::LetGo
        && let Some(segment) = SEGMENT.get()
    {
        affinity::let_go_of_the_dead(segment);
    }
    state::request_done();
}

fn bring_home(engine: &'static state::AgentEngine) {
    engine.stop_evicting();
    // SAFETY: 1. only kswapd brings home, and one call of this function ends before the next begins.
    let workspace = unsafe { state::workspace(state::WorkspaceOf::BringingHome) };
    while run(engine.bring_all_home(workspace)).is_some_and(|left| left > 0) {
        thread::yield_now();
    }
}

/// Ends management: everything comes home, the engine's threads end, the descriptors are closed, the segment is
/// unmapped.
pub fn leave() {
    if let Some(engine) = ENGINE.get() {
        bring_home(engine);
        handlers::stop();
        // Closing the descriptors ends the registration; nothing is missing any more.
        close(engine.platform().app.fd().raw());
        close(engine.platform().trash.fd().raw());
    }
    state::set_phase(Phase::Left);
    if let Some(segment) = SEGMENT.get() {
        segment.counters().add(Counter::Left, 1);
        if state::options().verbose {
            message::write_message(
                state::MESSAGES_FD,
                format_args!(
                    "uswap: process {} changed its credentials or became non-dumpable: its memory came home, and it \
                     goes on without uswap\n",
                    process::process_id()
                ),
            );
        }
    }
    // forkd may still look at the segment if it ever served a child; it sleeps for ever now, and touches nothing.
    state::forget_segment();
    state::request_done();
    // SAFETY:
    // 1. The handlers have ended; hooks that look into the segment have ended, and others find none (`forget_segment`);
    //    fork handlers do nothing in phase `Left`; this thread touches the segment no more.
    // 2. forkd touches it only after a fork message, and no more messages come.
    // 3. Something else may be mapped in its place afterwards: nobody takes that for ours, since its
    //    start is forgotten first.
    let _unmapped = unsafe {
        memory::unmap(SEGMENT_START.swap(0, Ordering::AcqRel), SEGMENT_BYTES.load(Ordering::Acquire))
    };
}

fn close(number: i32) {
    drop(uswap_os::Fd::from_raw(number));
}
