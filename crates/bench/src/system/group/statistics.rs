//! What memory.stat of a group says, the same for both versions.

use anyhow::Context as _;

use super::Version;

/// Bytes of RAM that a group and the groups below it hold now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupMemory {
    /// Anonymous pages that are mapped by some process.
    pub anonymous_bytes: u64,
    /// Shared memory: tmpfs, memfd, System V.
    pub shmem_bytes: u64,
    /// Pages that are also in a swap device, mapped or not: on their way out or in, or unchanged since they came in.
    pub swap_cached_bytes: u64,
    /// Pages on the lists of what may be swapped, and of what is locked: anonymous, shared memory, swap cache, each
    /// once.
    pub swappable_list_bytes: u64,
    /// Pages of files, mapped or not; no shared memory, no swap cache.
    pub file_list_bytes: u64,
}

impl GroupMemory {
    /// Anonymous memory, shared memory and swap cache, each page once.
    ///
    /// The plain sum would count a page twice that is mapped and has its copy on the device still: with random reads
    /// from a swap file at a limit of 64 MiB those came to 62 MiB (Linux 6.18). The lists count each once, but miss the
    /// few pages that wait to be put on a list; the other sum has those.
    pub fn swappable_bytes(&self) -> u64 {
        self.swappable_list_bytes.max(self.anonymous_bytes + self.shmem_bytes)
    }

    /// Reads the text of memory.stat.
    ///
    /// # Errors
    /// If a line that the kernel has had since 5.9 (version 2) or 4.19 (version 1) is missing.
    pub fn parse(version: Version, text: &str) -> anyhow::Result<Self> {
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
            line.trim().parse::<u64>().ok()
        };
        let needed = |name: &str| value(name).with_context(|| format!("memory.stat has no line '{name}'"));
        Ok(match version {
            Version::One => Self {
                anonymous_bytes: needed("total_rss")?,
                shmem_bytes: needed("total_shmem")?,
                // Only newer kernels have it.
                swap_cached_bytes: value("total_swapcached").unwrap_or(0),
                swappable_list_bytes: needed("total_active_anon")?
                    + needed("total_inactive_anon")?
                    + needed("total_unevictable")?,
                file_list_bytes: needed("total_active_file")? + needed("total_inactive_file")?,
            },
            Version::Two => Self {
                anonymous_bytes: needed("anon")?,
                shmem_bytes: needed("shmem")?,
                swap_cached_bytes: value("swapcached").unwrap_or(0),
                swappable_list_bytes: needed("active_anon")?
                    + needed("inactive_anon")?
                    + needed("unevictable")?,
                file_list_bytes: needed("active_file")? + needed("inactive_file")?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_one_is_read_from_the_totals() {
        let text = "cache 1\nrss 2\nshmem 3\ntotal_cache 900\ntotal_rss 4096\ntotal_rss_huge 0\ntotal_shmem 8192\n\
                    total_mapped_file 5\ntotal_swapcached 1024\ntotal_inactive_anon 10000\ntotal_active_anon 3000\n\
                    total_inactive_file 70\ntotal_active_file 7\ntotal_unevictable 500\n";
        let expected = GroupMemory {
            anonymous_bytes: 4096,
            shmem_bytes: 8192,
            swap_cached_bytes: 1024,
            swappable_list_bytes: 13500,
            file_list_bytes: 77,
        };
        let memory = GroupMemory::parse(Version::One, text).unwrap();
        assert_eq!(memory, expected);
        assert_eq!(memory.swappable_bytes(), 13500);
        assert!(GroupMemory::parse(Version::Two, text).is_err());
    }

    #[test]
    fn version_two_is_read_and_the_larger_sum_counts() {
        let text = "anon 4096\nfile 500\nfile_mapped 7\nshmem 8192\nswapcached 0\nanon_thp 0\ninactive_anon 4000\n\
                    active_anon 8000\ninactive_file 70\nactive_file 7\nunevictable 0\n";
        let memory = GroupMemory::parse(Version::Two, text).unwrap();
        assert_eq!((memory.swappable_list_bytes, memory.swappable_bytes()), (12000, 12288));
        assert_eq!(memory.file_list_bytes, 77);
        let error = GroupMemory::parse(Version::Two, "anon 1\n").unwrap_err().to_string();
        assert!(error.contains("shmem"), "{error}");
    }
}
