//! What holds for the processes of the run whose program has a certain name.
//!
//! The name of a process is that of its first thread, as `ps` shows it, or the name of the file that it runs: a script
//! has both.

use crate::human;

/// The kernel keeps so many bytes of the name of a thread.
const COMM_BYTES_MAX: usize = 15;

/// What holds for the processes of one name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Name of the program.
    pub name: String,
    /// Memory of all of them together that is not reclaimed while others have something.
    pub protected_bytes: u64,
    /// The weight of each; 0 if none was given.
    pub weight: u64,
}

impl Rule {
    /// Whether it is about a process with this name and this file.
    pub fn is_about(&self, comm: &str, file: &str) -> bool {
        let cut = self.name.get(..COMM_BYTES_MAX).unwrap_or(&self.name);
        file == self.name || comm == cut
    }
}

/// Whether so much may be protected in a budget: the rest is for the pool, uswap, and the other processes.
///
/// # Errors
/// As a sentence: it is too much.
pub fn check(rules: &[Rule], ram_bytes: u64) -> Result<(), String> {
    let sum: u64 = rules.iter().fold(0, |sum, rule| sum.saturating_add(rule.protected_bytes));
    let most = ram_bytes / 10 * 8;
    if sum <= most {
        return Ok(());
    }
    Err(format!(
        "--protect asks for {}, more than the {} that are 80 % of --ram: protect less, or give the run more",
        human::bytes(sum),
        human::bytes(most)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_about_a_thread_or_a_file_of_its_name() {
        let rule = |name: &str| Rule { name: name.to_owned(), protected_bytes: 0, weight: 0 };
        assert!(
            rule("sort").is_about("sort", "coreutils") && rule("python3").is_about("script.py", "python3")
        );
        assert!(!rule("sort").is_about("sorted", "sorted"));
        // The kernel cuts names.
        assert!(rule("a-long-name-of-a-script").is_about("a-long-name-of-", "bash"));
    }
}
