//! `uswap stat` says how a run goes while it goes.

use std::process::Command;
use std::time::Duration;
use uswap_tests::{Run, full_size, needs_uswap, program, report, skip, turn, uswap_binary};

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
    let words = ["--bytes", "160M", "--content", "mixed", "--access", "read", "--count", "100000000"];
    let running = Run::plain(program("touch"))
        .args(words)
        .args(["--seconds", "9"])
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
    assert!(0.0 <= earlier && earlier < later && later < 9.5e6, "{earlier} us, then {later}");
}

/// What a program of several threads waits: of one that waits beside one that sleeps all is full; beside one that
/// computes nothing is.
#[test]
fn stat_tells_full_from_some_by_what_the_other_threads_do() {
    let _turn = turn();
    let Some(uswap) = uswap_binary() else { return skip("this case is about uswap itself") };
    let totals = [["--idle", "2"], ["--spin", "1"]].map(|others| {
        let words = ["--bytes", "160M", "--content", "mixed", "--access", "read", "--seconds", "10"];
        let run = Run::plain(program("touch")).args(words).args(others);
        let running = run.uswap(48, &["--swap", "/var/tmp:1G"]).start();
        let pid = running.pid().to_string();
        std::thread::sleep(Duration::from_secs(6));
        // It uses all of its 160 MiB, of which at most 48 are in RAM. After they were filled it takes a while until the
        // others have come back, and longer on a busy machine.
        let mut last = None;
        let in_use_mib = |stat: &serde_json::Value| {
            stat["processes"][0]["in_use_bytes"].as_u64().expect("it is a number") >> 20
        };
        while last.as_ref().is_none_or(|stat| in_use_mib(stat) < 64) {
            let answer = Command::new(&uswap).args(["stat", "--json", &pid]).output().expect("it starts");
            // The run may have ended.
            let Ok(stat) = serde_json::from_slice(&answer.stdout) else { break };
            last = Some(stat);
            std::thread::sleep(Duration::from_millis(100));
        }
        running.finish().must_succeed();
        let stat = last.expect("it was asked while it ran");
        assert!(stat["counters"]["zswpout"].as_u64() > Some(1000), "{stat}");
        let process = &stat["processes"][0];
        assert!((64..=210).contains(&in_use_mib(&stat)), "{process}");
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
    let touch =
        format!("{} --bytes 80M --content mixed --access read --seconds 9", program("touch").display());
    let script = format!("for seed in 1 2 3; do {touch} --seed $seed & done; wait");
    let running = Run::plain("/bin/sh").args(["-c", &script]).uswap(48, &["--swap", "/var/tmp:1G"]).start();
    let pid = running.pid().to_string();
    let number = |value: &serde_json::Value| value.as_f64().expect("it is a number");
    let mut before: Option<serde_json::Value> = None;
    let mut most = 0.0_f64;
    for _ in 0..32 {
        std::thread::sleep(Duration::from_millis(250));
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
            // Time and pressure are not read at one moment, and the machine is busy.
            let more = waited - number(&before["pressure"][kind]["total_us"]);
            let passed = uptime_us(&stat) - uptime_us(before);
            assert!((0.0..=passed + 1e5).contains(&more), "{kind}: {more} of {passed} us");
        }
        assert!(
            number(&stat["pressure"]["full"]["total_us"]) <= number(&stat["pressure"]["some"]["total_us"])
        );
        most = most.max(number(&stat["pressure"]["some"]["avg10"]));
        before = Some(stat);
    }
    let last = before.expect("it was asked");
    running.finish().must_succeed();
    let [some, full] = ["some", "full"].map(|kind| number(&last["pressure"][kind]["total_us"]));
    let each: Vec<f64> = last["processes"]
        .as_array()
        .expect("it is a list")
        .iter()
        .map(|process| number(&process["some"]["total_us"]))
        .collect();
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
