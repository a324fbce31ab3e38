//! Prefix codes of limited length: lengths from counts, codes from lengths, and what fills a decoding table.
//!
//! Codes are canonical: shorter ones first, those of one length in the order of their symbols. So the lengths say all.
//!
//! Must hold: lengths fill the code space, or there is one symbol. A table is made of such lengths only, so each entry
//! of it means something. Called by [`super::literals`] and [`super::classes`].

use crate::Corrupt;

/// Code lengths for symbols that occur so often: 0 for those that do not; none longer than `limit`, and together a
/// complete code (a single symbol gets one bit). Returns the bits that all take.
///
/// The lengths of Huffman's tree, by the method of two queues over sorted counts. Those that are too long are cut, and
/// the rarest of the others pay for it.
pub fn lengths<const N: usize>(counts: &[u16; N], limit: u32, lengths: &mut [u8; N]) -> u32 {
    *lengths = [0; N];
    // Count and symbol in one number, so that sorting is fast.
    let mut leaves = [0u32; N];
    let mut used = 0;
    for (symbol, &count) in counts.iter().enumerate() {
        leaves[used] = u32::from(count) << 8 | symbol as u32;
        used += usize::from(count > 0);
    }
    if used <= 1 {
        let symbol = (leaves[0] & 0xFF) as usize;
        lengths[symbol] = used as u8;
        return u32::from(counts[symbol]);
    }
    let leaves = &mut leaves[..used];
    leaves.sort_unstable();
    let depths = depths::<N>(leaves);

    let one = 1i32 << limit;
    let mut room = one;
    for (leaf, depth) in leaves.iter().zip(depths) {
        let length = depth.min(limit as u8);
        lengths[(leaf & 0xFF) as usize] = length;
        room -= one >> length;
    }
    while room < 0 {
        for leaf in leaves.iter() {
            let length = &mut lengths[(leaf & 0xFF) as usize];
            if u32::from(*length) < limit && room < 0 {
                *length += 1;
                room += one >> *length;
            }
        }
    }
    // What that gave too much, the commonest get.
    while room > 0 {
        for leaf in leaves.iter().rev() {
            let length = &mut lengths[(leaf & 0xFF) as usize];
            if *length > 1 && one >> *length <= room {
                room -= one >> *length;
                *length -= 1;
            }
        }
    }
    counts.iter().zip(lengths.iter()).map(|(&count, &length)| u32::from(count) * u32::from(length)).sum()
}

/// How deep each leaf is in Huffman's tree. Two leaves or more, rarest first.
fn depths<const N: usize>(leaves: &[u32]) -> [u8; N] {
    let used = leaves.len();
    let mut weights = [u32::MAX; N];
    let (mut parents, mut leaf_parents) = ([0u16; N], [0u16; N]);
    let (mut leaf, mut inner) = (0, 0);
    for node in 0..used - 1 {
        let mut weight = 0;
        for _ in 0..2 {
            // Inner nodes that are not made yet weigh more than any leaf.
            let leaf_weight = leaves.get(leaf).map_or(u32::MAX, |leaf| leaf >> 8);
            if leaf_weight <= weights[inner] && leaf < used {
                weight += leaf_weight;
                leaf_parents[leaf] = node as u16;
                leaf += 1;
            } else {
                weight += weights[inner];
                parents[inner] = node as u16;
                inner += 1;
            }
        }
        weights[node] = weight;
    }
    let mut inner_depths = [0u8; N];
    for node in (0..used - 2).rev() {
        inner_depths[node] = inner_depths[usize::from(parents[node])].saturating_add(1);
    }
    leaf_parents.map(|parent| inner_depths[usize::from(parent)].saturating_add(1))
}

/// The canonical code of each symbol; above it, from bit 16, its length.
pub fn codes<const N: usize>(lengths: &[u8; N]) -> [u32; N] {
    let mut count = [0u32; 16];
    for &length in lengths {
        count[usize::from(length & 15)] += 1;
    }
    count[0] = 0;
    let mut next = [0u32; 16];
    for length in 1..16 {
        next[length] = (next[length - 1] + count[length - 1]) << 1;
    }
    core::array::from_fn(|symbol| {
        let length = lengths[symbol] & 15;
        let place = &mut next[usize::from(length)];
        *place += 1;
        (*place - 1) | u32::from(length) << 16
    })
}

/// Fills a table that decodes with one look at its `BITS` bits, from symbols in order and the lengths of their codes, 1
/// to `BITS`.
///
/// # Errors
/// The lengths are not those of a complete code, nor of a single symbol.
pub fn fill_table<E: Copy, const N: usize>(
    table: &mut [E],
    codes: &[(u8, u8)],
    entry: impl Fn(u8, u8) -> E,
) -> Result<(), Corrupt> {
    let bits = table.len().trailing_zeros() as usize;
    // Sorted by length, so that the loops below always run the same way for a while.
    let mut starts = [0usize; 17];
    for &(_, length) in codes {
        starts[usize::from(length & 15) + 1] += 1;
    }
    if starts[1] > 0 {
        return Err(Corrupt);
    }
    let mut filled = 0;
    for length in 1..16 {
        let count = starts[length + 1];
        filled += if length <= bits { count << (bits - length) } else { count << bits };
        starts[length + 1] += starts[length];
    }
    if filled != table.len() && !(codes.len() == 1 && filled == table.len() / 2) {
        return Err(Corrupt);
    }
    let mut sorted = [0u8; N];
    let mut next = starts;
    for &(symbol, length) in codes {
        let place = &mut next[usize::from(length & 15)];
        sorted[*place % N] = symbol;
        *place += 1;
    }
    let mut rest = &mut *table;
    for length in 1..=bits {
        let span = 1 << (bits - length);
        for &symbol in &sorted[starts[length]..starts[length + 1]] {
            let (places, others) = rest.split_at_mut_checked(span).ok_or(Corrupt)?;
            let entry = entry(symbol, length as u8);
            places.fill(entry);
            rest = others;
        }
    }
    if codes.len() == 1 {
        // Any bit is it.
        let (symbol, length) = codes[0];
        rest.fill(entry(symbol, length));
    }
    Ok(())
}
