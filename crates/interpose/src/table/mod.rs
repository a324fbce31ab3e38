//! What each system call of x86-64 does with the memory of the program: one row a number.
//!
//! Must hold: every number up to [`NUMBER_MAX`] that Linux has is a row, and a row names every byte that the kernel
//! may touch during the call, or more. Taken from the manual pages and from the headers for programs. No
//! allocation. The boundary asks [`row`](fn@row) and then [`for_each_range`]; it knows nothing of who keeps which page.
//!
//! Called by [`crate::buffers`] and `host`, and by `fuzz`.

mod events;
mod files;
mod files_nested;
mod ioctl;
mod ipc;
mod memory;
mod number_set;
mod processes;
mod ranges;
mod row;
mod signals;
mod sockets;
mod system;
mod system_nested;
mod transfers;
mod walk;

#[cfg(all(test, not(loom)))]
mod tests;

pub use number_set::NumberSet;
pub use ranges::{Walked, for_each_range};
pub use row::{AfterFault, Buffer, Kind, Length, Nested, PATH_BYTES_MAX, Parts, Row, sized};
pub use walk::{ADDRESS_END, Access, BufferRange, Memory, Stop, Unreadable, VECTORS_MAX, Walk};

/// Highest number that this table knows: `file_setattr` of Linux 6.17.
pub const NUMBER_MAX: usize = 469;

const GROUPS: [&[Row]; 10] = [
    transfers::ROWS,
    files::ROWS,
    memory::ROWS,
    sockets::ROWS,
    processes::ROWS,
    signals::ROWS,
    events::ROWS,
    ipc::ROWS,
    system::ROWS,
    ioctl::ROWS,
];

/// What is known of a number; nothing of one that Linux did not have when this table was written.
#[must_use]
#[inline]
pub fn row(number: usize) -> Option<&'static Row> {
    let place = usize::from(*PLACES.get(number)?);
    ALL.get(place)
}

/// Every row, group by group.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    ALL.iter()
}

const COUNT: usize = {
    let (mut count, mut group) = (0, 0);
    while group < GROUPS.len() {
        count += GROUPS[group].len();
        group += 1;
    }
    count
};

static ALL: [Row; COUNT] = {
    let mut all = [GROUPS[0][0]; COUNT];
    let (mut at, mut group) = (0, 0);
    while group < GROUPS.len() {
        let mut index = 0;
        while index < GROUPS[group].len() {
            all[at] = GROUPS[group][index];
            at += 1;
            index += 1;
        }
        group += 1;
    }
    all
};

/// A number that has no row.
const NOWHERE: u16 = u16::MAX;

/// Where the row of each number is. Two rows of one number do not build.
static PLACES: [u16; NUMBER_MAX + 1] = {
    let mut places = [NOWHERE; NUMBER_MAX + 1];
    let mut at = 0;
    while at < COUNT {
        let number = ALL[at].number() as usize;
        assert!(places[number] == NOWHERE, "a number has one row");
        places[number] = at as u16;
        at += 1;
    }
    places
};
