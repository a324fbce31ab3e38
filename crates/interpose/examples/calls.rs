//! A program that makes a known number of calls in every way that there is: `calls`.
//!
//! `getppid` from the C library, through `syscall()`, from an instruction of its own, from code that it writes itself;
//! in new threads, in children made by fork, vfork, and clone with a stack; on a stack with no room. Its answers are
//! the same every time, so it prints whether they were right. Each way makes [`EACH`] calls in each process.

use std::arch::asm;
use std::ffi::c_void;

const EACH: usize = 20;

fn main() {
    // SAFETY:
    // 1. getppid takes nothing.
    let parent = unsafe { libc::getppid() } as isize;
    every_way(parent);
    let threads: Vec<_> = (0..3).map(|_| std::thread::spawn(move || every_way(parent))).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("the thread ends"));
    println!("fork {}", status_of(fork()));
    println!("vfork {}", status_of(vfork()));
    println!("clone {}", status_of(clone_with_stack(libc::SIGCHLD)));
    println!("clone vm {}", status_of(clone_with_stack(libc::SIGCHLD | libc::CLONE_VM | libc::CLONE_VFORK)));
    println!("clone vm on our stack {:?}", clone_on_our_stack());
    println!("clone vm below our stack {}", clone_below_our_stack());
    let output = std::process::Command::new("/bin/echo").arg("spawned").output().expect("echo runs");
    print!("{}", String::from_utf8_lossy(&output.stdout));
    registers();
    small_stacks();
}

fn every_way(parent: isize) {
    let written = written_call();
    for _ in 0..EACH {
        // SAFETY:
        // 1. getppid takes nothing.
        let answers = unsafe {
            [libc::getppid() as isize, libc::syscall(libc::SYS_getppid) as isize, own_call(), written()]
        };
        assert_eq!(answers, [parent; 4]);
    }
}

/// An instruction of this program.
fn own_call() -> isize {
    let answer;
    // SAFETY:
    // 1. getppid takes nothing and changes rax, rcx and r11 only.
    unsafe {
        asm!("syscall", inlateout("rax") libc::SYS_getppid as isize => answer,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    answer
}

/// Code that is written now, and that nobody may read then: `mov $110,%eax; syscall; ret`.
fn written_call() -> extern "C" fn() -> isize {
    let code = [0xB8u8, 110, 0, 0, 0, 0x0F, 0x05, 0xC3];
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY:
    // 1. The mapping is new and holds the whole code, which keeps to the calling convention.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let at = libc::mmap(std::ptr::null_mut(), 4096, access, flags, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        std::ptr::copy_nonoverlapping(code.as_ptr(), at.cast(), code.len());
        assert_eq!(libc::mprotect(at, 4096, libc::PROT_EXEC), 0);
        std::mem::transmute::<*mut c_void, extern "C" fn() -> isize>(at)
    }
}

fn fork() -> i32 {
    // SAFETY:
    // 1. No other thread runs; the child makes calls and ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            every_way(libc::getppid() as isize);
            libc::_exit(3);
        }
        child
    }
}

fn vfork() -> i32 {
    // SAFETY:
    // 1. The child makes calls of its own and ends, as vfork demands.
    #[allow(deprecated)]
    unsafe {
        let child = libc::vfork();
        if child == 0 {
            own_call();
            own_call();
            libc::_exit(4);
        }
        child
    }
}

fn clone_with_stack(flags: i32) -> i32 {
    extern "C" fn child(_: *mut c_void) -> i32 {
        own_call();
        5
    }
    let mut stack = vec![0u8; 64 * 1024];
    // SAFETY:
    // 1. The stack is the child's until it ends, and is given back after that; shared memory is only read.
    unsafe { libc::clone(child, stack.as_mut_ptr().add(stack.len()).cast(), flags, std::ptr::null_mut()) }
}

/// A child that its parent waits for, with 2 KiB of its parent's stack, as musl's posix_spawn has it: its status, and
/// whether it has stayed in there.
fn clone_on_our_stack() -> (i32, bool) {
    extern "C" fn child(status: *mut c_void) -> i32 {
        // SAFETY:
        // 1. getppid takes nothing.
        unsafe { libc::getppid() };
        own_call();
        status as usize as i32
    }
    const BYTES: usize = 2048;
    let mut stack = [[0xA5_u8; BYTES]; 3];
    let flags = libc::SIGCHLD | libc::CLONE_VM | libc::CLONE_VFORK;
    // SAFETY:
    // 1. The part in the middle is the child's, which has ended when the call comes back.
    let id = unsafe { libc::clone(child, (&raw mut stack[2]).cast(), flags, 7 as *mut c_void) };
    let untouched = |part: &[u8; BYTES]| std::hint::black_box(part).iter().all(|byte| *byte == 0xA5);
    (status_of(id), untouched(&stack[0]) && untouched(&stack[2]))
}

/// A child whose stack ends where that of its parent begins, with a page there that nobody may touch.
fn clone_below_our_stack() -> i32 {
    const PART: usize = 256 * 1024;
    extern "C" fn child(_: *mut c_void) -> i32 {
        own_call();
        own_call();
        8
    }
    extern "C" fn parent(stack_end: *mut c_void) -> *mut c_void {
        let flags = libc::SIGCHLD | libc::CLONE_VM | libc::CLONE_VFORK;
        // SAFETY:
        // 1. The memory below is the child's, which has ended when the call comes back.
        let id = unsafe { libc::clone(child, stack_end, flags, std::ptr::null_mut()) };
        status_of(id) as usize as *mut c_void
    }
    // SAFETY:
    // 1. The mapping is new: its lower part is the child's stack, the upper one the thread's, which is joined.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let at = libc::mmap(std::ptr::null_mut(), 2 * PART, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        let middle = at.byte_add(PART);
        assert_eq!(libc::mprotect(middle, 4096, libc::PROT_NONE), 0);
        let (mut attributes, mut thread, mut status) = (std::mem::zeroed(), 0, std::ptr::null_mut());
        libc::pthread_attr_init(&mut attributes);
        assert_eq!(libc::pthread_attr_setstack(&mut attributes, middle, PART), 0);
        assert_eq!(libc::pthread_create(&mut thread, &attributes, parent, middle), 0);
        assert_eq!(libc::pthread_join(thread, &mut status), 0);
        status as usize as i32
    }
}

