//! What is installed, and where: one list for `cargo xtask install`, for the tarball and for the Debian packages.
//!
//! Must hold: the command finds its agent (`crates/cli/src/agent_file`), and pkg-config the places beside its file,
//! wherever the prefix is moved to. A unit of systemd has to name the command by its whole path, which is written when
//! the prefix is known.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::commands;
use crate::tree::root;

/// The name under which programs look for the C library. `crates/libusw/build.rs` writes it into the library.
pub const C_LIBRARY_SONAME: &str = "libusw.so.0";

/// The command as the units in `packaging/systemd` name it.
const COMMAND_OF_UNITS: &str = "/usr/bin/uswap";

/// Whose rules for places are followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// Everything below a prefix like `/usr/local`.
    Prefix,
    /// `/usr` of Debian.
    Debian,
}

impl Layout {
    fn libraries(self) -> &'static str {
        match self {
            Layout::Prefix => "lib",
            Layout::Debian => "lib/x86_64-linux-gnu",
        }
    }

    fn user_units(self) -> &'static str {
        match self {
            // Looked at below ~/.local and below /usr/local.
            Layout::Prefix => "share/systemd/user",
            Layout::Debian => "lib/systemd/user",
        }
    }

    /// Where a file of the directory `share` goes.
    fn shared(self, place: &str) -> String {
        match (self, place.strip_prefix("zsh/site-functions/")) {
            (Layout::Debian, Some(name)) => format!("share/zsh/vendor-completions/{name}"),
            _ => format!("share/{place}"),
        }
    }
}

/// Which of Debian's packages has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Package {
    /// The command, its agent, and what people read.
    Command,
    /// The C library, for programs that are linked with it.
    Library,
    /// What is needed to link a program with it.
    Development,
}

/// What sort of file it is: that decides about its mode, and what `strip` may take away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Program,
    SharedLibrary,
    Archive,
    Data,
}

impl Kind {
    /// Who may do what with it.
    pub fn mode(self) -> u32 {
        if self == Kind::Program { 0o755 } else { 0o644 }
    }

    /// Option of `strip`. None: there is nothing to take away.
    pub fn strip(self) -> Option<&'static str> {
        match self {
            Kind::Program => Some("--strip-all"),
            Kind::SharedLibrary => Some("--strip-unneeded"),
            Kind::Archive => Some("--strip-debug"),
            Kind::Data => None,
        }
    }
}

/// Where the content of a file comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    File(PathBuf),
    Text(String),
    /// It is a symbolic link to this.
    Link(&'static str),
}

/// A file that is installed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    pub package: Package,
    /// Below the prefix.
    pub place: String,
    pub kind: Kind,
    pub source: Source,
}

/// Everything that is installed. `prefix` is where it will be found, and `share` has man pages and completions.
///
/// # Errors
/// A file cannot be read.
pub fn items(layout: Layout, prefix: &Path, share: &Path) -> Result<Vec<Item>> {
    let mut items = programs(layout);
    items.extend(units(layout, prefix)?);
    let mut add = |place: String, file: PathBuf| {
        let (package, kind) = (Package::Command, Kind::Data);
        items.push(Item { package, place, kind, source: Source::File(file) });
    };
    for place in files_below(share)? {
        add(layout.shared(&place), share.join(&place));
    }
    add("share/man/man5/uswap.toml.5".to_owned(), root().join("packaging/man/uswap.toml.5"));
    add("share/uswap/uswap-prompt.sh".to_owned(), root().join("packaging/shell/uswap-prompt.sh"));
    for example in EXAMPLES {
        let name = example.rsplit('/').next().unwrap_or(example);
        add(format!("share/doc/uswap/examples/{name}"), root().join("packaging").join(example));
    }
    Ok(items)
}

/// Recipes that are installed as they are.
const EXAMPLES: [&str; 7] = [
    "systemd/example.conf",
    "seccomp/uswap-syscalls.json",
    "cdi/uswap.json",
    "kubernetes/pod.yaml",
    "kubernetes/pod-device.yaml",
    "slurm/job.sh",
    "apptainer/uswap.def",
];

