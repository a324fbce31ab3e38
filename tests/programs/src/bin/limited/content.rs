//! Memory of which each page is known.

use std::time::{Duration, Instant};

use uswap_test_programs::message::end_process;
use uswap_test_programs::pattern::Key;
use uswap_test_programs::{PAGE_BYTES, memory};

/// A mapping that is filled.
pub struct Content {
    pub address: usize,
    pub bytes: usize,
    writer: u32,
}

impl Content {
    pub fn new(bytes: usize, writer: u32) -> Content {
        let address = memory::map_private(bytes, 0).expect("there is address space");
        let content = Content { address, bytes, writer };
        for index in 0..bytes / PAGE_BYTES {
            memory::copy_page_in(address + index * PAGE_BYTES, &content.page(index));
        }
        content
    }

    fn page(&self, index: usize) -> [u8; PAGE_BYTES] {
        Key { seed: 1, writer: self.writer, number: index as u32 }.page()
    }

    /// Reads something of every page.
    pub fn touch(&self) {
        for address in (self.address..self.address + self.bytes).step_by(PAGE_BYTES) {
            memory::read_word(address);
        }
    }

    /// Compares every page.
    pub fn verify(&self) {
        let mut found = [0; PAGE_BYTES];
        for index in 0..self.bytes / PAGE_BYTES {
            memory::copy_page_out(self.address + index * PAGE_BYTES, &mut found);
            if found != self.page(index) {
                end_process(1, format_args!("FAIL page {index} of writer {} is wrong", self.writer));
            }
        }
    }
}

/// Private memory of this process that is in RAM. Small steps of the kernel's counting do not matter here.
pub fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("/proc is mounted");
    let pages: Vec<usize> = text.split(' ').map_while(|word| word.parse().ok()).collect();
    (pages[1] - pages[2]) * PAGE_BYTES
}

/// This process comes to fit into so much, if it is given time.
pub fn must_be_within(bytes: usize) {
    let began = Instant::now();
    while resident_bytes() > bytes {
        if began.elapsed() > Duration::from_secs(60) {
            end_process(
                1,
                format_args!("FAIL {} bytes are resident, and {bytes} are the budget", resident_bytes()),
            );
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
