//! What passes between a program and the shell must not change: streams, exit code, signals, job control, orphans.
//!
//! This file plays two parts. Called with `as-runner LIVE_FILE PROGRAM ARGS...` it is `uswap run` with a made-up
//! manager instead of an engine: managed processes live as long as the file LIVE_FILE exists. Otherwise it runs the
//! tests, each of which starts itself in that part and watches from outside, as a shell would.

#![forbid(unsafe_code)]

use std::io::{Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};
use uswap_cli::process::{Manager, Notices, watch};

/// Longer than anything here takes on a slow machine; reached only by a hang.
const PATIENCE: Duration = Duration::from_secs(120);

/// In the environment of the runner: it is told to be quiet.
const QUIET: &str = "QUIET";

struct LiveWhileFileExists(PathBuf);

impl Manager for LiveWhileFileExists {
    fn attach(&mut self, pid: u32) {
        assert!(pid > 1);
    }

    fn live_processes(&self) -> usize {
        usize::from(self.0.exists())
    }

    fn leave_behind(&self) {}

    fn is_frozen(&self) -> bool {
        false
    }
}

fn act_as_runner(words: &[String]) -> ! {
    let [live_file, program, arguments @ ..] = words else { panic!("as-runner LIVE_FILE PROGRAM ARGS...") };
    let mut command = Command::new(program);
    command.args(arguments);
    let mut manager = LiveWhileFileExists(live_file.into());
    let notices = if std::env::var_os(QUIET).is_some() { Notices::Quiet } else { Notices::Many };
    match watch(&mut command, &mut manager, notices) {
        Ok(ending) => ending.pass_on(),
        Err(failure) => failure.ending().pass_on(),
    }
}

/// A runner in a process group of its own, as a shell with job control makes one.
struct Run {
    child: Child,
    pid: Pid,
}

impl Run {
    fn start(program: &[&str]) -> Self {
        Self::start_with_live_file(Path::new("/no/such/file"), program)
    }

    fn start_with_live_file(live_file: &Path, program: &[&str]) -> Self {
        Self::start_from(Command::new(std::env::current_exe().unwrap()), live_file, program)
    }

    fn start_from(mut command: Command, live_file: &Path, program: &[&str]) -> Self {
        command.arg("as-runner").arg(live_file).args(program);
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
        Self { child, pid }
    }

    fn read_line(&mut self) -> String {
        let mut line = String::new();
        let out = self.child.stdout.as_mut().unwrap();
        let mut byte = [0];
        while out.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            line.push(char::from(byte[0]));
        }
        line
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }

    fn signal_group(&self, signal: Signal) {
        kill_process_group(self.pid, signal).unwrap();
    }

    fn end(mut self) -> (ExitStatus, String, String) {
        drop(self.child.stdin.take());
        let since = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(since.elapsed() < PATIENCE, "the runner hangs");
            std::thread::sleep(Duration::from_millis(5));
        };
        let (mut out, mut err) = (String::new(), String::new());
        self.child.stdout.as_mut().unwrap().read_to_string(&mut out).unwrap();
        self.child.stderr.as_mut().unwrap().read_to_string(&mut err).unwrap();
        (status, out, err)
    }
}

impl Drop for Run {
    /// A test that failed in the middle leaves nothing behind.
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process_group(self.pid, Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let since = Instant::now();
    while !condition() {
        assert!(since.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn state_of(pid: &str) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 1..].trim_start().chars().next()
}

fn parent_of(pid: &str) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 1..].split_ascii_whitespace().nth(1).map(str::to_owned)
}

