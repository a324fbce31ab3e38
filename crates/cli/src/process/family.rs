//! What /proc says about the program and about the orphans that came to uswap.

use rustix::process::Pid;

/// Is the process stopped by job control (state `T`)? `false` also if it is gone.
pub fn is_stopped(pid: Pid) -> bool {
    Stat::of(pid.as_raw_nonzero().get()).is_some_and(|stat| stat.state == 'T')
}

/// Is the process a child of uswap? `false` also if it has been waited for.
pub fn is_child(pid: Pid) -> bool {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    Stat::of(pid.as_raw_nonzero().get()).is_some_and(|stat| stat.parent == own)
}

/// An orphan that came to uswap.
#[derive(Clone, Copy, Debug)]
pub struct Orphan {
    /// Its process.
    pub pid: Pid,
    /// It is in uswap's process group, so what the terminal sends reaches it directly.
    pub in_own_group: bool,
}

/// Processes whose parent is this one: once the program itself is gone, the orphans that the subreaper inherited.
///
/// Their numbers are nobody else's until uswap has waited for them, which only the thread that asks here does.
pub fn orphans() -> Vec<Orphan> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let own_group = rustix::process::getpgrp().as_raw_nonzero().get();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let orphan = |number| {
        let stat = Stat::of(number).filter(|stat| stat.parent == own && stat.state != 'Z')?;
        Some(Orphan { pid: Pid::from_raw(number)?, in_own_group: stat.group == own_group })
    };
    numbers.filter_map(orphan).collect()
}

/// The fields of `/proc/PID/stat` that matter here.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    parent: i32,
    group: i32,
}

impl Stat {
    fn of(pid: i32) -> Option<Self> {
        Self::parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name is in parentheses and may itself hold any byte: the fields follow the last `)`.
    fn parse(line: &[u8]) -> Option<Self> {
        let name_end = line.iter().rposition(|&byte| byte == b')')?;
        let mut fields = std::str::from_utf8(&line[name_end + 1..]).ok()?.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        Some(Self { state, parent, group })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_and_blanks_do_not_confuse() {
        let line = b"71 (a) Z 1 (b) T 42 71 0 0";
        assert_eq!(Stat::parse(line), Some(Stat { state: 'T', parent: 42, group: 71 }));
        assert_eq!(Stat::parse(b"71 (a"), None);
        assert_eq!(Stat::parse(b"71 (a) T"), None);
    }

    #[test]
    fn this_process_runs() {
        assert!(!is_stopped(rustix::process::getpid()));
    }
}
