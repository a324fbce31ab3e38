//! Shared memory of the run: each file in memory that its processes have mapped shared counts once, with all its
//! blocks, as long as one of them has it mapped.
//!
//! Such files are memfds, those of tmpfs (`/dev/shm`), System V segments and what MAP_SHARED|MAP_ANONYMOUS makes.
//! Mappings are looked for only when the cheap numbers of a process have changed ([`Seen::has_changed`]); the size of
//! a file is one stat. No file is kept open: that would keep its memory.
//!
//! What must hold: the run's own segment is left out, since it is counted by itself. Without CAP_SYS_ADMIN the files
//! behind mappings may not be asked; then the size comes from a descriptor, a name, the table of System V segments,
//! or at last from what a process has mapped of it.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use uswap_os::process::Statm;
use uswap_units::PAGE_BYTES;

use super::allowance::Allowance;
use super::texts::{self, Device, FileId, SharedMapping};

/// Mappings are looked for when so many pages of address space came or went, or any, and so many pages of files or
/// shared memory. While all mappings are those that are known, what is touched in them is told by the sizes of the
/// files.
const SHARED_STEP_PAGES: u64 = 64;
const TOTAL_STEP_PAGES: u64 = 1024;
/// Not sooner after the last look.
const LOOK_NS: u64 = 10_000_000;
/// After so long any change is a reason.
const SMALL_LOOK_NS: u64 = 1_000_000_000;
/// A look that took long is made again only after so many times as long.
const COST_FACTOR: u64 = 50;

/// The same for sizes.
const SIZE_NS: u64 = 4_000_000;

/// What was seen of a process.
struct Seen {
    statm: Statm,
    looked_ns: u64,
    cost_ns: u64,
    mappings: Vec<SharedMapping>,
}

impl Seen {
    fn has_changed(&self, statm: Statm, now_ns: u64) -> bool {
        let since_ns = now_ns.saturating_sub(self.looked_ns);
        let shared = self.statm.shared_pages.abs_diff(statm.shared_pages);
        let total = self.statm.total_pages.abs_diff(statm.total_pages);
        if since_ns < LOOK_NS.max(self.cost_ns * COST_FACTOR) {
            return false;
        }
        let is_large = (total > 0 && shared >= SHARED_STEP_PAGES) || total >= TOTAL_STEP_PAGES;
        is_large || (since_ns >= SMALL_LOOK_NS && shared + total > 0)
    }
}

/// A file, as it was seen last.
#[derive(Default)]
struct Size {
    bytes: u64,
    asked_ns: u64,
    cost_ns: u64,
    /// Where its size is to be had, if not from a mapping.
    path: Option<PathBuf>,
}

/// What looking may cost, each for itself: many processes with new mappings must not keep the sizes from being asked.
pub struct Allowances {
    maps: Allowance,
    sizes: Allowance,
}

/// One part in so many of a processor, each.
const PART: u64 = 100;

impl Default for Allowances {
    fn default() -> Allowances {
        Allowances { maps: Allowance::new(PART), sizes: Allowance::new(PART) }
    }
}

impl Allowances {
    /// See [`Allowance::earn`].
    pub fn earn(&mut self, now_ns: u64) {
        self.maps.earn(now_ns);
        self.sizes.earn(now_ns);
    }
}

/// All of a run.
pub struct SharedMemory {
    segment: Option<FileId>,
    processes: HashMap<u32, Seen>,
    sizes: BTreeMap<FileId, Size>,
    /// Whether devices hold a file system in memory.
    devices: HashMap<Device, bool>,
}

impl SharedMemory {
    /// `segment`: a path of what is counted elsewhere.
    pub fn new(segment: &Path) -> SharedMemory {
        let segment = fs::metadata(segment).ok().map(|status| id_of(&status));
        // All memory without a name is on one device, the segment's too.
        let devices = segment.iter().map(|file| (file.device, true)).collect();
        SharedMemory { segment, processes: HashMap::new(), sizes: BTreeMap::new(), devices }
    }

