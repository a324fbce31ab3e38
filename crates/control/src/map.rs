//! Which parts of the memory of one process are where, as a run says it when it is asked ([`command`]).
//!
//! What must hold: as of [`crate::stat`]. Sizes are of the memory of the program, not of what it takes compressed.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::answer_in;

/// The line that asks for the map of a process of the run. `None`: of the one that has most memory under management.
pub fn command(pid: Option<u32>) -> String {
    format!("map {}\n", pid.unwrap_or(0))
}

/// Asks the run of a supervisor for a map. As of [`crate::ask`].
///
/// # Errors
/// As a sentence.
pub fn map_of(run: u32, pid: Option<u32>, patience: Option<Duration>) -> Result<MemoryMap, String> {
    answer_in(run, &command(pid), patience)
}

/// Which parts of the memory of a process are where.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryMap {
    /// The process.
    pub pid: u32,
    /// Its name, as the kernel shows it (at most 15 bytes).
    pub name: String,
    /// Why there is nothing to show; empty if there is.
    pub why_empty: String,
    /// All of its memory that is managed: the sum of the buckets.
    pub managed_bytes: u64,
    /// What of that is where.
    pub total: Places,
    /// Parts of it in the order of addresses, of one size but for the last.
    pub buckets: Vec<MapBucket>,
}

/// A part of a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MapBucket {
    /// Address of its first byte; 0: it is not told.
    pub start: u64,
    /// Address behind its last byte. In between may lie memory that is not managed.
    pub end: u64,
    /// What of it is where.
    #[serde(flatten)]
    pub places: Places,
}

/// How much memory is where, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Places {
    /// Never touched, or given back: nothing is mapped and nothing is stored.
    pub untouched_bytes: u64,
    /// In RAM and warm: the clock hand passes it by for now, since it came back soon after it had gone, did not
    /// compress, or may not be evicted.
    pub warm_bytes: u64,
    /// In RAM, and the hand may take it when it comes by next. It may be in use all the same: a page that never went is
    /// not known to be warm.
    pub cold_bytes: u64,
    /// In the pool, compressed.
    pub pool_bytes: u64,
    /// In swap files.
    pub file_bytes: u64,
    /// One value again and again, of which only that is kept.
    pub same_filled_bytes: u64,
    /// What of the last three went so lately that it would still be in RAM if the run had twice the RAM for its pages.
    pub recent_bytes: u64,
}

impl Places {
    /// All of it.
    pub fn bytes(&self) -> u64 {
        self.resident_bytes() + self.stored_bytes() + self.untouched_bytes
    }
    /// What is in RAM as it is.
    pub fn resident_bytes(&self) -> u64 {
        self.warm_bytes + self.cold_bytes
    }
    /// What was evicted.
    pub fn stored_bytes(&self) -> u64 {
        self.pool_bytes + self.file_bytes + self.same_filled_bytes
    }
    /// Both together.
    pub fn plus(self, other: Places) -> Places {
        Places {
            untouched_bytes: self.untouched_bytes + other.untouched_bytes,
            warm_bytes: self.warm_bytes + other.warm_bytes,
            cold_bytes: self.cold_bytes + other.cold_bytes,
            pool_bytes: self.pool_bytes + other.pool_bytes,
            file_bytes: self.file_bytes + other.file_bytes,
            same_filled_bytes: self.same_filled_bytes + other.same_filled_bytes,
            recent_bytes: self.recent_bytes + other.recent_bytes,
        }
    }
}

impl MemoryMap {
    /// Of a process with these buckets.
    pub fn new(pid: u32, name: String, buckets: Vec<MapBucket>) -> MemoryMap {
        let total = buckets.iter().fold(Places::default(), |sum, bucket| sum.plus(bucket.places));
        MemoryMap { pid, name, why_empty: String::new(), managed_bytes: total.bytes(), total, buckets }
    }

    /// Of a process of which nothing is managed.
    pub fn empty(pid: u32, name: String, why_empty: &str) -> MemoryMap {
        MemoryMap { pid, name, why_empty: why_empty.to_owned(), ..MemoryMap::default() }
    }

    /// The same, for readers who shall not know where in its address space the memory of the process lies.
    pub fn without_addresses(mut self) -> MemoryMap {
        for bucket in &mut self.buckets {
            [bucket.start, bucket.end] = [0, 0];
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_comes_back_as_it_was() {
        let places = Places {
            untouched_bytes: 1,
            warm_bytes: 2,
            cold_bytes: 4,
            pool_bytes: 8,
            file_bytes: 16,
            same_filled_bytes: 32,
            recent_bytes: 64,
        };
        let bucket = MapBucket { start: 1 << 46, end: (1 << 46) + 5, places };
        let map = MemoryMap::new(7, "a".to_owned(), vec![bucket, bucket]);
        assert_eq!((map.managed_bytes, map.total.recent_bytes), (126, 128));
        let json = serde_json::to_string(&map).expect("it has nothing that JSON cannot say");
        assert!(json.contains("\"warm_bytes\":2") && !json.contains("places"), "{json}");
        assert_eq!(serde_json::from_str::<MemoryMap>(&json).expect("it is a map"), map);
        let json = serde_json::to_string(&map.without_addresses()).expect("as before");
        assert!(json.contains("\"start\":0,\"end\":0,") && !json.contains("70368744177664"), "{json}");
    }

    #[test]
    fn zero_stands_for_the_largest() {
        assert_eq!([command(None), command(Some(12))], ["map 0\n", "map 12\n"]);
    }
}
