#!/bin/sh
# gcc: g++ compiles one large generated file of C++ with classes, templates and containers.
#
#   BYTES=N SEED=N WORK=DIRECTORY gcc.sh prepare|run
#
# prepare writes the file; run compiles it and prints one line of JSON. The checksum is that of the object file.
set -eu
: "${BYTES:?}" "${SEED:?}" "${WORK:?}"

need() {
    command -v "$1" >/dev/null && return
    echo "gcc: $1 is missing: apt install $2"
    exit 77
}

# The compiler takes so much with the headers of the library, and so much for each class.
base=40000000
class=1000000
classes=$(((BYTES - base) / class))

prepare() {
    need g++ g++
    need sha256sum coreutils
    need awk mawk
    [ "$classes" -ge 10 ] || {
        echo "BYTES=$BYTES is too small for gcc: give at least $((base + 10 * class))" >&2
        exit 1
    }
    awk -v seed="$SEED" -v classes="$classes" '
        # Numbers below 2^46 are exact in every awk, which its own rand() is not.
        function draw(bound) { state = (state * 16807) % 2147483647; return state % bound }
        BEGIN {
            state = seed % 2147483646 + 1
            print "#include <map>\n#include <string>\n#include <vector>"
            print "template <int Weight, typename Value> struct Scale {"
            print "    static Value of(Value value) { return value * Weight + Weight / 3; }\n};"
            for (c = 0; c < classes; c++) {
                printf "class Part%d {\n    std::string name = \"part %d\";\n", c, c
                print "    std::vector<long> sizes;\npublic:"
                printf "    explicit Part%d(int count) {\n", c
                printf "        for (int i = 0; i < count; i++) sizes.push_back(Scale<%d, long>::of(i));\n    }\n", \
                    draw(100000)
                methods = 2 + draw(3)
                for (m = 0; m < methods; m++) {
                    printf "    long step_%d(long seen, int kind) {\n        switch (kind & 3) {\n", m
                    printf "        case 0: for (long size : sizes) seen += size %% %d; break;\n", 2 + draw(99)
                    printf "        case 1: if (name.size() > %d) seen ^= %d;\n", draw(90), draw(9999)
                    printf "            else name += static_cast<char>(65 + seen %% %d);\n", 1 + draw(26)
                    print "            break;"
                    printf "        case 2: seen = Scale<%d, long>::of(seen) >> %d; break;\n", draw(100000), draw(9)
                    print "        default: if (sizes.empty()) break;"
                    printf "            sizes[(unsigned long)seen %% sizes.size()] += %d;\n", draw(999)
                    printf "        }\n        return seen;\n    }\n"
                }
                printf "    int methods() const { return %d; }\n};\n", methods
                printf "long use_%d(int count) {\n    Part%d part(count);\n    long seen = part.methods();\n", c, c
                for (m = 0; m < methods; m++)
                    printf "    seen = part.step_%d(seen, count + %d);\n", m, draw(4)
                if (c > 0) printf "    if (seen > %d) seen += use_%d(count / 2);\n", draw(100000), draw(c)
                print "    return seen;\n}"
            }
        }' >"$WORK/unit.cc"
}

run() {
    # gcc chooses by the RAM of the machine when it collects its garbage; with these it is the same everywhere.
    cd "$WORK"
    g++ -O1 -w --param ggc-min-expand=100 --param ggc-min-heapsize=4000000 -c unit.cc -o unit.o 2>errors || {
        echo "FAIL g++: $(tail -n 1 errors)"
        exit 1
    }
    sum=$(sha256sum <unit.o)
    rm unit.o
    printf '{"figures":{},"checksum":"%s"}\n' "${sum%% *}"
}

case ${1-} in
prepare | run) "$1" ;;
*) echo "usage: gcc.sh prepare|run" >&2; exit 2 ;;
esac
