#!/bin/sh
# disk_bytes: bytes written to the disk for each page that was evicted, by uswap and by the kernel's zswap with writeback, on the same content with pools of the same size.
#
#   disk_bytes.sh USWAP DIRECTORY [BYTES]        with zswap's shrinker off, then on; one of them: SHRINKERS=N or Y
#
# zswap's pool cannot be smaller than 1 % of the machine's RAM, so that is the size of both; BYTES (default: four times that) of the bench's mixed pages are written and then accessed at random for some seconds. A page
# counts as evicted each time it leaves RAM for the pool or the disk. Needs root, and no other swap in use. All that is changed is put back, also after Ctrl-C.
set -eu
USWAP=${1:?the uswap command} DIRECTORY=${2:?a directory on a disk}
POOL=$(awk '/^MemTotal:/ { print int($2 * 1024 / 100) }' /proc/meminfo)
BYTES=${3:-$((POOL * 4))}
RESIDENT=$((POOL / 2))
ZSWAP=/sys/module/zswap/parameters
SWAP=$DIRECTORY/disk_bytes.swap
GROUP=
WORK="$USWAP workload pmbench --bytes $BYTES --pattern uniform --reads 80 --seconds 3"

[ "$(wc -l < /proc/swaps)" = 1 ] || { echo "disk_bytes: another swap device is in use"; exit 77; }
COMPRESSOR=$(cat $ZSWAP/compressor) ENABLED=$(cat $ZSWAP/enabled) PERCENT=$(cat $ZSWAP/max_pool_percent)
SHRINKER=$(cat $ZSWAP/shrinker_enabled) CLUSTER=$(cat /proc/sys/vm/page-cluster)

put_back() {
    swapoff "$SWAP" 2>/dev/null || true
    rm -f "$SWAP" "$DIRECTORY/disk_bytes.json"
    [ -z "$GROUP" ] || rmdir "$GROUP"
    echo "$ENABLED" > $ZSWAP/enabled
    echo "$COMPRESSOR" > $ZSWAP/compressor
    echo "$PERCENT" > $ZSWAP/max_pool_percent
    echo "$SHRINKER" > $ZSWAP/shrinker_enabled
    echo "$CLUSTER" > /proc/sys/vm/page-cluster
}
trap put_back EXIT
trap 'exit 1' INT TERM

count() { awk -v name="$1" '$1 == name { print $2 }' /proc/vmstat; }

kernel() {
    fallocate -l "$((2 * BYTES))" "$SWAP"
    chmod 600 "$SWAP"
    mkswap "$SWAP" > /dev/null
    # As `uswap bench`: the best that this kernel has.
    for compressor in lz4 lzo-rle lzo; do
        sh -c 'echo "$0" > "$1"' $compressor $ZSWAP/compressor 2> /dev/null && break
    done
    echo 1 > $ZSWAP/max_pool_percent
    echo "$1" > $ZSWAP/shrinker_enabled
    echo Y > $ZSWAP/enabled
    echo 0 > /proc/sys/vm/page-cluster
    swapon "$SWAP"
    if [ -e /sys/fs/cgroup/memory/memory.limit_in_bytes ]; then
        GROUP=/sys/fs/cgroup/memory/disk_bytes LIMIT=memory.limit_in_bytes
    else
        GROUP=/sys/fs/cgroup/disk_bytes LIMIT=memory.max
    fi
    mkdir "$GROUP"
    echo "$RESIDENT" > "$GROUP/$LIMIT"
    stored=$(count zswpout) back=$(count zswpwb) out=$(count pswpout)
    sh -c 'echo $$ > "$0"/cgroup.procs && exec "$@"' "$GROUP" $WORK > /dev/null
    stored=$(($(count zswpout) - stored)) back=$(($(count zswpwb) - back)) out=$(($(count pswpout) - out))
    line "zswap, shrinker $1, $(cat $ZSWAP/compressor)" $((stored + out - back)) $((out * 4096)) $out
    rmdir "$GROUP"
    GROUP=
    swapoff "$SWAP"
    rm "$SWAP"
}

field() { sed -n "s/^ *\"$1\": \([0-9]*\),*$/\1/p" "$DIRECTORY/disk_bytes.json" | head -1; }

# With and without the pages that were dropped because a stored copy was still good: the kernel's zswap keeps none.
ours() {
    "$USWAP" run -q --ram $((RESIDENT + POOL)) --pool $((POOL * 100 / (RESIDENT + POOL)))% --swap "$DIRECTORY" \
        --json "$DIRECTORY/disk_bytes.json" -- $WORK > /dev/null
    stored=$(($(field pages_compressed) + $(field pages_incompressible) + $(field pages_same_filled)))
    line "uswap, pages stored alone" $stored "$(field written_bytes)" "$(field pages_written)"
    line "uswap" $((stored + $(field pages_unchanged))) "$(field written_bytes)" "$(field pages_written)"
}

line() {
    awk -v name="$1" -v evicted="$2" -v bytes="$3" -v pages="$4" 'BEGIN {
        printf "%-28s %9d pages evicted, %8d written to the disk, %5d MiB, %5d bytes a page written, %6.1f bytes a page evicted\n",
            name, evicted, pages, bytes / 1048576, pages ? bytes / pages : 0, evicted ? bytes / evicted : 0 }'
}

echo "pool $((POOL >> 20)) MiB, resident $((RESIDENT >> 20)) MiB, data $((BYTES >> 20)) MiB"
ours
for shrinker in ${SHRINKERS:-N Y}; do
    kernel "$shrinker"
done
