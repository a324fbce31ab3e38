//! `uswap stat` says how a run goes while it goes.

use std::process::Command;
use std::time::{Duration, Instant};
use uswap_tests::{Run, Scratch, full_size, needs_uswap, program, report, skip, turn, uswap_binary};

/// What `uswap stat` must show comes within this time, or never.
const PATIENCE: Duration = Duration::from_mins(1);

/// The number behind `name=` in a line.
fn number(line: &str, name: &str) -> f64 {
    let rest = line.split_once(&format!(" {name}=")).map_or("", |(_, rest)| rest);
    rest.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(-1.0)
}

/// A program that mostly waits for its pages: the averages rise, the sum grows with time, and is never more than that.
#[test]
fn stat_shows_how_long_a_program_waits_for_its_pages() {
    const BUDGET_MIB: u64 = 48;
    let _turn = turn();
    let Some(uswap) = uswap_binary() else { return skip("this case is about uswap itself") };
    let scratch = Scratch::new();
    let end = scratch.file("end");
    let words = ["--bytes", "160M", "--content", "mixed", "--access", "read", "--seconds", "600", "--until"];
    let started = Instant::now();
    let running = Run::plain(program("touch"))
        .args(words)
        .arg(&end)
        .uswap(BUDGET_MIB, &["--swap", "/var/tmp:1G"])
        .start();
    let ask = || {
        let pid = running.pid().to_string();
        let answer = Command::new(&uswap).args(["stat", &pid]).output().expect("it starts");
        assert!(answer.status.success(), "{answer:?}");
        String::from_utf8(answer.stdout).expect("it is text")
    };
    std::thread::sleep(Duration::from_secs(1));
    let first = ask();
    std::thread::sleep(Duration::from_secs(7));
    let second = ask();
    let passed_us = started.elapsed().as_secs_f64() * 1e6;
    std::fs::write(&end, "").expect("the scratch directory is writable");
    report(&format!("stat: {}", second.trim_end().replace('\n', "; ")));
    let outcome = running.finish();
    outcome.must_succeed();
    let line_of = |text: &str| {
        let line = text.lines().find(|line| line.contains(" touch some "));
        line.unwrap_or_else(|| panic!("no line for the program: {text}")).to_owned()
    };
    assert!(second.starts_with("memory ") && second.contains(" of 48 MiB: resident "), "{second}");
    let (before, after) = (line_of(&first), line_of(&second));
    // With 70 % of its memory elsewhere it waits for most of its time.
    assert!(number(&after, "avg10") > 15.0 && number(&after, "avg10") <= 100.0, "{after}");
    assert!(number(&after, "avg300") > 0.0 && number(&after, "avg300") < number(&after, "avg10"), "{after}");
    let (earlier, later) = (number(&before, "total"), number(&after, "total"));
    assert!(
        0.0 <= earlier && earlier < later && later < passed_us,
        "{earlier} us, then {later} of {passed_us}"
    );
}

/// What a program of several threads waits: of one that waits beside one that sleeps all is full; beside one that
/// computes nothing is.
#[test]
fn stat_tells_full_from_some_by_what_the_other_threads_do() {
    let _turn = turn();
    let Some(uswap) = uswap_binary() else { return skip("this case is about uswap itself") };
    let totals = [["--idle", "2"], ["--spin", "1"]].map(|others| {
        let scratch = Scratch::new();
        let end = scratch.file("end");
        let words = ["--bytes", "160M", "--content", "mixed", "--access", "read", "--seconds", "600"];
        let run = Run::plain(program("touch")).args(words).args(others).arg("--until").arg(&end);
        let mut running = run.uswap(48, &["--swap", "/var/tmp:1G"]).start();
        let pid = running.pid().to_string();
        std::thread::sleep(Duration::from_secs(6));
        // It uses all of its 160 MiB, of which at most 48 are in RAM. After they were filled it takes a while until the
        // others have come back, and longer on a busy machine.
        let in_use_mib =
            |stat: &serde_json::Value| stat["processes"][0]["in_use_bytes"].as_u64().map(|bytes| bytes >> 20);
        let began = Instant::now();
        let stat = loop {
            let answer = Command::new(&uswap).args(["stat", "--json", &pid]).output().expect("it starts");
            // It may not listen yet.
            let stat = serde_json::from_slice(&answer.stdout).unwrap_or_default();
            if in_use_mib(&stat) >= Some(64) {
                break stat;
            }
            assert!(began.elapsed() < PATIENCE && !running.ended(), "it uses little: {answer:?}");
            std::thread::sleep(Duration::from_millis(100));
        };
        std::fs::write(&end, "").expect("the scratch directory is writable");
        running.finish().must_succeed();
        assert!(stat["counters"]["zswpout"].as_u64() > Some(1000), "{stat}");
        let process = &stat["processes"][0];
        assert!(in_use_mib(&stat) <= Some(210), "{process}");
        report(&format!("stat: {others:?}: some {}, full {}", process["some"], process["full"]));
        let [some, full] = ["some", "full"].map(|kind| &process[kind]);
        assert!(some["avg10"].as_f64() >= full["avg10"].as_f64(), "{process}");
        [some, full].map(|line| line["total_us"].as_f64().expect("it is a number"))
    });
    let [[some, full], [some_beside_work, full_beside_work]] = totals;
    assert!(some > 5e5 && full > some * 0.75 && full <= some, "{some} us, {full} us");
    assert!(some_beside_work > 2e5 && full_beside_work < some_beside_work * 0.25, "{totals:?}");
}

