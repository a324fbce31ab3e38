//! Programs that lock memory: they get the same answers as without uswap, what they lock is in RAM,
//! and nothing of uswap's own is locked or filled with it.

use rustix::process::{Resource, geteuid, getrlimit};
use std::time::Duration;
use uswap_tests::{MIB, Run, program, shared_turn, skip, uswap_binary};

/// Two runs of the same process differ by so much of what is locked: the stack begins with the
/// environment, and libraries have a heap.
const NEAR_KIB: i64 = 512;

/// Less than any of uswap's own mappings, beside what a small run needs.
const OWN_MIB_MAX: u64 = 24;

struct Expected {
    ram_mib: u64,
    /// Of all that the program maps.
    peak_mib_max: u64,
    told: Told,
}

/// Whether the user is told that memory is locked.
enum Told {
    Once,
    Never,
    /// If the program lives until uswap looks for it.
    Later,
}

/// More than any of these programs locks.
const LOCKED_MIB_MAX: u64 = 256;

/// Whether the limits of this user let a program lock all that it wants. One that sets a limit needs none.
fn may_lock(steps: &str) -> bool {
    let enough = LOCKED_MIB_MAX * MIB;
    let limit = getrlimit(Resource::Memlock).current;
    let may = steps.starts_with("limit:") || geteuid().is_root() || limit.is_none_or(|bytes| bytes >= enough);
    if !may {
        skip(&format!("no more than {} KiB may be locked (ulimit -l)", limit.unwrap_or(0) / 1024));
    }
    may
}

/// The lines of a run without uswap and with it: all equal, and numbers of what is locked nearly.
fn same_as_without(steps: &str, expected: &Expected) {
    let _turn = shared_turn();
    if !may_lock(steps) {
        return;
    }
    let run = || Run::plain(program("locks")).args(steps.split(' ')).timeout(Duration::from_secs(240));
    let plain = run().finish();
    plain.must_succeed();
    let outcome = run().uswap(expected.ram_mib, &[]).finish();
    outcome.must_succeed();
    let (with, without): (Vec<_>, Vec<_>) =
        (outcome.stdout.lines().collect(), plain.stdout.lines().collect());
    assert_eq!(with.len(), without.len(), "{steps}\n{}\n{}", outcome.stdout, plain.stdout);
    for (with, without) in with.iter().zip(&without) {
        let number = |line: &str, name: &str| line.strip_prefix(name)?.trim().parse::<i64>().ok();
        let both = ["locked:", "settled:"]
            .iter()
            .find_map(|name| Some((number(with, name)?, number(without, name)?)));
        match both {
            Some((with, without)) => assert!(
                (with - without).abs() <= NEAR_KIB,
                "{steps}: {with} KiB are locked, and {without} without uswap\n{}",
                outcome.stderr
            ),
            None => assert_eq!(with, without, "{steps}\n{}", outcome.stderr),
        }
    }
    if uswap_binary().is_none() {
        return;
    }
    let peak_mib = outcome.samples.peak_bytes >> 20;
    assert!(peak_mib <= expected.peak_mib_max + OWN_MIB_MAX, "{steps}: {peak_mib} MiB\n{}", outcome.stderr);
    let told = outcome.stderr.matches("locks memory (mlock, mlockall)").count();
    // Once when it is seen, and once in the closing report.
    let right = match expected.told {
        Told::Once => told == 2,
        Told::Never => told == 0,
        Told::Later => matches!(told, 0 | 2),
    };
    assert!(right, "{steps}: {told} times\n{}", outcome.stderr);
}

/// 120 MiB in 60 of which half has left RAM when the program locks; then all that is locked is
/// there.
fn under_pressure(flags: u32, absent: &str) {
    let steps = format!("fill:120 verify all:{flags} {absent}locked verify locked none locked verify");
    same_as_without(&steps, &Expected { ram_mib: 60, peak_mib_max: 140, told: Told::Once });
}

#[test]
fn locked_all_under_pressure() {
    under_pressure(1, "absent ");
}

#[test]
fn locked_all_now_and_later_under_pressure() {
    under_pressure(3, "absent ");
}

/// What is away stays away until it is touched.
#[test]
fn locked_on_fault_under_pressure() {
    under_pressure(5, "");
}

