//! Template pages of each kind.
//!
//! What must hold: a page follows from the state of the generator that is handed in, and from the executable for
//! machine code. Numbers are like those in real data: few digits, near their neighbours, common values common.

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use anyhow::{Context as _, ensure};
use uswap_units::{PAGE_BYTES, Prng};

use super::Kind;

/// One page as bytes.
pub type PageBytes = [u8; PAGE_BYTES];

/// The page of `kind` that the generator stands at.
pub fn page(kind: Kind, random: &mut Prng, code: &Code) -> anyhow::Result<PageBytes> {
    Ok(match kind {
        Kind::Zero => [0; PAGE_BYTES],
        Kind::Text => cut(text(random)),
        Kind::Json => cut(json(random)),
        Kind::Heap => heap(random),
        Kind::Floats => floats(random),
        Kind::Code => code.page(random)?,
    })
}

fn cut(text: String) -> PageBytes {
    text.as_bytes()[..PAGE_BYTES].try_into().expect("the text is at least a page")
}

/// Common words, commonest first.
const WORDS: &str = "the of and to in a is that it was for as with on be by he this are at from his not have had or an \
    but which they one you were her all \
    there been their we him has who when more no if out so said what up its about into than them can only other new \
    some could time these two may then do \
    first any my now such like our over man me even most made after also did many before must through back years where \
    much your way well down should because \
    each just those people how too little state good very make world still own see men work long get here between both \
    life being under never day same another \
    know while last might us great old year off come since against go came right used take three memory program page \
    process system machine number result \
    answer question measure kernel table record customer order invoice market station river valley window garden \
    winter evening morning letter journey";

/// Letters that rarer words are made of.
const SYLLABLES: [&str; 32] = [
    "an", "ber", "con", "dra", "el", "fin", "gor", "hal", "is", "jo", "ken", "lum", "mar", "nor", "or",
    "pel", "qua", "ris", "sto", "tem", "ul", "ver", "wen", "xi", "yor", "zan", "cha", "ble", "tion", "ing",
    "ment", "ous",
];

/// The words of one page: common ones, and the few that its topic repeats.
struct Vocabulary {
    common: Vec<&'static str>,
    topic: Vec<String>,
}

impl Vocabulary {
    fn new(random: &mut Prng) -> Self {
        let topic = (0..24)
            .map(|_| {
                let syllables = 2 + random.below(3);
                (0..syllables).map(|_| SYLLABLES[random.below(SYLLABLES.len() as u64) as usize]).collect()
            })
            .collect();
        Self { common: WORDS.split_whitespace().collect(), topic }
    }

    fn word(&self, random: &mut Prng) -> &str {
        // The smaller of two draws: the first words are drawn more often.
        let count = self.topic.len() as u64;
        if random.chance(2, 5) {
            return &self.topic[random.below(count).min(random.below(count)) as usize];
        }
        let count = self.common.len() as u64;
        self.common[random.below(count).min(random.below(count)).min(random.below(count)) as usize]
    }
}

fn text(random: &mut Prng) -> String {
    let words = Vocabulary::new(random);
    let mut text = String::with_capacity(PAGE_BYTES + 256);
    while text.len() < PAGE_BYTES {
        for place in 0..6 + random.below(14) {
            if place > 0 {
                text.push_str(if random.chance(1, 9) { ", " } else { " " });
            }
            let start = text.len();
            text.push_str(words.word(random));
            if place == 0 {
                text[start..=start].make_ascii_uppercase();
            }
        }
        text.push_str(if random.chance(1, 5) { ".\n\n" } else { ". " });
    }
    text
}

fn json(random: &mut Prng) -> String {
    let words = Vocabulary::new(random);
    let mut text = String::with_capacity(PAGE_BYTES + 512);
    let mut id = random.below(90_000_000) + 10_000_000;
    while text.len() < PAGE_BYTES {
        id += 1 + random.below(5);
        let (user, state) = (
            random.below(1 << 32),
            ["active", "active", "active", "closed", "pending"][random.below(5) as usize],
        );
        let (name, tag, other_tag) = (words.word(random), words.word(random), words.word(random));
        let _ = write!(
            text,
            "{{\"id\":{id},\"user\":\"{user:08x}\",\"name\":\"{name}\",\"state\":\"{state}\",\
             \"price\":{}.{:02},\"count\":{},",
            random.below(900),
            random.below(100),
            random.below(40)
        );
        let _ = write!(text, "\"tags\":[\"{tag}\",\"{other_tag}\"],\"parent\":null,\"note\":\"");
        for _ in 0..random.below(7) {
            text.push_str(words.word(random));
            text.push(' ');
        }
        text.push_str("\"}\n");
    }
    text
}

