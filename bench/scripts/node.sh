#!/bin/sh
# node: an object graph in node.js is built, visited in mixed order, partly replaced, and sorted. The work is in the
# file node.js.
#
#   BYTES=N SEED=N WORK=DIRECTORY node.sh prepare|run
#
# prepare looks whether node is there; run prints one line of JSON.
set -eu
: "${BYTES:?}" "${SEED:?}" "${WORK:?}"

# What node takes beside the records.
machine=16000000
records=$((BYTES - machine))

prepare() {
    command -v node >/dev/null || { echo "node: node is missing: apt install nodejs"; exit 77; }
    [ "$records" -ge 8000000 ] || {
        echo "BYTES=$BYTES is too small for node: give at least $((machine + 8000000))" >&2
        exit 1
    }
}

run() {
    # The spaces of the heap have fixed limits: by themselves they would follow the RAM of the machine.
    exec node --max-semi-space-size=2 --single-threaded-gc --max-old-space-size="$((records / 1000000 * 2))" \
        "$(dirname "$0")/node.js" "$records" "$SEED"
}

case ${1-} in
prepare | run) "$1" ;;
*) echo "usage: node.sh prepare|run" >&2; exit 2 ;;
esac
