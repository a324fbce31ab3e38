//! Finds PROGRAM as `execvp` would, and says whether the agent can live in it.
//!
//! What must hold: a program that the dynamic loader does not preload the agent into (static, another machine's,
//! setuid, with file capabilities) is never called managed; and a program that would run without uswap is not refused
//! as missing. Called before anything is set up, so that a mistake costs nothing; and for what runs already.

pub mod elf;
mod privileges;
pub mod symbol;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use elf::Elf;

/// As many `#!` steps as Linux follows.
const SCRIPT_DEPTH_MAX: u32 = 4;
/// As much of a `#!` line as Linux reads.
const SCRIPT_LINE_BYTES: usize = 256;

/// What will be executed.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// The file, with a slash in it, so that nothing searches PATH again.
    pub path: PathBuf,
    /// Whether the agent can be loaded into it.
    pub agent_support: AgentSupport,
    /// How it is started.
    pub start: Start,
}

/// Can the agent be loaded?
#[derive(Debug, PartialEq, Eq)]
pub enum AgentSupport {
    /// The dynamic loader will preload the agent.
    Managed,
    /// It will not, and why: a clause such as "it is statically linked, so ...".
    Unmanageable(String),
}

/// How a file is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Executed as it is (the kernel reads a `#!` line by itself).
    Direct,
    /// Text without a `#!` line: `execvp` hands it to `/bin/sh`.
    ByShell,
}

/// There is nothing that could be started. Each says what was seen, why it matters, and what to try.
#[derive(Debug, PartialEq, Eq)]
pub enum Unusable {
    /// There is no such program, or it needs what is not there.
    NotFound(String),
    /// The program is there but cannot be executed.
    NotExecutable(String),
}

impl Program {
    /// Finds `name` in `search_path` (the value of PATH; `None` is the system's default) and looks at it.
    ///
    /// # Errors
    /// There is no such program, or it may not be executed.
    pub fn find(name: &OsStr, search_path: Option<&OsStr>) -> Result<Self, Unusable> {
        let path = find_file(name, search_path)?;
        let (agent_support, start) = inspect(&path, 0)?;
        Ok(Self { path, agent_support, start })
    }
}

/// Whether the agent can be loaded into a file that is executed already. None: it cannot be looked at.
pub fn agent_support_of(executed: &Path) -> Option<AgentSupport> {
    executed.metadata().ok()?;
    inspect(executed, 0).ok().map(|(agent_support, _)| agent_support)
}

fn find_file(name: &OsStr, search_path: Option<&OsStr>) -> Result<PathBuf, Unusable> {
    let shown = name.to_string_lossy();
    if name.is_empty() {
        return Err(Unusable::NotFound("the program's name is empty: write it behind `--`".to_owned()));
    }
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match candidate(&path) {
            Candidate::Executable => Ok(path),
            Candidate::Missing => {
                Err(Unusable::NotFound(format!("'{shown}' does not exist: check the path")))
            }
            Candidate::Hidden(why) | Candidate::Refused(why) => {
                Err(Unusable::NotExecutable(format!("'{shown}' {why}")))
            }
        };
    }
    let mut refused = None;
    for dir in std::env::split_paths(search_path.unwrap_or(OsStr::new("/bin:/usr/bin"))) {
        // An empty element means the current directory.
        let path = if dir.as_os_str().is_empty() { Path::new(".").join(name) } else { dir.join(name) };
        match candidate(&path) {
            Candidate::Executable => return Ok(path),
            // A directory of the path that this user may not search holds nothing for him, as for a shell.
            Candidate::Missing | Candidate::Hidden(_) => {}
            Candidate::Refused(why) => refused = refused.or(Some(format!("'{}' {why}", path.display()))),
        }
    }
    Err(match refused {
        Some(why) => Unusable::NotExecutable(why),
        None => Unusable::NotFound(format!(
            "there is no program '{shown}' in PATH: check the name, or give its path with a slash"
        )),
    })
}

enum Candidate {
    Executable,
    Missing,
    /// A directory on the way may not be searched.
    Hidden(String),
    Refused(String),
}

