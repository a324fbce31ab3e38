#!/bin/sh
# dataframe: a pandas table is sorted by three columns, and grouped twice. The work is in dataframe.py.
#
#   BYTES=N SEED=N WORK=DIRECTORY dataframe.sh prepare|run
#
# prepare looks whether all that is needed is there; run prints one line of JSON.
set -eu
name=dataframe modules='numpy, pandas' package=python3-pandas least=50000000
. "$(dirname "$0")/python.sh"
