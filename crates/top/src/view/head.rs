//! How the whole run goes: bars and numbers above the table.

use ratatui::layout::Rect;
use uswap_control::human::{self, bytes};
use uswap_control::stat::{RunStat, SwapFileStat};

use super::bar;
use super::pen::Pen;
use crate::history::{History, Point};
use crate::looks::Thing;
use crate::model::{Going, Kind, Model, Page};
use crate::sample::{FaultRate, Rates};
use crate::text;

/// Where what stands behind the names of lines begins.
const LABELS: u16 = 9;

/// A terminal that has fewer columns has no bars and no curves.
const COLUMNS_MIN: u16 = 56;

/// One that has as many lines has taller curves, and a bar for each swap file.
const LINES_TALL: u16 = 34;

/// Swap files that have a bar.
const FILES_MAX: usize = 4;

/// Lines that the table has at least, with its header, and the first and last line of the screen.
const OTHER_LINES: u16 = 6;

/// A line of the head, or some.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Memory against its limit.
    Memory,
    /// What the signs of that bar are.
    Legend,
    /// All swap files together.
    Swap,
    /// One of them.
    SwapFile(usize),
    /// How long the run waited.
    Some,
    /// How long nothing else was done meanwhile.
    Full,
    /// Faults per second.
    Faults,
    /// How long the slow ones took.
    Slow,
    /// Faults by their sources.
    Sources,
    /// What goes between RAM, pool and files.
    Flow,
}

/// The parts that are worth more, first.
const BY_WORTH: [Part; 8] =
    [Part::Memory, Part::Some, Part::Faults, Part::Swap, Part::Flow, Part::Full, Part::Legend, Part::Sources];

/// The parts that a screen of so many lines has, from the top, and how many lines each takes.
pub fn parts(height: u16, model: &Model) -> Vec<(Part, u16)> {
    let room = usize::from(height.saturating_sub(OTHER_LINES));
    let has_room = |part: &Part| BY_WORTH.iter().take(room).any(|one| one == part);
    let files = model.sample().map_or(0, |sample| sample.stat.swap_files.len()).min(FILES_MAX);
    let is_tall = height >= LINES_TALL;
    let curve = if is_tall { 3 } else { 1 };
    let mut parts = vec![(Part::Memory, 1), (Part::Legend, 1), (Part::Swap, 1)];
    if is_tall && files > 1 {
        parts.extend((0..files).map(|file| (Part::SwapFile(file), 1)));
    }
    parts.extend([(Part::Some, curve), (Part::Full, 1), (Part::Faults, curve)]);
    if is_tall {
        parts.push((Part::Slow, curve));
    }
    parts.extend([(Part::Sources, 1), (Part::Flow, 1)]);
    parts.retain(|(part, _)| is_tall || has_room(part));
    parts
}

/// What it is that is shown. On a narrow screen it says less.
pub fn title(pen: &mut Pen<'_>, model: &Model) {
    let titles = match (model.page(), model.sample()) {
        (Page::Runs, _) => vec![" uswap: the runs that are under way".to_owned()],
        (Page::Run, None) => vec![" uswap".to_owned()],
        (Page::Run, Some(sample)) => {
            let RunStat { version, pid, uptime_seconds, processes, more_processes, .. } = &sample.stat;
            let program = match sample.stat.state.as_str() {
                "running" | "" => sample.stat.program.clone(),
                state => format!("{} ({state})", sample.stat.program),
            };
            let up = human::duration(*uptime_seconds);
            let count = processes.len() + more_processes;
            let word = if count == 1 { "process" } else { "processes" };
            vec![
                format!(" uswap {version}  {pid} {program}  up {up}  {count} {word}"),
                format!(" {pid} {program}  up {up}  {count} {word}"),
                format!(" {pid} {program}  up {up}"),
                format!(" {pid} {program}"),
            ]
        }
    };
    let state = state(model);
    let columns = |text: &str| text.chars().count();
    let room = usize::from(pen.width());
    let with_state = titles.iter().find(|title| columns(title) + columns(&state) + 3 <= room);
    pen.text(0, 0, with_state.unwrap_or(&titles[titles.len() - 1]), Thing::Title);
    if with_state.is_some() {
        pen.text((room - columns(&state) - 1) as u16, 0, &state, Thing::Title);
    }
}