fn streams_pass_untouched() {
    let mut run = Run::start(&["sh", "-c", "cat; echo problem >&2"]);
    let mut bytes = Vec::from_iter((0..200_000_u32).map(|number| b'a' + (number % 26) as u8));
    bytes.push(b'\n');
    let mut stdin = run.child.stdin.take().unwrap();
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&sent).unwrap());
    let mut out = vec![0; bytes.len()];
    run.child.stdout.as_mut().unwrap().read_exact(&mut out).unwrap();
    writer.join().unwrap();
    assert!(out == bytes);
    let (status, out, err) = run.end();
    assert_eq!((status.code(), out.as_str(), err.as_str()), (Some(0), "", "problem\n"));
}

fn the_exit_code_is_the_programs() {
    for code in [0, 1, 2, 77, 125, 255] {
        let (status, ..) = Run::start(&["sh", "-c", &format!("exit {code}")]).end();
        assert_eq!(status.code(), Some(code));
    }
}

fn the_deadly_signal_is_the_programs() {
    for (name, number) in [
        ("KILL", 9),
        ("SEGV", 11),
        ("TERM", 15),
        ("ABRT", 6),
        ("PIPE", 13),
        ("INT", 2),
        ("USR1", 10),
        ("PWR", 30),
    ] {
        // A shell that starts tests in the background lets them ignore SIGINT.
        let (status, ..) =
            Run::start(&["env", "--default-signal", "sh", "-c", &format!("kill -{name} $$")]).end();
        assert_eq!(status.signal(), Some(number), "{name}");
        assert!(!status.core_dumped(), "{name}: a core of uswap is of no use");
    }
}

fn a_program_that_cannot_start_gives_126_or_127() {
    let (status, _, err) = Run::start(&["/no/such/program"]).end();
    assert_eq!(status.code(), Some(127), "{err}");
    let (status, _, err) = Run::start(&["/etc/hostname"]).end();
    assert_eq!(status.code(), Some(126), "{err}");
    assert!(err.contains("/etc/hostname"), "{err}");
}

fn signals_to_the_runner_alone_reach_the_program() {
    for (name, signal) in [
        ("TERM", Signal::TERM),
        ("HUP", Signal::HUP),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
        ("WINCH", Signal::WINCH),
    ] {
        let script = format!("trap 'echo got; exit 5' {name}; echo ready; while :; do sleep 0.01; done");
        let mut run = Run::start(&["sh", "-c", &script]);
        assert_eq!(run.read_line(), "ready");
        run.signal(signal);
        let (status, out, _) = run.end();
        assert_eq!((status.code(), out.as_str()), (Some(5), "got\n"), "{name}");
    }
}

/// With a real terminal: its signals have no sender, which is how the runner knows that the program has them already.
/// (One that a process sends to the whole group comes twice.)
fn an_interrupt_from_the_terminal_reaches_the_program_once() {
    let program = "trap 'echo int' INT; trap 'exit 6' QUIT; echo ready; while :; do sleep 0.01; done";
    // A shell that starts tests in the background lets them ignore both signals.
    let runner = format!(
        "exec env --default-signal '{}' as-runner /no/such/file sh -c \"{program}\"",
        std::env::current_exe().unwrap().display()
    );
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &runner, "/dev/null"]);
    if Command::new("script").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("SKIP: there is no `script` (Debian: bsdutils), which makes a terminal");
        return;
    }
    let mut run = Run::spawn(script);
    let next = |run: &mut Run| run.read_line().trim_start_matches("^C").trim_end().to_owned();
    assert_eq!(next(&mut run), "ready");
    for _ in 0..3 {
        run.child.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
        assert_eq!(next(&mut run), "int");
    }
    // Time for a second copy to come, if there were one.
    std::thread::sleep(Duration::from_millis(200));
    run.child.stdin.as_mut().unwrap().write_all(b"\x1c").unwrap();
    let (status, out, err) = run.end();
    assert_eq!(status.code(), Some(6), "{out}{err}");
    assert!(!out.contains("int"), "{out}");
}

