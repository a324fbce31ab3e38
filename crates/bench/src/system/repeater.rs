//! A thread that does one thing again and again, until it is dropped.
//!
//! What must hold: after drop the thread is gone, so what it used may be removed. Its processor time is known, also in
//! the middle of an action that takes seconds.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;

/// What follows one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Another one, after the pause.
    Again,
    /// None: what it works on is gone.
    End,
}

/// The thread.
pub struct Repeater {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// 0: it has not started.
    thread_id: AtomicU32,
    /// After the last action.
    cpu_ns: AtomicU64,
}

impl Repeater {
    /// Calls `action` every `pause`.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(
        name: &str,
        pause: Duration,
        mut action: impl FnMut() -> Next + Send + 'static,
    ) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                seen.thread_id.store(uswap_os::thread::thread_id(), Ordering::Relaxed);
                while !seen.stop.load(Ordering::Relaxed) && action() == Next::Again {
                    seen.cpu_ns.store(uswap_os::clock::thread_cpu_ns(), Ordering::Relaxed);
                    // Drop wakes it.
                    thread::park_timeout(pause);
                }
            })
            .with_context(|| format!("the thread '{name}' cannot be started; see `ulimit -u`"))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Processor seconds that it has used.
    pub fn cpu_seconds(&self) -> f64 {
        let so_far_ns = running_ns(self.shared.thread_id.load(Ordering::Relaxed)).unwrap_or(0);
        Duration::from_nanos(so_far_ns.max(self.shared.cpu_ns.load(Ordering::Relaxed))).as_secs_f64()
    }
}

/// Processor time of a thread of ours that is at work; None if it is gone, or the kernel does not say.
fn running_ns(thread_id: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/task/{thread_id}/schedstat")).ok()?;
    text.split(' ').next()?.parse().ok()
}

impl Drop for Repeater {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It fails only if the thread panicked, which the panic hook has said.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn it_repeats_until_dropped_and_drop_does_not_wait_for_the_pause() {
        let count = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&count);
        let repeater = Repeater::start("test", Duration::from_millis(1), move || {
            seen.fetch_add(1, Ordering::Relaxed);
            Next::Again
        });
        let repeater = repeater.unwrap();
        while count.load(Ordering::Relaxed) < 5 {
            thread::yield_now();
        }
        assert!(repeater.cpu_seconds() > 0.0);
        drop(repeater);
        assert_eq!(Arc::strong_count(&count), 1, "the thread is gone");

        let start = Instant::now();
        drop(Repeater::start("test", Duration::from_secs(600), || Next::Again).unwrap());
        assert!(start.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn the_time_of_a_long_action_is_seen_while_it_lasts() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let spins = move || {
            while ended.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {}
            Next::End
        };
        let repeater = Repeater::start("test", Duration::ZERO, spins).unwrap();
        while repeater.cpu_seconds() < 0.02 {
            thread::sleep(Duration::from_millis(1));
        }
        end.send(()).unwrap();
    }

    #[test]
    fn it_can_end_itself() {
        let repeater = Repeater::start("test", Duration::ZERO, || Next::End).unwrap();
        while !repeater.thread.as_ref().unwrap().is_finished() {
            thread::yield_now();
        }
    }
}
