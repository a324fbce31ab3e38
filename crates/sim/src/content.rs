//! Page contents by number: a version says every byte of a page, so an oracle needs only the number.

use uswap_codec::{PAGE_BYTES, Page};
use uswap_units::Prng;

/// Number of a content. 0 is the page of zeros.
pub type Version = u64;

/// The page that a version means: by turns one repeated value, something that compresses, and noise.
pub fn page_of(version: Version) -> Page {
    let mut page = [0; PAGE_BYTES];
    if version == 0 {
        return page;
    }
    let mut prng = Prng::new(version);
    match version % 8 {
        0 | 1 => {
            page.chunks_exact_mut(4).for_each(|bytes| bytes.copy_from_slice(&(version as u32).to_le_bytes()))
        }
        2 | 3 => {
            page.chunks_exact_mut(8).for_each(|bytes| bytes.copy_from_slice(&prng.next_u64().to_le_bytes()))
        }
        // Words of a language, with gaps: quickly compressed they take more than densely.
        7 => {
            let mut at = 0;
            while at < PAGE_BYTES {
                let start = prng.below(36) as usize;
                let length = (3 + prng.below(4) as usize).min(PAGE_BYTES - at);
                page[at..at + length]
                    .copy_from_slice(&b"fault page table memory swap reclaim frame"[start..][..length]);
                at += length + 1;
            }
        }
        kind => {
            let fresh = 8 << (kind % 4);
            for (index, bytes) in page.chunks_exact_mut(8).enumerate() {
                let word = if index % fresh == 0 { prng.next_u64() } else { version };
                bytes.copy_from_slice(&word.to_le_bytes());
            }
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_differ() {
        let pages: Vec<Page> = (0..64).map(page_of).collect();
        for (index, page) in pages.iter().enumerate() {
            assert!(!pages[..index].contains(page), "version {index} looks like an earlier one");
        }
    }
}
