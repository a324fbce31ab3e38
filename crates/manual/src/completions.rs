//! Completions for bash, zsh and fish.

use clap::Command;
use clap_complete::{Shell, generate};

use crate::Page;

/// Where each shell looks, below `share`, and how it wants the file to be called.
const SHELLS: [(Shell, &str, &str); 3] = [
    (Shell::Bash, "bash-completion/completions", "uswap"),
    (Shell::Zsh, "zsh/site-functions", "_uswap"),
    (Shell::Fish, "fish/vendor_completions.d", "uswap.fish"),
];

/// One file for each shell.
pub fn completions(command: &Command) -> Vec<Page> {
    let completion = |(shell, place, name): (Shell, &'static str, &str)| {
        let mut content = Vec::new();
        generate(shell, &mut command.clone(), command.get_name(), &mut content);
        Page { place, name: name.to_owned(), content }
    };
    SHELLS.into_iter().map(completion).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command as Process;

    fn made() -> Vec<(&'static str, String)> {
        let texts = completions(&crate::command()).into_iter();
        texts.map(|page| (page.place, String::from_utf8(page.content).expect("it is text"))).collect()
    }

    #[test]
    fn each_shell_gets_the_commands_that_are_shown() {
        for (place, text) in made() {
            for wanted in ["run", "stat", "swapoff", "ram", "swap-min-free"] {
                assert!(text.contains(wanted), "{place} does not have {wanted}");
            }
            for hidden in ["try-calls", "supervise", "--without"] {
                assert!(!text.contains(hidden), "{place} has {hidden}");
            }
        }
    }

    /// What bash completes the last of these words to.
    fn completed(words: &[&str]) -> Vec<String> {
        let (_, script) = made().swap_remove(0);
        let ask = "
            COMP_WORDS=(\"$@\"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
            _uswap uswap \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD - 1]}\"
            echo \"${COMPREPLY[@]}\"";
        let mut bash = Process::new("bash");
        bash.args(["-c", &format!("{script}\n{ask}"), "bash"]).args(words);
        let output = bash.output().expect("bash is there");
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).expect("it is text");
        said.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn bash_completes_commands_options_and_values() {
        assert_eq!(completed(&["uswap", "fre"]), ["freeze"]);
        assert_eq!(completed(&["uswap", "run", "--swap-m"]), ["--swap-min-free"]);
        assert_eq!(completed(&["uswap", "set", "--on-full", ""]), ["grow", "stop", "kill"]);
    }
}
