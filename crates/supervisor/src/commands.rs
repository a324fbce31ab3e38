//! What a run does when it is told to (`crate::control`): write-back by age, and swap files that come and go.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use uswap_core::budget::Signal;
use uswap_core::files::FileState;
use uswap_core::mm::HaveOpen;
use uswap_engine::writeback::aged::Marked;
use uswap_engine::writeback::drain::Drain;
use uswap_os::file::AllowTmpfs;
use uswap_os::process;
use uswap_units::PAGE_BYTES;
use uswap_units::limits::SWAP_FILES_MAX;

use crate::change;
use crate::control::command::{Change, Form};
use crate::control::server::{CommandHandler, serve};
use crate::files::SwapFileOptions;
use crate::files::place::{SwapPlace, kind_name, swap_files};
use crate::freeze;
use crate::human;
use crate::leave;
use crate::memory_map;
use crate::requests::{Aged, Emptying};
use crate::shared::Shared;
use crate::stat;

/// A process of the run has so long to open or close a swap file. One that is stopped does not.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often it is asked whether it has.
const STEP: Duration = Duration::from_millis(5);

/// How often it is looked whether the run ends.
const LOOK: Duration = Duration::from_millis(50);

impl CommandHandler for Shared {
    fn ended(&self) -> BorrowedFd<'_> {
        self.stop.as_fd()
    }

    fn write_back(&self, age: Duration) -> Result<String, String> {
        let marked = Marked::now(self.segment);
        let marked_at = Instant::now();
        while marked_at.elapsed() < age {
            if Shared::is_stopping(self) {
                return Err(ended());
            }
            self.sleep(age.saturating_sub(marked_at.elapsed()));
        }
        let before = self.segment.pool().resident_bytes();
        let (answer, written) = mpsc::channel();
        self.requests.write(Aged { marked, answer });
        self.raise(Signal::Shrink);
        loop {
            match written.recv_timeout(LOOK) {
                Ok(pages) => {
                    return Ok(format!(
                        "{} pages written that nobody touched for {} s; the pool went from {} to {}",
                        human::count(pages?),
                        age.as_secs_f64(),
                        human::bytes(before),
                        human::bytes(self.segment.pool().resident_bytes())
                    ));
                }
                Err(mpsc::RecvTimeoutError::Timeout) if !Shared::is_stopping(self) => (),
                Err(_) => return Err(ended()),
            }
        }
    }

    fn stat(&self, form: Form) -> String {
        stat::stat(self, form)
    }

    fn map(&self, pid: Option<u32>) -> Result<String, String> {
        let map = memory_map::map(self, pid, &|| false)?;
        Ok(serde_json::to_string(&map).expect("it has nothing that JSON cannot say"))
    }

    fn change(&self, change: &Change) -> Result<String, String> {
        change::change(self, change)
    }

    fn leave(&self) -> Result<String, String> {
        leave::leave(self)
    }

    fn freeze(&self) -> Result<String, String> {
        freeze::freeze(self, || self.write_back(Duration::ZERO))
    }

    fn thaw(&self) -> Result<String, String> {
        freeze::thaw(self)
    }

    fn swap_on(&self, place: SwapPlace) -> Result<String, String> {
        self.file_changes.add(|| add_file(self, place))
    }

    fn swap_off(&self, dir: &Path) -> Result<String, String> {
        self.file_changes.remove(|| remove_file(self, dir))
    }
}

fn add_file(shared: &Shared, place: SwapPlace) -> Result<String, String> {
    let (slots, min_free_bytes) = (shared.segment.slots(), shared.options.swap_min_free_bytes);
    let lowest = slots.files().in_use().map(|file| file.spec.priority).min().unwrap_or(0).min(0);
    let priority = Some(place.priority.unwrap_or(lowest.saturating_sub(1)));
    let is_auto = place.bytes_max.is_none();
    let asked = swap_files(&[SwapPlace { priority, ..place }], min_free_bytes)?;
    let [mut options] = <[SwapFileOptions; 1]>::try_from(asked).expect("one was asked for");
    let most = slots.largest_to_add() * PAGE_BYTES as u64;
    if is_auto {
        options.bytes_max = options.bytes_max.min(most);
    }
    if slots.files().all().count() == SWAP_FILES_MAX {
        return Err(format!(
            "a run can have {SWAP_FILES_MAX} swap files, those that were removed among them, and this one has had as \
             many"
        ));
    }
    if options.bytes_max > most || most == 0 {
        return Err(format!(
            "this run can get {} of swap files more, in {} files, those that were removed among them: start it with \
             larger ones",
            human::bytes(most),
            SWAP_FILES_MAX - slots.files().all().count()
        ));
    }
    let mut processes = shared.segment.mms().in_use();
    // Each thread has filters of its own.
    if let Some(mm) = processes.find(|mm| shared.processes.look(*mm, may_not_open) == Some(true)) {
        let pid = mm.pid();
        return Err(format!(
            "process {pid} of the run has forbidden itself system calls (seccomp): it might be killed when it opens a \
             swap file, so none was added"
        ));
    }
    let allow_tmpfs = if shared.options.allow_tmpfs { AllowTmpfs::Yes } else { AllowTmpfs::No };
    let spec = shared.files.add(&options, allow_tmpfs).map_err(|error| error.to_string())?;
    let Ok(id) = slots.add_file_to_open(spec) else {
        shared.files.forget_last();
        return Err("this run cannot get one more swap file".to_owned());
    };
    let opened = wait_for_all(shared, || shared.segment.mms().have_open(id));
    if let Err(why) = opened {
        let is_changed = slots.files().change_state(id, FileState::Opening, FileState::Gone);
        assert!(is_changed, "it takes no writes before all have opened it");
        shared.files.close(id);
        shared.raise(Signal::Pressure);
        return Err(format!("{why}: the swap file was not added"));
    }
    let is_changed = slots.files().change_state(id, FileState::Opening, FileState::InUse);
    assert!(is_changed, "nobody else changes it");
    // While all files were full, the pool may have been allowed everything.
    let (pool, most) = (shared.segment.pool(), *shared.pool_bounds().end());
    pool.set_limit_bytes(pool.limit_bytes().min(most));
    shared.raise(Signal::Shrink);
    Ok(format!(
        "swap file in '{}' added: up to {}, priority {}, {}",
        options.dir.display(),
        human::bytes(options.bytes_max),
        options.priority,
        kind_name(spec.kind)
    ))
}

