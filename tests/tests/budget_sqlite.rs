//! sqlite3 with a page cache of 512 MB on a larger database, in 128M, answers the same.

use uswap_tests::{Run, Scratch, compare_outputs, needs, scaled_mib, turn};

#[test]
fn budget_sqlite_page_cache_four_times_its_budget() {
    let _turn = turn();
    if !needs(&["sqlite3"]) {
        return;
    }
    let scratch = Scratch::new();
    let database = scratch.file("database");
    // Each row has about 1000 bytes that follow from its number.
    let rows = scaled_mib(640) * 1024 * 1024 / 1000;
    let create = format!(
        "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;
         CREATE TABLE rows(id INTEGER PRIMARY KEY, mixed INTEGER, text TEXT);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
         INSERT INTO rows SELECT i, (i * 2654435761) % 1000003, printf('%.*c', 20 + i % 7, 'x') ||
           replace(printf('%0121d', (i * 40503) % 1000000007), '0', printf('%d/%d,', i, i % 97)) FROM n;
         CREATE INDEX by_mixed ON rows(mixed);"
    );
    let made = Run::plain("sqlite3").arg(&database).arg(&create).finish();
    made.must_succeed();
    let bytes = std::fs::metadata(&database).map(|status| status.len()).unwrap_or(0);
    assert!(bytes > scaled_mib(512) << 20, "the database has only {bytes} bytes");
    // In order, then by an index whose order is mixed, then in order again: most from the cache.
    let query = format!(
        "PRAGMA cache_size=-{}; PRAGMA mmap_size=0;
         SELECT count(*), sum(length(text)), max(text) FROM rows;
         SELECT sum(length(text) * (mixed % 13)), min(text) FROM rows INDEXED BY by_mixed WHERE mixed >= 500000;
         SELECT count(*), sum(unicode(substr(text, 200, 1)) * id % 1009) FROM rows;",
        scaled_mib(512) * 1024
    );
    let ram_mib = scaled_mib(128);
    let make = || Run::plain("sqlite3").arg(&database).arg(&query);
    let (_, swapped) = compare_outputs("budget_sqlite", ram_mib, &[], make);
    // The cache grows page by page, by up to a GB a second, and is found by looking: at 32M, 1.6 ms of that are 5 %.
    swapped.must_hold_budget_mostly(ram_mib);
}
