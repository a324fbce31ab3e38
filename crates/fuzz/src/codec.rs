//! Blobs and pages.

use uswap_codec::{
    COMPRESSED_BYTES_MAX, Codec, Compressed, Effort, PAGE_BYTES, Page, Scratch, compress, compress_with,
    decompress, fill, same_filled,
};

/// A blob may hold anything: it makes a page or none, and it is the same one on every processor.
pub fn codec_decompress(blob: &[u8]) {
    let (mut page, mut portable_page) = ([0; PAGE_BYTES], [0; PAGE_BYTES]);
    let result = decompress(blob, &mut page, &mut Scratch::new());
    let portable = decompress(blob, &mut portable_page, &mut Scratch::portable());
    assert_eq!(result, portable);
    assert!(result.is_err() || page == portable_page, "two pages from one blob");
}

/// What is compressed comes back, whichever codec took it, and the bytes are the same on every processor.
pub fn codec_round_trip(bytes: &[u8]) {
    let page = page_of(bytes);
    for effort in [Effort::Quick, Effort::Dense] {
        comes_back(&page, |page, out, scratch| compress(page, out, effort, scratch));
    }
    for codec in [Codec::Lz4, Codec::Dense, Codec::Words] {
        comes_back(&page, |page, out, scratch| compress_with(codec, page, out, scratch));
    }
    if let Some(value) = same_filled(&page) {
        let mut filled = [0; PAGE_BYTES];
        fill(&mut filled, value);
        assert!(filled == page, "filled with another value");
    }
}

/// The first byte says whether the others are followed by zeros or by themselves.
fn page_of(bytes: &[u8]) -> Page {
    let mut page = [0; PAGE_BYTES];
    if let Some((first, content)) = bytes.split_first().filter(|(_, content)| !content.is_empty()) {
        let length = if first % 2 == 0 { content.len() } else { PAGE_BYTES };
        for (to, from) in page.iter_mut().zip(content.iter().cycle().take(length)) {
            *to = *from;
        }
    }
    page
}

fn comes_back(page: &Page, compress: impl Fn(&Page, &mut [u8], &mut Scratch) -> Compressed) {
    let mut scratch = Scratch::new();
    let (mut blob, mut portable_blob) = ([0; COMPRESSED_BYTES_MAX], [0; COMPRESSED_BYTES_MAX]);
    let compressed = compress(page, &mut blob, &mut scratch);
    assert_eq!(compressed, compress(page, &mut portable_blob, &mut Scratch::portable()));
    let Compressed::Bytes(length) = compressed else { return };
    assert!((2..=COMPRESSED_BYTES_MAX).contains(&length), "{length} bytes");
    assert!(blob[..length] == portable_blob[..length], "two blobs from one page");
    let mut back = [0; PAGE_BYTES];
    assert_eq!(decompress(&blob[..length], &mut back, &mut scratch), Ok(()));
    assert!(back == *page, "another page came back");
}
