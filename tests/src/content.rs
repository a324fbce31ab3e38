//! Files and values that tests feed to programs: the same for the same seed. Called by the tests.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// A number that follows from `value` and looks random (splitmix64).
pub fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Writes about `bytes` of text lines in random order.
pub fn write_lines(path: &Path, bytes: u64, seed: u64) -> std::io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut written = 0;
    let mut number = 0;
    while written < bytes {
        number += 1;
        let key = mix(seed ^ number);
        let line = format!(
            "{key:016x} order {number} of customer {} was shipped to district {}\n",
            key % 9973,
            key % 61
        );
        written += line.len() as u64;
        file.write_all(line.as_bytes())?;
    }
    file.flush()
}

/// A value as web applications keep them in redis: about 1000 bytes of JSON.
pub fn json_value(number: u64, version: u64) -> String {
    let mut text = format!(
        "{{\"id\":{number},\"version\":{version},\"name\":\"user-{:08x}\",\"tags\":[",
        mix(number) as u32
    );
    let mut step = 0;
    while text.len() < 960 {
        let word = mix(number.wrapping_mul(1000) + step + (version << 50));
        text.push_str(&format!(
            "{{\"key\":\"{:06x}\",\"score\":{},\"active\":true}},",
            word & 0xFF_FFFF,
            word % 1000
        ));
        step += 1;
    }
    text.push_str("null]}");
    text
}
