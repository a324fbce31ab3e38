//! Tests of the simulated machine and of the program.

use super::build::{self, Build};
use super::decaying::Decaying;
use super::memory::{Memory, Readahead, Touch};
use super::prices::{Disk, SOLID_STATE};
use super::program::{self, Size};
use super::published::Published;

const SMALL: Build = Build {
    workers: 4,
    files_each: 3,
    compiler_pages: 1500,
    common_pages: 1000,
    output_pages: 20,
    cold_pages: 1500,
    limit_bytes: 16 << 20,
};

#[test]
fn a_seed_gives_the_same_figures_and_the_same_work_under_any_rule() {
    let first = build::run(SMALL, SOLID_STATE, Decaying::default(), 5);
    assert_eq!(build::run(SMALL, SOLID_STATE, Decaying::default(), 5), first);
    assert!(first.counts.written > 0 && first.counts.from_disk > 0, "{first:?}");
    let other = build::run(SMALL, SOLID_STATE, Published::default(), 5);
    assert_ne!(other, first);
    assert_eq!(other.work_ns, first.work_ns);
    assert!(first.wall_ns > first.work_ns / SMALL.workers);
}

#[test]
fn with_room_for_all_nothing_is_reclaimed() {
    let build = Build { limit_bytes: 1 << 30, ..SMALL };
    let outcome = build::run(build, SOLID_STATE, Published::default(), 5);
    assert_eq!(outcome.counts, super::memory::Counts::default());
}

#[test]
fn memory_stays_within_its_limit_and_pages_are_counted_once() {
    let limit = 4 << 20;
    let mut memory = Memory::new(limit, Disk::new(SOLID_STATE), Published::default());
    let range: Vec<u32> = (0..4000).map(|_| memory.allocate(1000, false)).collect();
    let (mut ahead, mut now_ns) = (Readahead::default(), 0);
    for turn in 0..3_u64 {
        for step in 0..4000 {
            let index = step * 17 % 4000;
            let touch = if turn == 0 { Touch::Write } else { Touch::Read };
            now_ns = memory.touch(&range, index, &mut ahead, touch, now_ns);
            assert!(memory.used_bytes() <= limit);
        }
    }
    let counts = memory.counts();
    assert!(counts.from_pool > 0 && counts.from_disk > counts.asked_from_disk, "{counts:?}");
    assert!(counts.stored >= counts.written && counts.asked_from_disk > 0, "{counts:?}");
    range.into_iter().for_each(|page| memory.free(page));
    assert_eq!(memory.used_bytes(), 0);
}

#[test]
fn the_short_form_runs_all_rules_and_writes_its_figures() {
    let out = std::env::temp_dir().join(format!("uswap-second-chance-{}", std::process::id()));
    let text = program::run(Size::Short, 1, &out).expect("the directory can be written");
    for word in ["decaying", "published", "uswap", "build with cold data, disk slow"] {
        assert!(text.contains(word), "{text}");
    }
    assert!(!text.contains("NaN"), "{text}");
    let json = std::fs::read_to_string(out.join("second-chance.json")).expect("it was written");
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    let runs = json["runs"].as_array().expect("a list");
    let without_cold = || runs.iter().filter(|run| run["scene"] == "build");
    assert_eq!(without_cold().count(), 8, "four rules, two disks");
    for run in without_cold() {
        assert!(run["stored"].as_u64() > Some(0), "{run}");
        assert_eq!(run["cold_written"].as_u64(), Some(0), "{run}");
    }
    let cold = runs.iter().map(|run| run["cold_written"].as_u64());
    assert!(cold.max().flatten() > Some(0), "{json}");
    std::fs::remove_dir_all(&out).expect("it is ours");
}
