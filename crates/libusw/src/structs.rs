//! The structs that callers hand over, which may grow from version to version: their first member is their size.
//!
//! Must hold: a struct of the caller is never read or written beyond its size; what a newer one has is refused unless
//! it is zero; and they lie in memory as usw.h says (`header_tests`).

use std::ffi::{CStr, OsStr, c_char};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;

use uswap::{Limit, Pool, PoolBuilder, Stats};

use crate::failure::Failure;

/// `usw_opts` of usw.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Opts {
    /// Of the caller's struct, in bytes.
    pub size: usize,
    /// In bytes; 0: none is asked for.
    pub ram: u64,
    /// NULL, or a string.
    pub dir: *const c_char,
    /// NULL, or a string.
    pub command: *const c_char,
    /// NULL, or strings and a NULL.
    pub options: *const *const c_char,
}

/// `usw_stats` of usw.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StatsStruct {
    /// Of the caller's struct, in bytes.
    pub size: usize,
    /// See [`Stats`], as all that follow.
    pub ram_bytes: u64,
    /// See above.
    pub used_bytes: u64,
    /// See above.
    pub resident_bytes: u64,
    /// See above.
    pub pool_bytes: u64,
    /// See above.
    pub pool_bytes_max: u64,
    /// See above.
    pub swap_file_bytes: u64,
}

/// Sizes of the first versions: smaller structs have never been.
const OPTS_BYTES_MIN: usize = 40;
const STATS_BYTES_MIN: usize = 56;
/// Larger ones are a mistake, as of `openat2`.
const BYTES_MAX: usize = 4096;

const _: () = assert!(size_of::<Opts>() >= OPTS_BYTES_MIN);
const _: () = assert!(size_of::<StatsStruct>() >= STATS_BYTES_MIN);

/// The size that a struct of the caller says it has.
///
/// # Safety
/// `given` is NULL, or points to a `size_t`.
unsafe fn size_of_given(given: *const usize, min: usize) -> Result<usize, Failure> {
    // SAFETY:
    // 1. The caller's promise.
    let size = unsafe { given.as_ref() }.ok_or(Failure::Argument("the struct is NULL"))?;
    match *size {
        size if size < min => {
            Err(Failure::Argument("the first member of the struct is not its size: set it to its sizeof"))
        }
        size if size > BYTES_MAX => Err(Failure::Newer),
        size => Ok(size),
    }
}

impl Opts {
    /// A copy of what the caller gives.
    ///
    /// # Safety
    /// `given` is NULL, or points to a struct that is as large as its first member says.
    pub unsafe fn read(given: *const Opts) -> Result<Opts, Failure> {
        // SAFETY:
        // 1. The size is the first member; the caller's promise.
        let size = unsafe { size_of_given(given.cast(), OPTS_BYTES_MIN) }?;
        let known = size.min(size_of::<Opts>());
        // SAFETY:
        // 1. So many bytes are there, and are initialised: the caller's promise.
        let bytes = unsafe { std::slice::from_raw_parts(given.cast::<u8>(), size) };
        if bytes[known..].iter().any(|byte| *byte != 0) {
            return Err(Failure::Newer);
        }
        let mut opts = MaybeUninit::<Opts>::zeroed();
        // SAFETY:
        // 1. `known` is not more than either has, and they are not the same.
        // 2. Zeros and any bytes are numbers and raw pointers.
        unsafe {
            std::ptr::copy_nonoverlapping(given.cast::<u8>(), opts.as_mut_ptr().cast::<u8>(), known);
            Ok(opts.assume_init())
        }
    }

    /// As a pool takes it.
    ///
    /// # Safety
    /// The members are as usw.h says.
    pub unsafe fn pool(&self) -> Result<PoolBuilder, Failure> {
        let builder = Pool::builder();
        let builder = if self.ram == 0 { builder } else { builder.ram(self.ram) };
        // SAFETY:
        // 1. The caller's promise.
        unsafe { self.tell(builder) }
    }

    /// As a budget takes it.
    ///
    /// # Safety
    /// The members are as usw.h says.
    pub unsafe fn limit(&self) -> Result<Limit, Failure> {
        if self.ram == 0 {
            return Err(Failure::Argument("no RAM is named: set the member `ram` to a number of bytes"));
        }
        // SAFETY:
        // 1. The caller's promise.
        unsafe { self.tell(Limit::new(self.ram.to_string())) }
    }

