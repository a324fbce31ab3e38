//! Runs of 16 slots on a device that is nearly full: what an allocation takes, and how often none is found.
//!
//! As memory of a parallel build with 64 KiB folios does it: most memory leaves in runs of 16 and comes back as a whole when a
//! process ends; some is read back page by page, some pages leave alone, and one slot in ten stays for ever, wherever it was
//! when the device was full for the first time.

use std::sync::atomic::{AtomicU64, Ordering};

use uswap_units::Prng;

use super::{OURS, Row, Scene, Size};
use crate::swap_space::clock::{self, Length, Operation, measure, unnoted};
use crate::swap_space::fragments::{Fragments, Prefer, Rules, Walk};
use crate::swap_space::ours::Ours;
use crate::swap_space::slots::{Slots, lock_kinds};
use crate::swap_space::virtual_time::Step;

const ORDER: u32 = 4;
const RUN: u32 = 1 << ORDER;
/// One slot in so many is never given back.
const FOR_EVER: u64 = 10;
/// Of so many folios one leaves page by page, and of so many that come back one comes page by page.
const ALONE: u64 = 16;

/// Who is compared.
const WHO: [&str; 4] = ["fragments, all", "fragments, one", "fragments, 6.18", OURS];

fn allocator(who: &str, clusters: u32) -> Box<dyn Slots> {
    let fragments = |walk, prefer| Box::new(Fragments::new(clusters, Rules { walk, prefer }));
    match who {
        "fragments, all" => fragments(Walk::All, Prefer::Free),
        "fragments, one" => fragments(Walk::One, Prefer::Free),
        "fragments, 6.18" => fragments(Walk::One, Prefer::Nonfull),
        _ => Box::new(Ours::new(clusters)),
    }
}

/// Slots that a CPU has.
#[derive(Clone, Copy)]
enum Piece {
    Run(u32),
    Page(u32),
}

/// A CPU with what it has swapped.
struct Cpu<'a> {
    slots: &'a dyn Slots,
    cpu: u16,
    prng: Prng,
    own: Vec<Piece>,
    used: u64,
    used_max: u64,
}

/// Large runs that were wanted, and those that were not found.
#[derive(Default)]
struct Counts {
    wanted: AtomicU64,
    missed: AtomicU64,
}

impl Cpu<'_> {
    fn make_room(&mut self) {
        while self.used + u64::from(RUN) > self.used_max && !self.own.is_empty() {
            let at = self.prng.below(self.own.len() as u64) as usize;
            match self.own.swap_remove(at) {
                Piece::Page(slot) => self.free(slot, 1),
                Piece::Run(first) if self.prng.chance(1, ALONE) => {
                    let read_back = first + self.prng.below(u64::from(RUN)) as u32;
                    self.free(read_back, 1);
                    let left = (first..first + RUN).filter(|&slot| slot != read_back);
                    self.own.extend(left.map(Piece::Page));
                }
                Piece::Run(first) => self.free(first, RUN),
            }
        }
    }

    fn free(&mut self, first: u32, count: u32) {
        self.slots.free(self.cpu, first, count);
        self.used -= u64::from(count);
    }

    fn swap_folio(&mut self, counts: &Counts) {
        self.make_room();
        if self.prng.chance(1, ALONE) {
            self.swap_pages();
            return;
        }
        counts.wanted.fetch_add(1, Ordering::Relaxed);
        match self.slots.allocate(self.cpu, ORDER) {
            Some(first) => {
                self.own.push(Piece::Run(first));
                self.used += u64::from(RUN);
            }
            None => {
                counts.missed.fetch_add(1, Ordering::Relaxed);
                self.swap_pages();
            }
        }
    }

    fn swap_pages(&mut self) {
        let (slots, cpu) = (self.slots, self.cpu);
        let pages = (0..RUN).map_while(|_| slots.allocate(cpu, 0)).map(Piece::Page);
        let before = self.own.len();
        self.own.extend(pages);
        self.used += (self.own.len() - before) as u64;
    }
}

/// What a device is like before measuring starts.
#[derive(Clone, Copy)]
struct Device {
    clusters: u32,
    used_percent: u64,
    cpus: u16,
}

