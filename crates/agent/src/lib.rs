//! The library that is preloaded into programs: it watches, and when memory gets short it takes the program's memory
//! under management.
//!
//! It lives inside other people's programs, so: no standard library, no libc on engine threads, no memory of the
//! program's allocator. Engine threads are raw clones ([`uswap_os::thread`]) with a descriptor table of their own.
//!
//! Life: [`start`] (constructor) joins the run and starts kswapd, which sleeps until there is pressure. [`activate`]
//! then builds the engine. [`fork`] carries a forked child over. [`leave`] brings everything home and goes. [`hooks`]
//! are the few calls of the program that are looked at. [`state`] holds everything that outlives a function.
#![no_std]

extern crate alloc;

mod activate;
mod affinity;
mod allocations;
mod drops;
mod fork;
mod forkd;
mod fresh;
mod handlers;
mod hooks;
mod kswapd;
mod leave;
mod locks;
mod moves;
mod platform;
mod register;
mod remote;
mod say;
mod scan;
mod start;
mod state;
mod sync;

use uswap_identity::Note;
use uswap_os::process;

/// Says which sources this was built from. `uswap run` reads it in the file before it has it preloaded. Linkers make a
/// note of what is in a section of such a name.
#[used]
#[unsafe(link_section = ".note.uswap")]
static IDENTITY: Note = Note::own();

/// Memory of the engine: nothing is given back.
#[global_allocator]
pub(crate) static HEAP: uswap_host::heap::Heap = uswap_host::heap::Heap::new();

/// A broken invariant inside someone else's program: say so and stop, rather than go on with data that may be wrong.
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    say::say(format_args!(
        "internal error in process {}, it is stopped to keep its data from harm: {info}",
        process::process_id()
    ));
    let _sent = process::kill(process::process_id(), 6);
    process::exit_process(134)
}

/// Ends the process because its memory cannot be kept right.
fn fatal(what: core::fmt::Arguments<'_>) -> ! {
    say::say(format_args!(
        "process {} is ended, since its memory cannot be kept right: {what}",
        process::process_id()
    ));
    let _sent = process::kill(process::process_id(), 9);
    process::exit_process(137)
}
