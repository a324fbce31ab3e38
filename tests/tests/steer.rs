//! A run is found, changed, frozen and left while its program runs, which checks all its memory.

use std::io::{BufRead as _, BufReader};
use std::process::Command;
use std::time::{Duration, Instant};
use uswap_tests::process::Tree;
use uswap_tests::steering::{PATIENCE, halve, must_keep_to, must_refuse, must_say, number, stat, wait_until};
use uswap_tests::touched::{checksum, must_be_right, touch};
use uswap_tests::{
    MIB, Outcome, Run, Running, Scratch, full_size, needs, needs_root, needs_uswap, program, report,
    shared_turn, skip, turn, uswap_binary,
};

/// As [`touch`], until it is told to end.
struct Load {
    running: Running,
    scratch: Scratch,
}

impl Load {
    /// Starts what is made of its words, and waits until much of it is in the swap file.
    fn start(ram_mib: u64, make: impl FnOnce(Run) -> Run) -> Self {
        let scratch = Scratch::new();
        let words = ["--bytes", "200M", "--content", "random", "--access", "read", "--seconds", "1000"];
        let run = Run::plain(program("touch")).args(words).arg("--until").arg(scratch.file("end"));
        let run = make(run).timeout(Duration::from_secs(600));
        let mut running = run.uswap(ram_mib, &["--swap", "/var/tmp:1G"]).start();
        wait_until(&mut running, "swap_file_bytes", |bytes| bytes > 60 * MIB);
        Self { running, scratch }
    }

    fn pid(&self) -> i32 {
        self.running.pid()
    }

    /// Tells it to end. What it has seen must be right.
    #[track_caller]
    fn end(self) {
        std::fs::write(self.scratch.file("end"), "").expect("the scratch directory is writable");
        must_be_right(&self.running.finish());
    }
}

/// 200 MiB that do not compress, read here and there, and checked at the end.
fn start(ram_mib: u64) -> Option<Load> {
    uswap_binary()?;
    Some(Load::start(ram_mib, |run| run))
}

