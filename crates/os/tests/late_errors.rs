//! A disk that fails behind the page cache: the write says so.

use std::ffi::CString;
use std::path::PathBuf;
use std::process::Command;

use uswap_os::fd::Fd;
use uswap_os::file::{Caching, IoCause, SwapFile, WriteSlice};
use uswap_os::ring::{Operation, Ring};
use uswap_os::sys::abi;

const DISK_BYTES: u64 = 64 << 20;
const WRITTEN_BYTES: usize = 16 << 20;

/// A loop device whose file has less room than it is long. It is gone when this is dropped.
struct SmallDisk {
    directory: PathBuf,
    device: Option<String>,
}

/// What a command has printed, if it succeeded.
fn said(program: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(program).args(words).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

impl SmallDisk {
    /// With room for so many bytes. None: this user may not make one here.
    fn new(room_bytes: u64) -> Option<SmallDisk> {
        let directory =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("small-{}", std::process::id()));
        std::fs::create_dir(&directory).expect("the directory of the tests is writable");
        let mut disk = SmallDisk { directory, device: None };
        let (mounted, size) = (disk.directory.to_string_lossy().into_owned(), format!("size={room_bytes}"));
        said("mount", &["-t", "tmpfs", "-o", &size, "none", &mounted])?;
        let file = disk.directory.join("file");
        std::fs::File::create(&file).and_then(|file| file.set_len(DISK_BYTES)).expect("it has no blocks yet");
        disk.device = Some(said("losetup", &["--find", "--show", &file.to_string_lossy()])?);
        Some(disk)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if let Some(device) = &self.device {
            said("losetup", &["--detach", device]);
        }
        said("umount", &[&self.directory.to_string_lossy()]);
        let _may_be_busy = std::fs::remove_dir(&self.directory);
    }
}

#[test]
fn a_write_that_fails_behind_the_page_cache_is_an_error() {
    let Some(disk) = SmallDisk::new(4 << 20) else {
        println!("SKIP: no loop device may be made here (1 skipped by this test binary)");
        return;
    };
    let device = disk.device.as_deref().expect("it was made");
    let bytes: Vec<u8> = (0..WRITTEN_BYTES).map(|index| (index >> 3) as u8 | 1).collect();
    for with_ring in [false, true] {
        let fd = Fd::open(&CString::new(device).unwrap(), abi::O_RDWR, 0).unwrap();
        let file = SwapFile::from_fd(fd, Caching::Buffered);
        let mut ring = if with_ring { Ring::new(8).ok() } else { None };
        file.write_batch(ring.as_mut(), &[WriteSlice { offset: 0, bytes: &bytes[..1 << 20] }])
            .expect("there is room for it");
        let error = file.write_batch(ring.as_mut(), &[WriteSlice { offset: 0, bytes: &bytes }]).unwrap_err();
        assert!(matches!((error.operation, error.cause), (Operation::Write, IoCause::Errno(_))), "{error:?}");
    }
}
