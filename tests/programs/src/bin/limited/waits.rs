//! Threads in all kinds of waits, half of them with all signals blocked, that check how each wait ends: as if nothing
//! had been.

use std::ffi::{c_int, c_void};
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

static WRONG: AtomicU32 = AtomicU32::new(0);
static GOES_ON: AtomicBool = AtomicBool::new(false);

/// What the threads wait for.
struct Things {
    pipe: [c_int; 2],
    socket: c_int,
    queue: c_int,
}

const WAIT: Duration = Duration::from_millis(700);
const MICROSECONDS: i64 = WAIT.as_micros() as i64;

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn check(what: &str, is_right: bool, answer: i64) {
    if !is_right {
        WRONG.fetch_add(1, Ordering::Relaxed);
        println!("{what}: {answer}, errno {}", errno());
    }
}

fn time() -> libc::timespec {
    libc::timespec { tv_sec: 0, tv_nsec: MICROSECONDS * 1000 }
}

/// Not before its time, and not much later than twice that.
fn is_in_time(began: Instant) -> bool {
    (WAIT..WAIT * 2 + Duration::from_secs(10)).contains(&began.elapsed())
}

fn wait(kind: usize, things: &Things) {
    let began = Instant::now();
    // SAFETY:
    // 1. All pointers are to variables of this frame, of the types that the calls want.
    unsafe {
        match kind % 12 {
            0 => {
                let epoll = libc::epoll_create1(0);
                let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
                libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, things.pipe[0], &mut event);
                let answer = libc::epoll_wait(epoll, &mut event, 1, -1);
                check("epoll_wait", answer == 1, answer.into());
                libc::close(epoll);
            }
            1 => {
                let mut entry = libc::pollfd { fd: things.pipe[0], events: libc::POLLIN, revents: 0 };
                let answer = libc::poll(&mut entry, 1, -1);
                check("poll", answer == 1, answer.into());
            }
            2 => {
                let mut entry = libc::pollfd { fd: things.socket, events: libc::POLLIN, revents: 0 };
                let answer = libc::poll(&mut entry, 1, WAIT.as_millis() as c_int);
                check("poll with a time", answer == 0 && is_in_time(began), answer.into());
            }
            3 => {
                let mut rest = time();
                let answer = libc::nanosleep(&time(), &mut rest);
                check("nanosleep", answer == 0 && is_in_time(began), answer.into());
            }
            4 => {
                let mut byte = 0u8;
                let answer = libc::recv(things.socket, (&raw mut byte).cast::<c_void>(), 1, 0);
                check("recv", answer == 1, answer as i64);
            }
            5 => {
                let (word, time) = (0u32, time());
                let answer =
                    libc::syscall(libc::SYS_futex, &raw const word, libc::FUTEX_WAIT, 0, &raw const time);
                check("futex", answer == -1 && errno() == libc::ETIMEDOUT && is_in_time(began), answer);
            }
            6 => {
                let mut set = zeroed::<libc::fd_set>();
                libc::FD_SET(things.pipe[0], &mut set);
                let answer = libc::select(things.pipe[0] + 1, &mut set, null_mut(), null_mut(), null_mut());
                check("select", answer == 1, answer.into());
            }
            7 => {
                let mut message = [0u8; 16];
                let answer = libc::msgrcv(things.queue, message.as_mut_ptr().cast(), 8, 0, 0);
                check("msgrcv", answer == 8, answer as i64);
            }
            8 => {
                let mut set = zeroed::<libc::sigset_t>();
                libc::sigemptyset(&mut set);
                libc::sigaddset(&mut set, libc::SIGUSR2);
                libc::pthread_sigmask(libc::SIG_BLOCK, &set, null_mut());
                let answer = libc::sigtimedwait(&set, null_mut(), &time());
                check(
                    "sigtimedwait",
                    answer == -1 && errno() == libc::EAGAIN && is_in_time(began),
                    answer.into(),
                );
            }
            9 => {
                let mut count = 0u64;
                while !GOES_ON.load(Ordering::Relaxed) {
                    count = std::hint::black_box(count + 1);
                }
            }
            10 => {
                // Memory comes and goes all the time.
                while !GOES_ON.load(Ordering::Relaxed) {
                    let bytes = vec![1u8; 1 << 20];
                    check("allocation", bytes.iter().step_by(4096).all(|byte| *byte == 1), 0);
                }
            }
            _ => {
                let epoll = libc::epoll_create1(0);
                let mut event = zeroed::<libc::epoll_event>();
                let answer = libc::epoll_wait(epoll, &mut event, 1, WAIT.as_millis() as c_int);
                check("epoll_wait with a time", answer == 0 && is_in_time(began), answer.into());
                libc::close(epoll);
            }
        }
    }
}

/// Runs `work` while so many threads wait, from before it begins; how many waits went wrong.
pub fn while_threads_wait(threads: usize, work: impl FnOnce()) -> u32 {
    let (mut pipe, mut sockets) = ([0; 2], [0; 2]);
    // SAFETY:
    // 1. The calls write two numbers each.
    let queue = unsafe {
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        assert_eq!(libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, sockets.as_mut_ptr()), 0);
        libc::msgget(libc::IPC_PRIVATE, 0o600)
    };
    let things = Things { pipe, socket: sockets[0], queue };
    std::thread::scope(|scope| {
        for kind in 0..threads {
            let things = &things;
            scope.spawn(move || {
                if kind % 2 == 1 {
                    block_all_signals();
                }
                wait(kind, things);
            });
        }
        // Most of them wait by then.
        std::thread::sleep(WAIT / 4);
        work();
        std::thread::sleep(WAIT);
        GOES_ON.store(true, Ordering::Relaxed);
        // SAFETY:
        // 1. All pointers are to variables of this frame.
        unsafe {
            libc::write(things.pipe[1], b"x".as_ptr().cast(), 1);
            for _ in 0..threads {
                libc::write(sockets[1], b"x".as_ptr().cast(), 1);
                let message = [1u64, 2];
                libc::msgsnd(queue, message.as_ptr().cast(), 8, 0);
            }
        }
    });
    // SAFETY:
    // 1. The queue is this program's.
    unsafe { libc::msgctl(queue, libc::IPC_RMID, null_mut()) };
    WRONG.load(Ordering::Relaxed)
}

fn block_all_signals() {
    // SAFETY:
    // 1. The set is a variable of this frame.
    unsafe {
        let mut all = zeroed::<libc::sigset_t>();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, null_mut());
    }
}
