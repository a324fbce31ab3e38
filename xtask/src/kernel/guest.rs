//! What is done inside the machine, and what it says about it.
//!
//! The first program of the machine is a script. It makes a disk, becomes an ordinary user and runs the checks, each of
//! which is a command that must end with 0. On the serial line each has a line before and one behind it.

/// Tests of `uswap-os` that show what the engine relies on.
pub const KERNEL_TESTS: [&str; 2] = ["uffd", "kernel"];

/// Before a check, with its name; and behind it, with its exit code.
const BEGIN: &str = "check-begins:";
const END: &str = "check-ends:";

/// A check takes some seconds; beyond this it hangs.
const SECONDS_MAX: u32 = 300;

/// The first program: as root, until the checks begin.
/// The shell takes its own programs before those in `PATH`.
pub const INIT: &str = "#!/bin/busybox sh
export PATH=/usr/bin:/programs
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
$b mkdir /dev/shm
$b mount -t tmpfs -o mode=1777 shm /dev/shm
$b mount -t tmpfs -o mode=1777 tmp /tmp
for module in crc16 crc32c_generic mbcache jbd2 ext4 loop; do $b insmod /modules/$module.ko; done
$b truncate -s 700M /tmp/disk
$b mke2fs -F -b 4096 /tmp/disk >/dev/null 2>&1
$b mount -t ext4 -o loop /tmp/disk /disk
$b chmod 1777 /disk
$b uname -r
cd /disk
/usr/bin/setpriv --reuid=1000 --regid=1000 --clear-groups --bounding-set=-all --inh-caps=-all $b sh /checks
$b poweroff -f
";

/// One check.
pub struct Check {
    /// Its name.
    pub name: &'static str,
    command: &'static str,
}

const fn check(name: &'static str, command: &'static str) -> Check {
    Check { name, command }
}

/// All checks. `U` runs what follows within a budget, with the swap file on the disk.
const CHECKS: [Check; 31] = [
    check(
        "kernel_write_protection",
        "test-uffd --test-threads=1 --exact neighbouring_mappings_are_write_protected_with_one_call_of_ours \
         a_page_that_was_protected_and_moved_can_be_made_writable",
    ),
    check(
        "kernel_mappings",
        "test-kernel --test-threads=1 --exact a_mapping_is_found_by_its_address_by_both_readers \
         present_pages_are_told_from_missing_ones_by_both_readers",
    ),
    check("doctor", "uswap doctor --swap /disk"),
    check("demo", "uswap demo --ram 16M --swap /disk"),
    check("integrity_churn", "U 20M churn --threads 3 --seconds 10 --bytes 40M --seed 1"),
    check("integrity_churn_again", "U 20M churn --threads 4 --seconds 10 --bytes 40M --seed 2"),
    check("integrity_churn_pool_5", "P 20M churn --threads 3 --seconds 10 --bytes 40M --seed 3"),
    check("fork_while_threads_map", "F 20M churn --threads 6 --seconds 8 --bytes 30M --seed 4"),
    check("evil_close_all_descriptors", "U 16M evil close_all_descriptors --bytes 32M"),
    check("evil_few_descriptors_allowed", "U 16M evil few_descriptors_allowed --bytes 32M"),
    check("evil_limits_after_start", "U 16M evil limits_after_start --bytes 32M"),
    check("evil_unshare_descriptors", "U 16M evil unshare_descriptors --bytes 32M"),
    check("evil_block_all_signals", "U 16M evil block_all_signals --bytes 32M"),
    check("evil_own_segv_and_bus_handlers", "U 16M evil own_segv_and_bus_handlers --bytes 32M"),
    check("evil_alternate_stack", "U 16M evil alternate_stack --bytes 32M"),
    check("evil_memory_before_main", "U 16M evil memory_before_main --bytes 32M"),
    check("evil_threads_share_pages", "U 16M evil threads_share_pages --bytes 32M"),
    check("evil_wipe_on_fork", "U 16M evil wipe_on_fork --bytes 32M"),
    check("evil_dont_fork", "U 16M evil dont_fork --bytes 32M"),
    check("evil_split_mapping", "U 16M evil split_mapping --bytes 32M"),
    check("evil_mapped_again", "U 16M evil mapped_again --bytes 32M"),
    check("evil_moved_mapping", "U 16M evil moved_mapping --bytes 32M"),
    check("evil_lock_part", "U 16M evil lock_part --bytes 32M"),
    check("evil_shared_anonymous", "U 16M evil shared_anonymous --bytes 32M"),
    check("evil_syscalls_on_cold_buffers", "U 16M evil syscalls_on_cold_buffers --bytes 32M"),
    check("evil_heap_and_stack", "U 16M evil heap_and_stack --bytes 32M"),
    check("evil_rounding", "U 16M evil rounding --bytes 32M"),
    check("evil_no_time_stamps", "U 16M evil no_time_stamps --bytes 32M"),
    check("evil_exec_itself", "U 16M evil exec_itself --bytes 24M"),
    check("evil_deep_family", "U 16M evil deep_family --bytes 20M"),
    check("evil_huge_pages", "U 64M evil huge_pages --bytes 96M"),
];

