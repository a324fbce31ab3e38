//! usemem: processes that write all of their memory once, in order, and free it: how fast pages are pushed out, and
//! swap is given back.
//!
//! As `usemem -O -y -x -n P` of vm-scalability: each process maps its memory, all wait for each other, each writes its
//! index to every word of 8 bytes, all wait again, each unmaps. The same arithmetic: of N bytes written, N + N/8 are
//! credited. The differences: the clock starts when the last process is ready, since starting one by `exec` is not what
//! is measured; and before freeing one page in 64 is read back and checked, outside of both times.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use uswap_units::PAGE_BYTES;

use super::area::{Area, backing};
use super::content::{PAGE_WORDS, Sum};
use super::output::Output;
use super::seqscan::join;
use super::size::parse_size;

/// One page in so many is checked.
const CHECKED_EVERY: usize = 64;

/// Options of `uswap workload usemem`.
#[derive(Debug, Args)]
pub struct Options {
    /// Memory of all processes together
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub bytes: u64,
    /// Processes
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub processes: u64,
}

/// Options of one process.
#[derive(Debug, Args)]
pub struct PartOptions {
    /// Memory of this process
    #[arg(long)]
    pub bytes: u64,
    /// Its number
    #[arg(long)]
    pub part: u64,
}

/// One process and its pipes.
struct Part {
    number: u64,
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Part {
    fn start(number: u64, bytes: u64) -> anyhow::Result<Part> {
        let program = std::env::current_exe()
            .context("the name of the running program is not known; is /proc mounted?")?;
        let mut child = Command::new(&program)
            .args(["workload", "usemem-part", "--bytes", &bytes.to_string(), "--part", &number.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} cannot be started again", program.display()))?;
        let to = child.stdin.take().expect("it was asked for");
        let from = BufReader::new(child.stdout.take().expect("it was asked for"));
        Ok(Part { number, child, to, from })
    }

    /// Lets the process go on.
    fn release(&mut self) {
        // One that has ended is reported by `expect`, with its status.
        let _ = self.to.write_all(b"\n");
    }

    /// Waits until the process says `word`; answers what follows it.
    fn expect(&mut self, word: &str) -> anyhow::Result<String> {
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        match line.trim_end().strip_prefix(word) {
            Some(rest) => Ok(rest.trim_start().to_string()),
            None if line.is_empty() => bail!("process {} ended early: {}", self.number, self.child.wait()?),
            None => bail!("process {}: {}", self.number, line.trim_end()),
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It has ended already, unless something failed. Then nobody must wait for it.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(path) = backing(&suffix(self.number)) {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn suffix(part: u64) -> String {
    format!(".{part}")
}

/// What one process reports.
struct Report {
    written_s: f64,
    free_us: f64,
    checksum: u64,
}

/// Starts the processes and leads them through the two barriers.
pub fn run(options: &Options) -> anyhow::Result<Output> {
    let part_bytes = options.bytes / options.processes / PAGE_BYTES as u64 * PAGE_BYTES as u64;
    ensure!(part_bytes > 0, "--bytes must be at least {PAGE_BYTES} for each process");
    let mut parts = (0..options.processes)
        .map(|number| Part::start(number, part_bytes))
        .collect::<Result<Vec<_>, _>>()?;
    parts.iter_mut().try_for_each(|part| part.expect("ready").map(drop))?;

    let started = Instant::now();
    parts.iter_mut().for_each(Part::release);
    let written = on_all(&mut parts, |part| {
        part.expect("written")?;
        let written_s = started.elapsed().as_secs_f64();
        let checksum = u64::from_str_radix(&part.expect("checked")?, 16)
            .context("the checksum of a process is no number")?;
        Ok((written_s, checksum))
    })?;
    parts.iter_mut().for_each(Part::release);
    let freed = on_all(&mut parts, |part| {
        part.expect("freed")?.parse::<f64>().context("the time of a process is no number")
    })?;
    for part in &mut parts {
        let status = part.child.wait()?;
        ensure!(status.success(), "process {} ended with {status}", part.number);
    }
    let reports: Vec<Report> = written
        .into_iter()
        .zip(freed)
        .map(|((written_s, checksum), free_us)| Report { written_s, free_us, checksum })
        .collect();
    Ok(output(part_bytes, &reports))
}

/// Runs `step` on all processes at once; the first failure is the answer.
fn on_all<T: Send>(
    parts: &mut [Part],
    step: impl Fn(&mut Part) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<Vec<T>> {
    let step = &step;
    std::thread::scope(|scope| {
        let threads: Vec<_> = parts.iter_mut().map(|part| scope.spawn(move || step(part))).collect();
        threads.into_iter().map(join).collect()
    })
}

fn output(part_bytes: u64, reports: &[Report]) -> Output {
    let credited = (part_bytes + part_bytes / 8) as f64;
    // Of the original: KiB per second of each process, 1024 of them are an MB here.
    let process_mb_s: Vec<f64> =
        reports.iter().map(|report| credited / report.written_s / f64::from(1 << 20)).collect();
    let count = reports.len() as f64;
    Output {
        figures: [
            ("sum_mb_s".to_string(), process_mb_s.iter().sum()),
            ("process_mb_s".to_string(), process_mb_s.iter().sum::<f64>() / count),
            ("free_us".to_string(), reports.iter().map(|report| report.free_us).sum::<f64>() / count),
        ]
        .into(),
        checksum: Some(format!(
            "{:016x}",
            reports.iter().fold(0u64, |sum, report| sum.wrapping_add(report.checksum))
        )),
        latency: Vec::new(),
    }
}

/// One process: map, wait, write, check, wait, free.
pub fn run_part(options: &PartOptions) -> anyhow::Result<()> {
    let area = Area::new(options.bytes, &suffix(options.part))?;
    println!("ready");
    wait()?;
    for (index, word) in area.words().iter().enumerate() {
        word.store(index as u64, Relaxed);
    }
    println!("written");
    println!("checked {:016x}", check(&area, options.part)?);
    wait()?;
    let started = Instant::now();
    drop(area);
    println!("freed {}", started.elapsed().as_nanos() as f64 / 1e3);
    Ok(())
}

fn check(area: &Area, part: u64) -> anyhow::Result<u64> {
    let mut whole = 0u64;
    for number in (0..area.pages()).step_by(CHECKED_EVERY) {
        let page = area.page(number);
        for (index, word) in page.iter().enumerate() {
            let (found, wanted) = (word.load(Relaxed), number * PAGE_WORDS as u64 + index as u64);
            ensure!(found == wanted, "page {number} word {index} is {found:016x}, {wanted:016x} was written");
        }
        whole = whole.wrapping_add(Sum::of_words(number ^ part << 40, page));
    }
    Ok(whole)
}

/// Waits until the parent lets it go on. When the parent has ended, so does this.
fn wait() -> anyhow::Result<()> {
    let mut line = String::new();
    ensure!(std::io::stdin().read_line(&mut line)? > 0, "the process that started this one has ended");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_is_that_of_the_original() {
        let report = |written_s, free_us| Report { written_s, free_us, checksum: 3 };
        let output = output(8 << 20, &[report(1.0, 10.0), report(2.0, 20.0)]);
        // 9 MB are credited to each.
        assert!((output.figures["sum_mb_s"] - 13.5).abs() < 1e-9);
        assert!((output.figures["process_mb_s"] - 6.75).abs() < 1e-9);
        assert!((output.figures["free_us"] - 15.0).abs() < 1e-9);
        assert_eq!(output.checksum.as_deref(), Some("0000000000000006"));
    }

    #[test]
    fn wrong_words_are_found_where_it_looks() {
        let area = Area::new(130 * PAGE_BYTES as u64, "").unwrap();
        area.words().iter().enumerate().for_each(|(index, word)| word.store(index as u64, Relaxed));
        assert_eq!(check(&area, 0).unwrap(), check(&area, 0).unwrap());
        assert_ne!(check(&area, 0).unwrap(), check(&area, 1).unwrap());
        area.page(64)[5].store(0, Relaxed);
        assert!(check(&area, 0).unwrap_err().to_string().starts_with("page 64 word 5 is 0"));
    }
}
