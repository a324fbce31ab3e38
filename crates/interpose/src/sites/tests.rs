//! The finder over hand-made code, and over the C library of this machine.

use std::vec::Vec;

use super::functions::Object;
use super::*;

const BASE: usize = 0x1000;

/// Code that lies at `BASE`.
struct Code<'a>(&'a [u8]);

impl Memory for Code<'_> {
    fn read(&self, address: usize, into: &mut [u8]) -> usize {
        let Some(found) = address.checked_sub(BASE).and_then(|at| self.0.get(at..)) else { return 0 };
        let count = found.len().min(into.len());
        into[..count].copy_from_slice(&found[..count]);
        count
    }
}

const SYSCALL: &[u8] = &[0x0F, 0x05];
const RET: &[u8] = &[0xC3];
/// `mov $39,%eax`.
const MOVE_NUMBER: &[u8] = &[0xB8, 39, 0, 0, 0];
/// `xor %eax,%eax`.
const XOR: &[u8] = &[0x31, 0xC0];
/// `cmp $-4095,%rax`.
const COMPARE: &[u8] = &[0x48, 0x3D, 0x01, 0xF0, 0xFF, 0xFF];

/// The way for the only `syscall` that lies at offset `site` of the pieces.
fn way(pieces: &[&[u8]], site: usize) -> Result<Way, Unpatchable> {
    way_of(pieces, site, false)
}

fn way_of(pieces: &[&[u8]], site: usize, is_unmapping: bool) -> Result<Way, Unpatchable> {
    let code: Vec<u8> = pieces.concat();
    find_way(&Code(&code), BASE..BASE + code.len(), BASE + site + SYSCALL_BYTES, is_unmapping)
}

#[test]
fn a_number_directly_ahead_is_replaced() {
    assert_eq!(way(&[MOVE_NUMBER, SYSCALL, COMPARE, RET], 5), Ok(Way::Ahead { at: BASE }));
}

#[test]
fn what_stands_between_is_copied() {
    // mov $39,%eax; mov %rcx,%r10; syscall
    let between: &[u8] = &[0x49, 0x89, 0xCA];
    assert_eq!(way(&[MOVE_NUMBER, between, SYSCALL, COMPARE, RET], 8), Ok(Way::Ahead { at: BASE }));
}

#[test]
fn nothing_that_depends_on_its_place_is_copied() {
    // mov 0x10(%rip),%eax is six bytes long, and lea too.
    for relative in [&[0x8B, 0x05, 0x10, 0, 0, 0][..], &[0x48, 0x8D, 0x05, 0x10, 0, 0, 0]] {
        assert_eq!(way(&[relative, SYSCALL, COMPARE, RET], relative.len()), Err(Unpatchable::NoRoom));
    }
}

#[test]
fn no_branch_is_copied() {
    // mov $39,%eax; je +2; syscall
    assert_eq!(way(&[MOVE_NUMBER, &[0x74, 0x02], SYSCALL, RET], 7), Err(Unpatchable::NoRoom));
    // A call comes back to where it stands.
    assert_eq!(way(&[MOVE_NUMBER, &[0xE8, 0, 0, 0, 0], SYSCALL, RET], 10), Err(Unpatchable::NoRoom));
}

#[test]
fn an_instruction_that_a_branch_enters_is_not_replaced() {
    // jmp to the second byte of the mov: what follows it decodes as something else there.
    let code: &[&[u8]] = &[MOVE_NUMBER, SYSCALL, &[0xEB, 0xF8], RET];
    assert_eq!(way(code, 5), Err(Unpatchable::Branch));
    // To its first byte and to the `syscall` itself is fine.
    assert_eq!(way(&[MOVE_NUMBER, SYSCALL, &[0xEB, 0xF7], RET], 5), Ok(Way::Ahead { at: BASE }));
    assert_eq!(way(&[MOVE_NUMBER, SYSCALL, &[0xEB, 0xFC], RET], 5), Ok(Way::Ahead { at: BASE }));
}

#[test]
fn a_lock_prefix_may_be_jumped_over() {
    // lock cmpxchg %edx,0x0(%rdi) with a long displacement.
    let locked: &[u8] = &[0xF0, 0x0F, 0xB1, 0x97, 0, 0, 0, 0];
    assert_eq!(way(&[locked, SYSCALL, RET], 8), Err(Unpatchable::NoRoom));
}