    /// Tells all but the RAM.
    ///
    /// # Safety
    /// The members are as usw.h says.
    unsafe fn tell<T: Takes>(&self, mut to: T) -> Result<T, Failure> {
        // SAFETY:
        // 1. They are NULL or strings: the caller's promise.
        let (dir, command) = unsafe { (text(self.dir), text(self.command)) };
        if let Some(dir) = dir {
            to = to.option("--swap", dir);
        }
        if let Some(command) = command {
            to = to.command(command);
        }
        let mut next = self.options;
        // SAFETY:
        // 1. It is NULL, or points into an array that is ended by a NULL, behind which nobody goes.
        // 2. What is in the array are strings.
        while let Some(word) = unsafe { next.as_ref().and_then(|word| text(*word)) } {
            to = tell_word(to, word.as_bytes())?;
            // SAFETY:
            // 1. This one is not the NULL at the end.
            next = unsafe { next.add(1) };
        }
        Ok(to)
    }
}

/// A word such as `--pool=30%` or `--allow-tmpfs`.
fn tell_word<T: Takes>(to: T, word: &[u8]) -> Result<T, Failure> {
    let wrong = Failure::Argument("a word of `options` is not like --name=value or --name");
    let equals = word.iter().position(|byte| *byte == b'=');
    let (name, value) = word.split_at(equals.unwrap_or(word.len()));
    match std::str::from_utf8(name) {
        Ok(name) if name.len() > 2 && name.starts_with("--") => Ok(match value {
            [] => to.flag(name),
            [_, value @ ..] => to.option(name, OsStr::from_bytes(value)),
        }),
        _ => Err(wrong),
    }
}

/// A string of the caller. None: NULL.
///
/// # Safety
/// It is NULL, or a string that ends with a zero byte, and is not changed as long as the answer is used.
unsafe fn text<'a>(given: *const c_char) -> Option<&'a OsStr> {
    // SAFETY:
    // 1. The caller's promise.
    (!given.is_null()).then(|| OsStr::from_bytes(unsafe { CStr::from_ptr(given) }.to_bytes()))
}

/// What options are told to.
trait Takes: Sized {
    fn option(self, name: &str, value: &OsStr) -> Self;
    fn flag(self, name: &str) -> Self;
    fn command(self, path: &OsStr) -> Self;
}

impl Takes for Limit {
    fn option(self, name: &str, value: &OsStr) -> Limit {
        Limit::option(self, name, value)
    }
    fn flag(self, name: &str) -> Limit {
        Limit::flag(self, name)
    }
    fn command(self, path: &OsStr) -> Limit {
        Limit::command(self, path)
    }
}

impl Takes for PoolBuilder {
    fn option(self, name: &str, value: &OsStr) -> PoolBuilder {
        PoolBuilder::option(self, name, value)
    }
    fn flag(self, name: &str) -> PoolBuilder {
        PoolBuilder::flag(self, name)
    }
    fn command(self, path: &OsStr) -> PoolBuilder {
        PoolBuilder::command(self, path)
    }
}

