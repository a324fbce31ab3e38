//! What the kernel's texts about one process say: `stat`, `smaps_rollup`, `maps`, `mountinfo`.
//!
//! What must hold: a text that is not as expected, or of a process that is gone, is `None` or nothing; nothing here
//! panics on what a program can choose (its name, the names of its files). Called by the other files of this folder.

use std::fs;

/// What tells forks of one program that was executed from all others: addresses that the kernel chooses at random at
/// each exec and that a fork inherits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Image {
    stack: u64,
    heap: u64,
    arguments: u64,
}

impl Image {
    /// Whether the kernel told: who may not look at the memory of a process sees zeros.
    pub fn is_known(self) -> bool {
        self.stack != 0
    }
}

/// Of `/proc/PID/stat`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    pub parent: u32,
    /// With the number, a name that is not used twice.
    pub start_ticks: u64,
    /// Faults of all its threads since it was forked: it can have made no more pages of its own, huge ones aside.
    pub faults: u64,
    pub image: Image,
}

/// Reads it; `None` when there is no such process or it has ended.
pub fn facts(pid: u32) -> Option<Facts> {
    parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The name may contain anything, so fields count from the last parenthesis.
fn parse_stat(text: &[u8]) -> Option<Facts> {
    let end = text.iter().rposition(|&byte| byte == b')')?;
    let fields: Vec<&str> = std::str::from_utf8(text.get(end + 1..)?).ok()?.split_whitespace().collect();
    // By their numbers in proc(5); the state is field 3.
    let field = |number: usize| -> Option<u64> { fields.get(number - 3)?.parse().ok() };
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    Some(Facts {
        parent: field(4)? as u32,
        faults: field(10)? + field(12)?,
        start_ticks: field(22)?,
        image: Image { stack: field(28)?, heap: field(47)?, arguments: field(48)? },
    })
}

/// Of `/proc/PID/smaps_rollup`, in pages: the kernel walks all page tables for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rollup {
    /// Anonymous pages.
    pub anonymous: u64,
    /// The same, a page of several processes counted in parts.
    pub proportional: u64,
    /// Those that no other process has, as far as the text tells.
    pub exclusive: u64,
}

/// Reads it.
pub fn rollup(pid: u32) -> Option<Rollup> {
    parse_rollup(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?)
}

fn parse_rollup(text: &str) -> Option<Rollup> {
    let pages = |name: &str| Some(kilobytes(text, name)? / 4);
    let (anonymous, proportional) = (pages("Anonymous:")?, pages("Pss_Anon:")?);
    // Pages of shared memory that only one process has mapped are among the private ones.
    let private = pages("Private_Dirty:")?.saturating_sub(pages("Pss_Shmem:").unwrap_or(0));
    Some(Rollup { anonymous, proportional, exclusive: private.min(proportional) })
}

/// The number of a line `NAME 12 kB`.
pub fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line[name.len()..].trim().trim_end_matches("kB").trim().parse().ok()
}

/// A file, by what `maps` calls its device and its inode.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FileId {
    pub device: Device,
    pub inode: u64,
}

/// A device number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Device {
    pub major: u32,
    pub minor: u32,
}

/// A shared mapping of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedMapping {
    pub file: FileId,
    /// As `maps` and `map_files` write them: `start-end`.
    pub addresses: String,
    /// Where in the file it begins.
    pub offset: u64,
    pub path: String,
}

/// The shared mappings of a process, of whatever file system. `None`: it is gone, or cannot be looked at.
pub fn shared_mappings(pid: u32) -> Option<Vec<SharedMapping>> {
    let text = fs::read(format!("/proc/{pid}/maps")).ok()?;
    Some(String::from_utf8_lossy(&text).lines().filter_map(parse_shared).collect())
}

/// `start-end perms offset major:minor inode   name`.
fn parse_shared(line: &str) -> Option<SharedMapping> {
    let mut words = line.splitn(6, ' ');
    let addresses = words.next()?;
    if !words.next()?.ends_with('s') {
        return None;
    }
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let device = parse_device(words.next()?, 16)?;
    let inode = words.next()?.parse().ok()?;
    let path = words.next().unwrap_or("").trim_start().to_owned();
    Some(SharedMapping { file: FileId { device, inode }, addresses: addresses.to_owned(), offset, path })
}

fn parse_device(word: &str, radix: u32) -> Option<Device> {
    let (major, minor) = word.split_once(':')?;
    Some(Device {
        major: u32::from_str_radix(major, radix).ok()?,
        minor: u32::from_str_radix(minor, radix).ok()?,
    })
}

/// Of each shared mapping the pages that the process has mapped, by where it begins in its file: for those who may not
/// ask for the size of the file itself. As dear as a walk over its page tables.
pub fn resident_of_shared(pid: u32) -> Option<Vec<(SharedMapping, u64)>> {
    let text = fs::read(format!("/proc/{pid}/smaps")).ok()?;
    Some(parse_smaps(&String::from_utf8_lossy(&text)))
}

