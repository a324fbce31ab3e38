//! `cargo xtask churn`: programs that map, fork and are killed under a budget, without rights, for as long as one
//! likes. No page may be wrong.

use anyhow::{Context as _, Result, bail};

use crate::commands::{self, PROGRAMS, cargo};
use crate::suite;

/// In the short form, which CI has too, it is two rounds.
const TEST: &str = "kill_any_process_and_the_rest_stays_right";

const MINUTES: u64 = 10;

pub fn run(words: &[&str]) -> Result<()> {
    let (mut minutes, mut seed) = (MINUTES, 1);
    for pair in words.chunks(2) {
        let [name, value] = pair else { bail!("{} needs a number", pair[0]) };
        let number = value.parse().with_context(|| format!("{name} {value}: not a number"))?;
        match *name {
            "--minutes" => minutes = number,
            "--seed" => seed = number,
            _ => bail!("unknown argument {name}: see `cargo xtask help churn`"),
        }
    }
    commands::build()?;
    commands::succeed(cargo(&["build", "--release", "-p", PROGRAMS]))?;
    let mut command = suite::integration_command(&["kill"]);
    command.args(["--exact", TEST]);
    command.env("USWAP_TEST_SECONDS", (minutes * 60).to_string()).env("USWAP_TEST_SEED", seed.to_string());
    suite::without_rights(command, suite::watch_tests).map(drop)
}
