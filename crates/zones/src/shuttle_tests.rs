//! Who asks, kswapd and kcompactd, and those who fetch, fill and clear tickets, in random orders.

use crate::FrameId;
use crate::Mobility;
use crate::plant::{Plant, Planted};
use crate::tickets::{Fetched, Tickets, Wanted};
use crate::wake::{Asked, Requests, Sleep, Wake};
use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::thread;
use std::vec::Vec;
use uswap_sync::{AtomicU64, Ordering};

/// Random orders of each test.
const ORDERS_TRIED: usize = 4000;

/// One that sleeps, and the work that it is woken for: a bit for each who asked.
struct Sleeper {
    requests: AtomicU64,
    work: AtomicU64,
    is_woken: Mutex<bool>,
    woken: Condvar,
}

impl Sleeper {
    fn new() -> Sleeper {
        Sleeper {
            requests: AtomicU64::new(0),
            work: AtomicU64::new(0),
            is_woken: Mutex::new(false),
            woken: Condvar::new(),
        }
    }
    fn ask(&self, asked: Asked, work: u64) {
        self.work.fetch_or(work, Ordering::Relaxed);
        if Requests(&self.requests).ask(asked) == Wake::Needed {
            *self.is_woken.lock().expect("no panic") = true;
            self.woken.notify_one();
        }
    }
    /// The next request, and the work that there is.
    fn wait(&self) -> (Asked, u64) {
        loop {
            if let Some(asked) = Requests(&self.requests).take() {
                return (asked, self.work.swap(0, Ordering::Relaxed));
            }
            if Requests(&self.requests).sleep() == Sleep::Now {
                let mut is_woken = self.is_woken.lock().expect("no panic");
                while !*is_woken {
                    is_woken = self.woken.wait(is_woken).expect("no panic");
                }
                *is_woken = false;
            }
        }
    }
}

const ORDERS: [u32; 3] = [0, 9, 2];
const JOINED: Asked = Asked { order: 9, class: 2 };

/// Three ask kswapd, which tells kcompactd the order that was asked for, though it has reclaimed for single pages.
fn three_ask() {
    shuttle::check_random(
        || {
            let sleepers = Arc::new([Sleeper::new(), Sleeper::new()]);
            let asking = ORDERS.into_iter().enumerate().map(|(number, order)| {
                let sleepers = Arc::clone(&sleepers);
                thread::spawn(move || sleepers[0].ask(Asked { order, class: number }, 1 << number))
            });
            let asking: Vec<_> = asking.collect();
            let all = (1 << ORDERS.len()) - 1;
            let daemons = [0, 1].map(|number| {
                let sleepers = Arc::clone(&sleepers);
                thread::spawn(move || {
                    let (mut done, mut seen) = (0, Asked { order: 0, class: 0 });
                    // Whoever misses a request sleeps for ever.
                    while done != all || seen != JOINED {
                        let (asked, work) = sleepers[number].wait();
                        (done, seen) = (done | work, seen.joined(asked));
                        if number == 0 {
                            sleepers[1].ask(asked, work);
                        }
                    }
                })
            });
            asking.into_iter().for_each(|thread| thread.join().expect("no panic"));
            for daemon in daemons {
                daemon.join().expect("no panic");
            }
        },
        ORDERS_TRIED,
    );
}

/// Invariants 23 and 24.
#[test]
fn shuttle_no_request_is_lost() {
    three_ask();
}

/// The same finds a bug that is planted: both sleep, and there is work.
#[test]
#[should_panic(expected = "deadlock")]
fn shuttle_finds_a_lost_wake_up() {
    let _planted = Planted::new(Plant::SleepWithoutLook);
    three_ask();
}

/// One fetches what another fills in, while a third clears what is void.
fn a_ticket_becomes_void() {
    shuttle::check_random(
        || {
            let words: Arc<[AtomicU64; 1]> = Arc::new([AtomicU64::new(0)]);
            let wanted = Wanted { order: 9, mobility: Mobility::Movable, class: 0 };
            let ticket = Tickets::open(&words[..]).leave(wanted, 0).expect("room");
            let (fill, clear) = (Arc::clone(&words), Arc::clone(&words));
            let filling =
                thread::spawn(move || u32::from(!Tickets::open(&fill[..]).fill(ticket, FrameId::new(512))));
            let clearing = thread::spawn(move || {
                (0..3)
                    .filter(|_| Tickets::open(&clear[..]).clear_void(5000) == Some(Some(FrameId::new(512))))
                    .count() as u32
            });
            let tickets = Tickets::open(&words[..]);
            let fetched =
                (0..3).filter(|_| matches!(tickets.fetch(ticket), Fetched::Frame(_))).count() as u32;
            let owners = fetched + filling.join().expect("no panic") + clearing.join().expect("no panic");
            let kept = tickets.filled() as u32;
            assert_eq!(owners + kept, 1, "a run has one owner");
        },
        ORDERS_TRIED,
    );
}

#[test]
fn shuttle_what_a_ticket_brought_has_one_owner() {
    a_ticket_becomes_void();
}

/// The same finds a bug that is planted: it is fetched and cleared.
#[test]
#[should_panic(expected = "a run has one owner")]
fn shuttle_finds_a_run_that_is_given_out_twice() {
    let _planted = Planted::new(Plant::FetchByStore);
    a_ticket_becomes_void();
}