fn state(model: &Model) -> String {
    let every = format!("every {} s", model.delay().as_secs_f64());
    if model.kind() == Kind::Recording {
        let (index, count) = model.place().unwrap_or_default();
        let at = model.sample().map_or_else(String::new, |sample| text::date(sample.at_seconds));
        let plays = if model.going() == Going::On { format!("  {every}") } else { String::new() };
        return format!("{at}  {} of {count}{plays}", index + 1);
    }
    match model.going() {
        Going::On => every,
        Going::Paused => "paused".to_owned(),
        Going::Ended => "ended".to_owned(),
    }
}

/// Draws the parts from the second line on.
pub fn draw(pen: &mut Pen<'_>, model: &Model, parts: &[(Part, u16)]) {
    let Some(sample) = model.sample() else { return };
    let (stat, history) = (&sample.stat, model.history());
    let rates = history.rates();
    let mut y = 1;
    for &(part, height) in parts {
        let line = Line { y, height };
        match part {
            Part::Memory => memory(pen, line, stat),
            Part::Legend => legend(pen, line, stat),
            Part::Swap => swap(pen, line, stat),
            Part::SwapFile(file) => swap_file(pen, line, &stat.swap_files[file]),
            Part::Some => {
                let numbers = share("some", rates.map(|rates| rates.some));
                let values = curve(history, |point| (point.some * 1000.0) as u64);
                with_curve(pen, line, "waits", &numbers, values, 1000, Thing::Waits);
            }
            Part::Full => {
                let numbers = share("full", rates.map(|rates| rates.full));
                let values = curve(history, |point| (point.full * 1000.0) as u64);
                with_curve(pen, line, "", &numbers, values, 1000, Thing::Waits);
            }
            Part::Faults => {
                let numbers = rates.map_or_else(|| "-".to_owned(), |rates| faults(&rates.faults));
                let values = curve(history, |point| point.faults.round() as u64);
                with_curve(pen, line, "faults", &numbers, values, 1, Thing::Faults);
            }
            Part::Slow => {
                let highest = history.points().map(|point| point.p99_ns).max().unwrap_or(0);
                let numbers = format!("{} at most", text::nanoseconds(highest));
                let values = curve(history, |point| point.p99_ns);
                with_curve(pen, line, "p99", &numbers, values, 1, Thing::Faults);
            }
            Part::Sources => sources(pen, line, rates),
            Part::Flow => flow(pen, line, rates),
        }
        y += height;
    }
}

/// Where a part is.
#[derive(Clone, Copy)]
struct Line {
    y: u16,
    height: u16,
}

/// Where the right half begins; nothing if the terminal is too narrow to have two.
fn middle(pen: &Pen<'_>) -> Option<u16> {
    (pen.width() >= COLUMNS_MIN).then(|| LABELS + (pen.width() - LABELS) / 2)
}

fn label(pen: &mut Pen<'_>, line: Line, label: &str) {
    pen.text(1, line.y, label, Thing::Label);
}

/// Numbers behind a bar, or without it where there is no room.
fn with_bar(pen: &mut Pen<'_>, line: Line, numbers: &str, whole: u64, parts: &[bar::Part]) {
    let at = match middle(pen) {
        Some(middle) => {
            bar::draw(pen, LABELS, line.y, middle - LABELS - 1, whole, parts);
            middle
        }
        None => LABELS,
    };
    pen.text(at, line.y, numbers, Thing::Plain);
}

fn memory(pen: &mut Pen<'_>, line: Line, stat: &RunStat) {
    label(pen, line, "ram");
    let parts = [
        (stat.resident_bytes, '#', Thing::Resident),
        (stat.pool_bytes, '=', Thing::Pool),
        (own_bytes(stat), '+', Thing::Own),
    ];
    let numbers = format!("{} of {}", bytes(stat.used_bytes), bytes(stat.ram_bytes));
    with_bar(pen, line, &numbers, stat.ram_bytes, &parts);
}

/// What uswap takes for itself.
fn own_bytes(stat: &RunStat) -> u64 {
    stat.used_bytes.saturating_sub(stat.resident_bytes).saturating_sub(stat.pool_bytes)
}

