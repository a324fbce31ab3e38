//! One row of the table: what the kernel does with the memory that the arguments of one call name.
//!
//! A row is a constant, put together by `const fn`s that read as a sentence, so that a call is one line. It says
//! what is true of each call of this number; what depends on the command or on a structure is said by the row's
//! nested function. Rows err on the side of too much: a range that the kernel then does not touch costs a look.
//!
//! Must hold: what a row says is true of each call of its number, or errs on the side of more. Called by
//! [`crate::table`] and its files of rows, by [`crate::buffers`], which goes by them, and by `host` and `fuzz`.

use super::walk::{Access, Stop, Walk};

/// What kind of call it is: what the interposer has to think of beside its buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Names no memory.
    None,
    /// Reads or writes memory that its arguments name.
    Buffers,
    /// As `Buffers`, and takes something out of the kernel that cannot be put back: a datagram, a child's status.
    Consuming,
    /// Changes the address space.
    Mapping,
    /// Makes, replaces or ends threads and processes.
    Process,
    /// Changes how signals are delivered.
    Signal,
    /// The kernel may use the memory after the call has returned.
    Asynchronous,
    /// Not known, or nothing that a managed process can make: counted and named.
    Unsupported,
}

/// What an answer of EFAULT leaves behind, if all that was wrong was a page that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterFault {
    /// Nothing has happened: the call may be repeated.
    Intact,
    /// What the call was to bring is gone.
    Consumed,
    /// The call has done its work; only its answer is missing, and a second one would answer differently.
    Applied,
    /// `Intact` for regular files, pipes and streams, `Consumed` for whatever else can be read.
    ByFile,
    /// As `ByFile` if the pointer in this argument is null, else `Consumed`.
    ByFileUnless(u8),
}

/// May a call whose range is large beside the budget be made in parts, as if it were one?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parts {
    /// Never.
    Whole,
    /// The bytes at `address`, so many as argument `bytes` says. `position`: the argument that holds a file position,
    /// which moves from part to part.
    Bytes {
        /// The argument that points to the bytes.
        address: u8,
        /// The argument that counts them.
        bytes: u8,
        /// The argument with the position, if the call has one.
        position: Option<u8>,
    },
    /// `count` structures `iovec` at `address`.
    Vectors {
        /// The argument that points to the structures.
        address: u8,
        /// The argument that counts them.
        count: u8,
        /// The argument with the position, if the call has one.
        position: Option<u8>,
    },
    /// The structures `iovec` of the `msghdr` at this argument.
    Message(u8),
}

/// How long a range is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// So many bytes.
    Bytes(u32),
    /// So many bytes as this argument says.
    Arg(u8),
    /// As `Arg`, where the kernel looks at 32 bits only: the upper half of the register may hold anything.
    Arg32(u8),
    /// As many elements as the lower 32 bits of the argument say, each of so many bytes.
    Elements(u8, u32),
    /// As many elements as the argument says, each of so many bytes.
    Elements64(u8, u32),
    /// As many bits as the argument says, in whole words.
    Bits(u8),
    /// A string with a zero at its end, of at most so many bytes.
    Text(u32),
    /// So many bytes as the 32 bits say to which this argument points.
    At(u8),
}

/// The length of one structure.
#[must_use]
pub const fn sized<T>() -> Length {
    Length::Bytes(size_of::<T>() as u32)
}

/// A pointer argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// Which argument it is.
    pub argument: u8,
    /// How long what it points to is.
    pub length: Length,
    /// What the kernel does there.
    pub access: Access,
}

/// Most pointer arguments of one call that are not nested: `mount` and `io_submit` stay below.
pub const BUFFERS_MAX: usize = 5;

/// A structure that points further: reports what it names.
pub type Nested = fn(&mut Walk<'_>) -> Result<(), Stop>;

/// What is known of one number.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    number: u32,
    symbol: &'static str,
    kind: Kind,
    after_fault: AfterFault,
    is_short: bool,
    parts: Parts,
    buffer_count: u8,
    buffers: [Buffer; BUFFERS_MAX],
    nested: Option<Nested>,
}

