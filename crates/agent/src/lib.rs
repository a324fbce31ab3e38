//! The library that `uswap run` preloads into programs, and that the crate `uswap` loads into one that asks for a
//! budget while it runs: a constructor, functions for the latter, and what a library without the standard one
//! needs.
//!
//! All else is in `host`. What must hold: no code here runs before the constructor; and if there is an invitation in
//! the environment, that runs before the program has threads.
#![no_std]

mod bytes;
mod libc_functions;
mod rseq_area;

use core::alloc::{GlobalAlloc, Layout};
use core::arch::{asm, global_asm, naked_asm};
use core::ffi::{c_char, c_int};
use core::fmt::Display;
use core::sync::atomic::{AtomicBool, Ordering};
use uswap_host::attach::{refuse_what_is_out_of_sight, shares_memory};
use uswap_host::invitation::Invitation;
use uswap_host::refused::Refused;
use uswap_host::small::{Functions, grown_unseen};
use uswap_host::{AfterSetuid, Managed, Process, Terms, credentials, messages, own_memory};
use uswap_identity::Note;
use uswap_os::text::TextBuffer;
use uswap_os::without::Without;
use uswap_os::{Fd, process};

/// Says which sources this was built from. `uswap run` reads it in the file before it has it preloaded. Linkers make a
/// note of what is in a section of such a name.
#[used]
#[unsafe(link_section = ".note.uswap")]
static IDENTITY: Note = Note::own();

/// There is no heap: in a program that is swapped nothing of ours allocates. The parts of the engine that do are those
/// of the supervisor, for whose sake a library must name an allocator.
#[global_allocator]
static NO_HEAP: NoHeap = NoHeap;

struct NoHeap;

// SAFETY:
// 1. Null says that there is no memory, and nothing that was not handed out comes back.
unsafe impl GlobalAlloc for NoHeap {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

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

fn join(invitation: Invitation) {
    let terms = set_up(&invitation);
    let addresses = libc_functions::addresses();
    let known = invitation.known.as_ref().map_or(&[][..], |known| known);
    if let Err(reason) = PROCESS.start(terms, &Functions { addresses: &addresses, known })
        && invitation.options.verbose
    {
        messages::say_of_process(format_args!("it is left alone: {reason}"));
    }
}

/// A process that is refused may ask again.
fn set_up(invitation: &Invitation) -> Terms {
    static IS_SET_UP: AtomicBool = AtomicBool::new(false);
    if !IS_SET_UP.swap(true, Ordering::Relaxed) {
        own_memory::set_apart();
    }
    let options = invitation.options;
    Without::from_bits(options.without).switch_off();
    Terms {
        join_bytes: u64::from(options.join_kib) * 1024,
        managed: if options.regions_only { Managed::Regions } else { Managed::All },
        after_setuid: if options.keep_after_setuid { AfterSetuid::Stays } else { AfterSetuid::Leaves },
        credentials: credentials::credentials(),
        rseq_area_offset: rseq_area::offset(),
    }
}

/// Where the supervisor lets a thread go on that it has stopped ([`uswap_host::small::grown_unseen`]). It finds the
/// name in this file.
///
/// # Safety
/// As there.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uswap_agent_grown_unseen() {
    naked_asm!("jmp {}", sym grown_unseen)
}

/// The calling process enters the run of an invitation, `invitation_bytes` bytes at `invitation`, with all its threads.
/// `pipe` is the supervisor's standard input, and belongs to this library from here on. 0: it is in the run; else why
/// not, as text that ends with a zero byte, is written to `reason`, which has room for `reason_bytes`.
///
/// # Safety
/// Both ranges are memory of the caller, and `pipe` is an open descriptor that nobody else uses. No other thread is in
/// it, and no lock is held that a thread of the program could wait for in a handler of a signal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uswap_agent_attach(
    invitation: *const u8,
    invitation_bytes: usize,
    pipe: c_int,
    reason: *mut u8,
    reason_bytes: usize,
) -> c_int {
    // SAFETY:
    // 1. The caller's promise.
    let value = unsafe { core::slice::from_raw_parts(invitation, invitation_bytes) };
    let pipe = Fd::from_raw(pipe);
    let attached = refuse_what_is_out_of_sight(shares_memory)
        .and_then(|()| Invitation::follow(value).ok_or(Refused::NoRun))
        .and_then(|invitation| PROCESS.attach(set_up(&invitation), pipe));
    // SAFETY:
    // 1. The caller's promise.
    unsafe { tell(attached, reason, reason_bytes) }
}

/// The answer of a function: 0, or -1 and why, as text that ends with a zero byte.
///
/// # Safety
/// `reason` is memory of the caller, of `reason_bytes` bytes.
unsafe fn tell<E: Display>(answer: Result<(), E>, reason: *mut u8, reason_bytes: usize) -> c_int {
    let Err(why) = answer else { return 0 };
    let text = TextBuffer::<512>::format(format_args!("{why}"));
    let text = text.as_c_str().to_bytes_with_nul();
    if reason_bytes > 0 {
        let count = text.len().min(reason_bytes);
        // SAFETY:
        // 1. The caller's promise; `count` is not more than what there is room for.
        // 2. The last byte is zero: the text's own, or the one that is written behind what fits.
        unsafe {
            core::ptr::copy_nonoverlapping(text.as_ptr(), reason, count);
            reason.add(count - 1).write(0);
        }
    }
    -1
}

/// A private anonymous mapping, `bytes` bytes at `start`, is managed from now on, in a process that manages what it
/// names; in one that manages all it is that already. 0: it is; else as [`uswap_agent_attach`].
///
/// # Safety
/// Nobody uses the mapping yet; `reason` is memory of the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uswap_agent_manage(
    start: usize,
    bytes: usize,
    reason: *mut u8,
    reason_bytes: usize,
) -> c_int {
    // SAFETY:
    // 1. The caller's promise.
    unsafe { tell(PROCESS.manage(start, bytes), reason, reason_bytes) }
}

/// `bytes` bytes at `start` are brought and stay in RAM, or, without `stays`, may be evicted again. 0: so it is; else
/// as [`uswap_agent_attach`].
///
/// # Safety
/// `reason` is memory of the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uswap_agent_keep(
    start: usize,
    bytes: usize,
    stays: bool,
    reason: *mut u8,
    reason_bytes: usize,
) -> c_int {
    let kept = match stays {
        true => PROCESS.pin_region(start, bytes),
        false => {
            PROCESS.unpin_region(start, bytes);
            Ok(())
        }
    };
    // SAFETY:
    // 1. The caller's promise.
    unsafe { tell(kept, reason, reason_bytes) }
}

/// The calling process leaves the run that it has entered by [`uswap_agent_attach`]; all its memory comes home first.
/// 0: it has left; else it was in none.
#[unsafe(no_mangle)]
pub extern "C" fn uswap_agent_release() -> c_int {
    if PROCESS.release() { 0 } else { -1 }
}
