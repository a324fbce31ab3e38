#!/bin/sh
# objects: Python objects: dicts, lists and strings are built, visited in mixed order, and sorted. The work is in objects.py.
#
#   BYTES=N SEED=N WORK=DIRECTORY objects.sh prepare|run
#
# prepare looks whether all that is needed is there; run prints one line of JSON.
set -eu
: "${BYTES:?}" "${SEED:?}" "${WORK:?}"
python=/usr/bin/python3

prepare() {
    "$python" -c 'import hashlib, json, random' 2>/dev/null || {
        echo "objects: $python cannot do 'import hashlib, json, random': apt install python3"
        exit 77
    }
    [ "$BYTES" -ge 12000000 ] || { echo "BYTES=$BYTES is too small for objects: give at least 12 million" >&2; exit 1; }
}

run() {
    # The order of sets and the hashes of strings are the same in every run; libraries start no threads of their own.
    PYTHONHASHSEED=0 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 exec "$python" "$(dirname "$0")/objects.py" "$BYTES" "$SEED"
}

case ${1-} in
prepare | run) "$1" ;;
*) echo "usage: objects.sh prepare|run" >&2; exit 2 ;;
esac