/// Several processes that mostly wait: the run waits no longer than time goes by, and no less than each of them.
#[test]
fn stat_of_a_run_is_never_more_than_all_of_its_time_however_many_processes_wait() {
    let _turn = turn();
    let Some(uswap) = uswap_binary() else { return skip("this case is about uswap itself") };
    let scratch = Scratch::new();
    let end = scratch.file("end");
    let words = format!("--bytes 80M --content mixed --access read --seconds 600 --until {}", end.display());
    let touch = format!("{} {words}", program("touch").display());
    let script = format!("for seed in 1 2 3; do {touch} --seed $seed & done; wait");
    let mut running =
        Run::plain("/bin/sh").args(["-c", &script]).uswap(48, &["--swap", "/var/tmp:1G"]).start();
    let pid = running.pid().to_string();
    let number = |value: &serde_json::Value| value.as_f64().expect("it is a number");
    let mut before: Option<serde_json::Value> = None;
    let mut most = 0.0_f64;
    let processes = |stat: &serde_json::Value| stat["processes"].as_array().expect("it is a list").clone();
    let began = Instant::now();
    let mut asked_before = began;
    while began.elapsed() < Duration::from_secs(8)
        || before.as_ref().is_none_or(|stat| processes(stat).len() < 3)
    {
        assert!(began.elapsed() < PATIENCE && !running.ended(), "not three: {before:?}");
        std::thread::sleep(Duration::from_millis(250));
        let asked = Instant::now();
        let answer = Command::new(&uswap).args(["stat", "--json", &pid]).output().expect("it starts");
        // It may not listen yet.
        let Ok(stat) = serde_json::from_slice::<serde_json::Value>(&answer.stdout) else { continue };
        let uptime_us = |stat: &serde_json::Value| number(&stat["uptime_seconds"]) * 1e6;
        for kind in ["some", "full"] {
            let line = &stat["pressure"][kind];
            let parts = ["avg10", "avg60", "avg300"].map(|part| number(&line[part]));
            assert!(parts.iter().all(|part| (0.0..=100.0).contains(part)), "{line}");
            let waited = number(&line["total_us"]);
            assert!(waited <= uptime_us(&stat) + 5e3, "{line} in {} us", uptime_us(&stat));
            let Some(before) = &before else { continue };
            // What was waited is told a little later, and the machine is busy.
            let more = waited - number(&before["pressure"][kind]["total_us"]);
            let passed = asked_before.elapsed().as_secs_f64() * 1e6;
            assert!((0.0..=passed + 5e5).contains(&more), "{kind}: {more} of {passed} us");
        }
        assert!(
            number(&stat["pressure"]["full"]["total_us"]) <= number(&stat["pressure"]["some"]["total_us"])
        );
        most = most.max(number(&stat["pressure"]["some"]["avg10"]));
        before = Some(stat);
        asked_before = asked;
    }
    let last = before.expect("it was asked");
    std::fs::write(&end, "").expect("the scratch directory is writable");
    running.finish().must_succeed();
    let [some, full] = ["some", "full"].map(|kind| number(&last["pressure"][kind]["total_us"]));
    let each: Vec<f64> =
        processes(&last).iter().map(|process| number(&process["some"]["total_us"])).collect();
    let added = number(&last["waits"]["some_seconds"]) * 1e6;
    let pressure = &last["pressure"];
    report(&format!("stat: of a run {pressure}, added {added} us, each {each:?}"));
    assert!(most > 15.0 && some > 5e5 && full > 0.0, "{pressure}");
    // What is told late is in what follows.
    assert!(each.iter().all(|process| some > process * 0.95), "{some} us, {each:?}");
    assert!(each.len() >= 3 && some < added * 0.98, "they wait at once at times: {some} us, {added} us");
    for fault in last["faults"].as_array().expect("it is a list") {
        let [count, total, longest] = ["count", "total_ns", "max_ns"].map(|name| number(&fault[name]));
        // Up to the end of the bucket that the longest is in; bucket and sum are not read at one moment.
        assert!(total <= (count + 100.0) * longest && (total > 0.0) == (count > 0.0), "{fault}");
    }
}

/// Waiting for more than half of a minute: the run says so once, how much is in use, and what to try. It takes 80 s, so
/// it is in the full form only.
#[test]
fn stat_says_once_that_what_a_program_uses_does_not_fit() {
    let _turn = turn();
    if !needs_uswap() {
        return;
    }
    if !full_size() {
        return report("stat: the notice after a minute is shown in the full form only");
    }
    let words = ["--bytes", "320M", "--content", "mixed", "--access", "read", "--seconds", "95"];
    let outcome = Run::plain(program("touch")).args(words).uswap(48, &["--swap", "/var/tmp:1G"]).finish();
    outcome.must_succeed();
    let notice = " % of its time for its pages, since what is used at once does not fit in the budget of 48 MiB: all \
        that the run uses is about ";
    // Once while it runs, and once in the closing table.
    assert_eq!(outcome.stderr.matches(notice).count(), 2, "{}", outcome.stderr);
    let line = outcome.stderr.lines().find(|line| line.contains(notice)).expect("it is there");
    report(&format!("stat: {line}"));
    let ram =
        line.split_once("--ram ").and_then(|(_, rest)| rest.split_once('M')).expect("it names a size").0;
    let ram: u64 = ram.parse().expect("it is a number");
    assert!((280..=460).contains(&ram), "{line}");
}
