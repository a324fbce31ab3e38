# What the workloads of the Java virtual machine have in common; read by their scripts, which set
#   name       of the workload
#   collector  as the virtual machine calls it
#   machine    bytes that the virtual machine takes beside its heap
: "${BYTES:?}" "${SEED:?}" "${WORK:?}"

need() {
    command -v "$1" >/dev/null && return
    echo "$name: $1 is missing: apt install $2"
    exit 77
}

# A sixth of the heap is never used.
heap=$(((BYTES - machine) / 5 * 6))

prepare() {
    need java default-jre-headless
    need javac default-jdk-headless
    [ "$heap" -ge 16000000 ] || {
        echo "BYTES=$BYTES is too small for $name: give at least $((machine + 14000000))" >&2
        exit 1
    }
    javac -d "$WORK" "$(dirname "$0")/Collected.java"
}

run() {
    # The heap has one size from the beginning: by itself it would follow the RAM and the processors of the machine.
    # Objects live in half of it; in the other half the collector finds room for new ones.
    exec java "-XX:+Use${collector}GC" "-Xms$heap" "-Xmx$heap" -XX:ParallelGCThreads=2 -XX:ConcGCThreads=1 \
        -XX:CICompilerCount=2 -XX:ReservedCodeCacheSize=24m -XX:-UsePerfData \
        -cp "$WORK" Collected "$((heap / 2))" "$SEED"
}

case ${1-} in
prepare | run) "$1" ;;
*) echo "usage: $name.sh prepare|run" >&2; exit 2 ;;
esac
