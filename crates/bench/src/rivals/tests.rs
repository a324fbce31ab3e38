//! Every rival on the real kernel: it works, its memory is plausible, and nothing is left of it, however it ends.
//!
//! What must hold: these tests run one at a time, in all processes of the machine, and each says why it is skipped.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{Counting, Rival, Session, Setting, prepare};
use crate::results::Memory;
use crate::system::group::Group;
use crate::system::program::{self, ProcessGroup};
use crate::system::settings::{KernelSetting, check_machine};
use crate::system::signals;
use crate::system::undo::Undo;
use crate::system::zram::Zram;

const MIB: u64 = 1 << 20;
const LIMIT_BYTES: u64 = 30 * MIB;
const DATA_BYTES: u64 = 60 * MIB;

/// Names the rival for [`child_for_signals`], and its directories.
const RIVAL_VARIABLE: &str = "USWAP_BENCH_TEST_RIVAL";
const ENDING_VARIABLE: &str = "USWAP_BENCH_TEST_ENDING";
const SWAP_VARIABLE: &str = "USWAP_BENCH_TEST_SWAP";
const WORK_VARIABLE: &str = "USWAP_BENCH_TEST_WORK";

/// Fills 60 MiB, half of it random, says so, waits for a line, and checks every byte.
const PROGRAM: &str = "
import mmap, os, random, signal, sys
signal.alarm(120)
random.seed(7)
block = b''.join(random.randbytes(2048) + bytes(2048) for _ in range(256))
path = os.environ.get('USWAP_BENCH_BACKING')
data = mmap.mmap(os.open(path, os.O_RDWR), 60 << 20) if path else bytearray(60 << 20)
for i in range(60): data[i << 20:(i + 1) << 20] = block
print('ready', flush=True)
sys.stdin.readline()
print('right' if all(data[i << 20:(i + 1) << 20] == block for i in range(60)) else 'wrong', flush=True)
";

/// Every rival that this machine can run, with the machine to itself as long as this lives.
struct Place {
    _only: File,
    setting: Setting,
    python: OsString,
    rivals: Vec<Rival>,
}

impl Place {
    /// None, with a printed line, where these tests cannot work.
    fn find() -> Option<Self> {
        // A lock on the list of swap devices itself: nothing has to be made for it, and it ends with the process.
        let only = File::open("/proc/swaps").ok()?;
        only.lock().unwrap();
        let reason = check_machine().and_then(|()| Group::make(&mut Undo::new().scope()).map(drop));
        if let Err(error) = reason {
            println!("SKIP: {error:#}");
            return None;
        }
        let Some((setting, python)) = setting().zip(python()) else {
            println!("SKIP: there is no python3");
            return None;
        };
        let mut rivals = Rival::all();
        rivals.push(Rival::parse("other=env BUDGET={budget} {program}").unwrap());
        rivals.retain(|rival| {
            let lacks = lacks(rival, &setting);
            lacks.iter().for_each(|lacks| println!("SKIP: {}: {lacks}", rival.name()));
            lacks.is_none()
        });
        Some(Self { _only: only, setting, python, rivals })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_dir(&self.setting.swap_dir).unwrap();
        fs::remove_dir_all(&self.setting.work_dir).unwrap();
    }
}

fn setting() -> Option<Setting> {
    // Not /tmp, which may be in RAM.
    let [swap_dir, work_dir] = ["swap", "work"]
        .map(|name| PathBuf::from(format!("/var/tmp/uswap-bench-{name}-{}", std::process::id())));
    fs::create_dir(&swap_dir).ok()?;
    fs::create_dir(&work_dir).ok()?;
    let profiles = std::env::current_exe().ok()?.parent()?.parent()?.parent()?.to_owned();
    let built = ["release", "debug"].map(|profile| profiles.join(profile).join("uswap"));
    let named = std::env::var_os("USWAP_BIN").map(PathBuf::from);
    Some(Setting {
        budget_bytes: LIMIT_BYTES,
        data_bytes: DATA_BYTES,
        swap_dir,
        uswap: named.into_iter().chain(built).find(|path| path.is_file()).unwrap_or_default(),
        work_dir,
        counting: Counting::Group,
        keep_statistics_fresh: true,
    })
}

/// The interpreter itself: `python3` in PATH may be a script that starts others.
fn python() -> Option<OsString> {
    let output =
        Command::new("python3").args(["-c", "import sys; print(sys.executable, end='')"]).output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.into()).filter(|_| output.status.success())
}

fn lacks(rival: &Rival, setting: &Setting) -> Option<&'static str> {
    match rival {
        Rival::Zram { .. } if !Zram::is_possible() => Some("this kernel has no zram"),
        Rival::Zswap { .. } if KernelSetting::ZswapShrinker.read().is_none() => {
            Some("this kernel has no zswap with a shrinker")
        }
        Rival::Uswap if setting.uswap.as_os_str().is_empty() => {
            Some("uswap is not built, or name it with USWAP_BIN")
        }
        _ => None,
    }
}

