//! The disk: one request after the other, a seek for each, then so much a second. In simulated time.

/// A seek of a hard disk with a short queue.
const SEEK_NS: u64 = 6_000_000;
/// 100 MB/s.
const PAGE_NS: u64 = 40_000;

/// See above.
#[derive(Clone, Copy, Default, Debug)]
pub struct Disk {
    free_at: u64,
    /// Pages read.
    pub read: u64,
    /// Pages written.
    pub written: u64,
}

impl Disk {
    fn request(&mut self, now: u64, pages: u64) -> u64 {
        self.free_at = self.free_at.max(now) + SEEK_NS + pages * PAGE_NS;
        self.free_at
    }
    /// Reads neighbouring pages: when they are there.
    pub fn read(&mut self, now: u64, pages: u64) -> u64 {
        self.read += pages;
        self.request(now, pages)
    }
    /// Writes them: when they are on the disk.
    pub fn write(&mut self, now: u64, pages: u64) -> u64 {
        self.written += pages;
        self.request(now, pages)
    }
}

#[cfg(test)]
mod tests {
    use super::Disk;

    #[test]
    fn requests_are_served_one_after_the_other() {
        let mut disk = Disk::default();
        assert_eq!(disk.read(1000, 1), 6_041_000);
        assert_eq!(disk.write(2000, 100), 6_041_000 + 10_000_000);
        assert_eq!((disk.read, disk.written), (1, 100));
    }
}
