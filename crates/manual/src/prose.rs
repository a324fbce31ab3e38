//! What man pages say beyond the definition of the command.

/// A section of a page; how its text is written down is said at `pages::written`.
pub struct Section {
    /// In capitals.
    pub heading: &'static str,
    /// The text.
    pub text: &'static str,
}

/// The heading of the section that replaces the one line that the definition has.
pub const DESCRIPTION: &str = "DESCRIPTION";

/// Commands whose pages lead to the page of a file, which is written by hand (`packaging/man`).
pub const FILES: &[(&str, &str)] =
    &[("uswap", "uswap.toml"), ("uswap-run", "uswap.toml"), ("uswap-config", "uswap.toml")];

/// Sections of the page of that name.
pub fn of(page: &str) -> &'static [Section] {
    match page {
        "uswap.1" => USWAP,
        "uswap-run.1" => RUN,
        _ => &[],
    }
}

const USWAP: &[Section] = &[
    Section {
        heading: DESCRIPTION,
        text: "\
Swap in user space. 'uswap run' runs an unmodified program, and all that it starts, in less memory than they need. Pages
that were not used lately are compressed in RAM. What does not fit there goes to an encrypted swap file. A touch brings
a page back. It takes no kernel swap, no kernel module, no root, and no change to the program. A program that fits in
its budget is left alone.

'uswap doctor' says whether it can work on a machine, and if not, what would mend that. It needs Linux 5.11 or newer on
x86-64 with glibc. Programs that are static or setuid cannot be managed.",
    },
    Section {
        heading: "ENVIRONMENT",
        text: "\
= USWAP_AGENT
The file of the agent, the library that is preloaded into the program. Without it the agent is looked for beside the
command, and in ../lib/uswap from there. Command and agent must be of the same build.
= USWAP_CONFIG
Names the only file of options; empty: there is none. See uswap.toml(5).
= USWAP_COMMAND
Where the libraries for C, Python and Rust find the command, if it is not in PATH.
= USWAP_RUN
Is set in all programs of a run. Its first number is the process id of 'uswap run'.
= LD_PRELOAD
The agent is put in front of what it names.",
    },
    Section {
        heading: "FILES",
        text: "\
= /var/tmp
Where swap files are, unless --swap says otherwise. They have no names, and go when the run ends, however it ends.
= PREFIX/lib/uswap/libuswap_agent.so
The agent.
= ~/.config/uswap/uswap.toml, /etc/uswap/uswap.toml
Options that are not typed each time: see uswap.toml(5).
= /etc/uswap/NAME.conf, ~/.config/uswap/NAME.conf
What the services uswap@NAME of systemd run: RAM=, PROGRAM=, OPTIONS=.",
    },
    Section {
        heading: "EXAMPLES",
        text: "\
Can it work here?
    uswap doctor
A sort that wants 1 GiB, in 256 MiB:
    uswap run --ram 256M -- sort -S 1G big.txt
What runs, and how it goes:
    uswap ps
    uswap stat
More memory for the only run, and then no budget at all:
    uswap set --ram 512M
    uswap leave",
    },
];

const RUN: &[Section] = &[Section {
    heading: "EXIT STATUS",
    text: "\
That of PROGRAM. If a signal ended it, uswap ends by the same signal.
= 2
The arguments are wrong.
= 125
PROGRAM could not be started, or cannot be managed.
= 126
PROGRAM is not executable.
= 127
PROGRAM was not found.",
}];
