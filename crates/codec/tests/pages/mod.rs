//! Pages for the tests: kinds of content that programs have, made from a seed.

use uswap_codec::{PAGE_BYTES, Page};

/// Next number of a small generator (xorshift64*).
pub fn next(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

/// A page of one of six kinds. `seed` may be any number.
pub fn page(kind: usize, seed: u64) -> Page {
    let mut state = seed | 1;
    let mut page = [0_u8; PAGE_BYTES];
    match kind % 6 {
        // Random bytes: does not compress.
        0 => page.fill_with(|| next(&mut state) as u8),
        // Text-like: few words, many times.
        1 => words(&mut page, || u64::from_le_bytes(*WORDS[(next(&mut state) % 8) as usize])),
        // Pointers: common high halves.
        2 => words(&mut page, || 0x0000_7f3a_0000_0000 | (next(&mut state) & 0x00ff_fff0)),
        // Mostly zero, some words set.
        3 => words(&mut page, || if next(&mut state).is_multiple_of(9) { next(&mut state) } else { 0 }),
        // One byte, and a difference somewhere.
        4 => {
            page.fill(next(&mut state) as u8);
            page[(next(&mut state) % 4096) as usize] ^= (next(&mut state) % 2) as u8;
        }
        // Random in its first part, zero after it: near the edge of what is worth keeping.
        _ => {
            let random_bytes = (next(&mut state) % 4097) as usize;
            page[..random_bytes].fill_with(|| next(&mut state) as u8);
        }
    }
    page
}

const WORDS: [&[u8; 8]; 8] =
    [b"the page", b" is in a", b" frame, ", b"or it is", b" nowhere", b"; then a", b" fault g", b"ets zero"];

fn words(page: &mut Page, mut make: impl FnMut() -> u64) {
    for word in page.as_chunks_mut::<8>().0 {
        *word = make().to_le_bytes();
    }
}
