//! The kernel: groups, devices, settings, and what must be undone.
//!
//! | module | for |
//! |---|---|
//! | [`undo`] | the list of changes that are taken back, in reverse order, however the bench ends |
//! | [`signals`] | the same after a signal or a panic |
//! | [`program`] | a started program, ended with its whole process group |
//! | [`group`] | a memory cgroup for one run |
//! | [`family`] | what stands for it where none can be made |
//! | [`settings`] | values in /proc/sys and /sys |
//! | [`swap`] | swap files and devices |
//! | [`zram`], [`zswap`] | a zram device, the pool of zswap |
//! | [`repeater`] | a thread that does one thing again and again |
//! | [`tool`], [`reread`] | commands and small files |

pub mod family;
pub mod group;
pub mod program;
pub mod repeater;
pub mod reread;
pub mod settings;
pub mod signals;
pub mod swap;
pub mod tool;
pub mod undo;
pub mod zram;
pub mod zswap;
