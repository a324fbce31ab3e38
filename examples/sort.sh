#!/bin/sh
# Sorts a file in memory that takes four times the budget, and compares with a sort that uses temporary files.
#
#   examples/sort.sh            256 MiB of lines in 128 MiB
#   MIB=32 RAM=24M examples/sort.sh
set -eu
uswap=${USWAP:-uswap}
mib=${MIB:-256}
ram=${RAM:-128M}
work=$(mktemp -d "${TMPDIR:-/var/tmp}/uswap-sort.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Numbers that are mixed up by multiplying, 40 bytes a line.
awk -v lines=$((mib * 1024 * 1024 / 40)) 'BEGIN {
    for (i = 1; i <= lines; i++) printf "%010.0f line %010d of a large file\n", (i * 7919) % 9999991, i
}' >"$work/lines"

export LC_ALL=C
# `-S` is the memory that sort may take for the lines; a directory for temporary files that is none makes sure that it
# needs no other.
"$uswap" run --ram "$ram" --swap "$work" -- sort -S "$((mib * 3))M" -T "$work/none" -o "$work/sorted" "$work/lines"

sort -S 16M -T "$work" "$work/lines" | cmp - "$work/sorted"
echo "$(wc -l <"$work/sorted") lines are in the same order as without uswap"
