//! One random call of the program, and what it left.

use crate::arguments::Range;
use crate::kernel::{call, raw};
use crate::world::World;
use libc::*;
use uswap_interpose::Call;

/// A call and the memory to compare after it. `answer`: how much of the answer is the same in two processes.
struct Planned {
    call: Call,
    ranges: Vec<Range>,
    /// It sets the timer to the next nanosecond.
    arms_timer: bool,
    /// What differs between two processes: cleared after the call.
    own: Vec<Range>,
    answer: Answer,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Same,
    /// An identifier: only whether it is one.
    Identifier,
}

fn plan<const N: usize>(number: i64, given: [u64; N], ranges: &[(u64, u64)]) -> Planned {
    let ranges = ranges.iter().map(|(start, bytes)| Range { start: *start, bytes: *bytes }).collect();
    Planned { call: call(number, given), ranges, own: Vec::new(), arms_timer: false, answer: Answer::Same }
}

impl Planned {
    fn clearing(mut self, own: &[(u64, u64)]) -> Planned {
        self.own = own.iter().map(|(start, bytes)| Range { start: *start, bytes: *bytes }).collect();
        self
    }
}

/// Makes one call; answers number, answer and sum.
pub fn step(world: &mut World, is_shown: bool) -> [u64; 3] {
    let planned = choose(world);
    let answer = world.call(&planned.call);
    let answer = if planned.answer == Answer::Identifier { answer.min(1) } else { answer };
    planned.own.iter().for_each(|range| world.clear(range.start, range.bytes));
    if planned.arms_timer {
        // It has expired before the next call.
        let wait = [world.files.timer | (POLLIN as u64) << 32];
        raw(SYS_poll, [wait.as_ptr() as u64, 1, 20]);
    }
    let sums = planned.ranges.iter().map(|range| world.sum(range.start, range.bytes));
    let sum = sums.fold(0_u64, |all, sum| all.rotate_left(7) ^ sum);
    if is_shown {
        for range in &planned.ranges {
            let bytes: Vec<u64> =
                (0..range.bytes.min(64)).map(|at| world.sum(range.start + at, 1) & 0xffff).collect();
            eprintln!("{range:x?}: {bytes:x?}");
        }
        eprintln!("{:x?} ranges {:x?} answers {answer}, sum {sum:x}", planned.call, planned.ranges);
    }
    [planned.call.number as u64, answer as u64, sum]
}

fn choose(world: &mut World) -> Planned {
    match world.prng.below(100) {
        0..=29 => transfer(world),
        30..=41 => vectored(world),
        42..=51 => message(world),
        52..=61 => waiting(world),
        62..=69 => signal(world),
        70..=77 => futex(world),
        78..=83 => time(world),
        84..=86 => child(world),
        87..=91 => mapping(world),
        _ => question(world),
    }
}

/// A descriptor to read or to write, in one place.
fn any_file(world: &mut World) -> u64 {
    let end = world.prng.below(2) as usize;
    let files = &world.files;
    let all = [
        files.file,
        files.pipe[end],
        files.streams[end],
        files.datagrams[end],
        files.packets[end],
        files.events,
        files.signals,
        files.timer,
    ];
    all[world.prng.below(all.len() as u64) as usize]
}

fn transfer(world: &mut World) -> Planned {
    let file = any_file(world);
    let bytes = world.length(file);
    let start = world.buffer(bytes);
    let range = [(start, bytes)];
    match world.prng.below(8) {
        0..=2 => plan(SYS_read, [file, start, bytes], &range),
        3..=5 => plan(SYS_write, [file, start, bytes], &range),
        6 => plan(SYS_pread64, [world.files.file, start, bytes, world.prng.below(9000)], &range),
        _ => plan(SYS_pwrite64, [world.files.file, start, bytes, world.prng.below(9000)], &range),
    }
}

/// An array of `iovec`, and the ranges.
fn vectors(world: &mut World, file: u64) -> (u64, u64, Vec<(u64, u64)>) {
    let count = 1 + world.prng.below(4);
    let mut ranges = Vec::new();
    for _ in 0..count {
        let bytes = world.length(file).min(if file == world.files.file { u64::MAX } else { 200 });
        ranges.push((world.buffer(bytes), bytes));
    }
    let words: Vec<u64> = ranges.iter().flat_map(|(start, bytes)| [*start, *bytes]).collect();
    let array = world.words(&words);
    (array, count, ranges)
}