fn a_program_that_ignores_the_interrupt_keeps_the_runner_alive() {
    let mut run = Run::start(&["sh", "-c", "trap '' INT QUIT; echo ready; read line; exit 9"]);
    assert_eq!(run.read_line(), "ready");
    run.signal_group(Signal::INT);
    run.signal_group(Signal::QUIT);
    std::thread::sleep(Duration::from_millis(100));
    let (status, ..) = run.end();
    assert_eq!(status.code(), Some(9));
}

fn a_hangup_that_was_ignored_stays_ignored() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(std::env::current_exe().unwrap());
    let mut run =
        Run::start_from(shell, Path::new("/no/such/file"), &["sh", "-c", "echo $$; read line; exit 3"]);
    let program: i32 = run.read_line().parse().unwrap();
    run.signal(Signal::HUP);
    kill_process(Pid::from_raw(program).unwrap(), Signal::HUP).unwrap();
    let (status, ..) = run.end();
    assert_eq!(status.code(), Some(3));
}

fn a_stopped_program_stops_the_runner_and_both_go_on() {
    for to_group in [true, false] {
        let mut run = Run::start(&["sh", "-c", "echo $$; read line; exit 4"]);
        let program = run.read_line();
        let program_pid = Pid::from_raw(program.parse().unwrap()).unwrap();
        // The terminal stops the group; a debugger or user may stop the program alone.
        if to_group {
            run.signal_group(Signal::TSTP)
        } else {
            kill_process(program_pid, Signal::STOP).unwrap()
        }
        until("the stop of the runner", || {
            let changed = waitpid(Some(run.pid), WaitOptions::NOHANG | WaitOptions::UNTRACED).unwrap();
            changed.is_some_and(|(_, status)| status.stopped())
        });
        assert_eq!(state_of(&program), Some('T'));
        if to_group {
            run.signal_group(Signal::CONT)
        } else {
            run.signal(Signal::CONT)
        }
        until("the program's going on", || state_of(&program) == Some('S'));
        let (status, ..) = run.end();
        assert_eq!(status.code(), Some(4), "to group: {to_group}");
    }
}

