#!/bin/sh
# redis: redis-server with JSON-like values of about 1000 bytes, read by redis-benchmark at random keys: one
# request at a time and 32, at rest and while the server forks to save itself.
#
#   BYTES=N SEED=N WORK=DIRECTORY RUN_S=N redis.sh prepare|run
#
# prepare writes the commands that fill the server; run starts it, fills it, reads, compares some values with what was
# written, and prints one line of JSON. Each of the four phases takes about RUN_S seconds, at most 10. The checksum is
# that of the compared values.
set -eu
: "${BYTES:?}" "${SEED:?}" "${WORK:?}" "${RUN_S:?}"
socket=$WORK/redis.sock
clients=8

need() {
    command -v "$1" >/dev/null && return
    echo "redis: $1 is missing: apt install $2"
    exit 77
}
fail() {
    echo "FAIL $1"
    exit 1
}

# What failed in a part of its own has been said there.
fail_again() {
    echo "$1"
    exit 1
}

# Values that the server can hold in BYTES: each takes about 1190 bytes with its key and its place in the table.
count=$(((BYTES - 6000000) / 1190))

prepare() {
    need redis-server redis-server
    need redis-cli redis-tools
    need redis-benchmark redis-tools
    need awk mawk
    [ "$count" -ge 1000 ] || fail "BYTES=$BYTES is too small for redis: give at least 8 million"
    # Every 997th value is compared at the end.
    awk -v seed="$SEED" -v count="$count" -v get="$WORK/get" -v expected="$WORK/expected" '
        # Numbers below 2^46 are exact in every awk, which its own rand() is not.
        function draw(bound) { state = (state * 16807) % 2147483647; return state % bound }
        BEGIN {
            state = seed % 2147483646 + 1
            words = split("amber basket candle dragon engine forest guitar harbor island jungle kitchen ladder " \
                "marble needle orange pepper quarry rocket saddle timber urchin velvet window yellow zephyr anchor " \
                "bridge copper desert ember", word, " ")
            for (number = 0; number < count; number++) {
                value = sprintf("{\"id\":%d,\"user\":\"%08x%08x\",\"created\":\"2026-%02d-%02dT%02d:%02d:%02dZ\"," \
                    "\"balance\":%d.%02d,\"lines\":[", number, \
                    draw(2147483647), draw(2147483647), draw(12) + 1, draw(28) + 1, draw(24), draw(60), draw(60), \
                    draw(100000), draw(100))
                for (line = 0; length(value) < 820 + number % 160; line++)
                    value = value sprintf("%s{\"sku\":\"%s-%05d\",\"name\":\"%s %s\",\"count\":%d,\"price\":%d.%02d}", \
                        line ? "," : "", word[draw(words) + 1], \
                        draw(100000), word[draw(words) + 1], word[draw(words) + 1], draw(20), draw(1000), draw(100))
                value = value "]}"
                key = sprintf("key:%012d", number)
                printf "*3\r\n$3\r\nSET\r\n$16\r\n%s\r\n$%d\r\n%s\r\n", key, length(value), value
                if (number % 997 == 0) {
                    print "GET " key >get
                    print value >expected
                }
            }
        }' >"$WORK/fill"
}

cli() { redis-cli -s "$socket" "$@"; }
now_ms() { date +%s%3N; }
stop() {
    trap - EXIT INT TERM
    [ -z "${saver-}" ] || { kill "$saver" && wait "$saver"; } 2>/dev/null || true
    [ -z "${server-}" ] || { kill -9 "$server" && wait "$server"; } 2>/dev/null || true
    rm -f "$socket" "$WORK/dump.rdb" "$WORK"/temp-*.rdb
}

