#!/bin/sh
# jvm-g1: a Java program whose heap is collected by G1: a map of records is filled, and records are replaced.
# The work is in Collected.java.
#
#   BYTES=N SEED=N WORK=DIRECTORY jvm-g1.sh prepare|run
#
# prepare compiles the program; run prints one line of JSON. The checksum is that of all records at the end.
set -eu
name=jvm-g1 collector=G1 machine=25000000
. "$(dirname "$0")/jvm.sh"
