//! What a directory lies on, as the system tells it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use uswap_core::files::FileKind;

/// Disks of virtual machines. They say that they turn, whatever they are made of, unless their host was told otherwise.
const VIRTUAL: [&str; 2] = ["vd", "xvd"];

/// The kind of the disk below a directory. A file system over several disks, or over another machine, does not tell: as
/// one without moving parts.
pub fn kind_of(directory: &Path) -> FileKind {
    let Ok(status) = fs::metadata(directory) else { return FileKind::SolidState };
    let (major, minor) = (rustix::fs::major(status.dev()), rustix::fs::minor(status.dev()));
    let device = Path::new("/sys/dev/block").join(format!("{major}:{minor}"));
    let name = fs::read_link(&device).ok().and_then(|link| Some(link.file_name()?.to_str()?.to_owned()));
    // A partition has no queue of its own.
    let queues = [device.join("queue/rotational"), device.join("../queue/rotational")];
    let turns = queues.iter().find_map(|path| fs::read_to_string(path).ok());
    kind(name.as_deref().unwrap_or(""), turns.as_deref().unwrap_or("").trim())
}

fn kind(name: &str, turns: &str) -> FileKind {
    let is_virtual = VIRTUAL.iter().any(|start| name.starts_with(start));
    match turns {
        "1" if !is_virtual => FileKind::Rotational,
        _ => FileKind::SolidState,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_what_they_say_unless_they_are_virtual() {
        let cases = [
            ("sda1", "1", FileKind::Rotational),
            ("sda1", "0", FileKind::SolidState),
            ("nvme0n1p2", "0", FileKind::SolidState),
            ("dm-0", "1", FileKind::Rotational),
            ("vda", "1", FileKind::SolidState),
            ("xvda1", "1", FileKind::SolidState),
            ("zram0", "0", FileKind::SolidState),
            ("", "", FileKind::SolidState),
        ];
        for (name, turns, expected) in cases {
            assert_eq!(kind(name, turns), expected, "{name} {turns}");
        }
    }

    #[test]
    fn a_directory_that_is_not_there_has_a_kind_all_the_same() {
        assert_eq!(kind_of(Path::new("/no/such/directory")), FileKind::SolidState);
        let _any = kind_of(&std::env::temp_dir());
    }
}
