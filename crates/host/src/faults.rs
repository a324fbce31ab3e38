//! A SIGBUS or SIGSEGV of a thread of the program.
//!
//! Must hold: a signal is taken from the program only if the access may be repeated, or was made by the copy of
//! [`crate::program_copy`]; all others are the program's, also that of a page that is lost. Called by `interpose`
//! through [`crate::calls`], on the alternate stack with all signals blocked.

use crate::messages;
use crate::process::{Phase, Process};
use crate::{program_copy, repeats};
use core::ffi::c_void;
use uswap_core::counters::FaultSource;
use uswap_engine::FaultOutcome;
use uswap_engine::world::Touch;
use uswap_interpose::{Fault, thread};
use uswap_os::sys::abi;
use uswap_os::{clock, process};
use uswap_units::PageId;

/// Where the kernel's `siginfo_t` has the address, and its `ucontext_t` the stack pointer, the instruction pointer and
/// the error code of the fault.
const ADDRESS_AT: usize = 16;
const STACK_AT: usize = 160;
const INSTRUCTION_AT: usize = 168;
const ERROR_AT: usize = 192;
/// Where the signal says why it was sent, and what it says of memory that is missing; a memory error has another code.
const CODE_AT: usize = 8;
const BUS_ADRERR: i32 = 2;
/// In the error code: it was a write.
const ERROR_WRITE: usize = 2;

/// What is known of a fault.
struct Met {
    address: usize,
    stack_pointer: usize,
    instruction: *mut usize,
    error: usize,
    is_missing: bool,
}

/// Whether the kernel would read it for us.
fn is_readable(address: usize) -> bool {
    process::read_memory(process::process_id(), address as u64, &mut [0]).is_ok_and(|bytes| bytes == 1)
}

impl Process {
    /// Serves a signal that the kernel sent because of an access, on the alternate stack with all signals blocked.
    pub(crate) fn serve_signal(&self, signal: u32, info: *const c_void, context: *mut c_void) -> Fault {
        // SAFETY:
        // 1. They are the kernel's own structures of this signal, with these fields at these places on x86-64, and
        //    nobody else looks at them now.
        let met = unsafe {
            Met {
                address: info.byte_add(ADDRESS_AT).cast::<usize>().read(),
                stack_pointer: context.byte_add(STACK_AT).cast::<usize>().read(),
                instruction: context.byte_add(INSTRUCTION_AT).cast::<usize>(),
                error: context.byte_add(ERROR_AT).cast::<usize>().read(),
                is_missing: signal == abi::SIGBUS
                    && info.byte_add(CODE_AT).cast::<i32>().read() == BUS_ADRERR,
            }
        };
        let is_served = met.is_missing && self.serve_fault(&met);
        if is_served {
            return Fault::Handled;
        }
        // SAFETY:
        // 1. As above.
        let fixup = program_copy::fixup(unsafe { met.instruction.read() });
        match fixup {
            Some(fixup) => {
                // SAFETY:
                // 1. As above; the thread goes on there as if the copy had returned.
                unsafe { met.instruction.write(fixup) };
                Fault::Handled
            }
            None => Fault::NotOurs,
        }
    }

    /// True if the access may be repeated.
    fn serve_fault(&self, met: &Met) -> bool {
        let space = match (self.phase(), self.space()) {
            (Phase::Active, Some(space)) => space,
            // What was managed came home a moment ago, and is there when it is touched again.
            (_, Some(_)) => return is_readable(met.address),
            (_, None) => return false,
        };
        let page = PageId::of_address(met.address as u64);
        let touch = Touch::that(met.error & ERROR_WRITE != 0);
        let began_ns = clock::engine_now_ns();
        let served = self.fault_in(page, touch);
        match served {
            // It may have been let go meanwhile, and is there when it is touched again.
            FaultOutcome::NotOurs => is_readable(met.address),
            FaultOutcome::Served(source) => {
                let ended_ns = clock::engine_now_ns();
                let latency = space.segment().counters().latency(source);
                latency.record(ended_ns.saturating_sub(began_ns));
                if source != FaultSource::Woken {
                    space.record().stall().add(began_ns, ended_ns);
                }
                repeats::see_to(space, page, touch, source);
                self.pin_faulting_stack(thread::current(), met.address as u64, met.stack_pointer as u64);
                true
            }
            FaultOutcome::Lost => {
                messages::say_of_process(format_args!(
                    "a page at {:#x} cannot be read back: no attempt gave what was stored. The program gets \
                     SIGBUS, as for a memory error. Look for errors of the disk with the swap file (dmesg)",
                    met.address
                ));
                false
            }
        }
    }
}