#[test]
fn padding_behind_a_return_takes_the_jump() {
    // xor %eax,%eax; syscall; ret; nopw 0x0(%rax,%rax,1)
    let padding: &[u8] = &[0x66, 0x0F, 0x1F, 0x44, 0, 0];
    assert_eq!(way(&[XOR, SYSCALL, RET, padding], 2), Ok(Way::Pad { pad: BASE + 5 }));
    // Several short ones together, and the padding of some linkers.
    assert_eq!(way(&[XOR, SYSCALL, RET, &[0x90; 5]], 2), Ok(Way::Pad { pad: BASE + 5 }));
    assert_eq!(way(&[XOR, SYSCALL, RET, &[0xCC; 5]], 2), Ok(Way::Pad { pad: BASE + 5 }));
    assert_eq!(way(&[XOR, SYSCALL, RET, &[0x90; 4]], 2), Err(Unpatchable::NoRoom));
}

#[test]
fn padding_that_is_run_or_entered_is_not_taken() {
    // No return ahead of it: it is run.
    assert_eq!(way(&[XOR, SYSCALL, &[0x90; 8], RET], 2), Err(Unpatchable::NoRoom));
    // je to its start.
    let code: &[&[u8]] = &[XOR, SYSCALL, &[0x74, 0x01], RET, &[0x90; 8], RET];
    assert_eq!(way(code, 2), Err(Unpatchable::Branch));
}

#[test]
fn padding_out_of_reach_is_not_taken() {
    let filler = XOR.repeat(80);
    assert_eq!(way(&[XOR, SYSCALL, &filler, RET, &[0x90; 8]], 2), Err(Unpatchable::NoRoom));
}

#[test]
fn bytes_inside_of_another_instruction_are_no_call() {
    // mov $0x050f,%eax holds the bytes of a syscall; then a true one.
    let hidden: &[u8] = &[0xB8, 0x0F, 0x05, 0, 0];
    assert_eq!(way(&[hidden, RET], 1), Err(Unpatchable::NotReached));
    let code = [hidden, SYSCALL, RET].concat();
    let found: Vec<usize> = calls(&Code(&code), BASE..BASE + code.len()).collect();
    assert_eq!(found, [BASE + 7]);
}

#[test]
fn code_that_does_not_decode_ends_the_search() {
    // 0x06 is no instruction in 64 bits.
    assert_eq!(way(&[&[0x06], MOVE_NUMBER, SYSCALL, RET], 6), Err(Unpatchable::NotReached));
}

#[test]
fn a_stack_that_may_be_gone_is_left_to_dispatch() {
    // mov $11,%eax; syscall; xor %edi,%edi; mov $60,%eax; syscall: how musl ends a thread.
    let ending: &[&[u8]] = &[&[0xB8, 11, 0, 0, 0], SYSCALL, &[0x31, 0xFF], &[0xB8, 60, 0, 0, 0], SYSCALL];
    assert_eq!(way_of(ending, 5, true), Err(Unpatchable::StackMayBeGone));
    assert_eq!(way_of(&[MOVE_NUMBER, SYSCALL, COMPARE, RET], 5, true), Ok(Way::Ahead { at: BASE }));
}

/// A file as it lies; good for objects whose segments lie in the file as in memory up to their code.
struct File(Vec<u8>);

impl Memory for File {
    fn read(&self, address: usize, into: &mut [u8]) -> usize {
        let Some(found) = self.0.get(address..) else { return 0 };
        let count = found.len().min(into.len());
        into[..count].copy_from_slice(&found[..count]);
        count
    }
}

#[test]
fn nearly_all_calls_of_the_c_library_can_be_patched() {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the maps can be read");
    let path =
        maps.lines().find_map(|line| line.split_whitespace().nth(5).filter(|path| path.contains("libc.so")));
    let file =
        File(std::fs::read(path.expect("this test is linked with a C library")).expect("it can be read"));
    let object = Object::at(&file, 0, None).expect("an ELF object with a table");
    let (mut total, mut patchable) = (0, 0);
    let mut ahead = Vec::new();
    for function in object.functions(&file) {
        for end in calls(&file, function.clone()) {
            total += 1;
            let found = find_way(&file, function.clone(), end, false);
            patchable += found.is_ok() as usize;
            if let Ok(Way::Ahead { at }) = found {
                assert!(at + JUMP_BYTES <= end - SYSCALL_BYTES);
                ahead.push(at);
            }
        }
        // Each address belongs to the function that the search finds for it.
        if !function.is_empty() {
            assert_eq!(object.function(&file, function.end - 1), Some(function));
        }
    }
    std::println!("{patchable} of {total} calls can be patched");
    assert!(total > 300);
    assert!(patchable * 100 >= total * 95);
    ahead.dedup();
    assert!(ahead.len() * 2 > total);
}
