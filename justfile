# Short names for `cargo xtask`, for those who have `just`. Everything is defined there.

# What there is.
default:
    @just --list
    @cargo xtask help

# Release build of the command and its agent.
build:
    cargo xtask build

# What is quick enough to run before each commit.
check:
    cargo xtask check
    cargo xtask fmt
    cargo xtask clippy

# Everything that must pass.
test:
    cargo xtask test

# Random input for SECONDS each.
fuzz SECONDS="60":
    cargo xtask fuzz --seconds {{SECONDS}}

# Replay a seed of the simulator.
sim *ARGS:
    cargo run --release -p uswap-sim -- {{ARGS}}

# A sort that needs four times its budget.
demo *ARGS:
    cargo xtask demo {{ARGS}}

# Any other command: `just x miri`.
x *ARGS:
    cargo xtask {{ARGS}}
