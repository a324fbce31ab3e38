//! The peak that uswap reports is the one that the kernel counts for a memory cgroup around the run: shared memory
//! once, what forks share once, processes without an engine too.

use std::path::Path;
use std::process::Command;

use uswap_tests::{
    MIB, MemoryGroup, Outcome, Run, Scratch, needs, program, report, skip, turn, uswap_binary,
};

/// A run, what uswap said of it, and what the kernel counted.
struct Counted {
    outcome: Outcome,
    record: serde_json::Value,
    kernel_bytes: u64,
}

impl Counted {
    fn bytes(&self, field: &str) -> u64 {
        self.record[field].as_u64().unwrap_or_else(|| panic!("no {field} in {}", self.record))
    }

    /// The reported peak is within [`PERCENT_MAX`] of what the kernel counted.
    #[track_caller]
    fn must_agree(&self, name: &str) {
        assert!(self.agrees(name), "{name}: {}", self.record);
    }

    /// Whether it is; the figures are printed.
    fn agrees(&self, name: &str) -> bool {
        let reported = self.bytes("used_peak_bytes");
        let percent = reported as f64 * 100.0 / self.kernel_bytes.max(1) as f64;
        report(&format!(
            "{name}: reported {} MiB, {percent:.1} % of the kernel's {} MiB",
            reported / MIB,
            self.kernel_bytes / MIB
        ));
        (percent - 100.0).abs() <= PERCENT_MAX
    }
}

/// By how much the two may differ.
const PERCENT_MAX: f64 = 5.0;

/// Runs that may be needed until both sides have seen the same peak.
const RUNS_MAX: u32 = 3;

/// A run of a family whose two peaks agree. Both are sampled while processes come and go: on a busy machine one may
/// miss what the other has seen for a moment, now the one and now the other. What counts wrongly does so in each run.
#[track_caller]
fn agreeing(name: &str, ram_mib: u64, options: &[&str], make: impl Fn() -> Run) -> Option<Counted> {
    let mut seen = Vec::new();
    for _ in 0..RUNS_MAX {
        let counted = counted(make(), ram_mib, options)?;
        if counted.agrees(name) {
            return Some(counted);
        }
        seen.push(counted.record.to_string());
    }
    panic!("{name}: no run of {RUNS_MAX} agrees: {}", seen.join("\n"));
}

/// Runs `run` with this budget in a group of its own; `None` where that is not possible.
fn counted(run: Run, ram_mib: u64, options: &[&str]) -> Option<Counted> {
    uswap_binary()?;
    let Some(group) = MemoryGroup::new() else {
        skip("no memory cgroup can be made here");
        return None;
    };
    let _turn = turn();
    let scratch = Scratch::new();
    let json = scratch.file("report.json");
    let mut all = vec!["--swap", "/var/tmp:1G", "--json", json.to_str().expect("it is UTF-8")];
    all.extend(options);
    let outcome = group.finish(&run.uswap(ram_mib, &all));
    outcome.must_succeed();
    let record = std::fs::read(&json).expect("the report was written");
    let record = serde_json::from_slice(&record).expect("it is JSON");
    Some(Counted { outcome, record, kernel_bytes: group.peak_bytes() })
}

fn holds(kind: &str, words: &[&str]) -> Run {
    Run::plain(program("holds")).arg(kind).args(words)
}

/// Shared memory of 60 MiB, mapped by four processes.
#[track_caller]
fn shared_counts_once(kind: &str) {
    let Some(counted) = counted(holds(kind, &[]), 400, &[]) else { return };
    counted.must_agree(kind);
    let shared = counted.bytes("shared_peak_bytes");
    assert!((60 * MIB..61 * MIB).contains(&shared), "{kind}: {shared} bytes");
}

#[test]
fn counting_shared_anonymous_memory_counts_once() {
    shared_counts_once("shared_anonymous");
}

#[test]
fn counting_memfd_counts_once() {
    shared_counts_once("memfd");
}

#[test]
fn counting_memfd_that_is_mapped_twice_counts_once() {
    shared_counts_once("memfd_mapped_twice");
}

#[test]
fn counting_file_of_dev_shm_counts_once() {
    if Path::new("/dev/shm").is_dir() {
        shared_counts_once("dev_shm");
    } else {
        skip("there is no /dev/shm");
    }
}

#[test]
fn counting_system_v_segment_counts_once() {
    shared_counts_once("system_v");
}

/// Without rights to follow the links of `map_files` the sizes come from elsewhere.
#[test]
fn counting_shared_memory_without_capabilities() {
    if !needs(&["setpriv"]) {
        return;
    }
    for kind in ["shared_anonymous", "memfd", "dev_shm", "system_v"] {
        let uswap = uswap_binary();
        let (Some(uswap), Some(group)) = (uswap, MemoryGroup::new()) else {
            return skip("no memory cgroup can be made here");
        };
        let _turn = turn();
        let scratch = Scratch::new();
        let json = scratch.file("report.json");
        let dropped = "--bounding-set=-sys_admin,-checkpoint_restore,-sys_ptrace";
        let run = Run::plain("setpriv").args([dropped, "--inh-caps=-all"]).arg(uswap);
        let run = run.args(["run", "--ram", "400M", "--swap", "/var/tmp:1G", "--json"]).arg(&json);
        let outcome = group.finish(&run.arg("--").arg(program("holds")).arg(kind));
        if outcome.stderr.contains("no userfaultfd") {
            return skip("userfaultfd needs a capability here");
        }
        outcome.must_succeed();
        let record = std::fs::read(&json).expect("the report was written");
        let record = serde_json::from_slice(&record).expect("it is JSON");
        Counted { outcome, record, kernel_bytes: group.peak_bytes() }.must_agree(kind);
    }
}

