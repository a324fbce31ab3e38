//! Keeps a thread of the supervisor off the processor that the run is kept on: it has a memory map of its own, so its
//! work there would only take the program's time.

use uswap_core::placement::{Processors, members, only};
use uswap_os::thread;

use super::shared::Shared;

/// Where the calling thread must not run now.
pub struct Away {
    everywhere: Processors,
    from: Option<u32>,
}

impl Away {
    /// The thread may run wherever the run may.
    pub fn new(shared: &Shared) -> Away {
        Away { everywhere: shared.segment.placement().processors(), from: None }
    }

    /// Whether there is another processor to go to.
    pub fn is_possible(&self) -> bool {
        members(&self.everywhere).count() > 1
    }

    /// Follows the placement of the run; to be called now and then by the thread itself.
    pub fn follow(&mut self, shared: &Shared) {
        let together = shared.segment.placement().together();
        if together != self.from && self.is_possible() {
            let not = together.map_or([0; 16], only);
            let rest = core::array::from_fn(|word| self.everywhere[word] & !not[word]);
            let _stays_where_it_is = thread::set_affinity(thread::thread_id(), &rest);
            self.from = together;
        }
    }
}