fn programs(layout: Layout) -> Vec<Item> {
    let item = |package, place: String, kind, source| Item { package, place, kind, source };
    let [shared, archive] = commands::c_library_paths();
    let libraries = layout.libraries();
    let in_libraries = |name: &str| format!("{libraries}/{name}");
    let agent = "lib/uswap/libuswap_agent.so".to_owned();
    let header = root().join("crates/libusw/include/usw.h");
    vec![
        item(Package::Command, "bin/uswap".to_owned(), Kind::Program, Source::File(commands::uswap_path())),
        item(Package::Command, agent, Kind::SharedLibrary, Source::File(commands::agent_path())),
        item(Package::Library, in_libraries(C_LIBRARY_SONAME), Kind::SharedLibrary, Source::File(shared)),
        item(Package::Development, in_libraries("libusw.so"), Kind::Data, Source::Link(C_LIBRARY_SONAME)),
        item(Package::Development, in_libraries("libusw.a"), Kind::Archive, Source::File(archive)),
        item(Package::Development, "include/usw.h".to_owned(), Kind::Data, Source::File(header)),
        item(
            Package::Development,
            in_libraries("pkgconfig/usw.pc"),
            Kind::Data,
            Source::Text(pkg_config(libraries)),
        ),
    ]
}

/// Units of systemd that run a program, for the system and for one user.
fn units(layout: Layout, prefix: &Path) -> Result<[Item; 2]> {
    let unit = |from: &str, place: &str| {
        let path = root().join("packaging/systemd").join(from);
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let command = prefix.join("bin/uswap");
        let source = Source::Text(text.replace(COMMAND_OF_UNITS, &command.display().to_string()));
        let place = format!("{place}/uswap@.service");
        anyhow::Ok(Item { package: Package::Command, place, kind: Kind::Data, source })
    };
    Ok([unit("uswap@.service", "lib/systemd/system")?, unit("user/uswap@.service", layout.user_units())?])
}

/// What `pkg-config` says of the C library, wherever its file lies. What is behind `Libs.private` is needed with the
/// archive only.
pub fn pkg_config(libraries: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    // From the directory `pkgconfig` in that of the libraries.
    let up = "/..".repeat(libraries.split('/').count() + 1);
    format!(
        "prefix=${{pcfiledir}}{up}\n\
         libdir=${{prefix}}/{libraries}\n\
         includedir=${{prefix}}/include\n\
         \n\
         Name: usw\n\
         Description: Memory larger than RAM, and a budget for the process that asks for it: swap in user space\n\
         Version: {version}\n\
         Cflags: -I${{includedir}}\n\
         Libs: -L${{libdir}} -lusw\n\
         Libs.private: -lgcc_s -lutil -lrt -lpthread -lm -ldl\n"
    )
}

