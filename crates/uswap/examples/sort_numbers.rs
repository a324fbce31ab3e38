//! Sorts random numbers in less RAM than they take: `sort_numbers COUNT RAM`, such as `sort_numbers 20000000 64M`.
//!
//! The program asks for its budget itself. Without RAM it asks for none.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let count = words.next().and_then(|word| word.parse().ok()).unwrap_or(20_000_000);
    if let Some(ram) = words.next()
        && let Err(error) = uswap::limit(&ram)
    {
        eprintln!("no budget of {ram}: {error}");
        return ExitCode::FAILURE;
    }
    let mut numbers: Vec<u64> = Vec::with_capacity(count);
    // Xorshift (Marsaglia, 2003): numbers that look random, and are the same each time.
    let mut state = 1_u64;
    numbers.extend((0..count).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }));
    numbers.sort_unstable();
    let middle = numbers.get(count / 2).copied().unwrap_or(0);
    println!("{count} numbers, {} MiB, are in order: {middle} in the middle", (count * 8) >> 20);
    if let Ok(stats) = uswap::stats() {
        let mib = |bytes: u64| bytes >> 20;
        println!("in RAM {} of {} MiB", mib(stats.used_bytes), mib(stats.ram_bytes));
    }
    ExitCode::SUCCESS
}
