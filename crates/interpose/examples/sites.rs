//! Lists the system calls of ELF files and how each can be patched: `sites [--all] FILE...`.
//!
//! The file is read as it lies: its addresses are offsets from a base of zero.

use std::collections::BTreeMap;
use std::process::ExitCode;

use uswap_interpose::sites::functions::Object;
use uswap_interpose::sites::{self, Memory, Way};

/// A file as its loadable segments would lie in memory.
struct Image {
    bytes: Vec<u8>,
    /// Address, offset and length.
    segments: Vec<(usize, usize, usize)>,
}

impl Image {
    fn new(bytes: Vec<u8>) -> Option<Image> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?) as usize);
        let (headers, count) = (word(32)?, word(56)? & 0xFFFF);
        let mut segments = Vec::new();
        for index in 0..count {
            let at = headers + index * 56;
            if word(at)? & 0xFFFF_FFFF == 1 {
                segments.push((word(at + 16)?, word(at + 8)?, word(at + 32)?));
            }
        }
        Some(Image { bytes, segments })
    }

    fn base(&self) -> usize {
        self.segments.first().map_or(0, |segment| segment.0 & !0xFFF)
    }
}

impl Memory for Image {
    fn read(&self, address: usize, into: &mut [u8]) -> usize {
        let Some(&(start, offset, bytes)) =
            self.segments.iter().find(|(start, _, bytes)| (*start..*start + *bytes).contains(&address))
        else {
            return 0;
        };
        let inside = address - start;
        let count = into.len().min(bytes - inside);
        let Some(found) = self.bytes.get(offset + inside..offset + inside + count) else { return 0 };
        into[..count].copy_from_slice(found);
        count
    }
}

fn main() -> ExitCode {
    let mut is_all = false;
    for path in std::env::args().skip(1) {
        if path == "--all" {
            is_all = true;
            continue;
        }
        let image = std::fs::read(&path).ok().and_then(Image::new);
        let Some(image) = image else {
            eprintln!("sites: {path}: not a readable ELF file; give the path of a program or library");
            return ExitCode::FAILURE;
        };
        list(&path, &image, is_all);
    }
    ExitCode::SUCCESS
}

fn list(path: &str, image: &Image, is_all: bool) {
    let Some(object) = Object::at(image, image.base(), None) else {
        println!("{path}: no unwind table: nothing can be patched");
        return;
    };
    let mut counts = BTreeMap::<&str, usize>::new();
    for function in object.functions(image) {
        for site_end in sites::calls(image, function.clone()) {
            let way = sites::find_way(image, function.clone(), site_end, false);
            let text = match way {
                Ok(Way::Ahead { .. }) => "patched at an instruction ahead",
                Ok(Way::Pad { .. }) => "patched through padding",
                Err(reason) => reason.text(),
            };
            *counts.entry(text).or_default() += 1;
            if is_all || way.is_err() {
                println!("{path} {:#x} {text}", site_end - sites::SYSCALL_BYTES);
            }
        }
    }
    let total: usize = counts.values().sum();
    println!("{path}: {total} calls");
    for (text, count) in counts {
        println!("{count:8} {text}");
    }
}
