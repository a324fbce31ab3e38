//! The table of system calls.

use uswap_interpose::Call;
use uswap_interpose::table::{ADDRESS_END, BufferRange, Memory, NUMBER_MAX, Unreadable, for_each_range, row};

/// Memory of the program that is made of these bytes again and again. Some pages are evicted and some are not there.
struct Bytes<'a>(&'a [u8]);

impl Memory for Bytes<'_> {
    fn read(&self, start: u64, into: &mut [u8]) -> Result<(), Unreadable> {
        assert!(start.checked_add(into.len() as u64).is_some_and(|end| end <= ADDRESS_END), "{start:#x}");
        let Some(last) = self.0.len().checked_sub(1) else { return Err(Unreadable::Bad) };
        match self.0[(start >> 12) as usize % self.0.len()] {
            0xfe => return Err(Unreadable::Evicted),
            0xff => return Err(Unreadable::Bad),
            _ => {}
        }
        let first = start as usize % (last + 1);
        for (to, from) in into.iter_mut().zip(self.0[first..].iter().chain(self.0.iter().cycle())) {
            *to = *from;
        }
        Ok(())
    }
}

/// Ranges of one call. The most has `execve`: two arrays of strings of 6 MiB each, 9 bytes and two ranges for the
/// shortest string. A list of 1,024 messages with as many parts has half of that.
const RANGES_MAX: u64 = 1 << 22;

/// Two bytes are the number of the call, eight each of its arguments, and the rest is memory. The walk ends, and names
/// only ranges that are in the address space.
pub fn system_calls(bytes: &[u8]) {
    let (head, memory) = bytes.split_at(bytes.len().min(2 + 6 * 8));
    let mut words = [0_u8; 2 + 6 * 8];
    words[..head.len()].copy_from_slice(head);
    let number = usize::from(u16::from_le_bytes([words[0], words[1]])) % (NUMBER_MAX + 1);
    let (parts, _) = words[2..].as_chunks();
    let arguments = std::array::from_fn(|index| u64::from_le_bytes(parts[index]) as usize);
    let Some(row) = row(number) else { return };
    let mut count = 0;
    // How it ended says nothing of the ranges.
    let _ = for_each_range(row, &Call { number, arguments }, &Bytes(memory), &mut |range: BufferRange| {
        count += 1;
        assert!(range.start > 0 && range.bytes > 0, "{}: {range:?}", row.name());
        let end = range.start.checked_add(range.bytes);
        assert!(end.is_some_and(|end| end <= ADDRESS_END), "{}: {range:?}", row.name());
    });
    assert!(count < RANGES_MAX, "{}: {count} ranges", row.name());
}