/// Fills the device, then uses it until it has been rewritten once.
fn aged<'a>(slots: &'a dyn Slots, device: Device) -> Vec<Cpu<'a>> {
    let mut prng = Prng::new(1);
    let used_max = u64::from(device.clusters) * 512 * device.used_percent / 100;
    let stays = used_max / FOR_EVER;
    let mut cpus: Vec<Cpu<'a>> = (0..device.cpus)
        .map(|cpu| Cpu {
            slots,
            cpu,
            prng: Prng::new(u64::from(cpu) + 2),
            own: Vec::new(),
            used: 0,
            used_max: u64::MAX,
        })
        .collect();
    let unwatched = Counts::default();
    // Full, with those that stay among the others.
    let mut stayed = 0;
    for turn in 0_usize.. {
        let cpu = &mut cpus[turn % usize::from(device.cpus)];
        while stayed < stays && prng.chance(16, 25) {
            stayed += u64::from(slots.allocate(cpu.cpu, 0).is_some());
        }
        let before = cpu.used;
        cpu.swap_folio(&unwatched);
        if cpu.used < before + u64::from(RUN) {
            break;
        }
    }
    let each = (used_max - stayed) / u64::from(device.cpus);
    for cpu in &mut cpus {
        cpu.used_max = each;
        cpu.make_room();
    }
    for turn in 0..device.clusters * 512 / RUN {
        cpus[(turn % u32::from(device.cpus)) as usize].swap_folio(&unwatched);
    }
    cpus
}

fn row(who: &'static str, device: Device, length: Length) -> Row {
    let slots = allocator(who, device.clusters);
    let counts = Counts::default();
    let operations: Vec<Operation<'_>> = aged(&*slots, device)
        .into_iter()
        .map(|mut cpu| {
            let counts = &counts;
            Box::new(move || {
                cpu.swap_folio(counts);
                Step::Done
            }) as Operation<'_>
        })
        .collect();
    let measured = measure(operations, length, lock_kinds(slots.locks()));
    let wanted = counts.wanted.load(Ordering::Relaxed);
    let missed = counts.missed.load(Ordering::Relaxed);
    Row {
        setting: format!("{} % used", device.used_percent),
        who,
        measured,
        fallback_percent: Some(missed as f64 * 100.0 / wanted.max(1) as f64),
    }
}

/// At 80 to 100 % use with 16 CPUs, and at 95 % with any number of them.
#[must_use]
pub fn run(size: Size) -> Scene {
    let (clusters, length) = match size {
        Size::Short => (32, Length { warm_up: 50, operations: 200 }),
        Size::Full => (1024, Length { warm_up: 2000, operations: 6000 }),
    };
    let most = if clock::CPUS.contains(&16) { 16 } else { 2 };
    let of_use = [80, 90, 95, 100].map(|used_percent| (used_percent, most));
    let of_cpus = clock::CPUS.iter().filter(|&&cpus| cpus != most).map(|&cpus| (95, cpus));
    let devices = of_use.into_iter().chain(of_cpus);
    let devices = devices.map(|(used_percent, cpus)| Device { clusters, used_percent, cpus });
    let devices: Vec<Device> = match size {
        Size::Short => devices.skip(2).take(2).collect(),
        Size::Full => devices.collect(),
    };
    let rows =
        devices.into_iter().flat_map(|device| WHO.map(|who| unnoted(|| row(who, device, length)))).collect();
    Scene {
        name: "folios",
        operation: "64 KiB are swapped, after as much was given back; 1 in 16 page by page",
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_as_full_as_asked_for() {
        for who in WHO {
            let device = Device { clusters: 16, used_percent: 90, cpus: 3 };
            let slots = allocator(who, device.clusters);
            let cpus = aged(&*slots, device);
            let own: u64 = cpus.iter().map(|cpu| cpu.used).sum();
            let used_percent = slots.used() * 100 / (16 * 512);
            assert!((86..=90).contains(&used_percent), "{who}: {used_percent} %");
            assert!(own < slots.used(), "{who}: some slots are nobody's");
        }
    }
}
