#!/bin/sh
# A redis server with about twice as much data as RAM. Fills it, looks at it with `uswap stat`, and reads values back.
#
#   examples/redis.sh           200 MB of values in 128 MiB
#   COUNT=40000 RAM=24M examples/redis.sh
set -eu
uswap=${USWAP:-uswap}
count=${COUNT:-200000}
ram=${RAM:-128M}
work=$(mktemp -d "${TMPDIR:-/var/tmp}/uswap-redis.XXXXXX")
socket=$work/redis.sock
trap 'kill "$run" 2>/dev/null || true; wait "$run" 2>/dev/null || true; rm -rf "$work"' EXIT

"$uswap" run --ram "$ram" --swap "$work" -- redis-server --port 0 --unixsocket "$socket" --dir "$work" --save '' \
    --logfile "$work/log" &
run=$!
until redis-cli -s "$socket" PING >/dev/null 2>&1; do
    kill -0 "$run"
    sleep 0.1
done

# Values of 1000 bytes that say to which key they belong.
values() {
    awk -v count="$count" 'BEGIN {
        for (i = 0; i < count; i++) {
            value = ""
            for (j = 0; length(value) < 1000; j++)
                value = value sprintf("%d of key %d, %x; ", j, i, (i + j) * 48271 % 65521)
            printf "SET key:%d \"%s\"\r\n", i, value
        }
    }'
}
values | redis-cli -s "$socket" --pipe

"$uswap" stat "$run"

# Each 97th value, compared with what was sent.
wanted() { values | awk 'NR % 97 == 1' | sed 's/^SET key:[0-9]* "\(.*\)"\r$/\1/'; }
found() { seq 0 97 $((count - 1)) | sed 's/^/GET key:/' | redis-cli -s "$socket"; }
wanted >"$work/wanted"
found >"$work/found"
cmp "$work/wanted" "$work/found"
echo "$(wc -l <"$work/found") values of $(redis-cli -s "$socket" DBSIZE) are as they were sent"
redis-cli -s "$socket" SHUTDOWN NOSAVE
wait "$run"
