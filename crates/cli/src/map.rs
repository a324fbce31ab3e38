//! `uswap map`: which parts of the memory of a process are where, on a terminal of 80 columns.

use std::fmt::Write as _;
use std::time::Duration;

use uswap_control::map::{MapBucket, MemoryMap, Places, map_of};

use crate::args::MapArguments;
use crate::control::{exit_code, find};
use crate::human;
use crate::message::write_stdout;

/// Longer than the run itself waits for a process. A run that is stopped does not answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Marks of one line, behind an address of twelve digits.
const MARKS: usize = 64;

/// A kind of place: its mark, its name, its size, and what is in it.
type Kind = (char, &'static str, fn(&Places) -> u64, &'static str);

/// From the warmest on. Where two have as much of a part, the first is shown.
const KINDS: [Kind; 6] = [
    ('#', "warm", |places| places.warm_bytes, "in RAM: passed by for now"),
    ('+', "cold", |places| places.cold_bytes, "in RAM: may go next"),
    ('o', "pool", |places| places.pool_bytes, "compressed in RAM"),
    ('.', "file", |places| places.file_bytes, "in a swap file"),
    ('=', "same-filled", |places| places.same_filled_bytes, "one value again and again: takes no room"),
    ('_', "untouched", |places| places.untouched_bytes, "never written, or given back"),
];

/// `uswap map`; the exit code.
pub fn map(arguments: &MapArguments) -> i32 {
    exit_code(show(arguments))
}

fn show(arguments: &MapArguments) -> Result<(), String> {
    let map = map_of(find(arguments.run)?, arguments.process, Some(PATIENCE))?;
    let text = match arguments.json {
        true => serde_json::to_string(&map).expect("it has nothing that JSON cannot say"),
        false => text(&map),
    };
    match write_stdout(&format!("{}\n", text.trim_end())) {
        true => Ok(()),
        false => Err("the map could not be written".to_owned()),
    }
}

fn text(map: &MemoryMap) -> String {
    let (process, total) = (format!("{} ({})", map.name, map.pid), &map.total);
    if !map.why_empty.is_empty() {
        return format!("{process}: {}", map.why_empty);
    }
    let mut text = format!(
        "{process}: {} managed\n{} in RAM, {} stored, {} of that lately\n\n",
        human::bytes(map.managed_bytes),
        human::bytes(total.resident_bytes()),
        human::bytes(total.stored_bytes()),
        human::bytes(total.recent_bytes),
    );
    for (mark, name, bytes, what) in KINDS {
        let (bytes, all) = (bytes(total), map.managed_bytes.max(1));
        let percent = (bytes as f64 / all as f64) * 100.0;
        // Writing to a string does not fail.
        let _ = writeln!(text, "{mark} {name:<11} {:>9}  {percent:>3.0} %  {what}", human::bytes(bytes));
    }
    let one = map.buckets.first().map_or(0, |bucket| bucket.places.bytes());
    let _ = writeln!(text, "\nEach mark: {}, by what most of it is\n", human::bytes(one));
    for line in map.buckets.chunks(MARKS) {
        let marks: String = line.iter().map(mark).collect();
        let _ = writeln!(text, "{:012x}  {marks}", line[0].start);
    }
    text
}

fn mark(bucket: &MapBucket) -> char {
    let most = KINDS.iter().rev().max_by_key(|(_, _, bytes, _)| bytes(&bucket.places));
    most.expect("there are kinds").0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(number: u64, places: Places) -> MapBucket {
        let start = 0x7f12_0000_0000 + (number << 20);
        MapBucket { start, end: start + (1 << 20), places }
    }

    fn of_all_kinds() -> MemoryMap {
        let all = 1 << 20;
        let places = [
            Places { warm_bytes: all, ..Places::default() },
            Places { warm_bytes: all / 2, cold_bytes: all / 2, ..Places::default() },
            Places { cold_bytes: all / 4 * 3, untouched_bytes: all / 4, ..Places::default() },
            Places { pool_bytes: all, recent_bytes: all, ..Places::default() },
            Places { file_bytes: all, ..Places::default() },
            Places { same_filled_bytes: all, recent_bytes: all, ..Places::default() },
            Places { untouched_bytes: all, ..Places::default() },
        ];
        let buckets = (0..70).map(|number| bucket(number, places[number as usize % 7])).collect();
        MemoryMap::new(81234, "touch".to_owned(), buckets)
    }

    #[test]
    fn a_map_is_marks_in_the_order_of_addresses() {
        let expected = "\
touch (81234): 70 MiB managed
27.5 MiB in RAM, 30 MiB stored, 20 MiB of that lately

# warm           15 MiB   21 %  in RAM: passed by for now
+ cold         12.5 MiB   18 %  in RAM: may go next
o pool           10 MiB   14 %  compressed in RAM
. file           10 MiB   14 %  in a swap file
= same-filled    10 MiB   14 %  one value again and again: takes no room
_ untouched    12.5 MiB   18 %  never written, or given back

Each mark: 1 MiB, by what most of it is

7f1200000000  ##+o.=_##+o.=_##+o.=_##+o.=_##+o.=_##+o.=_##+o.=_##+o.=_##+o.=_#
7f1204000000  #+o.=_
";
        let text = text(&of_all_kinds());
        assert_eq!(text, expected);
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }

    #[test]
    fn an_empty_map_says_why() {
        let map = MemoryMap::empty(7, "a".to_owned(), "it is at home");
        assert_eq!(text(&map), "a (7): it is at home");
    }
}
