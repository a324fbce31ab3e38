//! The steps of `cargo xtask test`, and their names: `suite` runs them, `check` compares them with the documents.

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Check,
    Format,
    Clippy,
    Documentation,
    Build,
    Semver,
    UnitTests,
    Fuzz,
    Loom,
    Shuttle,
    SimulatedTime,
    Simulator,
    SystemCalls,
    IntegrationTests,
    WithoutRights,
    PythonPackage,
}

/// All steps in their order, each with its name.
pub const STEPS: [(&str, Step); 16] = [
    ("check", Step::Check),
    ("fmt", Step::Format),
    ("clippy", Step::Clippy),
    ("doc", Step::Documentation),
    ("build", Step::Build),
    ("semver", Step::Semver),
    ("unit tests", Step::UnitTests),
    ("fuzz", Step::Fuzz),
    ("loom", Step::Loom),
    ("shuttle", Step::Shuttle),
    ("simulated time", Step::SimulatedTime),
    ("simulator", Step::Simulator),
    ("system calls", Step::SystemCalls),
    ("integration tests", Step::IntegrationTests),
    ("integration tests without rights", Step::WithoutRights),
    ("Python package", Step::PythonPackage),
];
