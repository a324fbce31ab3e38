//! The library that `uswap run` preloads into programs: a constructor, and what a library without the
//! standard one needs.
//!
//! All else is in `host`. What must hold: no code here runs before the constructor, and it runs before the program has
//! threads.
#![no_std]

mod bytes;

use core::arch::{asm, global_asm};
use core::ffi::{c_char, c_int};
use uswap_host::heap::Heap;
use uswap_host::invitation::Invitation;
use uswap_host::{AfterSetuid, Process, Terms, credentials, messages, own_memory};
use uswap_identity::Note;
use uswap_os::process;
use uswap_os::without::Without;

/// Says which sources this was built from. `uswap run` reads it in the file before it has it preloaded. Linkers make a
/// note of what is in a section of such a name.
#[used]
#[unsafe(link_section = ".note.uswap")]
static IDENTITY: Note = Note::own();

/// Memory of the engine: nothing is given back.
#[global_allocator]
static HEAP: Heap = Heap::new();

static PROCESS: Process = Process::new();

/// A broken invariant inside someone else's program: say so and stop, rather than go on with data that may be wrong.
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    messages::say(format_args!("internal error, the program is stopped to keep its data from harm: {info}"));
    let _sent = process::kill(process::process_id(), 9);
    process::exit_process(134)
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = constructor;

global_asm!(".weak environ");

/// The environment as the C library of the program has it. None: it has none, or not yet.
fn environment_of_libc() -> Option<*const *const c_char> {
    let at: *const *const *const c_char;
    // SAFETY:
    // 1. This reads one word of this library, into which the dynamic linker has written where `environ` is, or 0.
    unsafe {
        asm!("mov {0}, qword ptr [rip + environ@GOTPCREL]", out(reg) at, options(nomem, nostack, preserves_flags));
    }
    // SAFETY:
    // 1. `at` is 0, or where a C library has the word of that name, which nobody changes now.
    let environment = unsafe { at.as_ref() }?;
    (!environment.is_null()).then_some(*environment)
}

/// glibc hands the environment to constructors, and has none itself before it has begun. musl hands them nothing: what
/// lies in their arguments there is anything.
extern "C" fn constructor(_: c_int, _: *const *const c_char, given: *const *const c_char) {
    let environment = environment_of_libc().unwrap_or(given);
    // SAFETY:
    // 1. It is what the C library has, or what glibc's dynamic linker hands to every constructor.
    // 2. No thread of the program runs yet.
    if let Some(invitation) = unsafe { Invitation::find(environment) } {
        join(invitation);
    }
}

fn join(invitation: Invitation) -> Option<()> {
    own_memory::set_apart();
    if !HEAP.prepare() {
        return None;
    }
    let (start, end) = HEAP.range();
    own_memory::add(start, end - start);
    let options = invitation.options;
    Without::from_bits(options.without).switch_off();
    let terms = Terms {
        join_bytes: u64::from(options.join_kib) * 1024,
        after_setuid: if options.keep_after_setuid { AfterSetuid::Stays } else { AfterSetuid::Leaves },
        credentials: credentials::credentials(),
    };
    if let Err(reason) = PROCESS.start(terms)
        && options.verbose
    {
        messages::say_of_process(format_args!("it is left alone: {reason}"));
    }
    Some(())
}