/// Paths of all files below a directory, from there, in order.
///
/// # Errors
/// It cannot be read.
pub fn files_below(directory: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    let mut left = vec![PathBuf::new()];
    while let Some(place) = left.pop() {
        let path = directory.join(&place);
        for entry in fs::read_dir(&path).with_context(|| format!("reading {}", path.display()))? {
            let entry = entry?;
            let place = place.join(entry.file_name());
            match entry.file_type()?.is_dir() {
                true => left.push(place),
                false => files.push(place.display().to_string()),
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(layout: Layout, prefix: &str) -> Vec<Item> {
        let share = crate::package::scratch("content");
        for name in ["man/man1/uswap.1", "zsh/site-functions/_uswap"] {
            let path = share.join(name);
            fs::create_dir_all(path.parent().expect("it has one")).expect("it is ours");
            fs::write(path, name).expect("it is ours");
        }
        let items = items(layout, Path::new(prefix), &share).expect("all of it is in the repository");
        fs::remove_dir_all(&share).expect("it is ours");
        items
    }

    fn find<'a>(items: &'a [Item], place: &str) -> &'a Item {
        let places = || items.iter().map(|item| &item.place).collect::<Vec<_>>();
        items.iter().find(|item| item.place == place).unwrap_or_else(|| panic!("{place}: {:?}", places()))
    }

    #[test]
    fn nothing_is_listed_twice_and_what_is_not_built_is_there() {
        for layout in [Layout::Prefix, Layout::Debian] {
            let items = of(layout, "/usr");
            for (index, item) in items.iter().enumerate() {
                assert!(!items[..index].iter().any(|other| other.place == item.place), "{}", item.place);
                if let Source::File(path) = &item.source
                    && path.starts_with(root().join("packaging"))
                {
                    assert!(path.is_file(), "{}", path.display());
                }
            }
        }
    }

    #[test]
    fn places_are_those_of_the_layout() {
        let debian = of(Layout::Debian, "/usr");
        assert_eq!(find(&debian, "lib/x86_64-linux-gnu/libusw.so.0").package, Package::Library);
        find(&debian, "share/zsh/vendor-completions/_uswap");
        find(&debian, "lib/systemd/user/uswap@.service");
        let prefix = of(Layout::Prefix, "/opt/u");
        assert_eq!(find(&prefix, "lib/libusw.so").source, Source::Link(C_LIBRARY_SONAME));
        find(&prefix, "share/zsh/site-functions/_uswap");
        find(&prefix, "share/man/man1/uswap.1");
        // Where the command looks: in ../lib/uswap.
        find(&prefix, "bin/uswap");
        find(&prefix, "lib/uswap/libuswap_agent.so");
    }

    #[test]
    fn units_name_the_command_where_it_is() {
        for place in ["lib/systemd/system/uswap@.service", "share/systemd/user/uswap@.service"] {
            let items = of(Layout::Prefix, "/opt/u");
            let Source::Text(text) = &find(&items, place).source else { panic!("it is a text") };
            assert!(text.contains("ExecStart=/opt/u/bin/uswap run "), "{text}");
            assert!(!text.contains(COMMAND_OF_UNITS), "{text}");
        }
    }

    #[test]
    fn the_name_of_the_c_library_is_the_one_that_is_written_into_it() {
        let script = fs::read_to_string(root().join("crates/libusw/build.rs")).expect("it is there");
        assert!(script.contains(&format!("-soname,{C_LIBRARY_SONAME}\"")), "{script}");
    }

    #[test]
    fn pkg_config_finds_the_places_beside_its_file() {
        for libraries in ["lib", "lib/x86_64-linux-gnu"] {
            let directory = crate::package::scratch("pkg-config");
            let place = directory.join(libraries).join("pkgconfig");
            for made in [&place, &directory.join("include")] {
                fs::create_dir_all(made).expect("it is ours");
            }
            fs::write(place.join("usw.pc"), pkg_config(libraries)).expect("it is ours");
            let mut command = std::process::Command::new("pkg-config");
            command.args(["--cflags", "--libs", "usw"]).env("PKG_CONFIG_PATH", &place);
            let output = command.output();
            let Ok(output) = output else { return println!("SKIP: pkg-config is not installed") };
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let words: Vec<&str> = said.split_whitespace().collect();
            let [include, library, "-lusw"] = words[..] else { panic!("{said}") };
            let is = |word: &str, option: &str, wanted: &str| {
                let named = word.strip_prefix(option).expect("it is that option");
                let named = fs::canonicalize(named).unwrap_or_else(|error| panic!("{named}: {error}"));
                assert_eq!(named, fs::canonicalize(directory.join(wanted)).expect("it is there"));
            };
            is(include, "-I", "include");
            is(library, "-L", libraries);
            fs::remove_dir_all(&directory).expect("it is ours");
        }
    }

    #[test]
    fn pkg_config_has_the_version_of_the_header() {
        let text = pkg_config("lib");
        let header = fs::read_to_string(root().join("crates/libusw/include/usw.h")).expect("it is there");
        let version = text.lines().find_map(|line| line.strip_prefix("Version: ")).expect("it has one");
        assert!(header.contains(&format!("#define USW_VERSION \"{version}\"")), "{version}");
    }
}
