#!/bin/bash
# Compares uswap with the kernel's swap on zram (lz4) at the same true RAM: resident memory + compressed pool = budget.
#
#   sudo tests/scripts/vs_zram.sh [BUDGET_MIB] [DATA_MIB] [ROUNDS] [SECONDS]      defaults: 256 448 5 8
#
# Under zram the limit of a memory cgroup (v1 or v2) is searched so that limit + mem_used_total of the device is the budget. The
# program is tests/programs/touch with random reads, random writes and passes in order; runs alternate and the medians of the
# rounds are printed with their ratio. Needs root. Leaves no swap device and no cgroup behind, also after Ctrl-C.
# CONTENT=text|mixed|pointers chooses the content (default mixed). ONLY=zram leaves uswap out and needs no uswap binary.
set -euo pipefail
budget_mib=${1:-256}
data_mib=${2:-448}
rounds=${3:-5}
seconds=${4:-8}
content=${CONTENT:-mixed}
only=${ONLY:-both}
here=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$here/../target}
uswap=${USWAP_BIN:-$target/release/uswap}
touch_program=${USWAP_TEST_PROGRAMS:-$target/release}/touch

fail() { echo "vs_zram: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "needs root, for the cgroup and the swap device"
[ -x "$touch_program" ] || fail "$touch_program is missing: cargo build --release -p uswap-test-programs"
[ "$only" = zram ] || [ -x "$uswap" ] || fail "$uswap is missing: cargo build --release, or set USWAP_BIN"
[ -z "$(tail -n +2 /proc/swaps)" ] || fail "this machine already swaps: the figures would mean nothing"

device= ; group= ; reader= ; work=$(mktemp -d)
clean_up() {
    trap - EXIT INT TERM
    [ -z "$reader" ] || kill "$reader" 2>/dev/null || true
    if [ -n "$group" ] && [ -d "$group" ]; then
        kill -9 $(cat "$group/cgroup.procs") 2>/dev/null || true
        for _ in $(seq 50); do [ -n "$(cat "$group/cgroup.procs")" ] || break; sleep 0.1; done
    fi
    if [ -n "$device" ]; then
        swapoff "/dev/zram$device" 2>/dev/null || true
        echo 1 >"/sys/block/zram$device/reset" 2>/dev/null || true
        echo "$device" >/sys/class/zram-control/hot_remove 2>/dev/null || true
    fi
    [ -z "$group" ] || rmdir "$group" 2>/dev/null || { sleep 1; rmdir "$group" 2>/dev/null; } || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# --- the device and the cgroup -----------------------------------------------------------------------------------
[ -e /sys/class/zram-control/hot_add ] || fail "this kernel has no zram"
device=$(cat /sys/class/zram-control/hot_add)
zram=/sys/block/zram$device
grep -qw lz4 "$zram/comp_algorithm" || fail "zram has no lz4 here"
echo lz4 >"$zram/comp_algorithm"
echo "$((data_mib * 2))M" >"$zram/disksize"
for _ in 1 2 3 4 5; do [ -b "/dev/zram$device" ] && break; sleep 0.2; done
mkswap "/dev/zram$device" >/dev/null
swapon -p 100 "/dev/zram$device"

if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
    echo +memory >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null || true
    group=/sys/fs/cgroup/uswap-vs-zram-$$; limit_file=memory.max
elif [ -d /sys/fs/cgroup/memory ]; then
    group=/sys/fs/cgroup/memory/uswap-vs-zram-$$; limit_file=memory.limit_in_bytes
else
    fail "no memory cgroup"
fi
mkdir "$group"
[ -f "$group/$limit_file" ] || fail "$group has no $limit_file"

# The kernel's statistics of the group go stale, and then it kills programs with swap still free: a reader keeps them fresh. That helps zram only.
(while sleep 0.02; do read -r _ <"$group/memory.stat" || exit 0; done) 2>/dev/null &
reader=$!

# Runs its arguments in the cgroup.
in_group() { sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"; }
pool_bytes() { awk '{print $3}' "$zram/mm_stat"; }

# --- the limit at which resident + pool = budget -----------------------------------------------------------------
budget=$((budget_mib << 20)); data=$((data_mib << 20))
limit=$((budget / 2))
for round in 1 2 3 4 5 6; do
    echo "$limit" >"$group/$limit_file"
    sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$touch_program" --bytes "${data_mib}M" \
        --content "$content" --access read --seconds 1 --hold 60 >"$work/search" &
    holder=$!
    while [ ! -s "$work/search" ]; do
        kill -0 "$holder" 2>/dev/null || fail "touch died in a cgroup of $((limit >> 20))M"
        sleep 0.1
    done
    pool=$(pool_bytes)
    # The shell must not report the end that we ask for.
    disown "$holder"
    kill "$holder"
    while [ -n "$(cat "$group/cgroup.procs")" ]; do sleep 0.05; done
    : >"$work/search"
    difference=$((budget - limit - pool))
    echo "search $round: limit $((limit >> 20))M + pool $((pool >> 20))M, budget ${budget_mib}M" >&2
    [ ${difference#-} -le $((budget / 100)) ] && break
    # The pool shrinks by its ratio for each byte that the limit grows.
    limit=$(awk -v limit="$limit" -v difference="$difference" -v pool="$pool" -v data="$data" \
        'BEGIN { ratio = pool / (data - limit); if (ratio > 0.9) ratio = 0.9; printf "%d", limit + difference / (1 - ratio) }')
    [ "$limit" -ge $((8 << 20)) ] || fail "the data does not fit: compressed it needs more than ${budget_mib}M; use less data"
done
[ ${difference#-} -le $((budget / 20)) ] || fail "no limit was found"

# --- the rounds ---------------------------------------------------------------------------------------------------
run_zram() { in_group "$touch_program" --bytes "${data_mib}M" --content "$content" --access "$1" --seconds "$seconds"; }
run_uswap() {
    "$uswap" run --ram "${budget_mib}M" -- "$touch_program" \
        --bytes "${data_mib}M" --content "$content" --access "$1" --seconds "$seconds" 2>>"$work/uswap-stderr"
}
for round in $(seq "$rounds"); do
    for access in read write sequential; do
        order="zram uswap"; [ $((round % 2)) = 1 ] || order="uswap zram"
        [ "$only" = both ] || order=zram
        for kind in $order; do
            "run_$kind" "$access" >>"$work/$kind-$access" || { cat "$work/uswap-stderr" >&2 2>/dev/null; fail "$kind $access failed"; }
        done
    done
    echo "round $round of $rounds done" >&2
done

# The median of field $2 of the JSON lines in file $1.
median() {
    sed -n "s/.*\"$2\":\([0-9]*\).*/\1/p" "$1" | sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'
}
echo "budget ${budget_mib}M, data ${data_mib}M of $content, $rounds rounds of $seconds s, $(uname -r), $(nproc) CPUs, $(date -u +%F)"
printf '%-12s %-8s %12s %12s %8s\n' access figure zram uswap ratio
for access in read write sequential; do
    for figure in mean_ns p50_ns p99_ns p999_ns fill_ns; do
        zram_figure=$(median "$work/zram-$access" $figure)
        uswap_figure=-; ratio=-
        if [ "$only" = both ]; then
            uswap_figure=$(median "$work/uswap-$access" $figure)
            ratio=$(awk -v a="$uswap_figure" -v b="$zram_figure" 'BEGIN { printf "%.2f", a / (b > 0 ? b : 1) }')
        fi
        printf '%-12s %-8s %12s %12s %8s\n' "$access" "$figure" "$zram_figure" "$uswap_figure" "$ratio"
    done
done
