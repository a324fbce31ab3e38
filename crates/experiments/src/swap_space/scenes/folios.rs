//! Runs of 16 slots on a device that is nearly full: what an allocation takes, and how often none is found.
//!
//! As memory of a parallel build with 64 KiB folios does it: most memory leaves in runs of 16 and comes back as a whole
//! when a process ends; some is read back page by page, some pages leave alone, and one slot in ten stays for ever,
//! wherever it was when the device was full for the first time.

use uswap_sync::trace;
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
/// How often a device is rewritten while runs that are not found are counted.
const REWRITTEN: u32 = 2;
/// Of so many runs that were not found one is looked into.
const LOOK_EACH: u32 = 8;

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

/// What became of 64 KiB.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// They are in one run.
    Run,
    /// They are to leave page by page.
    Alone,
    /// No run was found.
    NoRun,
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

    /// 64 KiB leave: as a run, or else page by page.
    fn swap_folio(&mut self) {
        if self.swap_run() != Outcome::Run {
            self.swap_pages();
        }
    }

    /// 64 KiB are to leave; unless they are in a run then, they have not left yet.
    fn swap_run(&mut self) -> Outcome {
        self.make_room();
        if self.prng.chance(1, ALONE) {
            return Outcome::Alone;
        }
        let Some(first) = self.slots.allocate(self.cpu, ORDER) else { return Outcome::NoRun };
        self.own.push(Piece::Run(first));
        self.used += u64::from(RUN);
        Outcome::Run
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

/// A device in use.
struct Aged<'a> {
    cpus: Vec<Cpu<'a>>,
    /// Slots that are never given back.
    stay: Vec<u32>,
    prng: Prng,
}

/// Fills the device, then uses it until it has been rewritten once.
fn aged<'a>(slots: &'a dyn Slots, device: Device) -> Aged<'a> {
    let used_max = u64::from(device.clusters) * 512 * device.used_percent / 100;
    let of_cpu = |cpu: u16| Cpu {
        slots,
        cpu,
        prng: Prng::new(u64::from(cpu) + 2),
        own: Vec::new(),
        used: 0,
        used_max: u64::MAX,
    };
    let cpus = (0..device.cpus).map(of_cpu).collect();
    let mut aged = Aged { cpus, stay: Vec::new(), prng: Prng::new(1) };
    // Full, with those that stay among the others.
    loop {
        let cpu = aged.next();
        while (aged.stay.len() as u64) < used_max / FOR_EVER && aged.prng.chance(16, 25) {
            aged.stay.extend(slots.allocate(cpu as u16, 0));
        }
        let before = aged.cpus[cpu].used;
        aged.cpus[cpu].swap_folio();
        if aged.cpus[cpu].used < before + u64::from(RUN) {
            break;
        }
    }
    let each = (used_max - aged.stay.len() as u64) / u64::from(device.cpus);
    for cpu in &mut aged.cpus {
        cpu.used_max = each;
        cpu.make_room();
    }
    for _ in 0..device.clusters * 512 / RUN {
        let cpu = aged.next();
        aged.cpus[cpu].swap_folio();
    }
    aged
}

impl Aged<'_> {
    /// Index of a CPU, any.
    fn next(&mut self) -> usize {
        self.prng.below(self.cpus.len() as u64) as usize
    }

    /// Of so many runs that are wanted, the percentage that is not found, and of those the one that could have been.
    fn fallbacks(&mut self, slot_count: u32, folios: u32) -> (f64, f64) {
        let (mut wanted, mut missed, mut looked, mut there) = (0_u32, 0_u32, 0_u32, 0_u32);
        for _ in 0..folios {
            let cpu = self.next();
            let outcome = self.cpus[cpu].swap_run();
            wanted += u32::from(outcome != Outcome::Alone);
            if outcome == Outcome::NoRun {
                missed += 1;
                // To look at all slots takes long.
                if missed.is_multiple_of(LOOK_EACH) {
                    looked += 1;
                    there += u32::from(self.has_run(slot_count));
                }
            }
            if outcome != Outcome::Run {
                self.cpus[cpu].swap_pages();
            }
        }
        let percent = |part: u32, whole: u32| f64::from(part) * 100.0 / f64::from(whole.max(1));
        (percent(missed, wanted), percent(there, looked))
    }

    /// Whether there is an aligned run of 16 free slots anywhere.
    fn has_run(&self, slot_count: u32) -> bool {
        let mut used = vec![false; (slot_count / RUN) as usize];
        // Slot 0 is not to be had of all of them.
        used[0] = true;
        let own = self.cpus.iter().flat_map(|cpu| &cpu.own).map(|piece| match piece {
            Piece::Run(slot) | Piece::Page(slot) => slot,
        });
        own.chain(&self.stay).for_each(|slot| used[(slot / RUN) as usize] = true);
        used.contains(&false)
    }
}

fn row(who: &'static str, device: Device, length: Length) -> Row {
    let slots = allocator(who, device.clusters);
    let mut aged = aged(&*slots, device);
    let slot_count = device.clusters * 512;
    let (fallback_percent, avoidable_percent) = aged.fallbacks(slot_count, REWRITTEN * slot_count / RUN);
    let operations: Vec<Operation<'_>> = aged
        .cpus
        .into_iter()
        .map(|mut cpu| {
            Box::new(move || {
                cpu.swap_folio();
                Step::Done
            }) as Operation<'_>
        })
        .collect();
    Row {
        setting: format!("{} % used", device.used_percent),
        who,
        measured: measure(operations, length, lock_kinds(slots.locks())),
        fallback_percent: Some(fallback_percent),
        avoidable_percent: Some(avoidable_percent),
    }
}

/// At 80 to 100 % use with 16 CPUs, and at 95 % with any number of them.
#[must_use]
pub fn run(size: Size) -> Scene {
    let (clusters, length) = match size {
        Size::Short => (32, Length { warm_up: 50, operations: 200 }),
        Size::Full if trace::RECORDS => (1024, Length { warm_up: 2000, operations: 6000 }),
        Size::Full => (1024, Length { warm_up: 2000, operations: 40_000 }),
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
            let aged = aged(&*slots, device);
            let own: u64 = aged.cpus.iter().map(|cpu| cpu.used).sum();
            let used_percent = slots.used() * 100 / (16 * 512);
            assert!((86..=90).contains(&used_percent), "{who}: {used_percent} %");
            assert_eq!(own + aged.stay.len() as u64, slots.used(), "{who}: each slot is known");
        }
    }
}
