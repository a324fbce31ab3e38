//! What the opening of a file says of its callers is true.
//!
//! Callers in other crates are named by their crate, those in the same crate by their module. Nobody is named who does
//! not use the file, and all crates that do are named; in [`LISTS_MODULES`] all modules too. Where more than
//! [`LISTED_MAX`] of these use a file, it may say "most of this crate".
//!
//! Who uses a file is decided by names: a path that leads to it, or the call of a function that only this file
//! defines. Whoever calls a function of the same name as one of its own, or as the file, *may* use it, and so may be
//! named. A crate below a file may be named if the file uses that crate: it calls back through a trait.

use std::collections::{BTreeMap, BTreeSet};

use super::sentence::{self, Caller, Sentence};
use super::uses::{self, UsedPath, Uses};
use super::{Files, Module, crate_names, files_of, resolve};
use crate::check::Problem;
use crate::check::text::must_say_all;
use crate::tree::{File, Tree};

/// So many modules of one crate are named one by one.
const LISTED_MAX: usize = 8;

/// Crates in which all modules that use a file are named. In the others a file names those that matter.
const LISTS_MODULES: [&str; 1] = ["host"];

/// A function of another crate with a name that more files define than this is not told by its name.
const MEANINGS_MAX: usize = 4;

/// A file that uses another: its crate and its module.
type User = (String, Module);

/// All crates of the repository.
struct Crates<'a> {
    files: BTreeMap<String, Files<'a>>,
    /// Programs beside a library: no other module can use these.
    programs: BTreeMap<String, Vec<(&'a File, Uses)>>,
    /// How many files define a function of this name.
    definitions: BTreeMap<String, usize>,
}

/// Who uses a file for sure, and who may.
#[derive(Default)]
struct Users {
    sure: BTreeSet<User>,
    possible: BTreeSet<User>,
}

/// Each file that must say who calls it says what is true.
pub fn named(tree: &Tree) -> Vec<Problem> {
    let crates = Crates::of(tree);
    let mut problems = Vec::new();
    for (name, files) in &crates.files {
        for (module, (file, uses)) in files.iter().filter(|(_, (file, _))| must_say_all(&file.path)) {
            // Without a sentence it breaks another rule.
            let Some(sentence) = sentence::of(&file.text) else { continue };
            let users = crates.users_of(name, module);
            let place = Place { crates: &crates, name, module, uses };
            let complaints =
                place.untrue(&sentence, &users).into_iter().chain(place.missing(&sentence, &users));
            problems.extend(complaints.map(|what| Problem::new(file, sentence.line, what)));
        }
    }
    problems
}