fn orphans_are_adopted_and_reaped() {
    // The inner shell ends at once and leaves its child behind, while the program goes on.
    let script = "sh -c 'sleep 1000 </dev/null >/dev/null 2>&1 & echo $!'; read line; exit 0";
    let mut run = Run::start(&["sh", "-c", script]);
    let orphan = run.read_line();
    let runner = run.child.id().to_string();
    until("the orphan's adoption", || parent_of(&orphan) == Some(runner.clone()));
    kill_process(Pid::from_raw(orphan.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    until("the orphan's reaping", || !Path::new(&format!("/proc/{orphan}")).exists());
    let (status, ..) = run.end();
    assert_eq!(status.code(), Some(0));
}

fn unmanaged_leftovers_are_not_waited_for() {
    let since = Instant::now();
    let mut run = Run::start(&["sh", "-c", "sleep 1000 </dev/null >/dev/null 2>&1 & echo $!; exit 7"]);
    let left: i32 = run.read_line().parse().unwrap();
    let (status, ..) = run.end();
    kill_process(Pid::from_raw(left).unwrap(), Signal::KILL).expect("it was still running");
    assert_eq!(status.code(), Some(7));
    assert!(since.elapsed() < PATIENCE);
}

fn managed_leftovers_keep_the_runner_until_they_are_gone() {
    let live_file = std::env::temp_dir().join(format!("uswap-live-{}-1", std::process::id()));
    std::fs::write(&live_file, b"").unwrap();
    let mut run = Run::start_with_live_file(&live_file, &["sh", "-c", "exit 8"]);
    std::thread::sleep(Duration::from_millis(800));
    assert!(run.child.try_wait().unwrap().is_none(), "it must stay while managed processes live");
    std::fs::remove_file(&live_file).unwrap();
    let (status, _, err) = run.end();
    assert_eq!(status.code(), Some(8));
    assert!(err.contains("run on and need uswap"), "{err}");
}

fn a_request_to_end_is_sent_to_leftovers_and_the_second_one_leaves() {
    let live_file = std::env::temp_dir().join(format!("uswap-live-{}-2", std::process::id()));
    std::fs::write(&live_file, b"").unwrap();
    let script =
        "setsid sh -c 'trap \"echo asked\" TERM; echo ready; while :; do sleep 0.05; done' & echo $!; exit 8";
    let mut run = Run::start_with_live_file(&live_file, &["sh", "-c", script]);
    let (first, second) = (run.read_line(), run.read_line());
    let left = if first == "ready" { second } else { first };
    let runner = run.child.id().to_string();
    until("the program's end", || parent_of(&left) == Some(runner.clone()));
    std::thread::sleep(Duration::from_millis(200));
    run.signal(Signal::TERM);
    assert_eq!(run.read_line(), "asked");
    assert!(run.child.try_wait().unwrap().is_none(), "one request is for the leftovers");
    run.signal(Signal::TERM);
    until("leaving", || run.child.try_wait().unwrap().is_some());
    assert_eq!(run.child.wait().unwrap().code(), Some(8));
    kill_process(Pid::from_raw(left.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    std::fs::remove_file(&live_file).unwrap();
}

/// `-q` hides what is only good to know, not that a budget is no longer kept.
fn leaving_processes_behind_is_said_quietly_too() {
    let live_file = std::env::temp_dir().join(format!("uswap-live-{}-3", std::process::id()));
    std::fs::write(&live_file, b"").unwrap();
    let script = "setsid sh -c 'trap \"echo asked\" TERM; while :; do sleep 0.05; done' & echo $!; exit 0";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(QUIET, "1");
    let mut run = Run::start_from(command, &live_file, &["sh", "-c", script]);
    let left = run.read_line();
    let runner = run.child.id().to_string();
    until("the program's end", || parent_of(&left) == Some(runner.clone()));
    std::thread::sleep(Duration::from_millis(200));
    run.signal(Signal::TERM);
    assert_eq!(run.read_line(), "asked");
    run.signal(Signal::TERM);
    until("leaving", || run.child.try_wait().unwrap().is_some());
    kill_process(Pid::from_raw(left.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    let (_, _, err) = run.end();
    assert_eq!(err, "uswap: leaving 1 process(es) on SIGTERM: their budget is not kept from now on\n");
    std::fs::remove_file(&live_file).unwrap();
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "as-runner") {
        act_as_runner(&words[1..]);
    }
    macro_rules! tests {
        ($($name:ident),* $(,)?) => { [$((stringify!($name), $name as fn())),*] };
    }
    let tests = tests![
        streams_pass_untouched,
        the_exit_code_is_the_programs,
        the_deadly_signal_is_the_programs,
        a_program_that_cannot_start_gives_126_or_127,
        signals_to_the_runner_alone_reach_the_program,
        an_interrupt_from_the_terminal_reaches_the_program_once,
        a_program_that_ignores_the_interrupt_keeps_the_runner_alive,
        a_hangup_that_was_ignored_stays_ignored,
        a_stopped_program_stops_the_runner_and_both_go_on,
        orphans_are_adopted_and_reaped,
        unmanaged_leftovers_are_not_waited_for,
        managed_leftovers_keep_the_runner_until_they_are_gone,
        a_request_to_end_is_sent_to_leftovers_and_the_second_one_leaves,
        leaving_processes_behind_is_said_quietly_too,
    ];
    // As far as `cargo test` needs it: `--list`, and names to choose from. A failed check aborts, so the last name
    // printed is the one that failed.
    let list = words.iter().any(|word| word == "--list");
    let names: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    for (name, test) in tests {
        if list {
            println!("{name}: test");
        } else if names.is_empty() || names.iter().any(|wanted| name.contains(wanted.as_str())) {
            print!("test {name} ... ");
            std::io::stdout().flush().unwrap();
            test();
            println!("ok");
        }
    }
}
