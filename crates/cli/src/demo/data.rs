//! The demo's data: the logs of 64 servers, one after the other, each in order of time.
//!
//! Putting such logs into one time line is what people sort large files for. The text compresses about as logs do.
//! What must hold: the same size gives the same bytes on every machine.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use uswap_units::Prng;

use super::workshop::Interrupt;

const SEED: u64 = 0x75_7377_6170;
const SERVER_COUNT: u64 = 64;
/// All servers log the same day.
const DAY_US: u64 = 86_400 * 1_000_000;

const LEVELS: [&str; 8] = ["INFO", "INFO", "INFO", "INFO", "DEBUG", "DEBUG", "WARN", "ERROR"];
const METHODS: [&str; 6] = ["GET", "GET", "GET", "POST", "PUT", "DELETE"];
const PLACES: [&str; 8] =
    ["/v1/items", "/v1/orders", "/v1/users", "/login", "/search", "/static/img", "/v2/cart", "/v2/stock"];
const CODES: [&str; 8] = ["200", "200", "200", "200", "201", "304", "404", "500"];
const REGIONS: [&str; 5] = ["eu-west", "eu-north", "us-east", "ap-south", "sa-east"];
const AGENTS: [&str; 4] = [
    "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/141.0 Safari/537.36",
    "okhttp/5.1.0",
    "curl/8.14.1",
];

/// What was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// Size of the file.
    pub bytes: u64,
    /// Lines in it.
    pub line_count: u64,
}

/// Writes about `bytes_wanted` bytes of log lines to a new file. `None` if `interrupt` came first.
///
/// # Errors
/// What writing says.
pub fn write(path: &Path, bytes_wanted: u64, interrupt: &Interrupt) -> io::Result<Option<Written>> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut random = Prng::new(SEED);
    let mut written = Written { bytes: 0, line_count: 0 };
    let server_bytes = bytes_wanted / SERVER_COUNT;
    // A line has about 190 bytes; so a server's lines cover its day.
    let step_us = DAY_US / (server_bytes / 190).max(1);
    let mut line = Vec::with_capacity(512);
    for server in 0..SERVER_COUNT {
        if interrupt.signal().is_some() {
            return Ok(None);
        }
        let server_end = (server + 1) * server_bytes;
        let mut time_us = random.below(step_us.max(1));
        while written.bytes < server_end {
            line.clear();
            write_line(&mut line, &mut random, server, time_us)?;
            file.write_all(&line)?;
            written.bytes += line.len() as u64;
            written.line_count += 1;
            time_us += 1 + random.below(2 * step_us.max(1));
        }
    }
    file.flush()?;
    Ok(Some(written))
}

fn write_line(line: &mut Vec<u8>, random: &mut Prng, server: u64, time_us: u64) -> io::Result<()> {
    let seconds = time_us / 1_000_000;
    writeln!(
        line,
        "2026-03-{:02}T{:02}:{:02}:{:02}.{:06}Z web-{server:02} api[{}]: {} {} {}/{} {} region={} user={} took={}us \
         sent={} trace={:016x} agent=\"{}\"",
        14 + seconds / 86_400,
        seconds / 3_600 % 24,
        seconds / 60 % 60,
        seconds % 60,
        time_us % 1_000_000,
        1000 + random.below(16),
        pick(&LEVELS, random),
        pick(&METHODS, random),
        pick(&PLACES, random),
        random.below(100_000),
        pick(&CODES, random),
        pick(&REGIONS, random),
        random.below(20_000),
        random.below(900_000),
        random.below(200_000),
        random.next_u64(),
        pick(&AGENTS, random),
    )
}

fn pick(words: &[&'static str], random: &mut Prng) -> &'static str {
    let index = random.below(words.len() as u64);
    words[usize::try_from(index).expect("an index of a short list")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_size_gives_the_same_lines_and_each_server_is_in_order() {
        let interrupt = Interrupt::take().unwrap();
        let path = |name| std::env::temp_dir().join(format!("uswap-data-{}-{name}", std::process::id()));
        let (first, second) = (path("1"), path("2"));
        let written = write(&first, 1 << 20, &interrupt).unwrap().unwrap();
        assert_eq!(write(&second, 1 << 20, &interrupt).unwrap(), Some(written));
        let text = std::fs::read_to_string(&first).unwrap();
        assert_eq!(text, std::fs::read_to_string(&second).unwrap());
        std::fs::remove_file(first).unwrap();
        std::fs::remove_file(second).unwrap();

        assert_eq!(text.len() as u64, written.bytes);
        assert_eq!(text.lines().count() as u64, written.line_count);
        assert!((1 << 20..(1 << 20) + (64 << 9)).contains(&written.bytes), "{written:?}");
        let per_line = written.bytes / written.line_count;
        assert!((150..230).contains(&per_line), "{per_line} bytes a line");
        for server in 0..SERVER_COUNT {
            let tag = format!(" web-{server:02} ");
            let times: Vec<_> =
                text.lines().filter(|line| line.contains(&tag)).map(|line| &line[..27]).collect();
            assert!(times.len() > 10);
            assert!(times.is_sorted(), "server {server}");
        }
        assert!(!text.lines().is_sorted(), "there must be something left to sort");
    }
}