impl<'a> Crates<'a> {
    fn of(tree: &'a Tree) -> Crates<'a> {
        let mut crates =
            Crates { files: BTreeMap::new(), programs: BTreeMap::new(), definitions: BTreeMap::new() };
        for name in crate_names(tree) {
            let files = files_of(tree, &name);
            let source = format!("crates/{name}/src/");
            let is_program = |path: &str| path == "main.rs" || path.starts_with("bin/");
            let programs = tree
                .rust_files()
                .filter(|file| file.path.strip_prefix(&source).is_some_and(is_program))
                .filter(|file| !files.values().any(|(other, _)| other.path == file.path));
            let programs = programs.map(|file| (file, uses::of(&file.text))).collect();
            for function in files.values().flat_map(|(_, uses)| &uses.functions) {
                *crates.definitions.entry(function.clone()).or_default() += 1;
            }
            crates.files.insert(name.clone(), files);
            crates.programs.insert(name, programs);
        }
        crates
    }

    /// Whether any file of `user` names the crate. A module of its own with that name hides it.
    fn depends(&self, user: &str, name: &str) -> bool {
        let root = root_name(name);
        if self.files[user].keys().any(|module| module.last() == Some(&root)) {
            return false;
        }
        let programs = self.programs[user].iter().map(|(_, uses)| uses);
        self.files[user].values().map(|(_, uses)| uses).chain(programs).any(|uses| uses.words.contains(&root))
    }

    /// Whether any module of any crate has this name.
    fn has_module(&self, name: &str) -> bool {
        let names: Module = name.split("::").map(str::to_owned).collect();
        self.files.values().flat_map(BTreeMap::keys).any(|module| module.ends_with(&names))
    }

    fn users_of(&self, name: &str, module: &Module) -> Users {
        let mut users = Users::default();
        let own = &self.files[name];
        let inside = own.iter().filter(|(other, _)| other.starts_with(module)).map(|(_, (_, uses))| uses);
        let functions: BTreeSet<&String> =
            inside.flat_map(|uses| uses.items.intersection(&uses.functions)).collect();
        let rarely_defined = |function: &String| self.definitions[function] <= MEANINGS_MAX;
        let only_here: BTreeSet<&String> = own[module]
            .1
            .items
            .intersection(&own[module].1.functions)
            .filter(|function| self.definitions.get(*function) == Some(&1) && function.contains('_'))
            .collect();
        let root = Module::new();
        for (user_crate, files) in &self.files {
            let depends = user_crate == name || self.depends(user_crate, name);
            let programs = self.programs[user_crate].iter().map(|(_, uses)| (&root, uses));
            for (from, uses) in files.iter().map(|(from, (_, uses))| (from, uses)).chain(programs) {
                let is_test = from.iter().any(|name| name == "tests" || name.ends_with("_tests"));
                if is_test || user_crate == name && from == module {
                    continue;
                }
                let user = (user_crate.clone(), from.clone());
                let targets = match depends {
                    true => targets(own, name, user_crate == name, from, uses),
                    false => BTreeSet::new(),
                };
                let calls = depends && uses.called.iter().any(|called| only_here.contains(called));
                if targets.contains(module) || calls {
                    users.sure.insert(user.clone());
                }
                let passes_on = || {
                    let passed_on = uses.reexports.iter().map(|(_, path)| &path.names);
                    passed_on.filter_map(|names| resolve(own, from, names, 0)).any(|to| to == *module)
                };
                let is_inside = targets.iter().any(|target| target.starts_with(module))
                    || user_crate == name && passes_on();
                let may_call = uses.called.iter().any(|called| {
                    functions.contains(called) && (user_crate == name || depends && rarely_defined(called))
                });
                // A function of another file that hands it out has its name, mostly.
                let asks_for_it = depends && module.last().is_some_and(|module| uses.called.contains(module));
                if is_inside || may_call || asks_for_it {
                    users.possible.insert(user);
                }
            }
        }
        users.possible.extend(users.sure.iter().cloned());
        users
    }
}

/// What code calls a crate of this name.
fn root_name(name: &str) -> String {
    if name == "uswap" { name.to_owned() } else { format!("uswap_{name}") }
}

/// The modules of the crate `name`, with files `own`, to which paths of a file lead.
fn targets(own: &Files, name: &str, is_own: bool, from: &Module, uses: &Uses) -> BTreeSet<Module> {
    let root = root_name(name);
    let passed_on = uses.reexports.iter().map(|(_, path)| path).filter(|_| !is_own);
    let mut targets = BTreeSet::new();
    for UsedPath { names, .. } in uses.paths.iter().chain(passed_on) {
        let import = uses.imports.iter().find(|(given, _)| *given == names[0] && names.len() > 1);
        let whole = match import {
            Some((_, path)) => [&path.names[..], &names[1..]].concat(),
            None => names.clone(),
        };
        if is_own {
            targets.extend(resolve(own, from, &whole, 0));
        } else if whole[0] == root {
            let inside = [&["crate".to_owned()], &whole[1..]].concat();
            targets.extend(resolve(own, &Module::new(), &inside, 0));
        }
    }
    targets
}

/// A file whose opening is looked at.
struct Place<'a> {
    crates: &'a Crates<'a>,
    name: &'a str,
    module: &'a Module,
    uses: &'a Uses,
}

