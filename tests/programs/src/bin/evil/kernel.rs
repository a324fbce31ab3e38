//! System calls whose arguments lie in memory that has gone cold.

use crate::support::{Case, Filled, Page, fail, must};
use uswap_test_programs::memory;
use uswap_test_programs::message::errno;

/// Paths, vectors, arguments of exec and spawn, and IO vectors, all placed in the oldest memory.
pub fn cold_buffers(case: &Case) {
    // Room for arguments: five pages each on its own, far apart, filled first and so the first to go.
    let room = memory::map_private(64 * 4096, 0).unwrap_or_else(|error| fail!("mmap: errno {error}"));
    let path = room;
    let argument = room + 16 * 4096;
    let vector = room + 32 * 4096;
    let environment = room + 48 * 4096;
    put(path, b"/bin/echo\0");
    put(argument, b"from cold memory\0");
    memory::write_word(vector, path as u64);
    memory::write_word(vector + 8, argument as u64);
    memory::write_word(vector + 16, 0);
    memory::write_word(environment, 0);
    let filled = Filled::new(case.bytes, case.seed, 1);
    open_cold_path(path, &filled);
    vectors(&filled);
    socket_messages(&filled);
    exec_cold(path, vector, environment, &filled);
    filled.verify("after all system calls");
}

fn put(address: usize, text: &[u8]) {
    let mut page: Page = [0; 4096];
    page[..text.len()].copy_from_slice(text);
    memory::copy_page_in(address, &page);
}

fn open_cold_path(path: usize, filled: &Filled) {
    filled.verify("to make the path cold");
    // SAFETY:
    // 1. `path` holds text that ends in NUL.
    let descriptor = unsafe { libc::open(path as *const libc::c_char, libc::O_RDONLY | libc::O_CLOEXEC) };
    if descriptor < 0 {
        fail!("open of a path in cold memory: errno {}", errno());
    }
    // SAFETY:
    // 1. A local structure that the kernel fills; the descriptor is ours.
    unsafe {
        let mut status: libc::stat = core::mem::zeroed();
        filled.verify_steps("to make the path cold again", 2);
        must(libc::stat(path as *const libc::c_char, &raw mut status), "stat of a path in cold memory");
        libc::close(descriptor);
    }
}

/// writev from cold pages into a file and readv into cold pages.
fn vectors(filled: &Filled) {
    let name = c"/tmp";
    // SAFETY:
    // 1. The path ends in NUL.
    let file = unsafe { libc::open(name.as_ptr(), libc::O_TMPFILE | libc::O_RDWR | libc::O_CLOEXEC, 0o600) };
    if file < 0 {
        fail!("no temporary file: errno {}", errno());
    }
    let step = filled.pages / 64;
    let pieces: Vec<libc::iovec> = (0..64)
        .map(|piece| libc::iovec { iov_base: filled.page(piece * step) as *mut libc::c_void, iov_len: 4096 })
        .collect();
    // SAFETY:
    // 1. Each piece is one mapped page of ours.
    let written = unsafe { libc::pwritev(file, pieces.as_ptr(), 64, 0) };
    if written != 64 * 4096 {
        fail!("pwritev from cold pages gave {written}, errno {}", errno());
    }
    for piece in 0..64 {
        let mut copy: Page = [0; 4096];
        // SAFETY:
        // 1. `copy` is a local page.
        let read = unsafe { libc::pread(file, copy.as_mut_ptr().cast(), 4096, (piece * 4096) as i64) };
        if read != 4096 {
            fail!("pread gave {read}");
        }
        filled.compare("what pwritev wrote", piece * step, &copy);
    }
    // Into other pages: they then hold the content of the pieces, and are written anew.
    let targets: Vec<libc::iovec> = (0..64)
        .map(|piece| libc::iovec {
            iov_base: filled.page(piece * step + 1) as *mut libc::c_void,
            iov_len: 4096,
        })
        .collect();
    filled.verify_steps("to make the targets cold", 3);
    // SAFETY:
    // 1. Each target is one mapped page of ours to which no reference exists.
    let read = unsafe { libc::preadv(file, targets.as_ptr(), 64, 0) };
    if read != 64 * 4096 {
        fail!("preadv into cold pages gave {read}, errno {}", errno());
    }
    for piece in 0..64 {
        let mut copy: Page = [0; 4096];
        memory::copy_page_out(filled.page(piece * step + 1), &mut copy);
        filled.compare("what preadv read", piece * step, &copy);
        memory::copy_page_in(filled.page(piece * step + 1), &filled.content(piece * step + 1));
    }
    // SAFETY:
    // 1. The descriptor is ours.
    unsafe { libc::close(file) };
}

fn socket_messages(filled: &Filled) {
    let mut ends = [0; 2];
    // SAFETY:
    // 1. `ends` has room for two descriptors.
    must(unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, ends.as_mut_ptr()) }, "socketpair");
    for index in (0..filled.pages).step_by(filled.pages / 50 + 1) {
        let mut copy: Page = [0; 4096];
        // SAFETY:
        // 1. The page is mapped and ours; `copy` is a local page; 4096 bytes fit into the socket's buffer.
        let (sent, received) = unsafe {
            (
                libc::send(ends[0], filled.page(index) as *const libc::c_void, 4096, 0),
                libc::recv(ends[1], copy.as_mut_ptr().cast(), 4096, libc::MSG_WAITALL),
            )
        };
        if sent != 4096 || received != 4096 {
            fail!("send of a cold page gave {sent}, recv {received}");
        }
        filled.compare("what was sent", index, &copy);
    }
    // SAFETY:
    // 1. The descriptors are ours.
    unsafe {
        libc::close(ends[0]);
        libc::close(ends[1]);
    }
}

/// fork and execve with path, arguments and environment in cold memory; the output is read back.
fn exec_cold(path: usize, vector: usize, environment: usize, filled: &Filled) {
    let mut pipe = [0; 2];
    // SAFETY:
    // 1. `pipe` has room for two descriptors.
    must(unsafe { libc::pipe(pipe.as_mut_ptr()) }, "pipe");
    filled.verify_steps("to make the arguments cold", 2);
    let pid = crate::support::in_child(|| {
        // SAFETY:
        // 1. The path ends in NUL; the vectors end in null and point to text that ends in NUL.
        unsafe {
            libc::dup2(pipe[1], 1);
            libc::execve(path as *const libc::c_char, vector as *const _, environment as *const _);
        }
        fail!("execve with arguments in cold memory: errno {}", errno());
    });
    crate::support::wait_good(pid, "echo");
    let mut said = [0u8; 100];
    // SAFETY:
    // 1. `said` is a local buffer and the pipe's other end has written.
    let length = unsafe { libc::read(pipe[0], said.as_mut_ptr().cast(), said.len()) };
    if length < 0 || &said[..length as usize] != b"from cold memory\n" {
        fail!("echo said {:?}", &said[..length.max(0) as usize]);
    }
}