#[test]
fn locked_on_fault_now_and_later_under_pressure() {
    under_pressure(7, "");
}

/// Locked at the beginning: what comes later is as the flags say.
fn early(flags: u32) {
    let steps = format!("all:{flags} locked fill:120 locked verify locked");
    let is_locked = flags & 2 != 0;
    let peak_mib_max = if is_locked { 125 } else { 64 };
    let told = if is_locked { Told::Later } else { Told::Never };
    same_as_without(&steps, &Expected { ram_mib: 60, peak_mib_max, told });
}

#[test]
fn locked_at_the_beginning() {
    early(1);
}

#[test]
fn locked_for_the_future() {
    early(2);
}

#[test]
fn locked_at_the_beginning_and_for_the_future() {
    early(3);
}

#[test]
fn locked_on_fault_for_the_future() {
    early(6);
}

#[test]
fn locked_on_fault_at_the_beginning_and_for_the_future() {
    early(7);
}

/// In a budget of which a third is enough for what is locked on top, it ends.
#[test]
fn locked_all_far_over_the_budget() {
    let steps = "fill:120 all:3 absent fill:60 absent verify locked none";
    same_as_without(steps, &Expected { ram_mib: 45, peak_mib_max: 200, told: Told::Once });
}

/// Locked, unlocked and locked again, with memory that is managed from when it is unlocked on.
#[test]
fn locked_in_any_order() {
    let steps = "all:2 none fill:60 all:1 absent fill:60 verify none verify all:3 absent locked all:1 locked \
        all:6 locked none locked verify all:0 all:4 all:8";
    same_as_without(steps, &Expected { ram_mib: 40, peak_mib_max: 140, told: Told::Once });
}

#[test]
fn locked_ranges() {
    let steps = "fill:60 fill:60 lock absent locked unlock locked lock-on-fault locked verify absent unlock locked \
        verify";
    same_as_without(steps, &Expected { ram_mib: 40, peak_mib_max: 130, told: Told::Once });
}

/// A small limit of locked memory: ours are not counted against it, neither those that are there
/// nor those that come.
#[test]
fn locked_within_a_limit() {
    let steps = "limit:8000 all:1 locked all:2 locked map:4 map:20 none all:3 locked none fill:60 all:1 all:3 all:5 \
        lock verify locked";
    same_as_without(steps, &Expected { ram_mib: 30, peak_mib_max: 80, told: Told::Never });
}

#[test]
fn locked_without_the_right_to() {
    let steps = "limit:0 fill:60 all:1 all:2 all:7 lock lock-on-fault verify none locked all:9";
    same_as_without(steps, &Expected { ram_mib: 30, peak_mib_max: 40, told: Told::Never });
}

/// Locks are not inherited.
#[test]
fn locked_in_a_parent() {
    let steps = "fill:60 all:3 locked fork locked fill:30 verify locked all:3 absent locked";
    same_as_without(steps, &Expected { ram_mib: 40, peak_mib_max: 170, told: Told::Once });
}

#[test]
fn locked_before_exec() {
    let steps = "fill:60 all:3 locked exec locked fill:60 locked verify all:1 absent locked";
    same_as_without(steps, &Expected { ram_mib: 40, peak_mib_max: 70, told: Told::Once });
}

/// The same without libc, which uswap does not see: ours are not filled either, and unlocked soon.
#[test]
fn locked_by_system_call_under_pressure() {
    let steps = "fill:120 verify raw:1 absent settled verify none locked";
    same_as_without(steps, &Expected { ram_mib: 60, peak_mib_max: 140, told: Told::Once });
}

#[test]
fn locked_by_system_call_again_and_again() {
    let steps =
        "fill:120 verify raw:3 absent none raw:1 absent none raw:7 none verify raw:3 settled fill:30 verify";
    same_as_without(steps, &Expected { ram_mib: 60, peak_mib_max: 170, told: Told::Once });
}

#[test]
fn locked_by_system_call_for_the_future() {
    let steps = "raw:2 settled fill:120 verify settled";
    same_as_without(steps, &Expected { ram_mib: 60, peak_mib_max: 125, told: Told::Later });
}
