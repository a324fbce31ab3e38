#!/bin/sh
# xz: one thread compresses text with the settings of xz -9e, and a dictionary that fills BYTES.
#
#   BYTES=N SEED=N WORK=DIRECTORY xz.sh prepare|run
#
# prepare writes the text; run compresses it, unpacks it again, compares, and prints one line of JSON. The checksum is
# that of the compressed text.
set -eu
: "${BYTES:?}" "${SEED:?}" "${WORK:?}"

need() {
    command -v "$1" >/dev/null && return
    echo "xz: $1 is missing: apt install $2"
    exit 77
}

# The encoder takes 11 bytes for each of the dictionary: the text, the tree of matches, and the table of hashes.
dictionary=$((BYTES / 11))

prepare() {
    need xz xz-utils
    need sha256sum coreutils
    need awk mawk
    [ "$dictionary" -ge 1000000 ] || {
        echo "BYTES=$BYTES is too small for xz: give at least 11 million" >&2
        exit 1
    }
    awk -v seed="$SEED" -v bytes="$dictionary" '
        # Numbers below 2^46 are exact in every awk, which its own rand() is not.
        function draw(bound) { state = (state * 16807) % 2147483647; return state % bound }
        BEGIN {
            state = seed % 2147483646 + 1
            words = split("amber basket candle dragon engine forest guitar harbor island jungle kitchen ladder " \
                "marble needle orange pepper quarry rocket saddle timber urchin velvet " \
                "window yellow zephyr anchor bridge", word, " ")
            while (written < bytes) {
                line = sprintf("%08x %s %s: %d %s of %d.%02d, %s", state, word[draw(words) + 1], \
                    word[draw(words) + 1], draw(100000), word[draw(words) + 1], draw(1000), draw(100), \
                    word[draw(words) + 1])
                print line
                written += length(line) + 1
            }
        }' >"$WORK/text"
}

run() {
    xz --format=xz --threads=1 --lzma2="preset=9e,dict=$dictionary" --stdout "$WORK/text" >"$WORK/text.xz"
    xz --decompress --stdout "$WORK/text.xz" | cmp -s - "$WORK/text" || {
        echo "FAIL xz: what is unpacked differs from the text"
        exit 1
    }
    sum=$(sha256sum <"$WORK/text.xz")
    rm "$WORK/text.xz"
    printf '{"figures":{},"checksum":"%s"}\n' "${sum%% *}"
}

case ${1-} in
prepare | run) "$1" ;;
*) echo "usage: xz.sh prepare|run" >&2; exit 2 ;;
esac