impl Row {
    pub(super) const fn new(number: u32, symbol: &'static str) -> Row {
        let none = Buffer { argument: 0, length: Length::Bytes(0), access: Access::Read };
        Row {
            number,
            symbol,
            kind: Kind::None,
            after_fault: AfterFault::Intact,
            is_short: false,
            parts: Parts::Whole,
            buffer_count: 0,
            buffers: [none; BUFFERS_MAX],
            nested: None,
        }
    }

    /// The number of the call.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Its name as in the manual pages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.symbol.strip_prefix("__NR_").unwrap_or(self.symbol)
    }

    /// What kind of call it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// What EFAULT leaves behind.
    #[must_use]
    pub const fn after_fault(&self) -> AfterFault {
        self.after_fault
    }

    /// A page that is missing can make the answer short instead of EFAULT: nobody could repeat it.
    #[must_use]
    pub const fn is_short(&self) -> bool {
        self.is_short
    }

    /// May it be made in parts?
    #[must_use]
    pub const fn parts(&self) -> Parts {
        self.parts
    }

    /// The pointer arguments that need no look at memory.
    #[must_use]
    #[inline]
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers[..usize::from(self.buffer_count)]
    }

    /// What reports the ranges that structures or commands decide.
    #[must_use]
    pub const fn nested(&self) -> Option<Nested> {
        self.nested
    }

    const fn buffer(mut self, argument: u8, length: Length, access: Access) -> Row {
        self.buffers[self.buffer_count as usize] = Buffer { argument, length, access };
        self.buffer_count += 1;
        if matches!(self.kind, Kind::None) {
            self.kind = Kind::Buffers;
        }
        self
    }

    pub(super) const fn reads(self, argument: u8, length: Length) -> Row {
        self.buffer(argument, length, Access::Read)
    }

    pub(super) const fn writes(self, argument: u8, length: Length) -> Row {
        self.buffer(argument, length, Access::Write)
    }

    pub(super) const fn updates(self, argument: u8, length: Length) -> Row {
        self.buffer(argument, length, Access::ReadWrite)
    }

    /// A name of at most so many bytes, with its zero.
    pub(super) const fn text(self, argument: u8, bytes_max: u32) -> Row {
        self.buffer(argument, Length::Text(bytes_max), Access::Read)
    }

    /// A path, or another string of the file system.
    pub(super) const fn path(self, argument: u8) -> Row {
        self.buffer(argument, Length::Text(PATH_BYTES_MAX), Access::Read)
    }

    pub(super) const fn walks(mut self, nested: Nested) -> Row {
        self.nested = Some(nested);
        if matches!(self.kind, Kind::None) {
            self.kind = Kind::Buffers;
        }
        self
    }

    pub(super) const fn is(mut self, kind: Kind) -> Row {
        self.kind = kind;
        self
    }

    /// What it was to bring is gone after EFAULT.
    pub(super) const fn consumes(mut self) -> Row {
        self.kind = Kind::Consuming;
        self.after_fault = AfterFault::Consumed;
        self
    }

    /// It has done its work when it answers EFAULT.
    pub(super) const fn applied(mut self) -> Row {
        self.after_fault = AfterFault::Applied;
        self
    }

    pub(super) const fn after(mut self, after_fault: AfterFault) -> Row {
        self.after_fault = after_fault;
        self
    }

    pub(super) const fn short(mut self) -> Row {
        self.is_short = true;
        self
    }

    pub(super) const fn in_parts(mut self, parts: Parts) -> Row {
        self.parts = parts;
        self
    }
}

/// Longest path, with its zero.
pub const PATH_BYTES_MAX: u32 = 4096;

/// A group of the table: each line one call, each call one row.
macro_rules! rows {
    ($($number:ident $(. $method:ident ( $($argument:expr),* ))* ;)*) => {
        &[$(Row::new($number, stringify!($number))$(.$method($($argument),*))*),*]
    };
}
pub(super) use rows;
