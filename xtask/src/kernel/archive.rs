//! An archive as the kernel unpacks it at its start: `cpio`, format "newc". Written here, so that nobody needs the
//! rights or the program for it.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An archive that is being written.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    names: BTreeSet<String>,
}

impl Archive {
    /// A directory, and those above it.
    pub fn directory(&mut self, name: &str) {
        if let Some((above, _)) = name.rsplit_once('/') {
            self.directory(above);
        }
        if !self.names.contains(name) {
            self.entry(name, DIRECTORY, &[]);
        }
    }

    /// A file that may be executed.
    pub fn file(&mut self, name: &str, content: &[u8]) {
        if let Some((above, _)) = name.rsplit_once('/') {
            self.directory(above);
        }
        self.entry(name, PROGRAM, content);
    }

    /// A symbolic link.
    pub fn link(&mut self, name: &str, target: &str) {
        self.entry(name, LINK, target.as_bytes());
    }

    /// A file as it is on this machine.
    pub fn copy(&mut self, name: &str, from: &Path) -> Result<()> {
        let content = std::fs::read(from).with_context(|| format!("reading {}", from.display()))?;
        self.file(name, &content);
        Ok(())
    }

    /// The same, if nothing of that name was written.
    pub fn copy_once(&mut self, name: &str, from: &Path) -> Result<()> {
        if self.names.contains(name) { Ok(()) } else { self.copy(name, from) }
    }

    /// All of it.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.names.insert(name.to_owned());
        let (inode, links, name_bytes) = (self.names.len(), 1, name.len() + 1);
        // Magic, inode, mode, user, group, links, time, size, two devices, size of the name, a sum that is not used.
        self.bytes.extend(b"070701");
        for field in [inode, mode as usize, 0, 0, links, 0, content.len(), 0, 0, 0, 0, name_bytes, 0] {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes().chain([0]));
        self.align();
        self.bytes.extend(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_the_format_says() {
        let mut archive = Archive::default();
        archive.file("a/b", b"hello");
        let bytes = archive.finish();
        let text = |range: std::ops::Range<usize>| String::from_utf8_lossy(&bytes[range]).into_owned();
        // The directory: 110 bytes and a name of two.
        assert_eq!(
            (text(0..6), text(14..22), text(110..112)),
            ("070701".into(), "000041ed".into(), "a\0".into())
        );
        let file = 112;
        assert_eq!((text(file..file + 6), text(file + 14..file + 22)), ("070701".into(), "000081ed".into()));
        assert_eq!(
            (text(file + 54..file + 62), text(file + 110..file + 114)),
            ("00000005".into(), "a/b\0".into())
        );
        let content = (file + 114).next_multiple_of(4);
        assert_eq!(text(content..content + 5), "hello");
        assert!(text(content..bytes.len()).contains("TRAILER!!!"));
        assert_eq!(bytes.len() % 4, 0);
    }
}