fn vectored(world: &mut World) -> Planned {
    let file = any_file(world);
    let (array, count, ranges) = vectors(world, file);
    let position = world.prng.below(9000);
    let store = world.files.file;
    match world.prng.below(6) {
        0 | 1 => plan(SYS_readv, [file, array, count], &ranges),
        2 | 3 => plan(SYS_writev, [file, array, count], &ranges),
        4 => plan(SYS_preadv, [store, array, count, position, 0], &ranges),
        _ => plan(SYS_pwritev, [store, array, count, position, 0], &ranges),
    }
}

fn message(world: &mut World) -> Planned {
    let end = world.prng.below(2) as usize;
    let files = &world.files;
    let socket = [files.streams, files.datagrams, files.packets][world.prng.below(3) as usize][end];
    if world.prng.chance(1, 4) {
        return system_v(world);
    }
    let (array, count, mut ranges) = vectors(world, socket);
    match world.prng.below(6) {
        0..=2 => {
            let header = world.words(&[0, 0, array, count, 0, 0, 0]);
            plan(SYS_sendmsg, [socket, header, 0], &ranges)
        }
        3 => {
            // One descriptor goes along.
            let event = world.files.events;
            let control = world.words(&[20, SOL_SOCKET as u64 | (SCM_RIGHTS as u64) << 32, event]);
            let header = world.words(&[0, 0, array, count, control, 24, 0]);
            plan(SYS_sendmsg, [socket, header, 0], &ranges)
        }
        _ => {
            let control = world.buffer(32);
            let header = world.words(&[0, 0, array, count, control, 32, 0]);
            ranges.push((control, 32));
            ranges.push((header, 56));
            world.close_others();
            plan(SYS_recvmsg, [socket, header, 0], &ranges)
        }
    }
}

fn system_v(world: &mut World) -> Planned {
    let (queue, bytes) = (world.files.queue, world.prng.below(64));
    let start = world.buffer(bytes + 8);
    match world.prng.below(3) {
        0 | 1 if start >= crate::evictor::KEPT && start + 8 <= crate::evictor::KEPT_END => {
            world.put(start, &[1]);
            world.evict_at(start, bytes + 8);
            plan(SYS_msgsnd, [queue, start, bytes, IPC_NOWAIT as u64], &[])
        }
        _ => plan(SYS_msgrcv, [queue, start, 64, 0, IPC_NOWAIT as u64], &[(start, 72)]),
    }
}

fn waiting(world: &mut World) -> Planned {
    let files = [any_file(world), any_file(world)];
    match world.prng.below(7) {
        0 | 1 => {
            let words = files.map(|file| file | (POLLIN as u64 | POLLOUT as u64) << 32);
            let start = world.words(&words);
            plan(SYS_poll, [start, 2, 0], &[(start, 16)])
        }
        2 => {
            let start = world.words(&[files[0] | (POLLIN as u64) << 32]);
            // The signal of these tests stays blocked.
            let (time, mask) = (world.words(&[0, 0]), world.words(&[1 << (SIGUSR1 - 1)]));
            plan(SYS_ppoll, [start, 1, time, mask, 8], &[(start, 8), (time, 16)])
        }
        3 => {
            let [first, second] = files.map(|file| 1_u64 << file);
            let (input, output, other) = (world.words(&[first]), world.words(&[second]), world.buffer(8));
            let time = world.words(&[0, 0]);
            let ranges = [(input, 8), (output, 8), (other, 8)];
            plan(SYS_select, [32, input, output, other, time], &ranges)
        }
        4 | 5 => {
            let event = world.buffer(12);
            let operation = 1 + world.prng.below(3);
            // Any signal of the thread wakes those who wait for a signalfd, a fault of evicted memory too: its place
            // among what is ready would differ.
            let file = if files[0] == world.files.signals { world.files.events } else { files[0] };
            plan(SYS_epoll_ctl, [world.files.epoll, operation, file, event], &[])
        }
        _ => {
            let count = 1 + world.prng.below(6);
            let events = world.buffer(12 * count);
            plan(SYS_epoll_wait, [world.files.epoll, events, count, 0], &[(events, 12 * count)])
        }
    }
}

