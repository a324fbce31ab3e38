//! Rows of System V and POSIX messages, semaphores and shared memory, and of futexes.
//!
//! Must hold: a message that was taken out of a queue is gone: calls that receive are marked as consuming. Of a futex
//! only the word that the kernel reads or writes is named. Called by [`crate::table`], which puts the rows in order.

use super::row::Length::{Arg, Bytes, Elements};
use super::row::{Row, rows, sized};
use super::walk::{Access, Stop, Walk, field, field32};
use linux_raw_sys::general::*;

const TIME: super::row::Length = Bytes(16);
/// A `sembuf`; a `mq_attr`.
const OPERATION: u32 = 6;
const QUEUE: super::row::Length = Bytes(64);

pub(super) const ROWS: &[Row] = rows! {
    __NR_semget;
    __NR_semop.reads(1, Elements(2, OPERATION));
    __NR_semtimedop.reads(1, Elements(2, OPERATION)).reads(3, TIME);
    __NR_semctl.walks(semaphores);
    __NR_shmget;
    __NR_shmctl.walks(shared_memory);
    __NR_msgget;
    __NR_msgsnd.walks(message_sent);
    __NR_msgrcv.walks(message_received).consumes();
    __NR_msgctl.walks(message_queue);

    __NR_mq_open.path(0).reads(3, QUEUE);
    __NR_mq_unlink.path(0);
    __NR_mq_timedsend.reads(1, Arg(2)).reads(4, TIME);
    __NR_mq_timedreceive.writes(1, Arg(2)).writes(3, Bytes(4)).reads(4, TIME).consumes();
    __NR_mq_notify.reads(1, sized::<sigevent>()).walks(notified);
    __NR_mq_getsetattr.reads(1, QUEUE).writes(2, QUEUE).applied();

    __NR_futex.walks(futex);
    __NR_futex_wait.walks(slept).reads(4, TIME);
    __NR_futex_wake.walks(woken);
    __NR_futex_waitv.reads(0, Elements(1, WAITER)).reads(3, TIME).walks(waited);
    __NR_futex_requeue.reads(0, Bytes(2 * WAITER)).walks(requeued);
};

/// Commands of the System V calls: the flag for 64 bits is ignored on x86-64.
const IPC_SET: u32 = 1;
const IPC_STAT: u32 = 2;
const IPC_INFO: u32 = 3;

/// `semctl`: the union is the fourth argument.
fn semaphores(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let pointer = walk.arg(3);
    match walk.arg32(2) & !0x100 {
        IPC_SET => walk.reads(pointer, 104),
        IPC_STAT | 18 | 20 => walk.writes(pointer, 104),
        IPC_INFO | 19 => walk.writes(pointer, 40),
        // GETALL and SETALL: the number of semaphores is known to the kernel alone; at most 32,000, in two bytes.
        13 => walk.writes(pointer, SEMAPHORES_BYTES),
        17 => walk.reads(pointer, SEMAPHORES_BYTES),
        _ => {}
    }
    Ok(())
}

/// 32,000 semaphores a set, the most by default.
const SEMAPHORES_BYTES: u64 = 64_000;

fn shared_memory(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let pointer = walk.arg(2);
    match walk.arg32(1) & !0x100 {
        IPC_SET => walk.reads(pointer, 112),
        IPC_STAT | 13 | 15 => walk.writes(pointer, 112),
        IPC_INFO => walk.writes(pointer, 72),
        14 => walk.writes(pointer, 48),
        _ => {}
    }
    Ok(())
}

fn message_queue(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let pointer = walk.arg(2);
    match walk.arg32(1) & !0x100 {
        IPC_SET => walk.reads(pointer, 120),
        IPC_STAT | 11 | 13 => walk.writes(pointer, 120),
        IPC_INFO | 12 => walk.writes(pointer, 32),
        _ => {}
    }
    Ok(())
}

/// A message has its type, of eight bytes, in front of its text.
fn message_sent(walk: &mut Walk<'_>) -> Result<(), Stop> {
    walk.reads(walk.arg(1), walk.arg(2).saturating_add(8));
    Ok(())
}