fn candidate(path: &Path) -> Candidate {
    match path.metadata() {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Candidate::Missing
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Candidate::Hidden(format!("cannot be looked at ({error})"))
        }
        Err(error) => Candidate::Refused(format!("cannot be looked at ({error})")),
        Ok(metadata) if metadata.is_dir() => {
            Candidate::Refused("is a directory: name a program in it".to_owned())
        }
        Ok(_) => match rustix::fs::access(path, Access::EXEC_OK) {
            Ok(()) => Candidate::Executable,
            Err(error) => {
                let shown = path.display();
                Candidate::Refused(format!("may not be executed ({error}): try `chmod +x {shown}`"))
            }
        },
    }
}

fn inspect(path: &Path, script_depth: u32) -> Result<(AgentSupport, Start), Unusable> {
    let shown = path.display();
    if let Some(gain) = privileges::gained_by_executing(path) {
        let reason = format!("it {gain}, and the loader ignores LD_PRELOAD for such programs");
        return Ok((AgentSupport::Unmanageable(reason), Start::Direct));
    }
    let mut head = Vec::new();
    let file = match File::open(path) {
        Ok(file) => file,
        // The file of a process that ends is gone between two looks at it.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Unusable::NotFound(format!("'{shown}' does not exist any more")));
        }
        Err(error) => {
            let reason =
                format!("it may be executed but not read ({error}), so the kernel protects its memory");
            return Ok((AgentSupport::Unmanageable(reason), Start::Direct));
        }
    };
    let read = (&file).take(SCRIPT_LINE_BYTES as u64).read_to_end(&mut head);
    read.map_err(|error| Unusable::NotExecutable(format!("'{shown}' cannot be read ({error})")))?;
    if let Some(line) = head.strip_prefix(b"#!") {
        return Ok((inspect_script(path, line, script_depth)?, Start::Direct));
    }
    if !head.starts_with(elf::MAGIC) {
        if head.contains(&0) {
            let why =
                format!("'{shown}' is neither an ELF program nor a script: is it made for this system?");
            return Err(Unusable::NotExecutable(why));
        }
        let (agent_support, _) = inspect(Path::new("/bin/sh"), script_depth + 1)?;
        return Ok((agent_support, Start::ByShell));
    }
    let agent_support = match elf::read(&file).map_err(|error| {
        Unusable::NotExecutable(format!(
            "'{shown}' is not a whole ELF program ({error}): build or copy it again"
        ))
    })? {
        Elf::OtherMachine { machine } => AgentSupport::Unmanageable(format!(
            "it is made for another machine (ELF machine {machine}) than the agent, which is for {}",
            std::env::consts::ARCH
        )),
        Elf::Static => AgentSupport::Unmanageable(
            "it is statically linked, so no loader can put the agent into it".to_owned(),
        ),
        Elf::Dynamic { loader } if Path::new(&loader).exists() => AgentSupport::Managed,
        Elf::Dynamic { loader } => {
            return Err(Unusable::NotFound(format!(
                "'{shown}' needs the loader '{}', which does not exist: install the libc it was built for",
                loader.to_string_lossy()
            )));
        }
    };
    Ok((agent_support, Start::Direct))
}

/// A script is as manageable as its interpreter.
fn inspect_script(path: &Path, line: &[u8], script_depth: u32) -> Result<AgentSupport, Unusable> {
    let shown = path.display();
    if script_depth >= SCRIPT_DEPTH_MAX {
        let why =
            format!("'{shown}' is a script whose interpreter is a script, {SCRIPT_DEPTH_MAX} times over");
        return Err(Unusable::NotExecutable(why));
    }
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let word = line.split(|byte| matches!(byte, b' ' | b'\t')).find(|word| !word.is_empty());
    let Some(word) = word else {
        let why = format!("'{shown}' begins with #! but names no interpreter: write for example #!/bin/sh");
        return Err(Unusable::NotExecutable(why));
    };
    let interpreter = PathBuf::from(OsString::from_vec(word.to_vec()));
    match candidate(&interpreter) {
        Candidate::Executable => {
            inspect(&interpreter, script_depth + 1).map(|(agent_support, _)| agent_support)
        }
        Candidate::Missing => {
            let hint =
                if word.ends_with(b"\r") { " (its first line ends with a carriage return)" } else { "" };
            Err(Unusable::NotFound(format!(
                "'{shown}' is a script for '{}', which does not exist{hint}: install it or change the first line",
                interpreter.display().to_string().trim_end()
            )))
        }
        Candidate::Hidden(why) | Candidate::Refused(why) => Err(Unusable::NotExecutable(format!(
            "'{shown}' is a script for '{}', which {why}",
            interpreter.display()
        ))),
    }
}

#[cfg(test)]
mod tests;
