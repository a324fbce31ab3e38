//! Sums a table that is larger than RAM: `larger_than_ram MEBIBYTES RAM`, such as `larger_than_ram 1024 256M`.
//!
//! Only the table is managed; the rest of the program is left alone.

use std::process::ExitCode;

use uswap::{Advice, Error, Pool};

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let mebibytes: usize = words.next().and_then(|word| word.parse().ok()).unwrap_or(1024);
    let ram = words.next().unwrap_or_else(|| "256M".to_owned());
    match sum(mebibytes, &ram) {
        Ok(sum) => {
            println!("sum {sum}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("no table of {mebibytes} MiB within {ram}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn sum(mebibytes: usize, ram: &str) -> Result<u64, Error> {
    let pool = Pool::builder().ram(ram).build()?;
    let mut table = pool.map::<u64>(mebibytes << 17)?;
    for (number, value) in (0..).zip(table.iter_mut()) {
        *value = number;
    }
    // The first half is not needed for a while.
    let half = table.len() / 2;
    table.advise_range(Advice::Cold, ..half)?;
    let sum = table[half..].iter().sum::<u64>() + table[..half].iter().sum::<u64>();
    let stats = pool.stats()?;
    println!("in RAM {} of {} MiB", stats.used_bytes >> 20, mebibytes);
    Ok(sum)
}
