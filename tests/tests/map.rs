//! `uswap map` says which parts of the memory of a process are where.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use uswap_tests::{Run, Running, Scratch, needs_uswap, program, report, shared_turn, uswap_binary};

const BUDGET_MIB: u64 = 32;
const PROGRAM_MIB: u64 = 128;

/// Fills four times its budget, and uses a little of that from then on.
///
/// Below a shell: a program that is stopped stops its `uswap run`, which could not answer then.
fn start(options: &[&str]) -> Running {
    let words = "--content mixed --access read --seconds 600 --rate 2000";
    let script = format!("'{}' --bytes {PROGRAM_MIB}M {words}; true", program("touch").display());
    let run = Run::plain("/bin/sh").args(["-c", &script]);
    run.uswap(BUDGET_MIB, &[&["--swap", "/var/tmp:1G"], options].concat()).start()
}

/// What the command says, or what it says is wrong.
fn ask(running: &Running, words: &[&str]) -> Result<String, String> {
    let binary = uswap_binary().expect("it was looked for");
    let pid = running.pid().to_string();
    let output = Command::new(binary).args(words).arg(pid).output().expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it is text");
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

fn json(running: &Running, words: &[&str]) -> Value {
    let text = ask(running, words).unwrap_or_else(|why| panic!("{words:?}: {why}"));
    serde_json::from_str(&text).expect("it is JSON")
}

/// Asks until the answer is as wanted.
fn until(running: &mut Running, words: &[&str], is_wanted: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..6000 {
        assert!(!running.ended(), "{}", running.messages_so_far());
        if let Ok(text) = ask(running, words) {
            let answer = serde_json::from_str(&text).expect("it is JSON");
            if is_wanted(&answer) {
                return answer;
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{words:?}: {:?}", ask(running, words));
}

/// What is found by the socket of the run: the head of the answer, and its content.
fn get(socket: &Path, path: &str) -> (String, String) {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is heard");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, content) = answer.split_once("\r\n\r\n").expect("it has a head");
    (head.to_owned(), content.to_owned())
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("no {name}: {value}"))
}

const PLACES: [&str; 6] =
    ["untouched_bytes", "warm_bytes", "cold_bytes", "pool_bytes", "file_bytes", "same_filled_bytes"];

/// All but what was never touched.
fn filled(map: &Value) -> u64 {
    number(map, "managed_bytes") - number(&map["total"], "untouched_bytes")
}

/// Each page is counted once: of parts, of kinds, and in all.
fn must_add_up(map: &Value) {
    let buckets = map["buckets"].as_array().expect("it is a list");
    let managed = number(map, "managed_bytes");
    assert!(buckets.len() <= 256 && buckets.len() >= 128, "{} buckets", buckets.len());
    for name in PLACES {
        let sum: u64 = buckets.iter().map(|bucket| number(bucket, name)).sum();
        assert_eq!(sum, number(&map["total"], name), "{name}");
    }
    let of = |places: &Value| PLACES.iter().map(|name| number(places, name)).sum::<u64>();
    assert_eq!(of(&map["total"]), managed);
    let mut end = 0;
    for (index, bucket) in buckets.iter().enumerate() {
        let (start, bytes) = (number(bucket, "start"), of(bucket));
        assert!(start >= end, "bucket {index} begins before the one ahead of it ends");
        end = number(bucket, "end");
        assert!(end - start >= bytes, "bucket {index} is longer than its place");
        assert!(bytes == of(&buckets[0]) || index == buckets.len() - 1, "bucket {index} is of another size");
        let stored = ["pool_bytes", "file_bytes", "same_filled_bytes"].map(|name| number(bucket, name));
        assert!(number(bucket, "recent_bytes") <= stored.iter().sum());
    }
}

#[test]
fn map_adds_up_to_what_is_managed_and_shows_pool_and_file() {
    if !needs_uswap() {
        return;
    }
    let _turn = shared_turn();
    let mut running = start(&[]);
    until(&mut running, &["stat", "--json"], |stat| {
        stat["counters"]["zswpout"].as_u64() > Some(4096)
            && stat["counters"]["registered_pages"].as_u64() > Some((PROGRAM_MIB << 20) / 4096)
    });
    until(&mut running, &["map", "--json"], |map| map["total"]["pool_bytes"].as_u64() > Some(4 << 20));
    ask(&running, &["writeback", "--older-than", "0s"]).expect("all of the pool is written");
    // What goes from now on is in the pool, beside what was written.
    let map = until(&mut running, &["map", "--json"], |map| {
        let [pool, file] = ["pool_bytes", "file_bytes"].map(|name| map["total"][name].as_u64());
        filled(map) >= PROGRAM_MIB << 20 && pool > Some(0) && file > Some(4 << 20)
    });
    must_add_up(&map);
    let total = &map["total"];
    report(&format!("map: {total} in {} buckets", map["buckets"].as_array().map_or(0, Vec::len)));
    assert_eq!(map["name"], "touch");
    assert_eq!(map["why_empty"], "");
    // In RAM is what the budget allows.
    let resident = number(total, "warm_bytes") + number(total, "cold_bytes");
    assert!(resident > 1 << 20 && resident <= (BUDGET_MIB << 20) / 10 * 11, "{total}");
    assert!(number(total, "same_filled_bytes") > 0, "{total}");
    // What is managed is what the run has counted, but for what was unmapped.
    let registered = number(&json(&running, &["stat", "--json"])["counters"], "registered_pages") * 4096;
    assert!(number(&map, "managed_bytes") <= registered, "{registered}: {map}");

    let process = number(&map, "pid").to_string();
    let text = ask(&running, &["map", "--process", &process]).expect("it is told");
    report(&format!("map: {}", text.trim_end().replace('\n', "; ")));
    assert!(text.starts_with(&format!("touch ({process}): ")), "{text}");
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    let marks: String = text.lines().rev().take_while(|line| !line.is_empty()).collect();
    assert!(marks.contains('o') || marks.contains('.'), "{text}");

    let why = ask(&running, &["map", "--process", "1"]).unwrap_err();
    assert!(why.contains("process 1 is not managed in this run"), "{why}");
}

#[test]
fn map_is_on_the_page_without_addresses() {
    if !needs_uswap() {
        return;
    }
    let _turn = shared_turn();
    let scratch = Scratch::new();
    let socket = scratch.file("run.sock");
    let mut running = start(&["--metrics", &format!("unix:{}", socket.display())]);
    let own = until(&mut running, &["map", "--json"], |map| map["total"]["pool_bytes"].as_u64() > Some(0));
    let run = running.pid();
    for path in [format!("/map?run={run}"), format!("/map?run={run}&process={}", own["pid"])] {
        let (head, content) = get(&socket, &path);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}: {content}");
        let map: Value = serde_json::from_str(&content).expect("it is JSON");
        assert_eq!((&map["pid"], &map["name"]), (&own["pid"], &own["name"]));
        let buckets = map["buckets"].as_array().expect("it is a list");
        assert!(!buckets.is_empty());
        assert!(buckets.iter().all(|bucket| bucket["start"] == 0 && bucket["end"] == 0), "{map}");
    }
    let (head, why) = get(&socket, "/map?run=1");
    assert!(head.starts_with("HTTP/1.1 503 ") && why.contains("run 1 is not shown here"), "{head}: {why}");
    assert!(get(&socket, "/").1.contains("Memory map"), "the page draws it");
}

#[test]
fn map_of_a_process_that_is_stopped_says_so_and_is_there_when_it_goes_on() {
    use rustix::process::Signal;
    if !needs_uswap() {
        return;
    }
    let _turn = shared_turn();
    let mut running = start(&[]);
    let map = until(&mut running, &["map", "--json"], |map| map["total"]["pool_bytes"].as_u64() > Some(0));
    let pid = i32::try_from(number(&map, "pid")).expect("it is a process");
    let process = uswap_tests::process::Process::now(pid).expect("it runs");
    process.stop();
    let why = ask(&running, &["map", "--json"]).unwrap_err();
    assert!(why.contains("it is stopped") && why.contains("kill -CONT"), "{why}");
    process.signal(Signal::CONT);
    let map = until(&mut running, &["map", "--json"], |_| true);
    assert!(number(&map, "managed_bytes") > 0);
    // Nothing is left of a process that is killed while it is asked.
    process.stop();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&running, &["map", "--json"]));
        std::thread::sleep(Duration::from_millis(200));
        process.signal(Signal::KILL);
        let why = asked.join().expect("no panic").unwrap_err();
        assert!(why.contains("has ended") || why.contains("it is stopped"), "{why}");
    });
}

#[test]
fn map_of_memory_that_came_home_is_empty_and_says_why() {
    if !needs_uswap() {
        return;
    }
    let _turn = shared_turn();
    let mut running = start(&[]);
    until(&mut running, &["map", "--json"], |map| map["total"]["pool_bytes"].as_u64() > Some(0));
    ask(&running, &["leave"]).expect("there is room at home");
    let map = json(&running, &["map", "--json"]);
    assert_eq!((number(&map, "managed_bytes"), &map["buckets"]), (0, &Value::Array(Vec::new())));
    assert!(map["why_empty"].as_str().is_some_and(|why| why.contains("came home")), "{map}");
    let text = ask(&running, &["map"]).expect("it is told");
    assert!(text.contains("its memory came home"), "{text}");
}
