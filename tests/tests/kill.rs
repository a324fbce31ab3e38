//! SIGKILL of any process of the tree at any time: the rest stays right, and the memory of the dead is given back.

use rustix::process::Signal;
use std::time::{Duration, Instant};
use uswap_tests::content::mix;
use uswap_tests::process::Process;
use uswap_tests::steering::{PATIENCE, wait_until};
use uswap_tests::{
    MIB, Run, Scratch, full_size, long_run, needs, program, report, shared_turn, uswap_binary,
};

/// A random process of the tree; never the one that was started (the supervisor, or the shell), nor its first child
/// when there is a supervisor (then that is the shell).
fn victim(processes: &[Process], root: i32, chance: u64) -> Option<Process> {
    let workers: Vec<&Process> =
        processes.iter().filter(|process| process.pid != root && process.name() == "churn").collect();
    (!workers.is_empty()).then(|| *workers[(chance % workers.len() as u64) as usize])
}

/// The rounds of a test that may run for as long as one likes: until the time of [`long_run`] is over, else so many.
fn rounds(full: u64, short: u64) -> impl Iterator<Item = u64> {
    let count = if full_size() { full } else { short };
    let (started, long) = (Instant::now(), long_run());
    let first = long.map_or(0, |run| run.seed * 1_000_000);
    (first..).take_while(move |round| {
        long.map_or(*round < count, |run| *round == first || started.elapsed() < run.time)
    })
}

/// Four churns under one budget. At random times one process of them, or of their children, is killed. Every churn
/// that was not hit, directly or through its child, must end well; none may see a wrong page.
#[test]
fn kill_any_process_and_the_rest_stays_right() {
    let _turn = shared_turn();
    let seconds = if long_run().is_some() { 24 } else { 8 };
    for round in rounds(20, 2) {
        // In turn: most of what is evicted stays in the pool, or goes to the swap file.
        let options: &[&str] = if round % 2 == 0 { &[] } else { &["--pool", "5%"] };
        let churn = program("churn");
        let one = |seed: u64| {
            format!(
                "({} --threads 3 --seconds {seconds} --bytes 60M --seed {seed}; echo seed {seed} code $?) & ",
                churn.display()
            )
        };
        let script: String = (0..4).map(|number| one(round * 10 + number)).collect::<String>() + "wait";
        let mut running = Run::plain("/bin/sh").args(["-c", &script]).uswap(80, options).start();
        let mut kills = 0;
        while !running.ended() && kills < 3 {
            std::thread::sleep(Duration::from_millis(seconds * (90 + mix(round * 100 + kills) % 190)));
            if let Some(process) = victim(&running.processes(), running.pid(), mix(round * 77 + kills)) {
                process.signal(Signal::KILL);
                kills += 1;
            }
        }
        let outcome = running.finish();
        outcome.must_succeed();
        assert!(!outcome.stderr.contains("MISMATCH"), "{}", outcome.stderr);
        let good = outcome.stdout.matches("code 0").count();
        let killed = outcome.stdout.matches("code 137").count();
        // A churn whose child is killed by us says so and ends with 1: it is not a victim of uswap.
        let child_killed = outcome.stderr.matches("wait status").count();
        report(&format!(
            "kill_any_process {round}: {kills} kills: {good} good, {killed} killed, {child_killed} lost a child"
        ));
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        assert_eq!(good + killed + child_killed, 4, "of four churns; they said:\n{said}");
        assert!(good >= 1, "none was left alone; they said:\n{said}");
    }
}

