//! Gets the content of a swap entry: from its value, the pool or the file, and verifies it.

use crate::engine::Engine;
use crate::platform::Platform;
use crate::workspace::Workspace;
use uswap_codec as codec;
use uswap_core::counters::{Counter, FaultSource};
use uswap_core::swap_word::{Content, SwapWord};
use uswap_units::limits::READ_ATTEMPTS_MAX;
use uswap_units::{PAGE_BYTES, SwapId};

/// What came of a load.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Load {
    /// `workspace.page` holds the verified content, found there.
    Done(FaultSource),
    /// No attempt gave the right content.
    Lost,
}

fn unpack(blob: &[u8], out: &mut codec::Page) -> bool {
    if blob.len() == PAGE_BYTES {
        out.copy_from_slice(blob);
        return true;
    }
    codec::decompress(blob, out).is_ok()
}

/// Header of a blob in the file: swap id and length of the content behind it.
pub(crate) const FILE_HEADER_BYTES: usize = 8;

impl<P: Platform> Engine<'_, P> {
    /// Loads the content of an entry to which the caller holds a reference (through a page word that it has locked).
    pub(crate) async fn load(&self, id: SwapId, workspace: &mut Workspace) -> Load {
        let table = self.segment.swap_table();
        let mut failures = 0;
        loop {
            let word = table.load(id);
            let found = match word.content() {
                Content::Same(value) => {
                    codec::fill(&mut workspace.page, value);
                    return Load::Done(FaultSource::Same);
                }
                Content::Blob { blob, length } => {
                    let length = length as usize;
                    let read = self.segment.pool().read(blob, length, &mut workspace.blob);
                    self.platform.step().await;
                    let good = read && unpack(&workspace.blob[..length], &mut workspace.page);
                    good && codec::hash(&workspace.page).0 == table.hash(id)
                }
                Content::Slot { offset, length } => {
                    self.load_slot(id, offset, length as usize, workspace).await
                }
                Content::Lost => return Load::Lost,
                Content::Free | Content::Reserved | Content::Discarded => {
                    unreachable!("a swapped page refers to an entry with content")
                }
            };
            if found {
                let source = match word.content() {
                    Content::Slot { .. } => FaultSource::File,
                    _ => FaultSource::Pool,
                };
                return Load::Done(source);
            }
            // The supervisor may have moved the blob to the file while we copied it: then the word says so.
            if table.load(id).content() != word.content() {
                continue;
            }
            failures += 1;
            self.counters.add(Counter::ReadErrors, 1);
            if failures == READ_ATTEMPTS_MAX {
                self.lose(id, word);
                return Load::Lost;
            }
            self.platform.pause().await;
        }
    }

    async fn load_slot(&self, id: SwapId, offset: u64, length: usize, workspace: &mut Workspace) -> bool {
        let start = (offset % PAGE_BYTES as u64) as usize;
        let bytes = (start + length).next_multiple_of(PAGE_BYTES);
        let from = offset - start as u64;
        if self.platform.read_file(from, bytes, &mut workspace.file).await.is_err() {
            return false;
        }
        self.counters.add(Counter::ReadPages, 1);
        self.counters.add(Counter::ReadBytes, bytes as u64);
        let blob = &workspace.file.0[start..start + length];
        let header = u64::from_le_bytes(blob[..FILE_HEADER_BYTES].try_into().expect("a header has 8 bytes"));
        let content_bytes = (header >> 32) as usize;
        if header as u32 != id.0 || content_bytes > length - FILE_HEADER_BYTES {
            return false;
        }
        let good = unpack(&blob[FILE_HEADER_BYTES..FILE_HEADER_BYTES + content_bytes], &mut workspace.page);
        good && codec::hash(&workspace.page).0 == self.segment.swap_table().hash(id)
    }

    fn lose(&self, id: SwapId, seen: SwapWord) {
        self.counters.add(Counter::LostPages, 1);
        if let Some(content) = self.segment.swap_table().lose(id, seen) {
            crate::release::release_content(self.segment, &self.platform, content);
        }
    }
}
