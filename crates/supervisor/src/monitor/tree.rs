//! The processes of the run as the kernel shows them, and how much memory they have.

use std::cmp::Reverse;
use std::path::Path;

use uswap_core::mm::{MmRecord, MmState, MmTable};
use uswap_units::PAGE_BYTES;

use super::unmanaged::UnmanagedProcesses;
use crate::counting::{Counting, Sizes};
use crate::shared::Shared;

/// Who is of the run, and what is known of their memory.
pub struct Tree {
    counting: Counting,
    unmanaged: UnmanagedProcesses,
    /// Of the last look.
    managed_pids: Vec<u32>,
    unmanaged_pids: Vec<u32>,
}

impl Tree {
    pub fn new(shared: &Shared) -> Tree {
        let segment = format!("/proc/self/fd/{}", shared.memfd.raw());
        Tree {
            counting: Counting::new(Path::new(&segment)),
            unmanaged: UnmanagedProcesses::default(),
            managed_pids: Vec::new(),
            unmanaged_pids: Vec::new(),
        }
    }

    /// Memory of all processes of the run; writes into the records what each one has.
    pub fn measure(&mut self, shared: &Shared) -> Sizes {
        let records = records_of_processes(shared.segment.mms());
        let known: Vec<u32> = records.iter().map(|&(pid, _)| pid).collect();
        self.unmanaged_pids = self.unmanaged.look(shared, &known);
        self.managed_pids = known;
        let sizes = self.counting.look(&self.pids());
        let counting = &self.counting;
        let bytes_of = |pid| counting.pages_of(pid).map(private_bytes);
        self.unmanaged.note_sizes(shared, bytes_of);
        for (pid, record) in records {
            if let Some((resident_pages, shared_pages)) = self.counting.pages_of(pid) {
                record.set_resident_pages(resident_pages);
                record.set_shared_pages(shared_pages);
            }
        }
        sizes
    }

    /// The run ends: see [`Counting::finish`].
    pub fn finish(&self) -> Option<u64> {
        self.counting.finish()
    }

    /// All processes at the last look.
    pub fn pids(&self) -> Vec<u32> {
        [self.managed_pids.as_slice(), &self.unmanaged_pids].concat()
    }

    /// The managed processes at the last look.
    pub fn managed(&self) -> &[u32] {
        &self.managed_pids
    }

    /// The others, and the bytes of private memory that count for each.
    pub fn unmanaged(&self) -> Vec<(u32, u64)> {
        let sized = |&pid| Some((pid, private_bytes(self.counting.pages_of(pid)?)));
        self.unmanaged_pids.iter().filter_map(sized).collect()
    }
}

fn private_bytes((resident_pages, shared_pages): (u64, u64)) -> u64 {
    (resident_pages - shared_pages) * PAGE_BYTES as u64
}

/// Each process once: who has executed a new program has a second record until the reaper comes by, and its memory
/// is not twice there.
fn records_of_processes(mms: MmTable<'_>) -> Vec<(u32, MmRecord<'_>)> {
    let of_process = |record: &MmRecord<'_>| matches!(record.state(), MmState::Live | MmState::Taken);
    let mut records: Vec<_> = mms
        .in_use()
        .filter(of_process)
        .map(|record| (record.pid(), record))
        .filter(|&(pid, _)| pid != 0)
        .collect();
    // The youngest one is kept.
    records.sort_unstable_by_key(|&(pid, record)| (pid, Reverse(record.number())));
    records.dedup_by_key(|&mut (pid, _)| pid);
    records
}