fn message_received(walk: &mut Walk<'_>) -> Result<(), Stop> {
    walk.writes(walk.arg(1), walk.arg(2).saturating_add(8));
    Ok(())
}

/// `mq_notify` by a thread: the value points to 32 bytes that come back with the notice.
fn notified(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let event = walk.load::<16>(walk.arg(1))?;
    if field32(&event, 12) == SIGEV_THREAD {
        walk.reads(field(&event, 0), 32);
    }
    Ok(())
}

/// `futex` by operation. A private wake looks at no memory. A shared futex is found by its page, which must be
/// writable for that if it is anonymous, whatever the operation does with the word.
fn futex(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let operation = walk.arg32(1);
    let is_shared = operation & FUTEX_PRIVATE_FLAG == 0;
    let found = if is_shared { Access::ReadWrite } else { Access::Read };
    let (first, second, time) = (walk.arg(0), walk.arg(4), walk.arg(3));
    match operation & !(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME) {
        FUTEX_WAIT | FUTEX_WAIT_BITSET => {
            walk.touch(first, 4, found);
            walk.reads(time, 16);
        }
        FUTEX_WAKE | FUTEX_WAKE_BITSET if is_shared => walk.updates(first, 4),
        FUTEX_REQUEUE if is_shared => {
            walk.updates(first, 4);
            walk.updates(second, 4);
        }
        FUTEX_CMP_REQUEUE => {
            walk.touch(first, 4, found);
            if is_shared {
                walk.updates(second, 4);
            }
        }
        FUTEX_WAKE_OP => {
            if is_shared {
                walk.updates(first, 4);
            }
            walk.updates(second, 4);
        }
        FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => {
            walk.updates(first, 4);
            walk.reads(time, 16);
        }
        FUTEX_TRYLOCK_PI | FUTEX_UNLOCK_PI => walk.updates(first, 4),
        FUTEX_WAIT_REQUEUE_PI => {
            walk.touch(first, 4, found);
            walk.reads(time, 16);
            walk.updates(second, 4);
        }
        FUTEX_CMP_REQUEUE_PI => {
            walk.touch(first, 4, found);
            walk.updates(second, 4);
        }
        _ => {}
    }
    Ok(())
}

/// The new calls say private by the same bit, in flags that also hold the size.
const PRIVATE: u32 = FUTEX_PRIVATE_FLAG;
/// `FUTEX2_NUMA`: the word behind the futex names a node. The kernel looks at it in each call, and writes it if it
/// names none.
const WITH_NODE: u32 = 4;

/// The word of a futex that the kernel looks at.
fn looked_at(walk: &mut Walk<'_>, address: u64, flags: u32) {
    let is_only_read = flags & (PRIVATE | WITH_NODE) == PRIVATE;
    let bytes = if flags & WITH_NODE == 0 { 4 } else { 8 };
    walk.touch(address, bytes, if is_only_read { Access::Read } else { Access::ReadWrite });
}

fn woken(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let flags = walk.arg32(3);
    if flags & (PRIVATE | WITH_NODE) != PRIVATE {
        looked_at(walk, walk.arg(0), flags);
    }
    Ok(())
}

fn slept(walk: &mut Walk<'_>) -> Result<(), Stop> {
    looked_at(walk, walk.arg(0), walk.arg32(3));
    Ok(())
}

/// Bytes of a `futex_waitv`: value, address, flags, nothing.
const WAITER: u32 = 24;

fn waited(walk: &mut Walk<'_>) -> Result<(), Stop> {
    waiters(walk, u64::from(walk.arg32(1)).min(128))
}

fn requeued(walk: &mut Walk<'_>) -> Result<(), Stop> {
    waiters(walk, 2)
}

fn waiters(walk: &mut Walk<'_>, count: u64) -> Result<(), Stop> {
    for index in 0..count {
        let start = walk.arg(0).wrapping_add(index * u64::from(WAITER));
        let waiter = walk.load_as::<{ WAITER as usize }>(start, Access::Read)?;
        looked_at(walk, field(&waiter, 8), field32(&waiter, 16));
    }
    Ok(())
}