fn parse_smaps(text: &str) -> Vec<(SharedMapping, u64)> {
    let mut found: Vec<(SharedMapping, u64)> = Vec::new();
    let mut is_shared = false;
    for line in text.lines() {
        if is_head(line) {
            let mapping = parse_shared(line);
            is_shared = mapping.is_some();
            found.extend(mapping.map(|mapping| (mapping, 0)));
        } else if let (true, Some(rest)) = (is_shared, line.strip_prefix("Rss:")) {
            let kilobytes: u64 = rest.trim().trim_end_matches(" kB").parse().unwrap_or(0);
            if let Some((_, pages)) = found.last_mut() {
                *pages = kilobytes / 4;
            }
        }
    }
    found
}

/// Whether a line of `smaps` begins a mapping; all others begin with a word and a colon.
pub fn is_head(line: &str) -> bool {
    let first = line.split(' ').next().unwrap_or("");
    first.split_once('-').is_some_and(|(start, end)| {
        [start, end].iter().all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_hexdigit()))
    })
}

/// The devices of file systems in memory that a process sees.
pub fn memory_devices(pid: u32) -> Vec<Device> {
    let text = fs::read(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().filter_map(parse_mount).collect()
}

/// `36 35 0:31 / /dev/shm rw,nosuid - tmpfs tmpfs rw`: the file system follows the single dash.
fn parse_mount(line: &str) -> Option<Device> {
    let (front, back) = line.split_once(" - ")?;
    let is_memory = matches!(back.split(' ').next()?, "tmpfs" | "devtmpfs" | "ramfs");
    is_memory.then(|| parse_device(front.split(' ').nth(2)?, 10)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_stat_are_those_of_proc_5() {
        let text = b"7 (a) b (c) R 3 7 7 0 -1 4194304 100 5 20 6 1 2 3 4 20 0 1 0 5521 25 26 27 28 29 \
            1028 31 32 33 34 35 36 37 38 39 17 61 42 43 44 45 46 1047 1048 49 50 51 0\n";
        let facts = parse_stat(text).expect("it is complete");
        assert_eq!((facts.parent, facts.faults, facts.start_ticks), (3, 120, 5521));
        assert_eq!(facts.image, Image { stack: 1028, heap: 49, arguments: 50 });
        assert_eq!(parse_stat(&text.map(|byte| if byte == b'R' { b'Z' } else { byte })), None);
        assert_eq!(parse_stat(b"7 (a"), None);
        assert_eq!(parse_stat(b"7 (a) R 3"), None);
    }

    #[test]
    fn another_program_has_another_image() {
        let own = facts(std::process::id()).expect("it is alive");
        let mut other = std::process::Command::new("sleep").arg("100").spawn().expect("sleep is there");
        let seen = facts(other.id());
        other.kill().expect("it is ours");
        other.wait().expect("it is ours");
        let seen = seen.expect("it was alive");
        assert_eq!(seen.parent, std::process::id());
        assert_ne!(seen.image, own.image);
        assert!(own.faults > 0);
    }

    #[test]
    fn a_rollup_tells_what_is_shared() {
        let text = "55dc-7ffd ---p 00000000 00:00 0 [rollup]\nRss: 113064 kB\nPss: 56532 kB\n\
            Pss_Anon:          55124 kB\nPss_File: 1408 kB\nPss_Shmem: 400 kB\nPrivate_Dirty: 1320 kB\n\
            Anonymous:        109328 kB\n";
        let rollup = parse_rollup(text).expect("it is complete");
        assert_eq!(rollup, Rollup { anonymous: 27332, proportional: 13781, exclusive: 230 });
        assert_eq!(parse_rollup(""), None);
    }

    #[test]
    fn only_shared_mappings_are_kept_whatever_their_names() {
        let line = "7f-8f rw-s 00001000 00:1c 77                 /dev/shm/a b (deleted)";
        let mapping = parse_shared(line).expect("it is shared");
        assert_eq!(mapping.file, FileId { device: Device { major: 0, minor: 0x1c }, inode: 77 });
        assert_eq!(
            (mapping.offset, mapping.addresses.as_str(), mapping.path.as_str()),
            (0x1000, "7f-8f", "/dev/shm/a b (deleted)")
        );
        assert_eq!(parse_shared("7f-8f rw-p 00001000 00:1c 77 /dev/shm/a"), None);
        assert_eq!(parse_shared("nonsense"), None);
        let smaps = format!("{line}\nSize: 8 kB\nRss:  8 kB\n9f-af rw-p 0 00:00 0\nRss: 400 kB\n");
        assert_eq!(parse_smaps(&smaps), [(mapping, 2)]);
        assert!(is_head(line) && !is_head("Rss:   8 kB") && !is_head("VmFlags: rd wr-x"));
    }

    #[test]
    fn file_systems_in_memory_are_known_by_their_type() {
        let line = "36 35 0:31 / /dev/shm rw,nosuid shared:4 - tmpfs tmpfs rw";
        assert_eq!(parse_mount(line), Some(Device { major: 0, minor: 31 }));
        assert_eq!(parse_mount("36 35 0:31 / / rw - overlay overlay rw"), None);
        assert_eq!(parse_mount("36"), None);
    }
}