fn status_of(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY:
    // 1. The status is an integer of this frame.
    unsafe { assert_eq!(libc::waitpid(child, &mut status, 0), child) };
    libc::WEXITSTATUS(status)
}

/// All registers but `rax`, `rcx` and `r11` survive a call, the flags too, and the 128 bytes below the stack
/// pointer.
fn registers() {
    for round in 0..EACH {
        let (mut changed, mut flags, mut red): (u64, u64, u64);
        // SAFETY:
        // 1. Everything that the code changes is named; it moves the stack pointer back.
        // 2. The stack below is free: the compiler uses no red zone around an asm block with a stack.
        unsafe {
            asm!(
                "sub rsp, 512",
                "mov qword ptr [rsp - 8], 0x1234",
                "mov qword ptr [rsp - 128], 0x4321",
                "movq xmm0, rdi", "movq xmm7, rsi", "movq xmm15, rdx",
                "mov r8, 81", "mov r9, 91", "mov r10, 101", "mov r12, 121", "mov r13, 131", "mov r14, 141",
                "mov r15, 151",
                "std", "stc",
                "mov eax, 110",
                "syscall",
                "pushfq", "pop rax", "cld",
                "mov r11, rax",
                "xor ecx, ecx",
                "sub r8, 81", "or rcx, r8", "sub r9, 91", "or rcx, r9", "sub r10, 101", "or rcx, r10",
                "sub r12, 121", "or rcx, r12", "sub r13, 131", "or rcx, r13", "sub r14, 141", "or rcx, r14",
                "sub r15, 151", "or rcx, r15", "sub rdi, 11", "or rcx, rdi", "sub rsi, 12", "or rcx, rsi",
                "sub rdx, 13", "or rcx, rdx",
                "movq r8, xmm0", "sub r8, 11", "or rcx, r8",
                "movq r8, xmm7", "sub r8, 12", "or rcx, r8",
                "movq r8, xmm15", "sub r8, 13", "or rcx, r8",
                "mov r9, [rsp - 128]",
                "add rsp, 512",
                inout("rdi") 11u64 => _, inout("rsi") 12u64 => _, inout("rdx") 13u64 => _,
                out("rcx") changed, out("r11") flags, out("r9") red, out("rax") _, out("r8") _, out("r10") _,
                out("r12") _, out("r13") _, out("r14") _, out("r15") _,
                out("xmm0") _, out("xmm7") _, out("xmm15") _);
        }
        // Carry and direction.
        assert_eq!((changed, flags & 0x401, red), (0, 0x401, 0x4321), "round {round}");
    }
    if std::is_x86_feature_detected!("avx") {
        wide_registers();
    }
    println!("registers kept");
}

/// The upper halves of the vector registers survive too.
fn wide_registers() {
    let before = [0x0123_4567_89AB_CDEFu64; 4];
    for round in 0..EACH {
        let mut after = [[0u64; 4]; 2];
        // SAFETY:
        // 1. The processor has AVX; registers and memory are told, and the upper halves are cleared again.
        unsafe {
            asm!(
                "vmovups ymm2, [{before}]", "vmovups ymm14, [{before}]",
                "syscall",
                "vmovups [{after}], ymm2", "vmovups [{after} + 32], ymm14", "vzeroupper",
                before = in(reg) before.as_ptr(), after = in(reg) after.as_mut_ptr(),
                inlateout("rax") libc::SYS_getppid as isize => _, lateout("rcx") _, lateout("r11") _,
                out("xmm2") _, out("xmm14") _);
        }
        assert_eq!(after, [before; 2], "round {round}");
    }
}

/// Calls from a stack of which 64 bytes are left, as from a coroutine, and a vfork from there.
fn small_stacks() {
    let (mut answer, mut child): (isize, isize);
    // SAFETY:
    // 1. The stack is new; below it lies a page that nobody may touch. The code gives the stack pointer back.
    // 2. The child of the vfork makes calls and ends, without a change of memory.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let pages = libc::mmap(std::ptr::null_mut(), 8192, access, flags, -1, 0);
        libc::mprotect(pages, 4096, libc::PROT_NONE);
        let stack = pages as usize + 4096 + 64;
        asm!(
            "mov r12, rsp",
            "mov rsp, {stack}",
            "syscall",
            "mov r13, rax",
            // vfork
            "mov eax, 58",
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "mov eax, 110",
            "syscall",
            "mov edi, 6",
            "mov eax, 231",
            "syscall",
            "2:",
            "mov rsp, r12",
            stack = in(reg) stack,
            inlateout("rax") libc::SYS_getppid as isize => child,
            out("rdi") _, out("rcx") _, out("r11") _, out("r12") _, lateout("r13") answer);
    }
    // SAFETY:
    // 1. getppid takes nothing.
    assert_eq!(answer, unsafe { libc::getppid() } as isize);
    println!("vfork on a small stack {}", status_of(child as i32));
}
