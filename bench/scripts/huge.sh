#!/bin/sh
# huge: a program that asks for huge pages (touch of the tests) fills BYTES and reads them twice in order. With BESIDE=yes a build and a redis-server that is read run beside it all the time, in the same budget.
#
#   BYTES=N WORK=DIRECTORY TOUCH=PROGRAM [BESIDE=yes] huge.sh prepare|run
#
# prepare writes what the others work on; run prints the line of touch, the most memory that was in huge pages (AnonHugePages of its smaps), and how often the others went round.
set -eu
: "${BYTES:?}" "${WORK:?}" "${TOUCH:?}"
here=$(cd "$(dirname "$0")" && pwd)
export SEED=1 THREADS=2 RUN_S=1

build() { BYTES=50000000 WORK=$WORK/one sh "$here/build.sh" "$1"; }
redis() { BYTES=67108864 WORK=$WORK/two sh "$here/redis.sh" "$1"; }

prepare() {
    mkdir -p "$WORK/one" "$WORK/two"
    build prepare
    redis prepare
}

# Until the program has ended.
again() {
    : >"$WORK/$1.rounds"
    while [ -e "$WORK/goes-on" ]; do
        "$1" run >>"$WORK/$1.rounds" || exit 1
    done
}

run() {
    : >"$WORK/goes-on"
    rm -f "$WORK"/*.rounds
    if [ "${BESIDE-}" = yes ]; then
        again build &
        again redis &
        # The server is filled, and compilers have begun.
        sleep 3
    fi
    "$TOUCH" --bytes "$BYTES" --content mixed --huge yes --access sequential --count "$((BYTES / 4096 * 2))" >"$WORK/touch.out" &
    touch_pid=$!
    most=0
    while kill -0 "$touch_pid" 2>/dev/null; do
        now=$(awk '$1 == "AnonHugePages:" { print $2 }' "/proc/$touch_pid/smaps_rollup" 2>/dev/null || echo 0)
        [ "${now:-0}" -gt "$most" ] && most=$now
        sleep 0.2
    done
    rm "$WORK/goes-on"
    wait
    cat "$WORK/touch.out"
    echo "{\"huge_kib_max\":$most}"
    for other in build redis; do
        [ -e "$WORK/$other.rounds" ] || continue
        ! grep FAIL "$WORK/$other.rounds" || exit 1
        echo "{\"$other\":$(wc -l <"$WORK/$other.rounds")}"
    done
}

case ${1-} in
prepare | run) "$1" ;;
*) echo "usage: huge.sh prepare|run" >&2; exit 2 ;;
esac
