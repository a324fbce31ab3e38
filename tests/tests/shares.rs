//! Whose pages go when several processes share a budget: by size, by what comes back, by protection and weight.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use uswap_tests::{MIB, Run, Scratch, program, report, skip, turn, uswap_binary};

const BUDGET_MIB: u64 = 64;
const SECONDS: u64 = 10;

/// What `uswap stat` must show comes within this time, or never.
const PATIENCE: Duration = Duration::from_mins(1);

/// Runs that may be needed until one shows what it must: a program that is off the processor for a tenth of a second
/// looks as if it did not use its memory. What is shared wrongly is so in each run.
const RUNS_MAX: u32 = 3;

/// One process of a run: a copy of `touch` under a name of its own.
struct Member {
    name: &'static str,
    words: String,
}

fn random(name: &'static str, mebibytes: u64, rate: u64) -> Member {
    Member { name, words: format!("--bytes {mebibytes}M --access read --rate {rate}") }
}

fn cold(name: &'static str, mebibytes: u64, rate: u64) -> Member {
    Member { name, words: format!("--bytes {mebibytes}M --access sequential --rate {rate}") }
}

/// What became of one process.
#[derive(Debug)]
struct Fate {
    taken: u64,
    came_back: u64,
    some_seconds: f64,
    protected_bytes: u64,
}

struct Fates {
    record: serde_json::Value,
    /// What `uswap stat --json` said while they ran.
    stat: serde_json::Value,
    standard_error: String,
}

impl Fates {
    fn of(&self, name: &str) -> Fate {
        let programs = self.record["programs"].as_array().expect("the report has programs");
        let program = programs.iter().find(|program| program["name"] == name);
        let program = program.unwrap_or_else(|| panic!("no {name} in {programs:?}"));
        let number = |field: &str| program[field].as_u64().expect("it is a number");
        Fate {
            taken: number("pages_taken"),
            came_back: number("pages_came_back"),
            some_seconds: program["some_seconds"].as_f64().expect("it is a number"),
            protected_bytes: number("protected_bytes"),
        }
    }
    /// Pages that were taken since `uswap stat` looked.
    fn taken_since_the_look(&self, name: &str) -> u64 {
        let before = self.in_stat(name)["pages_taken"].as_u64().expect("it is a number");
        self.of(name).taken - before
    }
    fn in_stat(&self, name: &str) -> &serde_json::Value {
        in_stat(&self.stat, name).expect("it is among them")
    }
}

fn in_stat<'a>(stat: &'a serde_json::Value, name: &str) -> Option<&'a serde_json::Value> {
    stat["processes"].as_array()?.iter().find(|process| process["name"] == name)
}

/// A size of a process.
fn bytes(stat: &serde_json::Value, name: &str, what: &str) -> u64 {
    let process = in_stat(stat, name).expect("it is among them");
    process[what].as_u64().expect("it is a number")
}

/// Runs processes side by side under one budget, for so many seconds and, if need be, until `uswap stat` shows what is
/// expected. It looks so many seconds after the start for the first time.
fn side_by_side(
    members: &[Member],
    options: &[&str],
    looks_after: u64,
    is_expected: impl Fn(&serde_json::Value) -> bool,
) -> Option<Fates> {
    let uswap = uswap_binary()?;
    let scratch = Scratch::new();
    let end = scratch.file("end");
    let mut script = String::new();
    for Member { name, words } in members {
        let copy: PathBuf = scratch.file(name);
        std::fs::copy(program("touch"), &copy).expect("the scratch directory has room");
        let words = format!("{words} --content mixed --seconds 600 --until {}", end.display());
        script += &format!("{} {words} & ", copy.display());
    }
    script += "wait";
    let json = scratch.file("report.json");
    let mut all = vec!["--swap", "/var/tmp:1G", "--json", json.to_str().expect("it is UTF-8")];
    all.extend(options);
    let running = Run::plain("/bin/sh").args(["-c", &script]).uswap(BUDGET_MIB, &all).start();
    let began = Instant::now();
    std::thread::sleep(Duration::from_secs(looks_after));
    let pid = running.pid().to_string();
    let stat = loop {
        let answer = Command::new(&uswap).args(["stat", "--json", &pid]).output().expect("it starts");
        // It may not listen yet.
        let stat: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
        let is_whole = members.iter().all(|member| in_stat(&stat, member.name).is_some());
        if is_whole && is_expected(&stat) {
            break stat;
        }
        assert!(began.elapsed() < PATIENCE, "not as it should be: {answer:?}");
        std::thread::sleep(Duration::from_millis(100));
    };
    std::thread::sleep(Duration::from_secs(SECONDS).saturating_sub(began.elapsed()));
    std::fs::write(&end, "").expect("the scratch directory is writable");
    let outcome = running.finish();
    outcome.must_succeed();
    let record = std::fs::read(&json).expect("the report was written");
    let record = serde_json::from_slice(&record).expect("it is JSON");
    let standard_error = outcome.stderr.clone();
    Some(Fates { record, stat, standard_error })
}

