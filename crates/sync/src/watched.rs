//! The real atomics, each access noted in [`trace`].
//!
//! They have the layout of the real ones, so that words that share a cache line in the normal build share it here.

use core::sync::atomic::{self, Ordering};

use crate::trace::{self, Event, LINE_BYTES};

/// The methods that read and write in one step, as those of the real atomic.
macro_rules! exchanges {
    ($int:ty: $($method:ident: $does:literal),*) => {
        $(
            #[doc = $does]
            /// Returns the value before.
            #[inline]
            pub fn $method(&self, value: $int, order: Ordering) -> $int {
                trace::note(Event::Exchange(self.line()));
                self.0.$method(value, order)
            }
        )*
    };
}

macro_rules! watched {
    ($name:ident, $int:ty) => {
        /// As the real atomic of this name.
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name(atomic::$name);

        const _: () = assert!(size_of::<$name>() == size_of::<$int>());

        impl $name {
            /// An atomic that holds `value`.
            #[must_use]
            pub const fn new(value: $int) -> Self {
                $name(atomic::$name::new(value))
            }

            fn line(&self) -> usize {
                core::ptr::from_ref(self) as usize / LINE_BYTES
            }

            /// The value.
            #[inline]
            pub fn load(&self, order: Ordering) -> $int {
                trace::note(Event::Read(self.line()));
                self.0.load(order)
            }

            /// Sets the value.
            #[inline]
            pub fn store(&self, value: $int, order: Ordering) {
                trace::note(Event::Write(self.line()));
                self.0.store(value, order);
            }

            exchanges! { $int:
                swap: "Sets the value.",
                fetch_add: "Adds, and wraps around.",
                fetch_sub: "Subtracts, and wraps around.",
                fetch_and: "Bitwise and.",
                fetch_or: "Bitwise or.",
                fetch_xor: "Bitwise exclusive or.",
                fetch_max: "Sets the greater of the two.",
                fetch_min: "Sets the smaller of the two."
            }

            /// Sets `new` if the value is `current`.
            ///
            /// # Errors
            /// The value is another; it is returned.
            #[inline]
            pub fn compare_exchange(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                trace::note(Event::Exchange(self.line()));
                self.0.compare_exchange(current, new, success, failure)
            }

            /// As [`compare_exchange`](Self::compare_exchange): it does not fail for nothing, so that a run repeats on
            /// every machine.
            ///
            /// # Errors
            /// The value is another; it is returned.
            #[inline]
            pub fn compare_exchange_weak(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                self.compare_exchange(current, new, success, failure)
            }

            /// Sets what `change` makes of the value, if it makes something. Returns the value before.
            ///
            /// # Errors
            /// `change` made nothing of the value; the value is returned.
            #[inline]
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                mut change: impl FnMut($int) -> Option<$int>,
            ) -> Result<$int, $int> {
                let mut before = self.load(fetch);
                while let Some(new) = change(before) {
                    match self.compare_exchange(before, new, set, fetch) {
                        Ok(_) => return Ok(before),
                        Err(seen) => before = seen,
                    }
                }
                Err(before)
            }

            /// The value, to whom has it alone. Costs what plain memory costs, so it is not noted.
            #[inline]
            pub fn get_mut(&mut self) -> &mut $int {
                self.0.get_mut()
            }

            /// The value. Not noted, as [`get_mut`](Self::get_mut).
            #[inline]
            #[must_use]
            pub fn into_inner(self) -> $int {
                self.0.into_inner()
            }
        }

        impl From<$int> for $name {
            fn from(value: $int) -> Self {
                Self::new(value)
            }
        }
    };
}

watched!(AtomicU32, u32);
watched!(AtomicU64, u64);