/// Programs that use their memory while the budget shrinks: one thread that reads, four that write, fork and drop.
fn loads() -> [(&'static str, Run); 2] {
    let seconds = if full_size() { "30" } else { "12" };
    let read = ["--bytes", "160M", "--content", "mixed", "--access", "read", "--count", "1000000000"];
    let read = Run::plain(program("touch")).args(read).args(["--seconds", seconds]);
    let churn = ["--threads", "4", "--bytes", "200M", "--seed", "3", "--seconds", seconds];
    [("touch", read), ("churn", Run::plain(program("churn")).args(churn).timeout(Duration::from_secs(240)))]
}

#[test]
fn a_budget_that_is_halved_holds_and_one_that_is_doubled_is_used() {
    let _turn = turn();
    if !needs_uswap() {
        return;
    }
    for (name, load) in loads() {
        let mut running = load.uswap(64, &["--swap", "/var/tmp:1G"]).start();
        halve(&mut running, name, 64);
        let pid = running.pid();
        must_say(&["set", "--ram", "128M", "--pool", "20%"], pid);
        let used = wait_until(&mut running, "used_bytes", |bytes| bytes > 90 * MIB);
        report(&format!("{name}: {} MiB are used of 128", used / MIB));
        must_keep_to(pid, 128);
        // In whole zspages.
        let pool = number(pid, "pool_bytes_max");
        assert!((128 * MIB / 5..128 * MIB / 5 + MIB / 16).contains(&pool), "{name}: {pool}");
        running.finish().must_succeed();
    }
}

#[test]
fn memory_of_a_run_that_is_left_is_right_and_unmanaged() {
    let _turn = turn();
    let Some(mut load) = start(64) else { return skip("this case is about uswap itself") };
    let pid = load.pid();
    must_say(&["leave"], pid);
    let resident = wait_until(&mut load.running, "resident_bytes", |bytes| bytes > 195 * MIB);
    report(&format!("{} MiB are at home", resident / MIB));
    let taken = |pid| stat(pid)["counters"]["kswapd_wake"].as_u64();
    let before = taken(pid);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(taken(pid), before, "nothing is evicted any more");
    must_refuse(&["leave"], pid, "was left");
    must_refuse(&["set", "--ram", "32M"], pid, "was left");
    must_refuse(&["freeze"], pid, "was left");
    load.end();
}

#[test]
fn children_of_a_run_that_is_left_are_unmanaged_too() {
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    let seconds = if full_size() { "30" } else { "10" };
    let words = ["--threads", "4", "--bytes", "200M", "--seed", "11", "--seconds", seconds];
    let load = Run::plain(program("churn")).args(words).timeout(Duration::from_secs(240));
    let mut running = load.uswap(50, &["--swap", "/var/tmp:1G"]).start();
    wait_until(&mut running, "used_bytes", |bytes| bytes > 40 * MIB);
    must_say(&["leave"], running.pid());
    // It forks, and its children check what they have.
    running.finish().must_succeed();
}

#[test]
fn a_frozen_run_takes_no_memory_and_goes_on_as_it_was() {
    let _turn = turn();
    if !needs_uswap() {
        return;
    }
    // Beside it a process that is too small to be managed.
    let script = "sleep 1000 & \"$@\"; code=$?; kill $!; exit $code";
    let beside = |run: Run| Run::plain("/bin/sh").args(["-c", script, "sh"]).args(run.command_words());
    let mut load = Load::start(100, beside);
    let pid = load.pid();
    must_refuse(&["thaw"], pid, "not frozen");
    must_say(&["freeze"], pid);
    let stopped = || {
        let processes = Tree::of(pid).look();
        assert!(processes.len() >= 4, "{processes:?}");
        processes.iter().filter(|process| process.pid != pid).all(|process| process.state() == Some('T'))
    };
    assert!(stopped(), "its processes are stopped");
    let now = stat(pid);
    let used = wait_until(&mut load.running, "used_bytes", |bytes| bytes < 20 * MIB);
    report(&format!("frozen: {} MiB are used; {now}", used / MIB));
    assert!(number(pid, "swap_file_bytes") > 100 * MIB, "{now}");
    must_refuse(&["freeze"], pid, "frozen already");
    must_refuse(&["set", "--ram", "64M"], pid, "frozen: thaw it first");
    must_refuse(&["leave"], pid, "frozen: thaw it first");
    std::thread::sleep(Duration::from_millis(500));
    assert!(stopped(), "nobody continues them");
    must_say(&["thaw"], pid);
    assert_eq!(number(pid, "ram_bytes"), 100 * MIB);
    load.end();
}

/// A run that is frozen can be ended.
#[test]
fn a_frozen_run_can_be_ended() {
    let _turn = shared_turn();
    let Some(load) = start(64) else { return skip("this case is about uswap itself") };
    let pid = load.pid();
    must_say(&["freeze"], pid);
    let child = Tree::of(pid).look().into_iter().find(|process| process.pid != pid).expect("it has a child");
    child.signal(rustix::process::Signal::KILL);
    let outcome = load.running.finish();
    assert_eq!(outcome.signal, Some(9), "{}", outcome.stderr);
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let _turn = shared_turn();
    let Some(load) = start(64) else { return skip("this case is about uswap itself") };
    let pid = load.pid();
    must_refuse(&["set", "--protect", "touch=60M"], pid, "80 % of --ram");
    must_say(&["set", "--protect", "touch=20M", "--weight", "touch=50"], pid);
    must_refuse(&["set", "--ram", "16M"], pid, "80 % of --ram");
    assert_eq!(number(pid, "ram_bytes"), 64 * MIB);
    let process = stat(pid)["processes"][0].clone();
    let began = Instant::now();
    while stat(pid)["processes"][0]["weight"] != 50 {
        assert!(began.elapsed() < PATIENCE, "{process}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let said = must_say(&["set", "--protect", "touch=0", "--weight", "touch=0", "--on-full", "kill"], pid);
    assert!(said.contains("--on-full went from grow to kill"), "{said}");
    load.end();
}

#[test]
fn runs_are_listed_and_watched() {
    let _turn = shared_turn();
    let Some(load) = start(64) else { return skip("this case is about uswap itself") };
    let pid = load.pid().to_string();
    let uswap = || Command::new(uswap_binary().expect("it was looked for"));
    let list = uswap().arg("ps").output().expect("it starts");
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let line = list.lines().find(|line| line.trim_start().starts_with(&format!("{pid} ")));
    let line = line.unwrap_or_else(|| panic!("the run is not listed: {list}"));
    assert!(line.contains(" 64 MiB ") && line.ends_with(" touch"), "{line}");
    let json = uswap().args(["ps", "--json"]).output().expect("it starts").stdout;
    let runs: Vec<serde_json::Value> = serde_json::from_slice(&json).expect("it is JSON");
    let run =
        runs.iter().find(|run| run["pid"].as_i64() == Some(i64::from(load.pid()))).expect("it is among them");
    assert_eq!((&run["program"], run["ram_bytes"].as_u64()), (&"touch".into(), Some(64 * MIB)));
    assert!(run["faults"].as_array().is_some_and(|faults| !faults.is_empty()), "{run}");
    let mut watch = uswap();
    watch.args(["stat", "--watch=0.2", "--json", &pid]).stdout(std::process::Stdio::piped());
    let mut watch = watch.spawn().expect("it starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("it is piped")).lines();
    let two = [lines.next(), lines.next()].map(|line| line.is_some_and(|line| line.is_ok()));
    assert_eq!(two, [true; 2], "it ended before");
    load.end();
    lines.for_each(drop);
    assert!(watch.wait().expect("it ends with the run").success());
}

/// In a pid namespace of its own there is one run, and it needs no name.
#[test]
fn the_only_run_is_found_without_a_name() {
    let _turn = shared_turn();
    let Some(uswap) = uswap_binary() else { return skip("this case is about uswap itself") };
    if !needs_root("a pid namespace of its own") || !needs(&["unshare"]) {
        return;
    }
    let script = "\
        $USWAP stat && exit 1; $USWAP stat 2>&1 | grep -q 'no run of this user' || exit 2\n\
        $USWAP run -q --ram 16M -- sleep 600 & first=$!\n\
        until $USWAP stat; do sleep 0.05; done\n\
        $USWAP set --ram 32M || exit 3\n\
        $USWAP writeback --older-than 0s || exit 4\n\
        $USWAP run -q --ram 16M -- sleep 600 & second=$!\n\
        until $USWAP stat $second; do sleep 0.05; done\n\
        $USWAP stat 2>&1 | grep -q \"2 runs are under way, of processes\" || exit 5\n\
        test $($USWAP ps | wc -l) = 3 || exit 6\n\
        $USWAP run -q --ram 16M -- $USWAP stat || exit 7\n\
        kill $first $second; wait $first; wait $second; $USWAP ps; echo all";
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "sh", "-c", script]).env("USWAP", uswap);
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.ends_with("all\n"), "{output:?}");
}

/// What a program printed is what it prints in a run whose limits stay as they are.
#[test]
fn options_of_a_file_hold_for_the_program_that_they_name() {
    let _turn = shared_turn();
    let Some(uswap) = uswap_binary() else { return skip("this case is about uswap itself") };
    let scratch = Scratch::new();
    let file = scratch.file("uswap.toml");
    std::fs::write(&file, "[run]\nquiet = true\n[profile.touch]\nram = '50M'\nswap = ['/var/tmp:1G']\n")
        .expect("the scratch directory is writable");
    let words = touch().command_words();
    let run = |config: &str| {
        let mut run = Run::plain(&uswap).arg("run").arg("--").args(&words);
        run = run.env("USWAP_CONFIG", config);
        run.timeout(Duration::from_secs(240)).finish()
    };
    let outcome: Outcome = run(file.to_str().expect("it is text"));
    must_be_right(&outcome);
    assert_eq!(outcome.stderr, "", "it is told to be quiet");
    assert!(checksum(&outcome).is_some());
    let outcome = run("");
    assert!(outcome.code == Some(2) && outcome.stderr.contains("--ram"), "{}", outcome.stderr);
    let outcome = run("/no/such/file");
    assert!(outcome.code == Some(125) && outcome.stderr.contains("cannot be read"), "{}", outcome.stderr);
}