fn signal(world: &mut World) -> Planned {
    let wanted = 1_u64 << (SIGUSR1 - 1);
    match world.prng.below(6) {
        0 => {
            let old = world.buffer(8);
            plan(SYS_rt_sigprocmask, [SIG_BLOCK as u64, 0, old, 8], &[(old, 8)])
        }
        1 => {
            let blocked = wanted | 1 << world.prng.below(6);
            let (new, old) = (world.words(&[blocked]), world.buffer(8));
            let other = [SIG_BLOCK, SIG_SETMASK][world.prng.below(2) as usize] as u64;
            plan(SYS_rt_sigprocmask, [other, new, old, 8], &[(old, 8)])
        }
        2 => {
            let pending = world.buffer(8);
            plan(SYS_rt_sigpending, [pending, 8], &[(pending, 8)])
        }
        3 => {
            // From nobody, so that it tells the same in both processes.
            let info = world.words(&[SIGUSR1 as u64, 0xffff_ffff, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            let (process, thread) = (raw(SYS_getpid, []) as u64, raw(SYS_gettid, []) as u64);
            plan(SYS_rt_tgsigqueueinfo, [process, thread, SIGUSR1 as u64, info], &[])
        }
        4 => {
            let (set, time) = (world.words(&[wanted]), world.words(&[0, 0]));
            let info = world.buffer(128);
            plan(SYS_rt_sigtimedwait, [set, info, time, 8], &[(info, 128)])
        }
        _ => {
            let old = world.buffer(32);
            plan(SYS_rt_sigaction, [SIGUSR2 as u64, 0, old, 8], &[(old, 32)])
        }
    }
}

fn futex(world: &mut World) -> Planned {
    let private = [0, FUTEX_PRIVATE_FLAG as u64][world.prng.below(2) as usize];
    let (first, second) = (world.buffer(4) & !3, world.buffer(4) & !3);
    match world.prng.below(5) {
        0 => {
            let time = world.words(&[0, 1]);
            plan(SYS_futex, [first, FUTEX_WAIT as u64 | private, 0x1234_5678, time], &[(first, 4)])
        }
        1 => plan(SYS_futex, [first, FUTEX_WAKE as u64 | private, 1], &[]),
        2 => plan(SYS_futex, [first, FUTEX_REQUEUE as u64 | private, 1, 1, second], &[]),
        3 => plan(SYS_futex, [first, FUTEX_CMP_REQUEUE as u64 | private, 1, 1, second, 77], &[]),
        // Adds one to the second word.
        _ => plan(
            SYS_futex,
            [first, FUTEX_WAKE_OP as u64 | private, 1, 1, second, 1 << 28 | 1 << 12],
            &[(second, 4)],
        ),
    }
}

fn time(world: &mut World) -> Planned {
    match world.prng.below(7) {
        0 => {
            let start = world.buffer(16);
            plan(SYS_clock_getres, [1, start], &[(start, 16)])
        }
        1 => {
            let first = world.prng.below(2);
            let (new, old) = (world.words(&[0, 0, 0, first]), world.buffer(32));
            let planned = plan(SYS_timerfd_settime, [world.files.timer, 0, new, old], &[(old, 32)]);
            Planned { arms_timer: first == 1, ..planned }
        }
        2 => {
            let start = world.buffer(32);
            plan(SYS_timerfd_gettime, [world.files.timer, start], &[(start, 32)])
        }
        3 => {
            let (new, old) = (world.words(&[0; 4]), world.buffer(32));
            plan(SYS_setitimer, [0, new, old], &[(old, 32)])
        }
        4 => {
            let start = world.buffer(32);
            plan(SYS_getitimer, [0, start], &[(start, 32)])
        }
        5 => {
            let new = world.words(&[0, 0]);
            plan(SYS_nanosleep, [new, 0], &[])
        }
        _ => {
            let (new, old) = (world.words(&[1 << 20, 1 << 21]), world.buffer(16));
            plan(SYS_prlimit64, [0, RLIMIT_CORE as u64, new, old], &[(old, 16)])
        }
    }
}

fn child(world: &mut World) -> Planned {
    let code = world.prng.below(100);
    let process = raw(SYS_fork, []);
    if process == 0 {
        raw(SYS_exit_group, [code]);
    }
    assert!(process > 0);
    let planned = if world.prng.chance(1, 2) {
        let status = world.buffer(4);
        plan(SYS_wait4, [process as u64, status, 0, 0], &[(status, 4)])
    } else {
        let info = world.buffer(128);
        plan(SYS_waitid, [P_PID as u64, process as u64, info, WEXITED as u64, 0], &[(info, 128)])
            .clearing(&[(info + 16, 4)])
    };
    Planned { answer: Answer::Identifier, ..planned }
}

/// Memory that comes and goes, behind the stretch that nobody keeps.
fn mapping(world: &mut World) -> Planned {
    let spot = crate::world::FOREIGN_END + (1 + world.prng.below(4)) * 4096;
    match world.prng.below(4) {
        0 => plan(
            SYS_mmap,
            [spot, 4096, 3, (MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED) as u64, u64::MAX, 0],
            &[],
        ),
        1 => plan(SYS_munmap, [spot, 4096], &[]),
        2 => plan(SYS_mprotect, [spot, 4096, world.prng.below(4)], &[]),
        _ => plan(SYS_read, [world.files.file, spot, 5000], &[]),
    }
}

fn question(world: &mut World) -> Planned {
    let start = world.buffer(512);
    match world.prng.below(10) {
        0 => plan(SYS_uname, [start], &[(start, 390)]),
        1 => plan(SYS_getcwd, [start, 512], &[(start, 64)]),
        2 => plan(SYS_getresuid, [start, start + 8, start + 16], &[(start, 20)]),
        3 => plan(SYS_sched_getaffinity, [0, 128, start], &[(start, 8)]),
        4 => {
            let path = world.words(&[u64::from_ne_bytes(*b"/proc/se"), u64::from_ne_bytes(*b"lf/exe\0\0")]);
            plan(SYS_readlink, [path, start, 512], &[(start, 16)])
        }
        5 => {
            let path =
                world.words(&[u64::from_ne_bytes(*b"/dev/nul"), u64::from_ne_bytes(*b"l\0\0\0\0\0\0\0")]);
            plan(SYS_stat, [path, start], &[(start, 144)]).clearing(&[(start + 72, 48)])
        }
        6 => plan(SYS_fstat, [world.files.pipe[0], start], &[(start, 144)])
            .clearing(&[(start, 24), (start + 28, 116)]),
        7 => accepted(world, start),
        8 => {
            let length = world.words(&[16]);
            plan(
                SYS_getsockopt,
                [world.files.streams[0], SOL_SOCKET as u64, SO_ERROR as u64, start, length],
                &[(start, 4), (length, 4)],
            )
        }
        _ => {
            let position = world.prng.below(4096);
            let (from, to) = (world.words(&[position]), world.words(&[8192]));
            let file = world.files.file;
            plan(
                SYS_copy_file_range,
                [file, from, file, to, world.prng.below(4000), 0],
                &[(from, 8), (to, 8)],
            )
        }
    }
}

/// A connection to the listener, whose other end is closed at once.
fn accepted(world: &mut World, start: u64) -> Planned {
    world.close_others();
    let (name, length) = ([0_u64; 16], [128_u32]);
    raw(SYS_getsockname, [world.files.listener, name.as_ptr() as u64, length.as_ptr() as u64]);
    let bytes = u64::from(core::hint::black_box(&length)[0]);
    let client = raw(SYS_socket, [AF_UNIX as u64, SOCK_STREAM as u64, 0]) as u64;
    raw(SYS_connect, [client, core::hint::black_box(&name).as_ptr() as u64, bytes]);
    raw(SYS_close, [client]);
    let length = world.words(&[110]);
    plan(SYS_accept, [world.files.listener, start, length], &[(start, 2), (length, 4)])
}