impl StatsStruct {
    /// Asks, and writes what is known into the caller's struct, and zeros behind it.
    ///
    /// # Safety
    /// `given` is NULL, or points to a struct that is as large as its first member says.
    pub unsafe fn fill(
        given: *mut StatsStruct,
        ask: impl FnOnce() -> Result<Stats, uswap::Error>,
    ) -> Result<(), Failure> {
        // SAFETY:
        // 1. The size is the first member; the caller's promise.
        let size = unsafe { size_of_given(given.cast(), STATS_BYTES_MIN) }?;
        let stats = ask()?;
        let stats = StatsStruct {
            size,
            ram_bytes: stats.ram_bytes,
            used_bytes: stats.used_bytes,
            resident_bytes: stats.resident_bytes,
            pool_bytes: stats.pool_bytes,
            pool_bytes_max: stats.pool_bytes_max,
            swap_file_bytes: stats.swap_file_bytes,
        };
        let known = size.min(size_of::<StatsStruct>());
        // SAFETY:
        // 1. The caller's struct has `size` bytes, and `known` is not more than either has.
        // 2. There are no gaps between the members: all are 8 bytes.
        unsafe {
            std::ptr::copy_nonoverlapping((&raw const stats).cast::<u8>(), given.cast::<u8>(), known);
            given.cast::<u8>().add(known).write_bytes(0, size - known);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a later version.
    #[repr(C)]
    struct Larger<T> {
        known: T,
        more: u64,
    }

    const NONE: Opts = Opts {
        size: size_of::<Opts>(),
        ram: 0,
        dir: std::ptr::null(),
        command: std::ptr::null(),
        options: std::ptr::null(),
    };

    fn errno_of<T>(result: Result<T, Failure>) -> i32 {
        result.err().map_or(0, |failure| failure.errno())
    }

    #[test]
    fn what_a_newer_struct_asks_for_is_refused_and_zeros_are_not() {
        for (more, errno) in [(0, 0), (1, libc::E2BIG), (1 << 63, libc::E2BIG)] {
            let known = Opts { size: size_of::<Larger<Opts>>(), ..NONE };
            let larger = Larger { known, more };
            // SAFETY:
            // 1. It is as large as it says.
            let read = unsafe { Opts::read((&raw const larger).cast()) };
            assert_eq!(errno_of(read), errno, "{more}");
        }
    }

    #[test]
    fn a_size_that_no_version_has_is_refused() {
        for (size, errno) in [(0, libc::EINVAL), (39, libc::EINVAL), (40, 0), (4097, libc::E2BIG)] {
            let opts = Opts { size, ..NONE };
            // SAFETY:
            // 1. It is as large as it says, or refused before it is read.
            assert_eq!(errno_of(unsafe { Opts::read(&opts) }), errno, "{size}");
        }
        // SAFETY:
        // 1. It is NULL.
        assert_eq!(errno_of(unsafe { Opts::read(std::ptr::null()) }), libc::EINVAL);
    }

    #[test]
    fn all_that_is_said_is_told() {
        let words =
            [c"--pool=30%".as_ptr(), c"--allow-tmpfs".as_ptr(), c"--swap=/a=b".as_ptr(), std::ptr::null()];
        let (dir, command) = (c"/scratch:2G".as_ptr(), c"/bin/uswap".as_ptr());
        let opts = Opts { ram: 1 << 30, dir, command, options: words.as_ptr(), ..NONE };
        // SAFETY:
        // 1. All are strings; the array ends with a NULL.
        let (pool, limit) = unsafe { (opts.pool(), opts.limit()) };
        let by_hand = Pool::builder().ram(1 << 30).dir("/scratch:2G").command("/bin/uswap");
        let by_hand = by_hand.option("--pool", "30%").flag("--allow-tmpfs").option("--swap", "/a=b");
        assert_eq!(pool.expect("it is right"), by_hand);
        let by_hand = Limit::new("1073741824").swap("/scratch:2G").command("/bin/uswap").pool("30%");
        assert_eq!(limit.expect("it is right"), by_hand.flag("--allow-tmpfs").swap("/a=b"));
        // SAFETY:
        // 1. All is NULL.
        let (pool, limit) = unsafe { (NONE.pool(), NONE.limit()) };
        assert_eq!(pool.expect("it shares a budget"), Pool::builder());
        assert_eq!(errno_of(limit), libc::EINVAL);
    }

    #[test]
    fn words_that_are_no_options_are_refused() {
        for word in [c"", c"pool=30%", c"--", c"--=1", c"-v", c"=", c"--\xff=1"] {
            let words = [word.as_ptr(), std::ptr::null()];
            let opts = Opts { ram: 1 << 30, options: words.as_ptr(), ..NONE };
            // SAFETY:
            // 1. It is a string; the array ends with a NULL.
            assert_eq!(errno_of(unsafe { opts.limit() }), libc::EINVAL, "{word:?}");
        }
    }

    #[test]
    fn stats_are_written_as_far_as_the_struct_goes() {
        let json = r#"{"ram_bytes": 1, "used_bytes": 2, "resident_bytes": 3, "pool_bytes": 4, "pool_bytes_max": 5,
            "swap_file_bytes": 6, "counters": {}}"#;
        let ask = || Ok(serde_json::from_str::<Stats>(json).expect("these are its members"));
        let empty = StatsStruct {
            size: size_of::<Larger<StatsStruct>>(),
            ram_bytes: 0,
            used_bytes: 0,
            resident_bytes: 0,
            pool_bytes: 0,
            pool_bytes_max: 0,
            swap_file_bytes: 0,
        };
        let mut larger = Larger { known: empty, more: 77 };
        // SAFETY:
        // 1. It is as large as it says.
        let filled = unsafe { StatsStruct::fill((&raw mut larger).cast(), ask) };
        assert_eq!(errno_of(filled), 0);
        let StatsStruct { size, ram_bytes, used_bytes, resident_bytes, pool_bytes, .. } = larger.known;
        assert_eq!((size, ram_bytes, used_bytes, resident_bytes, pool_bytes), (64, 1, 2, 3, 4));
        assert_eq!((larger.known.pool_bytes_max, larger.known.swap_file_bytes, larger.more), (5, 6, 0));
        larger = Larger { known: StatsStruct { size: size_of::<StatsStruct>(), ..empty }, more: 77 };
        // SAFETY:
        // 1. It is larger than it says.
        let filled = unsafe { StatsStruct::fill((&raw mut larger).cast(), ask) };
        assert_eq!((errno_of(filled), larger.known.swap_file_bytes, larger.more), (0, 6, 77));
        larger.known.size = 48;
        // SAFETY:
        // 1. It is larger than it says.
        assert_eq!(errno_of(unsafe { StatsStruct::fill((&raw mut larger).cast(), ask) }), libc::EINVAL);
    }
}