/// A process uses all of its 20 MiB all the time, another one goes slowly through 100 MiB that it does not soon need
/// again.
#[test]
fn shares_hot_process_keeps_its_pages_beside_a_cold_one() {
    let _turn = turn();
    let mut seen = Vec::new();
    for _ in 0..RUNS_MAX {
        match hot_beside_cold() {
            Some(Ok(())) => return,
            Some(Err(why)) => seen.push(why),
            None => return skip("this case is about uswap itself"),
        }
    }
    panic!("in no run of {RUNS_MAX}: {seen:?}");
}

/// What is wrong, if something is. None: without uswap there is nothing to see.
fn hot_beside_cold() -> Option<Result<(), String>> {
    let members = [random("hot", 20, 200_000), cold("cold", 100, 10_000)];
    // Before, both fill their memory as fast as they can, and nothing is known of either. The pool is as large as it is
    // said to be: by itself it takes 18 to 36 MiB here, by what it has seen while they filled their memory, and the
    // rest may be too little for the cold one to have anything that is older than what the hot one uses.
    let fates = side_by_side(&members, &["--pool", "30%"], SECONDS / 2, |_| true)?;
    let (hot, cold) = (fates.of("hot"), fates.of("cold"));
    report(&format!("shares: hot {hot:?}, cold {cold:?}"));
    // A tenth to a fifth on machines of which others have a part.
    if hot.some_seconds >= SECONDS as f64 * 0.3 {
        return Some(Err(format!("{hot:?}")));
    }
    // Before reclaim knew whose pages come back, the hot one gave a third of what the cold one gave.
    let (hot, cold) = (fates.taken_since_the_look("hot"), fates.taken_since_the_look("cold"));
    report(&format!("shares: after the start hot {hot}, cold {cold}"));
    let is_right = cold > 10_000 && hot * 10 < cold;
    Some(if is_right { Ok(()) } else { Err(format!("hot {hot}, cold {cold}")) })
}

/// Two that do the same, one of which is protected: the other gives.
#[test]
fn shares_protected_memory_stays_while_others_have_something() {
    let _turn = turn();
    // As fast as a slow machine can do it, so that both do the same.
    let members = [random("first", 48, 2_000), random("second", 48, 2_000)];
    let options = ["--protect", "first=36M"];
    let is_expected = |stat: &serde_json::Value| {
        bytes(stat, "first", "resident_bytes") >= 34 << 20
            && bytes(stat, "second", "resident_bytes") < 16 << 20
            && (34 << 20..=36 << 20).contains(&bytes(stat, "first", "protected_bytes"))
    };
    let Some(fates) = side_by_side(&members, &options, SECONDS - 1, is_expected) else {
        return skip("this case is about uswap itself");
    };
    let (first, second) = (fates.of("first"), fates.of("second"));
    report(&format!("shares: protected {first:?}, not {second:?}"));
    assert_eq!(first.protected_bytes, 36 << 20);
    assert!(first.came_back * 2 < second.came_back, "{first:?} {second:?}");
    assert!(!fates.standard_error.contains("protected memory is reclaimed"), "{}", fates.standard_error);
}

/// What is protected is more than there is room for beside a pool whose size the user has fixed: it is reclaimed, the
/// budget holds, and it is said once.
#[test]
fn shares_protected_memory_is_reclaimed_when_there_is_nothing_else() {
    let _turn = turn();
    let options = ["--protect", "only=50M", "--pool", "60%"];
    let members = [cold("only", 100, 10_000)];
    let Some(fates) = side_by_side(&members, &options, SECONDS - 1, |_| true) else {
        return skip("this case is about uswap itself");
    };
    let warning = "protected memory is reclaimed too";
    // Once while it runs, and once in the closing table.
    assert_eq!(fates.standard_error.matches(warning).count(), 2, "{}", fates.standard_error);
    let used = fates.record["used_peak_bytes"].as_u64().expect("it is a number");
    assert!(used <= (BUDGET_MIB << 20) / 100 * 105, "{used}");
    assert!(fates.of("only").taken > 10_000);
}

/// Two that do the same, with weights of 400 and 100.
#[test]
fn shares_go_inversely_to_the_weights() {
    let _turn = turn();
    let members = [random("heavy", 60, 10_000), random("light", 60, 10_000)];
    let is_expected = |stat: &serde_json::Value| {
        let [heavy, light] = ["heavy", "light"].map(|name| bytes(stat, name, "resident_bytes"));
        heavy * 2 > light * 3
    };
    let Some(fates) = side_by_side(&members, &["--weight", "heavy=400"], SECONDS - 1, is_expected) else {
        return skip("this case is about uswap itself");
    };
    let [heavy, light] = ["heavy", "light"].map(|name| bytes(&fates.stat, name, "resident_bytes") / MIB);
    report(&format!("shares: heavy {heavy}, light {light} MiB"));
    assert_eq!(fates.in_stat("heavy")["weight"], 400);
}