    /// Bytes of shared memory of these processes.
    pub fn bytes(&mut self, processes: &[(u32, Statm)], now_ns: u64, allowances: &mut Allowances) -> u64 {
        let Allowances { maps, sizes: for_sizes } = allowances;
        let is_there = |pid: u32| processes.binary_search_by_key(&pid, |&(pid, _)| pid).is_ok();
        self.processes.retain(|&pid, _| is_there(pid));
        for &(pid, statm) in processes {
            let is_due = self.processes.get(&pid).is_none_or(|seen| seen.has_changed(statm, now_ns));
            if is_due && maps.has_some() {
                self.look(pid, statm, now_ns, maps);
            }
        }
        let mut holders: BTreeMap<FileId, Vec<(u32, &SharedMapping)>> = BTreeMap::new();
        for (&pid, seen) in &self.processes {
            for mapping in &seen.mappings {
                holders.entry(mapping.file).or_default().push((pid, mapping));
            }
        }
        self.sizes.retain(|file, _| holders.contains_key(file));
        let mut stale = Vec::new();
        for (&file, holders) in &holders {
            let size = self.sizes.entry(file).or_default();
            let since_ns = now_ns.saturating_sub(size.asked_ns);
            if since_ns < SIZE_NS.max(size.cost_ns * COST_FACTOR) || !for_sizes.has_some() {
                continue;
            }
            let before_ns = uswap_os::clock::thread_cpu_ns();
            let bytes = for_sizes.pay(|| size_of(file, holders, &mut size.path));
            size.cost_ns = uswap_os::clock::thread_cpu_ns().saturating_sub(before_ns);
            size.asked_ns = now_ns;
            match bytes {
                Some(bytes) => size.bytes = bytes,
                // Nobody has it where it was: it is looked for again.
                None => stale.extend(holders.iter().map(|&(pid, _)| pid)),
            }
        }
        for pid in stale {
            self.processes.remove(&pid);
        }
        self.sizes.values().map(|size| size.bytes).sum()
    }

    /// Reads the mappings of a process.
    fn look(&mut self, pid: u32, statm: Statm, now_ns: u64, allowance: &mut Allowance) {
        let before_ns = uswap_os::clock::thread_cpu_ns();
        let mappings = texts::shared_mappings(pid).unwrap_or_default();
        let mappings = mappings.into_iter().filter(|mapping| self.counts(mapping, pid)).collect();
        let cost_ns = uswap_os::clock::thread_cpu_ns().saturating_sub(before_ns);
        allowance.spend(cost_ns);
        self.processes.insert(pid, Seen { statm, looked_ns: now_ns, cost_ns, mappings });
    }

    fn counts(&mut self, mapping: &SharedMapping, pid: u32) -> bool {
        let FileId { device, .. } = mapping.file;
        if Some(mapping.file) == self.segment || device.major != 0 {
            return false;
        }
        if let Some(&known) = self.devices.get(&device) {
            return known;
        }
        let in_memory = texts::memory_devices(pid).contains(&device);
        self.devices.insert(device, in_memory);
        in_memory
    }
}

fn id_of(status: &fs::Metadata) -> FileId {
    let (major, minor) = (rustix::fs::major(status.dev()), rustix::fs::minor(status.dev()));
    FileId { device: Device { major, minor }, inode: status.ino() }
}

/// The bytes that are allocated for it; `None` if none of `holders` has it mapped where it was.
fn size_of(file: FileId, holders: &[(u32, &SharedMapping)], known_path: &mut Option<PathBuf>) -> Option<u64> {
    let allocated = |path: &Path| -> Option<u64> {
        let status = fs::metadata(path).ok().filter(|status| id_of(status) == file)?;
        // The unit of st_blocks is 512 bytes, whatever the file system's block size.
        Some(status.blocks() * 512)
    };
    let mut is_allowed = true;
    for &(pid, mapping) in holders {
        let path = format!("/proc/{pid}/map_files/{}", mapping.addresses);
        if let Some(bytes) = allocated(Path::new(&path)) {
            return Some(bytes);
        }
        let refused =
            fs::metadata(&path).is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied);
        if refused {
            is_allowed = false;
            break;
        }
    }
    if is_allowed {
        return None;
    }
    if let Some(bytes) = known_path.as_deref().and_then(allocated) {
        return Some(bytes);
    }
    *known_path = holders.iter().find_map(|&(pid, mapping)| other_path(file, pid, mapping));
    if let Some(bytes) = known_path.as_deref().and_then(allocated) {
        return Some(bytes);
    }
    let is_system_v = holders.iter().any(|(_, mapping)| mapping.path.starts_with("/SYSV"));
    is_system_v.then(|| system_v_bytes(file.inode)).flatten().or_else(|| mapped_bytes(file, holders))
}

/// A descriptor of the process for this file, or its name.
fn other_path(file: FileId, pid: u32, mapping: &SharedMapping) -> Option<PathBuf> {
    let is_it = |path: &PathBuf| fs::metadata(path).is_ok_and(|status| id_of(&status) == file);
    let name = PathBuf::from(format!("/proc/{pid}/root{}", mapping.path));
    if is_it(&name) {
        return Some(name);
    }
    fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten().map(|entry| entry.path()).find(is_it)
}

/// What of a System V segment is in memory: its id is its inode.
fn system_v_bytes(id: u64) -> Option<u64> {
    parse_system_v(&fs::read_to_string("/proc/sysvipc/shm").ok()?, id)
}

