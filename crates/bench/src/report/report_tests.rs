//! Files are written, and read again as they were.

use super::sample::{awkward, sample, small};
use super::*;

/// A directory that is removed at the end of its test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("uswap-report-{name}-{}", std::process::id()));
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing hangs on it: the next run of the test uses another name.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_written_is_read_again() {
    let scratch = Scratch::new("round-trip");
    let results = sample();
    let paths = write_all(&results, &scratch.0.join("new/dir")).expect("a new directory can be made");
    let names: Vec<_> = paths.iter().filter_map(|path| path.file_name()).collect();
    assert_eq!(names, ["results.json", "table.txt", "table.md", "report.html"]);
    assert_eq!(read(&paths[0]).expect("it was just written"), results);
    for path in &paths[1..] {
        assert!(fs::read_to_string(path).expect("written").contains("pmbench-zipf-2"), "{}", path.display());
    }
}

#[test]
fn figures_that_are_no_numbers_do_not_spoil_the_file() {
    let scratch = Scratch::new("nan");
    let mut results = small();
    results.cells[0].runs[0].figures.insert("odd".to_owned(), f64::NAN);
    let paths = write_all(&results, &scratch.0).expect("writable");
    assert_eq!(read(&paths[0]).expect("readable"), small());
    write_all(&awkward(), &scratch.0).expect("even this is written");
}

#[test]
fn other_formats_and_other_files_are_refused_with_reasons() {
    let scratch = Scratch::new("format");
    let path = scratch.0.join("results.json");
    let error = |path: &Path| format!("{:#}", read(path).expect_err("not to be read"));
    assert!(error(&path).contains("cannot read"), "{}", error(&path));
    let mut results = small();
    results.format = FORMAT + 1;
    write_all(&results, &scratch.0).expect("writable");
    assert!(error(&path).contains(&format!("has format {}, this uswap knows format {FORMAT}", FORMAT + 1)));
    fs::write(&path, "{\"format\": 99, \"all\": \"else\"}").expect("writable");
    assert!(error(&path).contains("has format 99"), "a future format need not have today's fields");
    fs::write(&path, "[1, 2]").expect("writable");
    assert!(error(&path).contains("is not the results.json of a bench"), "{}", error(&path));
    fs::write(&path, format!("{{\"format\": {FORMAT}}}")).expect("writable");
    assert!(error(&path).contains("is damaged"), "{}", error(&path));
}

#[test]
fn a_directory_that_cannot_be_made_is_an_error_that_names_it() {
    let error = write_all(&small(), Path::new("/proc/uswap-report")).expect_err("nobody can write there");
    assert!(format!("{error:#}").contains("/proc/uswap-report"), "{error:#}");
}
