//! `uswap-manual DIR`: writes man pages and completions below DIR, as they lie below `/usr/share`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let (Some(share), None) = (words.next(), words.next()) else {
        eprintln!("usage: uswap-manual DIR");
        return ExitCode::from(2);
    };
    match uswap_manual::write_to(share.as_ref()) {
        Ok(paths) => {
            paths.iter().for_each(|path| println!("{}", path.display()));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!(
                "uswap-manual: man pages and completions cannot be written to {}: {error}",
                share.display()
            );
            ExitCode::FAILURE
        }
    }
}