/// One process with much memory is killed; then its resident and its compressed memory are given back.
#[test]
fn kill_gives_the_memory_back() {
    let _turn = shared_turn();
    let touch = program("touch");
    let touch = touch.display();
    let scratch = Scratch::new();
    let end = scratch.file("end");
    let script = format!(
        "{touch} --bytes 16M --content random --seconds 1 --hold 600 --until {} & {touch} --bytes 300M --content text \
         --seconds 1000 & wait",
        end.display()
    );
    let mut running = Run::plain("/bin/sh").args(["-c", &script]).uswap(100, &[]).start();
    if uswap_binary().is_some() {
        // Most of it, so that there is much of both.
        wait_until(&mut running, "pool_bytes", |bytes| bytes > 20 * MIB);
    }
    let started = Instant::now();
    while running.samples().last_bytes <= 80 * MIB {
        let now = running.samples().last_bytes;
        assert!(started.elapsed() < PATIENCE && !running.ended(), "only {} MiB are used", now / MIB);
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = running.samples().last_bytes;
    let large = running.processes().into_iter().filter(|process| process.name() == "touch").find(|process| {
        std::fs::read_to_string(format!("/proc/{}/cmdline", process.pid))
            .is_ok_and(|words| words.contains("300M"))
    });
    large.expect("the large process runs").signal(Signal::KILL);
    let started = Instant::now();
    let limit = 48 * MIB;
    while running.samples().last_bytes > limit {
        let now = running.samples().last_bytes;
        assert!(
            started.elapsed() < Duration::from_secs(60) && !running.ended(),
            "{} MiB are still used",
            now / MIB
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    report(&format!(
        "kill_gives_back: {} MiB before, {} MiB after {:?}",
        before / MIB,
        running.samples().last_bytes / MIB,
        started.elapsed()
    ));
    std::fs::write(end, "").expect("the scratch directory is writable");
    running.finish().must_succeed();
}

/// The supervisor itself is killed: the programs may end or go on, but none hangs and none sees a wrong page.
#[test]
fn kill_the_supervisor_and_nothing_hangs() {
    let _turn = shared_turn();
    if uswap_binary().is_none() {
        return;
    }
    for round in 0..if full_size() { 10 } else { 2 } {
        let seed = round.to_string();
        let words = ["--threads", "4", "--seconds", "6", "--bytes", "150M", "--seed", &seed];
        let running = Run::plain(program("churn")).args(words).uswap(50, &[]).start();
        std::thread::sleep(Duration::from_millis(500 + mix(round) % 4000));
        let supervisor = Process::now(running.pid()).expect("it runs");
        let family = running.processes();
        supervisor.signal(Signal::KILL);
        let started = Instant::now();
        while family.iter().any(Process::alive) {
            let alive: Vec<_> = family.iter().filter(|process| process.alive()).collect();
            assert!(started.elapsed() < Duration::from_secs(60), "{alive:?} hang without their supervisor");
            std::thread::sleep(Duration::from_millis(50));
        }
        let outcome = running.finish();
        assert!(!outcome.stderr.contains("MISMATCH"), "{}", outcome.stderr);
    }
}

/// One process says for all of them that the supervisor is gone, though they only sleep, and `-q` was given.
#[test]
fn kill_the_supervisor_and_one_of_its_programs_says_so() {
    let _turn = shared_turn();
    if uswap_binary().is_none() || !needs(&["python3"]) {
        return;
    }
    // Their own standard error leads nowhere: the supervisor's is meant. Small ones have nothing to do with the run.
    let sleeper = "import time; block = bytearray(8 << 20); print('up', flush=True); time.sleep(1000)";
    let script =
        format!("for number in 1 2 3 4; do /usr/bin/python3 -c \"{sleeper}\" 2>/dev/null & done; wait");
    let mut running = Run::plain("/bin/sh").args(["-c", &script]).uswap(64, &["-q"]).start();
    let started = Instant::now();
    while running.output_so_far().matches("up").count() < 4 {
        assert!(
            started.elapsed() < Duration::from_secs(20) && !running.ended(),
            "{}",
            running.messages_so_far()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    // All have joined the run by then, and kswapd of each sleeps.
    std::thread::sleep(Duration::from_millis(500));
    let family = running.processes();
    let supervisor = Process::now(running.pid()).expect("it runs");
    supervisor.signal(Signal::KILL);
    const SAID: &str = "was killed or has crashed";
    let killed = Instant::now();
    while !running.messages_so_far().contains(SAID) {
        assert!(killed.elapsed() < Duration::from_secs(20), "nobody said so: {}", running.messages_so_far());
        std::thread::sleep(Duration::from_millis(20));
    }
    // The others notice too: each looks once in a second.
    std::thread::sleep(Duration::from_millis(2500));
    let said = running.messages_so_far();
    let programs: Vec<_> = family.iter().filter(|process| process.pid != supervisor.pid).collect();
    let alive = programs.iter().filter(|process| process.alive()).count();
    programs.iter().for_each(|process| process.signal(Signal::KILL));
    let _killed = running.finish();
    assert_eq!(said.matches(SAID).count(), 1, "{said}");
    assert!(said.contains(&format!("process {}", supervisor.pid)), "{said}");
    assert_eq!((programs.len(), alive), (5, 5), "a shell and four that sleep go on");
}
