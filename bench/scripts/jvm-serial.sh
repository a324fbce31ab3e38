#!/bin/sh
# jvm-serial: a Java program whose heap is collected by Serial: a map of records is filled, and records are replaced.
# The work is in Collected.java.
#
#   BYTES=N SEED=N WORK=DIRECTORY jvm-serial.sh prepare|run
#
# prepare compiles the program; run prints one line of JSON. The checksum is that of all records at the end.
set -eu
name=jvm-serial collector=Serial machine=23000000
. "$(dirname "$0")/jvm.sh"
