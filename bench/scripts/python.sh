# What the workloads in Python have in common; read by their scripts, which set
#   name       of the workload; its work is in $name.py
#   modules    that it imports, with commas
#   package    of Debian that has them
#   least      smallest BYTES
: "${BYTES:?}" "${SEED:?}" "${WORK:?}"
python=/usr/bin/python3

prepare() {
    "$python" -c "import $modules" 2>/dev/null || {
        echo "$name: $python cannot do 'import $modules': apt install $package"
        exit 77
    }
    [ "$BYTES" -ge "$least" ] || { echo "BYTES=$BYTES is too small for $name: give at least $least" >&2; exit 1; }
}

run() {
    # The order of sets and the hashes of strings are the same in every run; libraries start no threads of their own.
    PYTHONHASHSEED=0 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 exec "$python" "$(dirname "$0")/$name.py" "$BYTES" "$SEED"
}

case ${1-} in
prepare | run) "$1" ;;
*) echo "usage: $name.sh prepare|run" >&2; exit 2 ;;
esac
