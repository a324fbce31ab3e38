//! What is counted in a run, by the names of Linux and of the reports of mmtests.

use serde::Serialize;

/// See there.
#[derive(Clone, Copy, Default, Debug, Serialize)]
pub struct Counts {
    /// Requests that reclaimed for themselves (`allocstall`).
    pub alloc_stalls: u64,
    /// Pages that they looked at.
    pub direct_scanned: u64,
    /// Pages that kswapd looked at.
    pub kswapd_scanned: u64,
    /// Pages that it reclaimed.
    pub kswapd_reclaimed: u64,
    /// Pages of processes that were written out.
    pub swapped_out: u64,
    /// Pages that came back soon after they were reclaimed.
    pub came_back: u64,
    /// Requests that compacted for themselves.
    pub compact_stalls: u64,
    /// Those that had a run afterwards.
    pub compact_success: u64,
    /// Pages moved.
    pub migrated: u64,
    /// Pages that could not be moved.
    pub migrate_failed: u64,
    /// Frames isolated, in both places.
    pub isolated: u64,
    /// Frames looked at for something to move.
    pub migrate_scanned: u64,
    /// Frames, or free runs, looked at for room.
    pub free_scanned: u64,
    /// Times that kcompactd was woken.
    pub daemon_wakes: u64,
    /// Huge pages that jobs got, and asked for.
    pub huge_faults: u64,
    /// See above.
    pub huge_wanted: u64,
    /// Work of the jobs in milliseconds of a CPU.
    pub work_ms: u64,
    /// Files compiled.
    pub units: u64,
    /// Time of a CPU that kswapd took.
    pub kswapd_ns: u64,
    /// And kcompactd.
    pub kcompactd_ns: u64,
    /// Time that jobs spent reclaiming and compacting for themselves.
    pub stalled_ns: u64,
}

impl Counts {
    /// The cost of compaction as mmtests reckons it, which leaves out what is looked at for room; and with that.
    pub fn compaction_cost(&self) -> (u64, u64) {
        let without =
            7 * self.migrate_scanned + 19 * self.isolated + 1038 * self.migrated + 14 * self.migrate_failed;
        (without / 1_000_000, (without + 7 * self.free_scanned) / 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::Counts;

    /// The columns that were published, from their own counters.
    #[test]
    fn the_cost_is_the_one_of_the_published_report() {
        let base = Counts {
            migrate_scanned: 1_518_500,
            isolated: 1_143_892,
            migrated: 547_663,
            migrate_failed: 23_289,
            free_scanned: 35_478_038,
            ..Counts::default()
        };
        assert_eq!(base.compaction_cost(), (601, 849));
        let with_order = Counts {
            migrate_scanned: 7_626_063,
            isolated: 2_810_572,
            migrated: 1_357_157,
            migrate_failed: 23_159,
            free_scanned: 326_240_264,
            ..Counts::default()
        };
        assert_eq!(with_order.compaction_cost(), (1515, 3799));
    }
}