/// All that a rival may change.
#[derive(PartialEq, Debug)]
struct State {
    swaps: String,
    mounts: String,
    devices: Vec<String>,
    groups: Vec<PathBuf>,
    settings: BTreeMap<&'static str, Option<String>>,
    files: Vec<String>,
}

impl State {
    fn now(setting: &Setting) -> Self {
        let mut groups = Vec::new();
        find_groups(Path::new("/sys/fs/cgroup"), &mut groups);
        Self {
            swaps: fs::read_to_string("/proc/swaps").unwrap(),
            mounts: fs::read_to_string("/proc/self/mounts").unwrap(),
            devices: names(Path::new("/sys/block")),
            groups,
            settings: KernelSetting::ALL.map(|setting| (setting.name(), setting.read())).into(),
            files: names(&setting.swap_dir),
        }
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn find_groups(dir: &Path, found: &mut Vec<PathBuf>) {
    // Groups of others may go while we look.
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if entry.file_name().to_string_lossy().starts_with("uswap-bench-") {
                found.push(entry.path());
            }
            find_groups(&entry.path(), found);
        }
    }
}

/// The program, filled and waiting.
struct Filled {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    group: ProcessGroup,
}

impl Filled {
    fn start(undo: &Undo, session: &dyn Session, python: &OsString) -> Self {
        let mut command = session.command(&[python.clone(), "-c".into(), PROGRAM.into()]);
        let (mut child, group) =
            program::start(undo, command.stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        assert_eq!(line(&mut output), "ready\n");
        Self { child, output, group }
    }

    fn finish(mut self) -> (String, ExitStatus) {
        self.child.stdin.take().unwrap().write_all(b"\n").unwrap();
        let said = line(&mut self.output);
        let status = self.child.wait().unwrap();
        self.group.ended();
        (said, status)
    }
}

fn line(input: &mut impl std::io::BufRead) -> String {
    let mut line = String::new();
    input.read_line(&mut line).unwrap();
    line
}

fn assert_plausible(rival: &Rival, memory: Memory) {
    let Memory { resident_bytes, compressed_bytes, own_bytes, sum_bytes } = memory;
    let name = rival.name();
    println!(
        "{name}: resident {} KiB, compressed {} KiB, own {} KiB",
        resident_bytes >> 10,
        compressed_bytes >> 10,
        own_bytes >> 10
    );
    assert_eq!(sum_bytes, resident_bytes + compressed_bytes + own_bytes, "{name}");
    let few = 2 * MIB..=LIMIT_BYTES + MIB;
    match rival {
        Rival::None | Rival::Template { .. } => {
            assert!((DATA_BYTES..DATA_BYTES + 40 * MIB).contains(&resident_bytes), "{name}");
        }
        Rival::Uswap => {
            // What it keeps resident is for it to choose.
            assert!((MIB..=LIMIT_BYTES + MIB).contains(&resident_bytes), "{name}");
            assert!(sum_bytes < LIMIT_BYTES + LIMIT_BYTES / 4, "{name}");
            assert!(own_bytes > 0, "{name}");
        }
        _ => assert!(few.contains(&resident_bytes), "{name}"),
    }
    match rival {
        // Half of each page is random, so what is compressed takes half, and about 30 to 60 MiB are out.
        Rival::Zram { .. } | Rival::Zswap { .. } => {
            assert!((10 * MIB..=45 * MIB).contains(&compressed_bytes), "{name}");
        }
        Rival::Uswap => assert!((2 * MIB..=LIMIT_BYTES).contains(&compressed_bytes), "{name}"),
        _ => assert_eq!(compressed_bytes, 0, "{name}"),
    }
}

#[test]
fn every_rival_runs_a_program_right_and_leaves_nothing() {
    let Some(place) = Place::find() else { return };
    for rival in &place.rivals {
        let before = State::now(&place.setting);
        let undo = Undo::new();
        let mut session = prepare(rival, &place.setting, &undo).unwrap();
        assert_ne!(State::now(&place.setting), before);
        session.set_limit(LIMIT_BYTES).unwrap();
        let filled = Filled::start(&undo, &*session, &place.python);
        assert_plausible(rival, session.memory().unwrap());
        let (said, status) = filled.finish();
        assert!(said == "right\n" && status.success(), "{}: '{said}', {status}", rival.name());
        if let Some(remark) = session.remark() {
            println!("{}: {remark}", rival.name());
        }
        let cpu_seconds = session.cpu_seconds();
        assert!((0.01..120.0).contains(&cpu_seconds), "{}: {cpu_seconds}", rival.name());
        assert_eq!(session.kills(), 0, "{}", rival.name());
        match rival {
            Rival::Uswap => assert!(session.faults().is_some_and(|count| count > 1000)),
            _ => assert_eq!(session.faults(), None),
        }
        drop(session);
        assert_eq!(State::now(&place.setting), before, "{}", rival.name());
    }
}

#[test]
fn a_session_that_is_dropped_while_its_program_runs_leaves_nothing() {
    let Some(place) = Place::find() else { return };
    for rival in &place.rivals {
        let before = State::now(&place.setting);
        let undo = Undo::new();
        let session = prepare(rival, &place.setting, &undo).unwrap();
        let mut filled = Filled::start(&undo, &*session, &place.python);
        // Before the process group: the group must end the program by itself.
        drop(session);
        assert_eq!(State::now(&place.setting), before, "{}", rival.name());
        assert!(!filled.child.wait().unwrap().success());
        filled.group.ended();
    }
}

/// Raw runs read processes, not the group.
#[test]
fn a_raw_run_reports_memory_without_the_statistics_of_the_group() {
    let Some(mut place) = Place::find() else { return };
    place.setting.keep_statistics_fresh = false;
    // Plenty, so that the kernel kills nothing.
    place.setting.budget_bytes = 2 * DATA_BYTES;
    let undo = Undo::new();
    for rival in [Rival::SwapFile, Rival::MappedFile] {
        let session = prepare(&rival, &place.setting, &undo).unwrap();
        let filled = Filled::start(&undo, &*session, &place.python);
        let memory = session.memory().unwrap();
        assert!((DATA_BYTES..DATA_BYTES + 40 * MIB).contains(&memory.sum_bytes), "{memory:?}");
        assert_eq!(filled.finish().0, "right\n");
    }
}

/// A release build runs no destructors then.
#[test]
fn after_a_panic_nothing_is_left() {
    let Some(place) = Place::find() else { return };
    let Some(rival) = place.rivals.iter().find(|rival| rival.name() == "zram-lz4+bg") else { return };
    let before = State::now(&place.setting);
    let mut child = child_of(&place, rival, "panic");
    assert_eq!(child.wait().unwrap().code(), Some(101));
    assert_eq!(State::now(&place.setting), before);
}

/// Starts [`child_for_signals`] and waits until its program is filled.
fn child_of(place: &Place, rival: &Rival, ending: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["rivals::tests::child_for_signals", "--exact", "--ignored", "--nocapture"])
        .env(RIVAL_VARIABLE, rival.name())
        .env(ENDING_VARIABLE, ending)
        .env("USWAP_BIN", &place.setting.uswap)
        .env(SWAP_VARIABLE, &place.setting.swap_dir)
        .env(WORK_VARIABLE, &place.setting.work_dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    while !line(&mut output).starts_with("filled") {
        assert_eq!(child.try_wait().unwrap(), None, "{}", rival.name());
    }
    child
}

#[test]
fn after_a_signal_nothing_is_left() {
    let Some(place) = Place::find() else { return };
    for (index, rival) in place.rivals.iter().enumerate() {
        let before = State::now(&place.setting);
        let third = if signals::is_hangup_ignored() { Signal::INT } else { Signal::HUP };
        let signal = [Signal::INT, Signal::TERM, third][index % 3];
        let mut child = child_of(&place, rival, "signal");
        assert_ne!(State::now(&place.setting), before);
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(128 + signal.as_raw()), "{}", rival.name());
        assert_eq!(State::now(&place.setting), before, "{}", rival.name());
    }
}

