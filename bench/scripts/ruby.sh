#!/bin/sh
# ruby: an object graph in Ruby is built, visited in mixed order, partly replaced, and sorted. The work is in ruby.rb.
#
#   BYTES=N SEED=N WORK=DIRECTORY ruby.sh prepare|run
#
# prepare looks whether ruby is there; run prints one line of JSON.
set -eu
: "${BYTES:?}" "${SEED:?}" "${WORK:?}"

# What ruby takes beside the records.
machine=12000000
records=$((BYTES - machine))

prepare() {
    command -v ruby >/dev/null || { echo "ruby: ruby is missing: apt install ruby"; exit 77; }
    [ "$records" -ge 4000000 ] || {
        echo "BYTES=$BYTES is too small for ruby: give at least $((machine + 4000000))" >&2
        exit 1
    }
}

run() {
    # Its heap grows by a twentieth at most, so that little of it is free at its highest.
    export RUBY_GC_HEAP_GROWTH_MAX_SLOTS=$((records / 1200))
    exec ruby --disable=gems,did_you_mean "$(dirname "$0")/ruby.rb" "$records" "$SEED"
}

case ${1-} in
prepare | run) "$1" ;;
*) echo "usage: ruby.sh prepare|run" >&2; exit 2 ;;
esac
