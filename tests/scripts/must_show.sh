#!/bin/sh
# Runs every case of the promises in full size, prints one line for each case and one for its figures, and ends with
# status 1 if one of them failed. Takes about three hours (memtester and sort more than half of it); needs root for the
# disk cases and the tools named in tests/README.md.
#
#   tests/scripts/must_show.sh [TEST_BINARY...]      for example: tests/scripts/must_show.sh budget_sort integrity
set -u
cd "$(dirname "$0")/../.." || exit 1
export USWAP_TEST_FULL=1
cases="${*:-budget_python budget_sort budget_redis budget_make budget_sqlite integrity fork kill passthrough placement
       badcases_start badcases_disk evil nopressure}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0
if [ -z "${USWAP_BIN:-}" ]; then
    cargo xtask build || exit 1
fi
for name in $cases; do
    if ! cargo test --quiet --package uswap-tests --test "$name" --no-run 2>"$log"; then
        cat "$log"
        exit 1
    fi
    started=$(date +%s)
    cargo test --package uswap-tests --test "$name" -- --test-threads=1 >"$log" 2>&1
    status=$?
    # A test prints its figures behind its name, and its verdict on a line of its own.
    figures='(budget|integrity|evil|fork|kill|disk|data|nopressure|churn)[a-z_0-9]*[: ]'
    grep -E "^(test .* \.\.\. |ok\$|FAILED\$|SKIP: |$figures)" "$log" |
        sed 's/^test //'
    if [ "$status" -ne 0 ]; then
        failed=1
        echo "FAILED $name; its output:"
        sed -n '/^failures:/,$p' "$log"
    fi
    echo "== $name: $(($(date +%s) - started)) s"
done
exit "$failed"
