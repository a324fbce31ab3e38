#!/bin/sh
# build: make with THREADS compilers at once. The sources are generated: large files, as amalgamated libraries and
# generated parsers are.
#
#   BYTES=N SEED=N WORK=DIRECTORY THREADS=N [COLD=N] build.sh prepare|run
#
# With COLD a program beside it has so many bytes more, which it writes once and never touches again.
# prepare writes the sources and a Makefile; run builds them and prints one line of JSON. The checksum is that of the
# object files.
set -eu
: "${BYTES:?}" "${SEED:?}" "${WORK:?}" "${THREADS:?}"

need() {
    command -v "$1" >/dev/null && return
    echo "build: $1 is missing: apt install $2"
    exit 77
}

# Two files for each compiler that runs at once. A compiler takes about 8 MB, and 172 kB for each function of about
# 40 lines.
units=$((THREADS * 2))
functions=$(((BYTES / THREADS - 8000000) / 172000))

prepare() {
    need make make
    need gcc gcc
    need awk mawk
    [ "$functions" -ge 50 ] || { echo "BYTES=$BYTES is too small for build: give at least 40 million" >&2; exit 1; }
    rm -rf "$WORK/build"
    mkdir "$WORK/build"
    unit=0
    while [ "$unit" -lt "$units" ]; do
        awk -v seed="$((SEED + unit))" -v unit="$unit" -v functions="$functions" '
            # Numbers below 2^46 are exact in every awk, which its own rand() is not.
            function draw(bound) { state = (state * 16807) % 2147483647; return state % bound }
            BEGIN {
                state = seed % 2147483646 + 1
                print "struct record { int id, kind; long total; double weight; char name[24]; struct record *next; };"
                print "extern int log_line(const char *text, ...);"
                for (f = 0; f < functions; f++) {
                    printf "static const int table_%d[8] = { %d, %d, %d, %d, %d, %d, %d, %d };\n", f, \
                        draw(999), draw(999), draw(999), draw(999), draw(999), draw(999), draw(999), draw(999)
                    printf "long unit%d_step_%d(struct record *record, int count)\n{\n", unit, f
                    printf "    long sum = %d;\n    int i;\n", draw(1000)
                    printf "    for (i = 0; i < count; i++) {\n        struct record *one = &record[i];\n"
                    printf "        switch (one->kind & 7) {\n"
                    cases = 3 + draw(4)
                    for (c = 0; c < cases; c++) {
                        kind = draw(5)
                        printf "        case %d:\n", c
                        if (kind == 0) printf "            one->total += table_%d[one->id & 7] * %dL;\n", f, draw(500)
                        if (kind == 1)
                            printf "            if (one->weight > %d.%d) one->weight *= 0.%d; else sum -= one->id;\n", \
                                draw(90), draw(10), 1 + draw(9)
                        if (kind == 2)
                            printf "            one->name[i %% 24] = (char)(sum + %d);\n" \
                                "            sum ^= one->name[%d];\n", draw(120), draw(24)
                        if (kind == 3)
                            printf "            while (one->next && one->next->id < %d) one = one->next;\n" \
                                "            sum += one->total;\n", draw(9999)
                        if (kind == 4)
                            printf "            log_line(\"step %d of unit %d: %%d %%ld\\n\", one->id, sum);\n", f, unit
                        print "            break;"
                    }
                    printf "        default:\n            sum += (one->total >> %d) + table_%d[i & 7];\n", draw(30), f
                    printf "        }\n    }\n"
                    if (f > 0)
                        printf "    if (sum > %d && count > 1) sum += unit%d_step_%d(record, count / 2);\n", \
                            draw(100000), unit, draw(f)
                    print "    return sum;\n}"
                }
            }' >"$WORK/build/unit$unit.c"
        unit=$((unit + 1))
    done
    # gcc chooses by the RAM of the machine when it collects its garbage; here it never does, so its memory is the same
    # everywhere and follows from the size of the file.
    {
        printf 'CFLAGS = -O1 -w --param ggc-min-expand=100 --param ggc-min-heapsize=4000000\nall:'
        unit=0
        while [ "$unit" -lt "$units" ]; do
            printf ' unit%d.o' "$unit"
            unit=$((unit + 1))
        done
        printf '\n%%.o: %%.c\n\tgcc $(CFLAGS) -c $< -o $@\n'
    } >"$WORK/build/Makefile"
}

# Holds COLD bytes of text until it is killed.
hold_cold() {
    python3 -c '
import sys, time
with open("unit0.c", "rb") as source:
    text = source.read()
cold = bytearray(text * (int(sys.argv[1]) // len(text) + 1))[:int(sys.argv[1])]
for page in range(0, len(cold), 4096):
    cold[page:page + 8] = page.to_bytes(8, "little")
open("cold.ready", "w").close()
time.sleep(3600)' "$1" &
    holder=$!
    trap 'kill "$holder"' EXIT
    while [ ! -e cold.ready ]; do
        kill -0 "$holder" || { echo "FAIL the cold data was not made"; exit 1; }
        sleep 0.1
    done
    rm cold.ready
}

run() {
    cd "$WORK/build"
    rm -f ./*.o cold.ready
    [ -z "${COLD-}" ] || hold_cold "$COLD"
    make -s -j"$THREADS" >make.log 2>&1 || { echo "FAIL make: $(tail -n 3 make.log)"; exit 1; }
    sum=$(cat unit*.o | sha256sum)
    rm -f ./*.o
    printf '{"figures":{},"checksum":"%s"}\n' "${sum%% *}"
}

case ${1-} in
prepare | run) "$1" ;;
*) echo "usage: build.sh prepare|run" >&2; exit 2 ;;
esac