impl Place<'_> {
    /// Those that are named and do not use it.
    fn untrue(&self, sentence: &Sentence, users: &Users) -> Vec<String> {
        let mut complaints = Vec::new();
        for caller in &sentence.callers {
            match caller {
                Caller::Module(_) | Caller::Neighbour(_) => {
                    let Some(module) = self.module_of(caller) else {
                        complaints.push(format!("{caller:?} is no module of this crate"));
                        continue;
                    };
                    let uses_it = users
                        .possible
                        .iter()
                        .any(|(name, from)| name == self.name && from.starts_with(&module));
                    if !uses_it {
                        complaints.push(format!(
                            "`{}` is named as a caller and does not use it",
                            module.join("::")
                        ));
                    }
                }
                Caller::Name(name) | Caller::Word(name) if self.crates.files.contains_key(name) => {
                    let uses_it = users.possible.iter().any(|(user, _)| user == name) && name != self.name;
                    let is_called_back = self.uses.words.contains(&root_name(name));
                    if !uses_it && !is_called_back {
                        complaints.push(format!("`{name}` is named as a caller and does not use it"));
                    }
                }
                Caller::Name(name) if self.crates.has_module(name) && !self.uses.words.contains(name) => {
                    complaints.push(format!("`{name}` is a module: name its crate, or write a link to it"));
                }
                Caller::Name(_) | Caller::Word(_) => {}
            }
        }
        complaints
    }

    /// Those that use it and are not named.
    fn missing(&self, sentence: &Sentence, users: &Users) -> Vec<String> {
        let is_named = |user: &str| {
            let mut names = sentence.callers.iter();
            names.any(|caller| matches!(caller, Caller::Name(name) | Caller::Word(name) if name == user))
        };
        let other_crates: BTreeSet<&String> = users
            .sure
            .iter()
            .map(|(user, _)| user)
            .filter(|user| *user != self.name && !is_named(user))
            .collect();
        let mut complaints: Vec<String> = other_crates
            .into_iter()
            .map(|user| format!("the crate `{user}` uses it and is not named"))
            .collect();

        if !LISTS_MODULES.contains(&self.name) {
            return complaints;
        }
        let modules: Vec<Module> =
            sentence.callers.iter().filter_map(|caller| self.module_of(caller)).collect();
        // Those inside of it are its own parts.
        let own =
            users.sure.iter().filter(|(user, from)| user == self.name && !from.starts_with(self.module));
        let users: Vec<&Module> = own.map(|(_, from)| from).collect();
        let neighbours: BTreeSet<Module> = users.iter().map(|user| self.neighbour(user)).collect();
        if sentence.says_most {
            if neighbours.len() <= LISTED_MAX {
                complaints
                    .push(format!("{} modules are not most of this crate: name them", neighbours.len()));
            }
            return complaints;
        }
        let is_covered = |user: &Module| {
            modules.iter().any(|module| user.starts_with(module) || module.starts_with(&self.neighbour(user)))
        };
        let left_out: BTreeSet<Module> =
            users.into_iter().filter(|user| !is_covered(user)).map(|user| self.neighbour(user)).collect();
        complaints.extend(left_out.iter().map(|user| {
            let user = [&["crate".to_owned()], &user[..]].concat();
            format!("`{}` uses it and is not named", user.join("::"))
        }));
        complaints
    }

    /// A user as its neighbour sees it: the module on the floor on which the two part.
    fn neighbour(&self, user: &Module) -> Module {
        let shared = user.iter().zip(self.module).take_while(|(a, b)| a == b).count();
        user[..user.len().min(shared + 1)].to_vec()
    }

    fn module_of(&self, caller: &Caller) -> Option<Module> {
        let mut module = match caller {
            Caller::Module(names) => names.clone(),
            Caller::Neighbour(names) => {
                let above = self.module.len().checked_sub(1)?;
                [&self.module[..above], &names[..]].concat()
            }
            _ => return None,
        };
        let files = &self.crates.files[self.name];
        // A link may lead to an item of a module.
        while !files.contains_key(&module) {
            module.pop()?;
        }
        Some(module)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENING: &str = "//! A.\n//!\n//! Must hold: that.";

    /// What is said of `crates/core/src/a.rs` with this sentence, beside these other files.
    fn found(sentence: &str, others: &[(&str, &str)]) -> Vec<String> {
        let text =
            format!("{OPENING} {sentence}\n\npub struct A;\nimpl A {{ pub fn only_here(&self) {{}} }}\n");
        let lib = ("crates/core/src/lib.rs", "pub mod a;\npub mod b;\npub use a::A;\n");
        let files = [&[lib, ("crates/core/src/a.rs", text.as_str())], others].concat();
        named(&Tree::sample(&files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_crate_that_does_not_use_it_is_a_problem() {
        let others =
            [("crates/host/src/lib.rs", "use uswap_core::b;\n"), ("crates/core/src/b.rs", "use crate::A;\n")];
        assert_eq!(
            found("Called by [`crate::b`] and `host`.", &others),
            ["crates/core/src/a.rs:3: `host` is named as a caller and does not use it"]
        );
        assert_eq!(found("Called by the engine.", &[("crates/engine/src/lib.rs", "//! B.\n")]).len(), 1);
        assert!(found("Called by [`crate::b`].", &others).is_empty());
    }

    #[test]
    fn a_module_that_does_not_use_it_is_a_problem() {
        let others = [("crates/core/src/b.rs", "use crate::c;\n")];
        assert_eq!(
            found("Called by [`crate::b`].", &others),
            ["crates/core/src/a.rs:3: `b` is named as a caller and does not use it"]
        );
        assert_eq!(
            found("Called by `b`.", &others),
            ["crates/core/src/a.rs:3: `b` is a module: name its crate, or write a link to it"]
        );
    }

    #[test]
    fn a_crate_that_is_left_out_is_a_problem() {
        for using in [
            "use uswap_core::a::A;\n",
            "use uswap_core::{b, A as Other};\n",
            "use uswap_core::a;\nfn x() { a::A }\n",
            "fn x(b: uswap_core::b::B) { b.a().only_here() }\n",
        ] {
            let others = [("crates/host/src/lib.rs", using), ("crates/core/src/b.rs", "use crate::A;\n")];
            assert_eq!(
                found("Called by [`crate::b`].", &others),
                ["crates/core/src/a.rs:3: the crate `host` uses it and is not named"],
                "{using}"
            );
            assert!(found("Called by [`crate::b`] and `host`.", &others).is_empty(), "{using}");
        }
    }

    #[test]
    fn tests_and_fields_are_no_callers() {
        for using in [
            "use uswap_core::b;\n#[cfg(test)]\nmod tests { use uswap_core::A; }\n",
            "use uswap_core::b;\nfn x() { b.only_here }\n",
            "fn x() { b.only_here() }\n",
        ] {
            let others = [("crates/host/src/lib.rs", using), ("crates/core/src/b.rs", "use crate::A;\n")];
            assert!(found("Called by [`crate::b`].", &others).is_empty(), "{using}");
        }
    }

    #[test]
    fn in_some_crates_a_module_that_is_left_out_is_a_problem() {
        let lib = ("crates/host/src/lib.rs", "mod a;\nmod b;\nmod c;\n");
        let a = |sentence: &str| format!("{OPENING} {sentence}\n\npub fn f() {{}}\n");
        let users =
            [("crates/host/src/b.rs", "use crate::a;\n"), ("crates/host/src/c.rs", "use crate::a::f;\n")];
        let found = |sentence: &str| -> Vec<String> {
            let text = a(sentence);
            let files = [&[lib, ("crates/host/src/a.rs", text.as_str())], &users[..]].concat();
            named(&Tree::sample(&files)).iter().map(|problem| problem.what.clone()).collect()
        };
        assert_eq!(found("Called by [`crate::b`]."), ["`crate::c` uses it and is not named"]);
        assert_eq!(
            found("Called by most of this crate."),
            ["2 modules are not most of this crate: name them"]
        );
        assert!(found("Called by [`crate::b`] and [`super::c`].").is_empty());
    }

    #[test]
    fn the_library_has_a_name_without_a_prefix() {
        let found = |sentence: &str| -> Vec<String> {
            let text = format!("{OPENING} {sentence}\n\npub struct A;\n");
            let files = [
                ("crates/bench/src/lib.rs", "mod uswap;\nfn x() { uswap::A::new() }\n"),
                ("crates/bench/src/uswap.rs", "pub struct A;\n"),
                ("crates/libusw/src/lib.rs", "use uswap::A;\n"),
                ("crates/uswap/src/a.rs", text.as_str()),
                ("crates/uswap/src/lib.rs", "mod a;\npub use a::A;\n"),
            ];
            named(&Tree::sample(&files)).iter().map(|problem| problem.what.clone()).collect()
        };
        assert!(found("Called by `libusw`.").is_empty());
        assert_eq!(found("Called by programs."), ["the crate `libusw` uses it and is not named"]);
        assert_eq!(
            found("Called by `bench` and `libusw`."),
            ["`bench` is named as a caller and does not use it"],
            "that is a module of its own"
        );
    }

    #[test]
    fn a_crate_below_may_call_back() {
        let host = format!("{OPENING} Called by `core`.\n\nimpl uswap_core::b::World for X {{}}\n");
        let files = [
            ("crates/core/src/lib.rs", "pub mod b;\n"),
            ("crates/core/src/b.rs", "pub trait World {}\n"),
            ("crates/host/src/lib.rs", "mod x;\n"),
            ("crates/host/src/x.rs", host.as_str()),
        ];
        let problems = named(&Tree::sample(&files));
        assert!(problems.iter().all(|problem| problem.path.starts_with("crates/core/")), "{problems:?}");
    }
}
