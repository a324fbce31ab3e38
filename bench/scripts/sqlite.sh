#!/bin/sh
# sqlite: a database in memory, filled by a recursive query, then read by index in mixed order, in ranges, and as a
# whole by group.
#
#   BYTES=N SEED=N WORK=DIRECTORY sqlite.sh prepare|run
#
# prepare writes the statements; run has sqlite3 answer them and prints one line of JSON. The checksum is that of
# the answers.
set -eu
: "${BYTES:?}" "${SEED:?}" "${WORK:?}"

need() {
    command -v "$1" >/dev/null && return
    echo "sqlite: $1 is missing: apt install $2"
    exit 77
}

# Rows that fill BYTES: each takes about 675 bytes with its places in two indices.
rows=$(((BYTES - 5000000) / 675))

prepare() {
    need sqlite3 sqlite3
    need awk mawk
    need sha256sum coreutils
    [ "$rows" -ge 1000 ] || { echo "BYTES=$BYTES is too small for sqlite: give at least 6 million" >&2; exit 1; }
    # Times are printed as lines that begin with "time": to the millisecond, by the clock of sqlite3.
    # A multiplier that shares no factor with the modulus 2147483647 (a prime) visits every row's key once, in mixed
    # order.
    cat >"$WORK/statements.sql" <<STATEMENTS
.mode list
PRAGMA temp_store = MEMORY;
SELECT 'time', julianday('now') * 86400;
CREATE TABLE account(id INTEGER PRIMARY KEY, key INTEGER, city INTEGER, balance REAL, note TEXT);
CREATE INDEX account_key ON account(key);
CREATE INDEX account_city ON account(city, balance);
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $rows)
    INSERT INTO account SELECT i, ((i + $SEED % 1000000) * 1103515245) % 2147483647, (i * 40503) % 1009,
        ((i * 69621) % 1000000) / 100.0,
        printf('account %d of customer %x: %s; opened 20%02d-%02d-%02d, last seen at branch %d. %s', i,
            (i * 2654435761) % 4294967291,
            substr('standard business savings student joint premium ', 1 + i % 40, 9 + i % 9), i % 26, 1 + i % 12,
            1 + i % 28, (i * 7919) % 313,
            substr('Paid by card on the first of each month; statements are sent by letter. '
                || 'Asked for a new card in spring, and for a higher limit after that. '
                || 'No complaints so far. Prefers to be called in the evening, or to get an answer by mail; '
                || 'speaks two languages. Moved once.', 1 + (i * 31) % 60, 150 + (i * 17) % 50)) FROM n;
COMMIT;
SELECT 'time', julianday('now') * 86400;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $rows / 4)
    SELECT count(*), sum(account.id % 1000), sum(length(note)) FROM n CROSS JOIN account INDEXED BY account_key
        ON account.key = ((((i * 48271) % $rows) + 1 + $SEED % 1000000) * 1103515245) % 2147483647;
SELECT 'time', julianday('now') * 86400;
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 19)
    SELECT i, (SELECT sum(length(note) + unicode(substr(note, 20, 1))) FROM account
        WHERE id BETWEEN ((i * 7) % 20) * $rows / 20 + 1 AND ((i * 7) % 20 + 1) * $rows / 20) FROM n;
SELECT 'time', julianday('now') * 86400;
SELECT count(*), sum(groups.number), sum(groups.longest), max(groups.best) FROM
    (SELECT count(*) AS number, max(length(note)) AS longest, max(balance) AS best FROM account NOT INDEXED
        GROUP BY city) AS groups;
SELECT city, count(*), total(balance) FROM account INDEXED BY account_city WHERE city % 100 = 7 GROUP BY city;
SELECT 'time', julianday('now') * 86400;
STATEMENTS
}

run() {
    sqlite3 -batch -bail :memory: <"$WORK/statements.sql" >"$WORK/answers" 2>"$WORK/errors" ||
        { echo "FAIL sqlite3: status $?, $(tail -n 1 "$WORK/errors")"; exit 1; }
    sum=$(grep -v '^time' "$WORK/answers" | sha256sum)
    awk -F '|' -v sum="${sum%% *}" '
        $1 == "time" { at[++times] = $2 }
        END {
            if (times != 5) { print "FAIL sqlite3 printed " times " times, not 5"; exit 1 }
            printf "{\"figures\":{\"fill_s\":%.3f,\"query_s\":%.3f,\"lookup_s\":%.3f,\"range_s\":%.3f," \
                "\"group_s\":%.3f},\"checksum\":\"%s\"}\n", \
                at[2] - at[1], at[5] - at[2], at[3] - at[2], at[4] - at[3], at[5] - at[4], sum
        }' "$WORK/answers"
}

case ${1-} in
prepare | run) "$1" ;;
*) echo "usage: sqlite.sh prepare|run" >&2; exit 2 ;;
esac