fn remove_file(shared: &Shared, dir: &Path) -> Result<String, String> {
    let files = shared.segment.slots().files();
    let same = |other: &Path| {
        other == dir
            || other.canonicalize().ok().is_some_and(|real| dir.canonicalize().is_ok_and(|dir| dir == real))
    };
    let open = shared.files.open();
    let Some((id, _)) = open.iter().rev().find(|(_, open)| same(&open.options.dir)) else {
        return Err(format!(
            "no swap file of this run is in '{}': they are in {}",
            dir.display(),
            shared.files.directories()
        ));
    };
    let id = *id;
    if !files.change_state(id, FileState::InUse, FileState::Draining) {
        return Err(format!("the swap file in '{}' is not in use", dir.display()));
    }
    let (answer, emptied) = mpsc::channel();
    shared.requests.empty(Emptying { drain: Drain::of(id), answer });
    shared.raise(Signal::Shrink);
    let emptied = loop {
        match emptied.recv_timeout(LOOK) {
            Ok(emptied) => break emptied,
            Err(mpsc::RecvTimeoutError::Timeout) if !Shared::is_stopping(shared) => (),
            Err(_) => break Err(ended()),
        }
    };
    match emptied {
        Err(why) => {
            let is_changed = files.change_state(id, FileState::Draining, FileState::InUse);
            assert!(is_changed, "nobody else changes it");
            Err(format!("the swap file in '{}' stays in use, and nothing is lost: {why}", dir.display()))
        }
        Ok(pages) => {
            let is_changed = files.change_state(id, FileState::Draining, FileState::Gone);
            assert!(is_changed, "nobody else changes it");
            shared.files.close(id);
            let closed = wait_for_all(shared, || shared.segment.mms().have_closed(id));
            let but = closed
                .err()
                .map_or_else(String::new, |why| format!("; {why}, and keeps it from being unmounted"));
            Ok(format!(
                "swap file in '{}' removed: {} pages went to others{but}",
                dir.display(),
                human::count(pages)
            ))
        }
    }
}

/// Waits until all processes have followed a change of the swap files.
fn wait_for_all(shared: &Shared, have: impl Fn() -> HaveOpen) -> Result<(), String> {
    let started = Instant::now();
    shared.raise(Signal::Pressure);
    loop {
        match have() {
            HaveOpen::All => return Ok(()),
            HaveOpen::Refused(pid) => return Err(format!("process {pid} of the run cannot open it")),
            HaveOpen::NotYet(pid) if started.elapsed() > PATIENCE => {
                return Err(format!("process {pid} of the run does not answer (is it stopped?)"));
            }
            HaveOpen::NotYet(_) if Shared::is_stopping(shared) => return Err(ended()),
            HaveOpen::NotYet(_) => shared.sleep(STEP),
        }
    }
}

/// Whether kswapd of a process has more seccomp filters than this thread: what they do to a system call is not known.
fn may_not_open(pid: u32) -> bool {
    let name = |thread: u32| std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/comm"));
    let mut kswapd = None;
    let _is_gone = process::for_each_thread(Some(pid), |thread| {
        if name(thread).is_ok_and(|name| name.trim_end() == "uswap-kswapd") {
            kswapd = Some(thread);
        }
    });
    let Some(thread) = kswapd else { return false };
    let filters = |thread: &str| {
        let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
        let number =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        // Strict mode has no filters.
        Some((number("Seccomp:")? == 1, number("Seccomp_filters:").unwrap_or(0)))
    };
    let (Some(own), Some(other)) = (filters("thread-self"), filters(&format!("{pid}/task/{thread}"))) else {
        return false;
    };
    other.0 || other.1 > own.1
}

fn ended() -> String {
    "the run has ended".to_owned()
}

pub fn run(shared: &Shared) {
    let served = match &shared.control {
        Ok(listener) => serve(listener, shared).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    if let Err(error) = served
        && shared.options.verbosity > 0
    {
        shared.warn(&format!(
            "commands as 'uswap writeback' cannot reach this run ({error}): allow it a unix socket, or start it with \
             all options that it needs"
        ));
    }
}
