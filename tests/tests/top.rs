//! `uswap top` shows a run and gives the terminal back; `uswap record` and `dump` keep how it went.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use uswap_tests::steering::wait_until;
use uswap_tests::{
    MIB, Run, Running, Scratch, needs, needs_uswap, program, report, shared_turn, uswap_binary,
};

/// Longer than anything here takes on a slow machine; reached only by a hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program that mostly waits for its pages, until there is the file `end`.
fn waits(end: &Path) -> Running {
    let words = ["--bytes", "160M", "--content", "mixed", "--access", "read", "--seconds", "600"];
    let run = Run::plain(program("touch")).args(words).arg("--until").arg(end);
    run.uswap(48, &["--swap", "/var/tmp:1G"]).start()
}

/// `uswap WORDS...`.
fn uswap(words: &[&str]) -> Command {
    let mut command = Command::new(uswap_binary().expect("it was looked for"));
    command.args(words);
    command
}

/// The run answers from now on.
fn wait_until_it_listens(running: &mut Running) {
    while !uswap(&["stat", &running.pid().to_string()]).output().expect("it starts").status.success() {
        assert!(!running.ended(), "{}", running.messages_so_far());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[track_caller]
fn text(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("it is text")
}

#[test]
fn a_run_is_recorded_until_it_ends_and_dumped() {
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("touch.uswap").to_string_lossy().into_owned();
    let end = scratch.file("end");
    let mut running = waits(&end);
    // There is something to be seen from the first sample on.
    wait_until(&mut running, "pool_bytes", |bytes| bytes > 8 * MIB);
    let pid = running.pid().to_string();
    let short = scratch.file("short.uswap").to_string_lossy().into_owned();
    text(uswap(&["record", &short, &pid, "--delay", "0.1", "--duration", "1s"]).output().expect("it starts"));
    let again = uswap(&["record", &short, &pid]).output().expect("it starts");
    let why = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.code() == Some(1) && why.contains("is there already"), "{again:?}");
    let mut interrupted =
        uswap(&["record", &scratch.file("int").to_string_lossy(), &pid]).spawn().expect("it starts");
    while !scratch.file("int").exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    signal(&interrupted, Signal::INT);
    assert_eq!(interrupted.wait().expect("it is ours").code(), Some(0));
    let mut recording = uswap(&["record", &file, &pid, "--delay", "0.2"]).spawn().expect("it starts");
    // Three lines: a header and two samples.
    let began = Instant::now();
    while std::fs::read(&file).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count() < 3 {
        assert!(began.elapsed() < PATIENCE && !running.ended(), "nothing is recorded");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::write(&end, "").expect("the scratch directory is writable");
    running.finish().must_succeed();
    assert!(recording.wait().expect("it is ours").success());

    let table = text(uswap(&["dump", &file]).output().expect("it starts"));
    let names: Vec<&str> = table.lines().next().expect("it has names").split(',').collect();
    let column = |name: &str| {
        let index = names.iter().position(|one| *one == name).unwrap_or_else(|| panic!("{name}: {names:?}"));
        let number = move |line: &str| line.split(',').nth(index).and_then(|cell| cell.parse::<f64>().ok());
        table.lines().skip(1).map(number).collect::<Vec<_>>()
    };
    let compressed = column("zswpout");
    report(&format!("record: {} samples, some {:?}", compressed.len(), column("some").last()));
    assert!(compressed.len() >= 2, "{table}");
    let shares = [column("some"), column("full")].concat();
    assert!(shares.iter().flatten().all(|share| (0.0..=1.0).contains(share)), "{table}");
    assert!(compressed.is_sorted() && compressed.last().copied().flatten() > Some(1000.0), "{compressed:?}");
    assert!(column("ram_bytes").iter().all(|ram| *ram == Some(48.0 * 1024.0 * 1024.0)), "{table}");
    let processes = text(uswap(&["dump", &file, "--processes"]).output().expect("it starts"));
    assert!(processes.lines().skip(1).any(|line| line.contains(",touch,")), "{processes}");
    let json = text(uswap(&["dump", "-O", "json", &short]).output().expect("it starts"));
    let list: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert!(list[0]["rates"].is_null() && list[1]["rates"]["seconds"].as_f64() > Some(0.0), "{list}");
    assert_eq!(list[1]["stat"]["program"], "touch");
}

/// `uswap WORDS...` in a terminal of 80x24, and what it writes there.
struct Screen {
    script: Child,
    pid_file: std::path::PathBuf,
    pieces: Receiver<Vec<u8>>,
    seen: Vec<u8>,
}

impl Screen {
    fn new(scratch: &Scratch, name: &str, words: &str) -> Self {
        let binary = uswap_binary().expect("it was looked for");
        let pid_file = scratch.file(name);
        let command = format!(
            "stty rows 24 cols 80; echo $$ > '{}'; exec '{}' {words}",
            pid_file.display(),
            binary.display()
        );
        let mut script = Command::new("script")
            .args(["--quiet", "--return", "--command", &command, "/dev/null"])
            .env("SHELL", "/bin/sh")
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut output = script.stdout.take().expect("it is piped");
        let (sender, pieces) = channel();
        std::thread::spawn(move || {
            let mut bytes = vec![0; 65_536];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { script, pid_file, pieces, seen: Vec::new() }
    }

    /// Waits until these words were written, one behind the other.
    #[track_caller]
    fn shows(&mut self, words: &str) {
        while !String::from_utf8_lossy(&self.seen).contains(words) {
            match self.pieces.recv_timeout(PATIENCE) {
                Ok(piece) => self.seen.extend(piece),
                Err(error) => panic!("{words}: {error}: {}", String::from_utf8_lossy(&self.seen)),
            }
        }
    }

    fn press(&mut self, keys: &str) {
        let keyboard = self.script.stdin.as_mut().expect("it is piped");
        keyboard.write_all(keys.as_bytes()).expect("it listens");
    }

    /// Waits for the end; the exit code, and whether the terminal was given back.
    fn end(mut self) -> (Option<i32>, bool) {
        while let Ok(piece) = self.pieces.recv_timeout(PATIENCE) {
            self.seen.extend(piece);
        }
        let code = self.script.wait().expect("it is ours").code();
        let all = String::from_utf8_lossy(&self.seen).into_owned();
        let position = |sequence: &str| all.rfind(sequence);
        let left = position("\x1b[?1049l") > position("\x1b[?1049h") && position("\x1b[?1049h").is_some();
        (code, left && position("\x1b[?25h") > position("\x1b[?25l"))
    }

    fn pid(&self) -> Pid {
        let pid = std::fs::read_to_string(&self.pid_file).expect("it has started");
        Pid::from_raw(pid.trim().parse().expect("it is a number")).expect("it is a process")
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id() as i32).expect("it is a process"), signal).expect("it is ours");
}

#[test]
fn top_shows_a_run_and_gives_the_terminal_back() {
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    if !needs(&["script", "stty"]) {
        return;
    }
    let scratch = Scratch::new();
    let end = scratch.file("ended");
    let mut running = waits(&end);
    wait_until_it_listens(&mut running);
    let pid = running.pid();
    let mut by_key = Screen::new(&scratch, "key", &format!("top {pid} --delay 0.2"));
    let mut by_signal = Screen::new(&scratch, "signal", &format!("top {pid}"));
    let mut to_the_end = Screen::new(&scratch, "end", &format!("top {pid} --delay 0.5 --no-color"));
    for screen in [&mut by_key, &mut by_signal, &mut to_the_end] {
        screen.shows(&format!("{pid} touch"));
        // Blanks need not be written.
        screen.shows("MiB");
        screen.shows("RESIDENT");
    }
    by_key.press("h");
    by_key.shows("COLUMNS");
    by_key.press("xq");
    assert_eq!(by_key.end(), (Some(0), true));
    kill_process(by_signal.pid(), Signal::TERM).expect("it is ours");
    let (code, is_given_back) = by_signal.end();
    assert!(code == Some(128 + 15) && is_given_back, "{code:?}");
    std::fs::write(&end, "").expect("the scratch directory is writable");
    running.finish().must_succeed();
    to_the_end.shows("the run has ended");
    to_the_end.press("q");
    assert_eq!(to_the_end.end(), (Some(0), true));
}

#[test]
fn a_recording_is_replayed() {
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    if !needs(&["script", "stty"]) {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("made-up.uswap");
    let sample = |second: u32| {
        let stat =
            format!(r#"{{"pid":7,"program":"made-up","uptime_seconds":{second},"ram_bytes":1048576}}"#);
        format!("{{\"at_seconds\":{second},\"stat\":{stat}}}\n")
    };
    let header = "{\"format\":\"uswap-recording\",\"version\":1}\n";
    let half = "{\"at_seconds\":5,\"sta";
    std::fs::write(&file, format!("{header}{}{}{half}", sample(3), sample(4))).expect("it can be written");
    let mut screen = Screen::new(&scratch, "replay", &format!("replay '{}'", file.display()));
    screen.shows("1970-01-01 00:00:03 UTC  1 of 2");
    screen.shows("7 made-up  up 00:03");
    screen.press("Gh");
    screen.shows("COLUMNS");
    screen.press("xq");
    assert_eq!(screen.end(), (Some(0), true));
}

#[test]
fn without_a_terminal_or_a_run_it_says_what_to_do() {
    if !needs_uswap() {
        return;
    }
    let refused = |words: &[&str], why: &str| {
        let output = uswap(words).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(why), "{output:?}");
    };
    refused(&["top"], "'uswap stat --watch'");
    let missing = Path::new("/no/such/recording").to_string_lossy();
    refused(&["dump", &missing], "cannot be read");
    refused(&["record", "/dev/null", &u32::MAX.to_string()], "there is no process");
}