# benchmark REQUESTS PIPELINE: "requests per second,p99 in ms".
benchmark() {
    redis-benchmark -s "$socket" -c "$clients" -P "$2" -n "$1" -r "$count" --csv -q GET key:__rand_int__ \
        >"$WORK/benchmark.log" 2>&1 ||
        fail "redis-benchmark: $(grep -v '^"' "$WORK/benchmark.log" | tail -n 1)"
    # The columns: test, rps, avg, min, p50, p95, p99, max; the name of the test has no comma.
    awk -F , '/^"GET / { gsub(/"/, ""); if ($2 + 0 > 0 && NF == 8) print $2 "," $7 }' "$WORK/benchmark.log"
}

# phase PIPELINE: a short run says how many requests fill the time, then they are measured. The short one is short
# also where a thousand requests take a second.
phase() {
    seconds=$RUN_S
    [ "$seconds" -le 10 ] || seconds=10
    least=$((clients * 25))
    [ "$1" -eq 1 ] || least=$((least * 8))
    short=$(benchmark "$least" "$1") || fail_again "$short"
    requests=$(awk -v rate="${short%,*}" -v seconds="$seconds" -v least="$least" \
        'BEGIN { requests = int(rate * seconds); print requests < least ? least : requests }')
    answer=$(benchmark "$requests" "$1") || fail_again "$answer"
    [ -n "$answer" ] || fail "redis-benchmark printed no figures: $(tail -n 1 "$WORK/benchmark.log")"
    echo "$answer"
}

save_again_and_again() {
    while :; do
        cli BGSAVE >/dev/null 2>&1 || true
        sleep 0.1
    done
}

run() {
    rm -f "$socket" "$WORK/dump.rdb"
    trap stop EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    redis-server --port 0 --unixsocket "$socket" --dir "$WORK" --save '' --appendonly no --daemonize no \
        --logfile "$WORK/redis.log" &
    server=$!
    until cli PING >/dev/null 2>&1; do
        kill -0 "$server" 2>/dev/null || fail "redis-server ended: $(tail -n 1 "$WORK/redis.log")"
        sleep 0.05
    done

    started=$(now_ms)
    cli --pipe <"$WORK/fill" >"$WORK/pipe.log" || fail "the server was not filled: $(tail -n 1 "$WORK/pipe.log")"
    fill_ms=$(($(now_ms) - started))
    [ "$(cli DBSIZE)" = "$count" ] || fail "the server holds $(cli DBSIZE) values, not $count"

    get=$(phase 1) || fail_again "$get"
    pipelined=$(phase 32) || fail_again "$pipelined"
    save_again_and_again &
    saver=$!
    get_saved=$(phase 1) || fail_again "$get_saved"
    pipelined_saved=$(phase 32) || fail_again "$pipelined_saved"
    kill "$saver"
    wait "$saver" 2>/dev/null || true
    saver=
    while cli INFO persistence | grep -q rdb_bgsave_in_progress:1; do sleep 0.1; done
    cli INFO persistence | grep -q rdb_last_bgsave_status:ok || fail "BGSAVE failed: $(tail -n 1 "$WORK/redis.log")"

    cli <"$WORK/get" >"$WORK/found"
    cmp -s "$WORK/found" "$WORK/expected" ||
        fail "a value is not the one that was written: $(cmp "$WORK/found" "$WORK/expected" 2>&1)"
    sum=$(sha256sum <"$WORK/found")
    cli SHUTDOWN NOSAVE >/dev/null 2>&1 || true
    wait "$server" || fail "redis-server ended with status $?"
    server=
    printf '{"figures":{"get_rps":%s,"get_p99_ms":%s,"get_pipelined_rps":%s,' \
        "${get%,*}" "${get#*,}" "${pipelined%,*}"
    printf '"get_bgsave_rps":%s,"get_bgsave_p99_ms":%s,"get_bgsave_pipelined_rps":%s,"fill_s":%s},"checksum":"%s"}\n' \
        "${get_saved%,*}" "${get_saved#*,}" "${pipelined_saved%,*}" \
        "$(awk -v ms="$fill_ms" 'BEGIN { print ms / 1000 }')" "${sum%% *}"
}

case ${1-} in
prepare | run) "$1" ;;
*) echo "usage: redis.sh prepare|run" >&2; exit 2 ;;
esac