/// Not a test: the process that the tests above end.
#[test]
#[ignore = "the child of another test"]
fn child_for_signals() {
    let variables = [RIVAL_VARIABLE, SWAP_VARIABLE, WORK_VARIABLE, "USWAP_BIN"];
    let [Some(name), Some(swap_dir), Some(work_dir), Some(uswap)] = variables.map(std::env::var_os) else {
        return println!("SKIP: {RIVAL_VARIABLE} names no rival");
    };
    let name = name.into_string().unwrap();
    let rival = if name == "other" { "other=env {program}" } else { &name };
    let setting = Setting {
        budget_bytes: LIMIT_BYTES,
        data_bytes: DATA_BYTES,
        swap_dir: swap_dir.into(),
        uswap: uswap.into(),
        work_dir: work_dir.into(),
        counting: Counting::Group,
        keep_statistics_fresh: true,
    };
    let undo = Undo::new();
    signals::undo_at_the_end_of_the_process(&undo).unwrap();
    let session = prepare(&Rival::parse(rival).unwrap(), &setting, &undo).unwrap();
    let _filled = Filled::start(&undo, &*session, &python().unwrap());
    println!("filled");
    let ending = std::env::var(ENDING_VARIABLE).unwrap();
    // It is wanted: no words in the output of the tests, where one looks for the panic that failed.
    std::panic::set_hook(Box::new(|_| ()));
    assert!(ending == "signal", "this is the panic that the test wants");
    loop {
        std::thread::park();
    }
}
