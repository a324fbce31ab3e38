//! Advice of the simulated program about what it will not use soon, with what `host` does around it.

use crate::mappings::Caller;
use crate::places::some_mapping;

impl Caller<'_, '_> {
    /// MADV_COLD or MADV_PAGEOUT of a range, which others may go on using.
    pub async fn advise(&self) {
        let Some(range) = some_mapping(self.world, self.process, 96) else { return };
        let Some(space) = self.process.managed_space() else { return };
        if self.world.below(3) == 0 {
            self.world.count("madvise cold", 1);
            self.process.kernel.lock_shared(self.world).await;
            space.cool(range);
            return self.process.kernel.unlock_shared(self.world);
        }
        self.world.count("madvise pageout", 1);
        let evictors = &self.process.evictors;
        let pages = space.evict_range(range, || evictors.borrow(&self.world.executor)).await;
        self.world.count("pages evicted as advised", pages);
    }
}