fn legend(pen: &mut Pen<'_>, line: Line, stat: &RunStat) {
    let size = text::size;
    let parts = [
        (format!("# resident {}", size(stat.resident_bytes)), Thing::Resident),
        (format!("= pool {} (max {})", size(stat.pool_bytes), size(stat.pool_bytes_max)), Thing::Pool),
        (format!("+ uswap {}", size(own_bytes(stat))), Thing::Own),
        (format!("peak {}", size(stat.used_peak_bytes)), Thing::Plain),
    ];
    let mut x = LABELS;
    for (text, thing) in parts {
        let Some(end) = pen.whole_text(x, line.y, &text, thing) else { return };
        x = end + 2;
    }
}

fn swap(pen: &mut Pen<'_>, line: Line, stat: &RunStat) {
    label(pen, line, "swap");
    let files = &stat.swap_files;
    if files.is_empty() {
        pen.text(LABELS, line.y, "there is no swap file", Thing::Plain);
        return;
    }
    let most = files.iter().map(|file| file.bytes_max).sum();
    let several = if files.len() == 1 { String::new() } else { format!(" in {} files", files.len()) };
    let numbers = format!("{} of {}{several}", bytes(stat.swap_file_bytes), bytes(most));
    with_bar(pen, line, &numbers, most, &[(stat.swap_file_bytes, '#', Thing::Swap)]);
}

fn swap_file(pen: &mut Pen<'_>, line: Line, file: &SwapFileStat) {
    let SwapFileStat { directory, kind, priority, bytes_max, used_bytes, .. } = file;
    let numbers =
        format!("{} of {}  {directory} ({kind}, priority {priority})", bytes(*used_bytes), bytes(*bytes_max));
    with_bar(pen, line, &numbers, *bytes_max, &[(*used_bytes, '#', Thing::Swap)]);
}

fn share(name: &str, part: Option<f64>) -> String {
    format!("{name} {:>4} %", part.map_or_else(|| "-".to_owned(), text::percent))
}

fn curve(history: &History, value: fn(&Point) -> u64) -> impl Iterator<Item = u64> {
    history.points().map(value)
}

fn with_curve(
    pen: &mut Pen<'_>,
    line: Line,
    name: &str,
    numbers: &str,
    values: impl Iterator<Item = u64>,
    most: u64,
    thing: Thing,
) {
    label(pen, line, name);
    pen.text(LABELS, line.y, numbers, Thing::Plain);
    if let Some(middle) = middle(pen) {
        let area = Rect { x: middle, y: line.y, width: pen.width() - middle - 1, height: line.height };
        pen.curve(area, values, most, thing);
    }
}

fn faults(rate: &FaultRate) -> String {
    let mut text = format!("{}/s", text::rate(rate.per_second));
    for (name, bound) in [("p50", rate.p50_ns), ("p99", rate.p99_ns)] {
        if let Some(ns) = bound {
            text += &format!("  {name} {}", text::nanoseconds(ns));
        }
    }
    text
}

fn sources(pen: &mut Pen<'_>, line: Line, rates: Option<&Rates>) {
    label(pen, line, "from");
    let mut x = LABELS;
    for (name, rate) in rates.iter().flat_map(|rates| &rates.sources) {
        let (Some(p50), Some(p99)) = (rate.p50_ns, rate.p99_ns) else { continue };
        let (p50, p99) = (text::nanoseconds(p50), text::nanoseconds(p99));
        let text = format!("{name} {}/s {p50} {p99}", text::rate(rate.per_second));
        let Some(end) = pen.whole_text(x, line.y, &text, Thing::Plain) else { return };
        x = end + 2;
    }
}

fn flow(pen: &mut Pen<'_>, line: Line, rates: Option<&Rates>) {
    label(pen, line, "flow");
    let Some(rates) = rates else { return };
    let ratio = rates.compression_ratio.map_or_else(String::new, |ratio| format!(" ratio {ratio:.1}"));
    let parts = [
        format!(
            "pool in {} out {}{ratio}",
            text::flow(rates.pool_in_bytes_per_second),
            text::flow(rates.pool_out_bytes_per_second)
        ),
        format!(
            "file read {} written {}",
            text::flow(rates.read_bytes_per_second),
            text::flow(rates.written_bytes_per_second)
        ),
    ];
    let mut x = LABELS;
    for text in parts {
        let Some(end) = pen.whole_text(x, line.y, &text, Thing::Plain) else { return };
        x = end + 3;
    }
}
