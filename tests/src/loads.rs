//! Programs that need several times their budget: the budget tests run them, and so does the test that changes the
//! budget meanwhile. Each prints a checksum of what it has made. Called by both.

use crate::content;
use crate::places::Scratch;
use crate::run::Run;

/// `sort` of a file of so many MiB with a buffer of so many; the file and what `sort` writes are in `scratch`.
pub fn sort(scratch: &Scratch, file_mib: u64, buffer_mib: u64) -> Run {
    let lines = scratch.file("lines");
    content::write_lines(&lines, file_mib << 20, 1).expect("the disk has room");
    let command = format!(
        "LC_ALL=C sort -S {buffer_mib}M -T {} {} | tee {0}/sorted | sha256sum; wc -c < {0}/sorted",
        scratch.path().display(),
        lines.display(),
    );
    Run::plain("/bin/sh").args(["-c", &command])
}

const PYTHON_SORT: &str = r#"
import sys, hashlib
count = int(sys.argv[1])
state = 12345
rows = []
for number in range(count):
    state = (state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
    rows.append((state >> 20, "row %d of %d: %s" % (number, state, ("%016x " % state) * 20)))
rows.sort()
digest = hashlib.sha256()
for key, text in rows:
    digest.update(b"%d" % key)
    digest.update(text.encode())
print(len(rows), digest.hexdigest())
"#;

/// Python that builds and sorts so many MiB of objects.
pub fn python_sort(objects_mib: u64) -> Run {
    // About 560 bytes an object with its key, tuple and place in the list.
    let count = objects_mib * 1024 * 1024 / 560;
    Run::plain("/usr/bin/python3").env("PYTHONHASHSEED", "0").args(["-c", PYTHON_SORT, &count.to_string()])
}

/// `sqlite3` with a page cache of so many MiB, on a database in `scratch` that is a quarter larger.
pub fn sqlite(scratch: &Scratch, cache_mib: u64) -> Run {
    let database = scratch.file("database");
    // Each row has about 1000 bytes that follow from its number.
    let rows = cache_mib * 5 / 4 * 1024 * 1024 / 1000;
    let create = format!(
        "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;
         CREATE TABLE rows(id INTEGER PRIMARY KEY, mixed INTEGER, text TEXT);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
         INSERT INTO rows SELECT i, (i * 2654435761) % 1000003, printf('%.*c', 20 + i % 7, 'x') ||
           replace(printf('%0121d', (i * 40503) % 1000000007), '0', printf('%d/%d,', i, i % 97)) FROM n;
         CREATE INDEX by_mixed ON rows(mixed);"
    );
    Run::plain("sqlite3").arg(&database).arg(&create).finish().must_succeed();
    let bytes = std::fs::metadata(&database).map(|status| status.len()).unwrap_or(0);
    assert!(bytes > cache_mib << 20, "the database has only {bytes} bytes");
    // In order, then by an index whose order is mixed, then in order again: most from the cache.
    let query = format!(
        "PRAGMA cache_size=-{}; PRAGMA mmap_size=0;
         SELECT count(*), sum(length(text)), max(text) FROM rows;
         SELECT sum(length(text) * (mixed % 13)), min(text) FROM rows INDEXED BY by_mixed WHERE mixed >= 500000;
         SELECT count(*), sum(unicode(substr(text, 200, 1)) * id % 1009) FROM rows;",
        cache_mib * 1024
    );
    Run::plain("sqlite3").arg(&database).arg(&query)
}