/// Objects as an interpreter or a C++ program has them: a pointer to the type, a count and flags, pointers to shared
/// objects and to ones nearby, small numbers, now and then a short string or a hash; and room that is not used yet.
fn heap(random: &mut Prng) -> PageBytes {
    let types: [u64; 6] = std::array::from_fn(|_| 0x0000_5581_3C00_0000 + random.below(1 << 16) * 32);
    let heap = 0x0000_7F20_0000_0000 + (random.below(1 << 10) << 24);
    let shared: [u64; 16] = std::array::from_fn(|_| heap + random.below(1 << 20) * 16);
    let mut words = Vec::with_capacity(PAGE_BYTES / 8 + 24);
    while words.len() < PAGE_BYTES / 8 {
        let kind = random.below(6).min(random.below(6));
        words.extend([types[kind as usize], 1, kind]);
        for _ in 0..2 + random.below(7) {
            words.push(match random.below(20) {
                0..=4 => shared[random.below(16).min(random.below(16)) as usize],
                5..=7 => heap + random.below(1 << 12) * 16,
                8..=12 => 0,
                13..=16 => random.below(100),
                17 => u64::from_le_bytes(std::array::from_fn(|_| {
                    b"etaoinsrhldcumfp"[random.below(16) as usize]
                })),
                18 => random.next_u64() >> 16,
                _ => 0x0000_0001_0000_0000 | random.below(64),
            });
        }
        if random.chance(1, 4) {
            words.extend(std::iter::repeat_n(0, 2 + random.below(10) as usize));
        }
    }
    bytes_of(&words)
}

/// Rows of a table by columns: times that go up, prices with two digits behind the point, measurements with three that
/// move slowly, and counts.
fn floats(random: &mut Prng) -> PageBytes {
    let column = random.below(4);
    let mut time = 1.7e9 + random.below(10_000_000) as f64;
    let mut level = 20_000 + random.below(60_000) as i64;
    let prices: [f64; 24] = std::array::from_fn(|_| random.below(50_000) as f64 / 100.0);
    let words: Vec<u64> = (0..PAGE_BYTES / 8)
        .map(|_| {
            let value = match column {
                0 => {
                    time += random.below(300) as f64;
                    time
                }
                1 if random.chance(3, 4) => prices[random.below(24) as usize],
                1 => random.below(50_000) as f64 / 100.0,
                2 => {
                    level += random.below(41) as i64 - 20;
                    level as f64 / 1000.0
                }
                _ => random.below(100) as f64,
            };
            value.to_bits()
        })
        .collect();
    bytes_of(&words)
}

fn bytes_of(words: &[u64]) -> PageBytes {
    let mut bytes = [0; PAGE_BYTES];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Where the running executable holds its machine code.
pub struct Code {
    file: File,
    offset: u64,
    pages: u64,
}

impl Code {
    /// Finds the loadable executable segment of `/proc/self/exe`.
    pub fn of_executable() -> anyhow::Result<Code> {
        // The fields of 64-bit ELF, as in its specification.
        const LOAD: u32 = 1;
        const EXECUTABLE: u32 = 1;
        let file = File::open("/proc/self/exe")?;
        let mut header = [0; 64];
        file.read_exact_at(&mut header, 0)?;
        ensure!(header.starts_with(b"\x7FELF\x02\x01"), "it is not a 64-bit little-endian ELF file");
        let number = |bytes: &[u8], at: usize, length: usize| {
            bytes[at..at + length].iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
        };
        let table = number(&header, 32, 8);
        let (entry_bytes, entries) = (number(&header, 54, 2), number(&header, 56, 2));
        for entry in 0..entries {
            let mut segment = [0; 56];
            file.read_exact_at(&mut segment, table + entry * entry_bytes)?;
            let (kind, flags) = (number(&segment, 0, 4) as u32, number(&segment, 4, 4) as u32);
            let pages = number(&segment, 32, 8) / PAGE_BYTES as u64;
            if kind == LOAD && flags & EXECUTABLE != 0 && pages > 0 {
                return Ok(Code { file, offset: number(&segment, 8, 8), pages });
            }
        }
        anyhow::bail!("it has no executable segment of a page")
    }

    fn page(&self, random: &mut Prng) -> anyhow::Result<PageBytes> {
        let mut page = [0; PAGE_BYTES];
        let offset = self.offset + random.below(self.pages) * PAGE_BYTES as u64;
        self.file.read_exact_at(&mut page, offset).context("the executable got shorter")?;
        Ok(page)
    }
}
