#!/bin/sh
# Adds what uswap calls to a seccomp profile of Docker, Podman or containerd. The engine's own is named default.json or
# seccomp.json in its sources and packages.
#
#   add.sh default.json >uswap.json
set -eu
[ $# -eq 1 ] || { echo "usage: add.sh PROFILE >uswap.json" >&2; exit 2; }
exec jq --slurpfile added "$(dirname -- "$0")/uswap-syscalls.json" '.syscalls += $added' -- "$1"
