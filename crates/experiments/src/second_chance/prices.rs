//! What things cost in the simulated machine, and the disk that all workers share.
//!
//! Measured: compression, decompression, reads and writes of the solid-state disk (docs/experiments/second-chance.md,
//! ADR 0005 and 0006). Assumed: the rest.

use std::fmt;

/// Nanoseconds of a processor.
#[derive(Clone, Copy, Debug)]
pub struct Prices {
    /// A fault into the kernel and back.
    pub fault_ns: u64,
    /// A page is looked at by reclaim.
    pub look_ns: u64,
    /// A page is unmapped, and its memory given back.
    pub unmap_ns: u64,
    /// A page is compressed: 5 to 13 us were measured.
    pub compress_ns: u64,
    /// A page is decompressed: 2 to 5 us were measured.
    pub decompress_ns: u64,
    /// A write of one page is handed to the disk.
    pub submit_ns: u64,
}

/// What is used.
pub const PRICES: Prices = Prices {
    fault_ns: 1000,
    look_ns: 200,
    unmap_ns: 1000,
    compress_ns: 8000,
    decompress_ns: 3000,
    submit_ns: 3000,
};

impl fmt::Display for Prices {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ns: u64| ns as f64 / 1000.0;
        write!(
            formatter,
            "fault {} us, look {} us, unmap {} us, compress {} us, decompress {} us, submit a write {} us",
            us(self.fault_ns),
            us(self.look_ns),
            us(self.unmap_ns),
            us(self.compress_ns),
            us(self.decompress_ns),
            us(self.submit_ns)
        )
    }
}

/// A kind of disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskKind {
    /// Its name in tables.
    pub name: &'static str,
    /// From the end of the transfer to the end of a read.
    pub latency_ns: u64,
    /// The disk is busy so long with each page, read or written; one after the other.
    pub transfer_ns: u64,
}

/// Reads take 80 us (70 to 100 were measured), writes go at 500 MB/s.
pub const SOLID_STATE: DiskKind = DiskKind { name: "solid state", latency_ns: 72_000, transfer_ns: 8_200 };

/// What the published figures imply: 27.2 s of 36 processes less for 145,700 swap-ins less are 6.7 ms each. How busy
/// that disk was with one is not known: 160 us (25 MB/s) are assumed.
pub const SLOW: DiskKind = DiskKind { name: "slow", latency_ns: 6_500_000, transfer_ns: 160_000 };

impl fmt::Display for DiskKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read_us = (self.latency_ns + self.transfer_ns) as f64 / 1000.0;
        let mb_s = 4096.0 / self.transfer_ns as f64 * 1000.0;
        write!(formatter, "{}: a read alone {read_us:.0} us, transfers {mb_s:.0} MB/s", self.name)
    }
}

/// A disk and until when it is busy.
#[derive(Clone, Copy, Debug)]
pub struct Disk {
    kind: DiskKind,
    busy_until_ns: u64,
}

impl Disk {
    /// One that is idle.
    #[must_use]
    pub const fn new(kind: DiskKind) -> Disk {
        Disk { kind, busy_until_ns: 0 }
    }

    /// One page is read; when it is there.
    pub fn read(&mut self, now_ns: u64) -> u64 {
        self.transfer(now_ns) + self.kind.latency_ns
    }

    /// One page is written. Nobody waits for that, but for the disk, which is busy.
    pub fn write(&mut self, now_ns: u64) {
        self.transfer(now_ns);
    }

    fn transfer(&mut self, now_ns: u64) -> u64 {
        self.busy_until_ns = self.busy_until_ns.max(now_ns) + self.kind.transfer_ns;
        self.busy_until_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_wait_for_what_was_handed_over_before() {
        let mut disk = Disk::new(DiskKind { name: "test", latency_ns: 70, transfer_ns: 10 });
        assert_eq!(disk.read(1000), 1080);
        disk.write(1000);
        assert_eq!(disk.read(1000), 1100);
        assert_eq!(disk.read(5000), 5080, "an idle disk");
    }
}
