#!/bin/sh
# dataframe: a pandas table is sorted by three columns, and grouped twice. The work is in dataframe.py.
#
#   BYTES=N SEED=N WORK=DIRECTORY dataframe.sh prepare|run
#
# prepare looks whether all that is needed is there; run prints one line of JSON.
set -eu
: "${BYTES:?}" "${SEED:?}" "${WORK:?}"
python=/usr/bin/python3

prepare() {
    "$python" -c 'import numpy, pandas' 2>/dev/null || {
        echo "dataframe: $python cannot do 'import numpy, pandas': apt install python3-pandas"
        exit 77
    }
    [ "$BYTES" -ge 50000000 ] || { echo "BYTES=$BYTES is too small for dataframe: give at least 50 million" >&2; exit 1; }
}

run() {
    # The order of sets and the hashes of strings are the same in every run; libraries start no threads of their own.
    PYTHONHASHSEED=0 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 exec "$python" "$(dirname "$0")/dataframe.py" "$BYTES" "$SEED"
}

case ${1-} in
prepare | run) "$1" ;;
*) echo "usage: dataframe.sh prepare|run" >&2; exit 2 ;;
esac