#[test]
fn counting_shared_memory_above_the_budget_has_not_fitted() {
    let Some(counted) = counted(holds("memfd", &[]), 40, &[]) else { return };
    counted.must_agree("memfd in 40M");
    assert!(!counted.outcome.stderr.contains("fitted into its budget"), "{}", counted.outcome.stderr);
    let over = counted.record["over_budget_seconds"].as_f64().expect("it is a number");
    assert!(over > 0.0, "{}", counted.record);
}

#[test]
fn counting_children_that_read_what_they_inherit() {
    agreeing("children that read", 400, &[], || holds("children_read", &["--processes", "40"]));
}

#[test]
fn counting_children_that_write_what_they_inherit() {
    let words = ["--processes", "6", "--milliseconds", "1500"];
    agreeing("children that write", 800, &[], || holds("children_write", &words));
}

#[test]
fn counting_children_that_come_and_go() {
    let words = ["--bytes", "100M", "--processes", "60"];
    agreeing("short children", 400, &[], || holds("short_children", &words));
}

/// Copies of evicted pages come and go within a second, between two looks at what the family shares.
#[test]
fn counting_a_family_in_half_of_its_memory() {
    let words = ["--bytes", "80M", "--processes", "12"];
    agreeing("children that read, in 40M", 40, &[], || holds("children_read", &words));
}

/// Processes without an engine are families too.
#[test]
fn counting_a_family_that_is_not_managed() {
    let words = ["children_write", "--processes", "4", "--milliseconds", "1500"];
    let make = || Run::plain("env").args(["-i", "USWAP_RUN="]).arg(program("holds")).args(words);
    let Some(counted) = agreeing("a family without an engine", 400, &[], make) else { return };
    assert!(!counted.outcome.stderr.contains("fitted into its budget"), "{}", counted.outcome.stderr);
}

#[test]
fn counting_the_heap_of_zgc() {
    if !needs(&["java", "javac"]) {
        return;
    }
    let scratch = Scratch::new();
    let text = "import java.util.*; public class Held { public static void main(String[] words) throws Exception { \
        List<byte[]> all = new ArrayList<>(); for (int i = 0; i < 80; i++) { byte[] one = new byte[1 << 20]; \
        Arrays.fill(one, (byte) i); all.add(one); } Thread.sleep(800); long sum = 0; \
        for (byte[] one : all) sum += one[77]; System.out.println(sum); } }";
    let source = scratch.file("Held.java");
    std::fs::write(&source, text).expect("the scratch directory is writable");
    let made = Command::new("javac").arg(&source).status();
    assert!(made.is_ok_and(|status| status.success()), "the program does not compile");
    let directory = source.parent().expect("it is in the scratch directory");
    let run = Run::plain("java").args(["-XX:+UseZGC", "-Xmx300m", "-cp"]).arg(directory).arg("Held");
    let Some(counted) = counted(run, 1000, &[]) else { return };
    counted.must_agree("ZGC");
    assert!(counted.bytes("shared_peak_bytes") >= 80 * MIB, "{}", counted.record);
}

/// The server runs as another user: it refuses to be root. It sorts in little memory: what it has for some milliseconds
/// while it builds an index is between two looks.
const POSTGRESQL: &str = r#"set -e
cd "$1"; bin=$2; export LC_ALL=C
as="setpriv --reuid 65534 --regid 65534 --clear-groups"
$as "$bin/postgres" -D data -k "$1" -c listen_addresses= -c shared_buffers=64MB -c maintenance_work_mem=1MB >log 2>&1 &
server=$!
for i in $(seq 100); do
  "$bin/psql" -h "$1" -U postgres -c 'select 1' >/dev/null 2>&1 && break
  sleep 0.2
done
$as "$bin/pgbench" -h "$1" -U postgres -i -s 5 -q postgres >/dev/null 2>&1
$as "$bin/pgbench" -h "$1" -U postgres -c 4 -T 4 postgres >/dev/null 2>&1
kill -INT $server
wait $server
"#;

#[test]
fn counting_postgresql() {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let Some(binaries) =
        versions.map(|entry| entry.path().join("bin")).find(|path| path.join("pgbench").exists())
    else {
        return skip("postgresql is not installed");
    };
    if !needs(&["setpriv"]) {
        return;
    }
    if !rustix::process::getuid().is_root() {
        return skip("root is needed to become another user");
    }
    let scratch = Scratch::new();
    let directory = scratch.file("");
    rustix::fs::chown(&directory, Some(rustix::fs::Uid::from_raw(65534)), None).expect("root may");
    // Its processes live for a moment: the peak that is compared is that of the server.
    let words = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let mut made = Command::new("setpriv");
    made.args(words).arg(binaries.join("initdb")).args(["-U", "postgres", "-D"]).arg(directory.join("data"));
    let made = made.env("LC_ALL", "C").stdout(std::process::Stdio::null()).status();
    assert!(made.is_ok_and(|status| status.success()), "the database cannot be made");
    let make = || Run::plain("/bin/sh").args(["-c", POSTGRESQL, "sh"]).arg(&directory).arg(&binaries);
    let Some(counted) = agreeing("PostgreSQL", 1000, &["--keep-after-setuid"], make) else { return };
    assert!(counted.bytes("shared_peak_bytes") > 10 * MIB, "{}", counted.record);
}
