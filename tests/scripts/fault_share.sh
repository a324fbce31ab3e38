#!/bin/bash
# Where the time of the threads that serve faults goes: samples their stacks while `touch` reads at random, and prints
# the share of each step.
#
#   sudo tests/scripts/fault_share.sh [BUDGET_MIB] [DATA_MIB] [SECONDS]      defaults: 128 224 5
#
# Needs perf and root. Only time on a processor is seen: waiting for the disk, and for another processor
# to wake up, is not.
set -euo pipefail
budget_mib=${1:-128}
data_mib=${2:-224}
seconds=${3:-5}
here=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$here/../target}
uswap=${USWAP_BIN:-$target/release/uswap}
touch_program=${USWAP_TEST_PROGRAMS:-$target/release}/touch

fail() { echo "fault_share: $*" >&2; exit 1; }
command -v perf >/dev/null || fail "perf is missing (Debian: linux-perf)"
[ -x "$uswap" ] || fail "$uswap is missing: cargo xtask build, or set USWAP_BIN"
[ -x "$touch_program" ] || fail "$touch_program is missing: cargo build --release -p uswap-test-programs"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

perf record -q -o "$work/data" -e cpu-clock -F 5000 -a -g -- \
    "$uswap" run --ram "${budget_mib}M" -- "$touch_program" --bytes "${data_mib}M" --content mixed --access read \
    --seconds "$seconds" >"$work/out" 2>"$work/report" || fail "perf failed: $(cat "$work/report")"
grep -E 'faults|staged  |same-filled  |pool  |file  ' "$work/report"
perf script -i "$work/data" --comms uswap-handler -F ip,sym 2>/dev/null | awk '
    BEGIN { RS = "" }
    {
        total++
        if (/store_oldest|stage_some|stage_chunk/) step["direct reclaim"]++
        else if (/lz4::decompress/) step["decompress (LZ4)"]++
        else if (/Pool::read/) step["copy the blob out of the pool"]++
        else if (/xxh3|codec::hash/) step["check the hash"]++
        else if (/read_swap_file|ksys_pread|do_preadv|x64_sys_pread/) step["read the file"]++
        else if (/try_to_wake_up|__wake_userfault|userfaultfd_wake/) step["wake the thread of the program"]++
        else if (/userfaultfd_ioctl|mfill_atomic/) step["fill the page (COPY, MOVE)"]++
        else if (/userfaultfd_read/) step["read the message"]++
        else if (/do_sys_poll|do_poll|sys_ppoll/) step["wait for the next message: poll and switch"]++
        else if (/entry_SYSCALL|do_syscall_64/) step["other system calls"]++
        else step["engine: words, gate, clocks, the rest"]++
    }
    END { for (name in step) printf "%6.1f %%  %s\n", 100 * step[name] / total, name }' | sort -rn