/// Those whose names begin so.
pub fn checks(beginning: &str) -> Vec<&'static Check> {
    CHECKS.iter().filter(|check| check.name.starts_with(beginning)).collect()
}

/// The script that runs them.
pub fn script(checks: &[&Check]) -> String {
    let mut script = "export HOME=/disk TMPDIR=/disk\n\
        U() { ram=$1; shift; uswap run -q --swap /disk --ram $ram -- \"$@\"; }\n\
        P() { ram=$1; shift; uswap run -q --swap /disk --pool 5% --ram $ram -- \"$@\"; }\n\
        F() { CHURN_WITHOUT=write,stamp,read,verify_all_of_one,read_shared_by_threads,unmap_part,remap_resize,\
        remap_move,remap_leave_old,dontneed,free,protect,unprotect,malloc,realloc,pipe,file,direct_file,futex \
        U \"$@\"; }\n"
        .to_owned();
    for Check { name, command } in checks {
        // A function cannot be a command of `timeout`: what takes too long is killed by a shell beside it.
        script += &format!(
            "echo {BEGIN} {name}\n\
             ( {command} ) & check=$!\n\
             ( /bin/busybox sleep {SECONDS_MAX}; /bin/busybox killall -9 uswap churn evil ) 2>/dev/null & limit=$!\n\
             wait $check; echo {END} {name} $?\n\
             kill $limit 2>/dev/null\n"
        );
    }
    script
}

/// A check that did not end with 0.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its name.
    pub check: &'static str,
    /// What was said while it ran.
    pub said: String,
}

/// What failed, by what was said on the serial line.
pub fn failures(checks: &[&Check], said: &str) -> Vec<Failure> {
    let failed = |check: &&Check| {
        let (begin, end) = (format!("{BEGIN} {}\n", check.name), format!("{END} {} ", check.name));
        let Some((_, ran)) = said.split_once(&begin) else {
            return Some(Failure { check: check.name, said: "nothing: it did not begin".to_owned() });
        };
        match ran.split_once(&end) {
            Some((_, code)) if code.lines().next() == Some("0") => None,
            Some((ran, _)) => Some(Failure { check: check.name, said: ran.to_owned() }),
            None => Some(Failure { check: check.name, said: ran.to_owned() }),
        }
    };
    checks.iter().filter_map(failed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_ended_with_zero_has_passed() {
        let line = |check: &Check, code: u32| format!("{BEGIN} {0}\nworks\n{END} {0} {code}\n", check.name);
        let all: String = CHECKS.iter().map(|check| line(check, 0)).collect();
        assert_eq!(failures(&checks(""), &all), []);
        let with_one: String =
            CHECKS.iter().map(|check| line(check, u32::from(check.name == "demo"))).collect();
        assert_eq!(failures(&checks(""), &with_one), [Failure { check: "demo", said: "works\n".to_owned() }]);
        assert_eq!(failures(&checks(""), "the kernel has panicked").len(), CHECKS.len());
        let cut = all.split_once(&format!("{END} evil_huge_pages")).expect("it is the last").0;
        assert_eq!(failures(&checks(""), cut).len(), 1);
    }

    #[test]
    fn each_check_is_in_the_script_once() {
        let script = script(&checks(""));
        for check in &CHECKS {
            assert_eq!(script.matches(&format!("{BEGIN} {}\n", check.name)).count(), 1);
        }
    }
}
