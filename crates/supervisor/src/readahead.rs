//! Reads the swap files ahead of the faults of programs that go through their memory in order.

use uswap_core::budget::Signal;
use uswap_engine::block_on;
use uswap_engine::fault::serve_readahead;
use uswap_engine::world::FileBuffer;
use uswap_os::fd::Timeout;
use uswap_os::futex::{self, Scope};
use uswap_units::limits::FILE_BUFFER_BYTES;

use crate::shared::Shared;

pub fn run(shared: &Shared) {
    let budget = shared.segment.budget();
    let mut buffer = Box::new(FileBuffer([0; FILE_BUFFER_BYTES]));
    loop {
        let seen = budget.signal_count(Signal::Readahead);
        if shared.is_stopping() {
            return;
        }
        block_on(serve_readahead(shared.segment, shared, &mut buffer));
        futex::wait_low(budget.signal_word(Signal::Readahead), seen, Timeout::Forever, Scope::Shared);
    }
}