/// Columns by their names in the first line: `key shmid ... rss swap`.
fn parse_system_v(text: &str, id: u64) -> Option<u64> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next()?.split_whitespace().collect();
    let column = |name: &str| names.iter().position(|&known| known == name);
    let (id_column, bytes_column) = (column("shmid")?, column("rss")?);
    lines.find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_it = fields.get(id_column)?.parse() == Ok(id);
        is_it.then(|| fields.get(bytes_column)?.parse().ok()).flatten()
    })
}

/// What that holder has mapped which has most of it: each part of the file once, however often it is mapped.
fn mapped_bytes(file: FileId, holders: &[(u32, &SharedMapping)]) -> Option<u64> {
    let mut pids: Vec<u32> = holders.iter().map(|&(pid, _)| pid).collect();
    pids.dedup();
    let of_one = |pid: u32| Some(largest_by_offset(file, &texts::resident_of_shared(pid)?));
    let pages = pids.into_iter().filter_map(of_one).max()?;
    Some(pages * PAGE_BYTES as u64)
}

fn largest_by_offset(file: FileId, mappings: &[(SharedMapping, u64)]) -> u64 {
    let mut parts: BTreeMap<u64, u64> = BTreeMap::new();
    for (mapping, pages) in mappings.iter().filter(|(mapping, _)| mapping.file == file) {
        let part = parts.entry(mapping.offset).or_default();
        *part = (*part).max(*pages);
    }
    parts.values().sum()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn mapping(inode: u64, offset: u64) -> SharedMapping {
        let file = FileId { device: Device { major: 0, minor: 1 }, inode };
        SharedMapping { file, addresses: "1-2".to_owned(), offset, path: "/memfd:x (deleted)".to_owned() }
    }

    #[test]
    fn a_part_that_is_mapped_three_times_counts_once() {
        let mappings =
            [(mapping(7, 0), 10), (mapping(7, 0), 12), (mapping(7, 0x5000), 3), (mapping(8, 0), 50)];
        assert_eq!(largest_by_offset(mapping(7, 0).file, &mappings), 15);
    }

    #[test]
    fn segments_of_system_v_are_found_by_their_numbers() {
        let text = "       key      shmid perms       size  cpid  lpid nattch   uid   gid  cuid  cgid \
            atime      dtime      ctime                   rss                  swap\n         0          5  600 \
            209715200 1 1 1 0 0 0 0 1 0 1 104857600 0\n";
        assert_eq!(parse_system_v(text, 5), Some(104_857_600));
        assert_eq!(parse_system_v(text, 6), None);
        assert_eq!(parse_system_v("", 5), None);
    }

    #[test]
    fn mappings_are_looked_for_when_the_cheap_numbers_have_changed() {
        let statm = Statm { total_pages: 5000, resident_pages: 900, shared_pages: 300, data_pages: 4000 };
        let seen = Seen { statm, looked_ns: 0, cost_ns: 100_000, mappings: Vec::new() };
        assert!(!seen.has_changed(statm, u64::MAX));
        let known = Statm { shared_pages: 300 + 1000 * SHARED_STEP_PAGES, ..statm };
        assert!(!seen.has_changed(known, SMALL_LOOK_NS - 1), "that is in the mappings that were there");
        let touched = Statm { shared_pages: 300 + SHARED_STEP_PAGES, total_pages: 5064, ..statm };
        assert!(!seen.has_changed(touched, LOOK_NS - 1));
        assert!(seen.has_changed(touched, LOOK_NS));
        let dear = Seen { cost_ns: LOOK_NS, ..seen };
        assert!(!dear.has_changed(touched, LOOK_NS * COST_FACTOR - 1));
        let little = Statm { total_pages: 5001, ..statm };
        assert!(!dear.has_changed(little, SMALL_LOOK_NS - 1));
        assert!(dear.has_changed(little, SMALL_LOOK_NS));
    }

    #[test]
    fn a_file_that_is_not_mapped_any_more_is_told_so_and_one_with_a_name_has_a_size() {
        let path = std::env::temp_dir().join(format!("uswap-shared-{}", std::process::id()));
        let mut named = fs::File::create(&path).expect("the temporary directory is writable");
        named.write_all(&[1; 8192]).expect("it has room");
        named.sync_all().expect("it is a plain file");
        let file = id_of(&fs::metadata(&path).expect("it was made just now"));
        let own = std::process::id();
        let mapping = SharedMapping {
            file,
            addresses: "1000-2000".to_owned(),
            offset: 0,
            path: path.to_str().expect("it is UTF-8").to_owned(),
        };
        let found = other_path(file, own, &mapping).expect("it has a name");
        assert_eq!(id_of(&fs::metadata(found).expect("it is there")), file);
        fs::remove_file(&path).expect("it is ours");
        let found = other_path(file, own, &mapping).expect("it has a descriptor");
        assert!(found.starts_with(format!("/proc/{own}/fd")), "{}", found.display());
        drop(named);
        assert_eq!(other_path(file, own, &mapping), None);
    }
}
