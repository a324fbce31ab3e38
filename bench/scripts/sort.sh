#!/bin/sh
# sort: coreutils sort of log lines, all of them in its memory at once.
#
#   BYTES=N SEED=N WORK=DIRECTORY THREADS=N sort.sh prepare|run
#
# prepare writes the lines, run sorts them and prints one line of JSON. The checksum is that of the sorted lines.
set -eu
: "${BYTES:?}" "${SEED:?}" "${WORK:?}" "${THREADS:?}"

need() {
    command -v "$1" >/dev/null && return
    echo "sort: $1 is missing: apt install $2"
    exit 77
}

prepare() {
    need sort coreutils
    need sha256sum coreutils
    need awk mawk
    # sort keeps the text, and 48 bytes for each of the lines of about 120.
    awk -v seed="$SEED" -v bytes="$((BYTES / 100 * 65))" '
        # Numbers below 2^46 are exact in every awk, which its own rand() is not.
        function draw(bound) { state = (state * 16807) % 2147483647; return state % bound }
        BEGIN {
            state = seed % 2147483646 + 1
            split("GET GET GET POST PUT DELETE", method, " ")
            split("orders users items search images session", path, " ")
            split("200 200 200 204 304 404 500", status, " ")
            split("Mozilla/5.0 (X11; Linux x86_64)|Mozilla/5.0 (Windows NT 10.0; Win64)|curl/7.88.1|" \
                "Go-http-client/2.0", agent, "|")
            # Drawing is slow: what follows the time is one of some thousands, with a number of its own.
            for (tail = 0; tail < 8000; tail++)
                request[tail] = sprintf("web%02d httpd[%d]: %s /api/v2/%s/%d %s %d 0.%03d \"%s\"", \
                    draw(40), 1000 + draw(30000), method[draw(6) + 1], \
                    path[draw(6) + 1], draw(1000000), status[draw(7) + 1], draw(90000), draw(1000), agent[draw(4) + 1])
            while (written < bytes) {
                second = draw(31536000)
                line = sprintf("2026-%03d %05d.%03d %s id=%08x", second / 86400, second % 86400, draw(1000), \
                    request[draw(8000)], state)
                print line
                written += length(line) + 1
            }
        }' >"$WORK/lines"
}

run() {
    rm -f "$WORK/sorted"
    mkfifo "$WORK/sorted"
    sha256sum <"$WORK/sorted" >"$WORK/sum" &
    summer=$!
    # Twice the memory that it needs is allowed, so that it never writes to files by itself.
    LC_ALL=C sort -S "$((BYTES * 2))b" --parallel="$THREADS" -T "$WORK" "$WORK/lines" >"$WORK/sorted"
    wait "$summer"
    rm "$WORK/sorted"
    read -r sum _ <"$WORK/sum"
    printf '{"figures":{},"checksum":"%s"}\n' "$sum"
}

case ${1-} in
prepare | run) "$1" ;;
*) echo "usage: sort.sh prepare|run" >&2; exit 2 ;;
esac
