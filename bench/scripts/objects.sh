#!/bin/sh
# objects: Python objects: dicts, lists and strings are built, visited in mixed order, and sorted. The work is
# in objects.py.
#
#   BYTES=N SEED=N WORK=DIRECTORY objects.sh prepare|run
#
# prepare looks whether all that is needed is there; run prints one line of JSON.
set -eu
name=objects modules='hashlib, json, random' package=python3 least=12000000
. "$(dirname "$0")/python.sh"
