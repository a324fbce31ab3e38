//! What a run says of itself over HTTP, to `uswap metrics`, and in its report as a page.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use uswap_tests::{Run, Running, Scratch, needs_uswap, program, report, shared_turn, skip, uswap_binary};

const BUDGET_MIB: u64 = 48;

/// A program that needs three times its budget, for as long as a test looks at it.
fn start(options: &[&str]) -> Running {
    let words = ["--bytes", "144M", "--content", "mixed", "--access", "read", "--seconds", "600"];
    let options = [&["--swap", "/var/tmp:1G"], options].concat();
    Run::plain(program("touch")).args(words).uswap(BUDGET_MIB, &options).start()
}

fn uswap(binary: &Path, words: &[&str]) -> String {
    let output = Command::new(binary).args(words).output().expect("it starts");
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).expect("it is text")
}

/// Where the run says that it answers.
fn place(running: &mut Running) -> String {
    for _ in 0..6000 {
        let said = running.messages_so_far();
        let rest = said.split_once("shown at http://").map(|(_, rest)| rest);
        if let Some((place, _)) = rest.and_then(|rest| rest.split_once('/')) {
            return place.to_owned();
        }
        assert!(!running.ended(), "{said}");
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("no address: {}", running.messages_so_far());
}

/// The content of what is found.
fn get(stream: &mut (impl std::io::Read + std::io::Write), path: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is heard");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, content) = answer.split_once("\r\n\r\n").expect("it has a head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    content.to_owned()
}

fn scrape(place: &str, path: &str) -> String {
    get(&mut TcpStream::connect(place).expect("it listens"), path)
}

/// By the file of a socket, as soon as somebody listens there.
fn scrape_file(path: &Path, is_expected: &mut dyn FnMut() -> bool) -> String {
    loop {
        match UnixStream::connect(path) {
            Ok(mut stream) => return get(&mut stream, "/metrics"),
            Err(error) => assert!(is_expected(), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The value of a sample without labels.
fn value(text: &str, name: &str) -> f64 {
    let sample = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    sample.unwrap_or_else(|| panic!("no {name}: {text}")).parse().expect("it is a number")
}

/// The program has filled its memory, and something is in the pool.
fn wait_for_pressure(binary: &Path, running: &mut Running) {
    let pid = running.pid().to_string();
    for _ in 0..6000 {
        assert!(!running.ended(), "{}", running.messages_so_far());
        let answer = Command::new(binary).args(["stat", "--json", &pid]).output().expect("it starts");
        let stat: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
        if stat["counters"]["zswpout"].as_u64() > Some(20_000) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("no pressure");
}

#[test]
fn metrics_say_what_stat_says() {
    let Some(binary) = uswap_binary() else { return skip("this case is about uswap itself") };
    let _turn = shared_turn();
    let mut running = start(&["--metrics", "127.0.0.1:0"]);
    let place = place(&mut running);
    wait_for_pressure(&binary, &mut running);
    let pid = running.pid().to_string();
    let stat = || -> serde_json::Value {
        serde_json::from_str(&uswap(&binary, &["stat", "--json", &pid])).expect("it is JSON")
    };
    // What counts up lies between what was said before and after.
    let before = stat();
    let scraped = scrape(&place, "/metrics");
    let printed = uswap(&binary, &["metrics", &pid]);
    let after = stat();
    for text in [&scraped, &printed] {
        assert!(text.ends_with("# EOF\n"), "{text}");
        assert_eq!(value(text, "uswap_ram_limit_bytes"), (BUDGET_MIB << 20) as f64);
        assert_eq!(value(text, "uswap_processes"), 1.0);
        assert!(value(text, "uswap_resident_bytes") > 1e6 && value(text, "uswap_pool_bytes") > 1e6, "{text}");
        let info = format!("uswap_info{{version=\"{}\",pid=\"{pid}\",", before["version"].as_str().unwrap());
        assert!(text.contains(&info) && text.contains("program=\"touch\"}"), "{text}");
        assert!(text.contains("uswap_swap_limit_bytes{directory=\"/var/tmp\"} 1073741824\n"), "{text}");
        assert!(text.contains("uswap_fault_duration_seconds_bucket{le=\"+Inf\",source=\"pool\"} "), "{text}");
        assert!(text.contains("uswap_process_resident_bytes{pid=\""), "{text}");
        let counted = [
            ("uswap_pool_stored_pages_total", "zswpout", 1.0),
            ("uswap_writeback_bytes_total", "zswpwb", 4096.0),
            ("uswap_zero_filled_pages_total", "fault_zero", 1.0),
            ("uswap_fault_stall_seconds_total", "stall_ns", 1e-9),
        ];
        for (name, counter, unit) in counted {
            let [least, most] =
                [&before, &after].map(|stat| stat["counters"][counter].as_f64().unwrap() * unit);
            let value = value(text, name);
            assert!((least * 0.999..=most * 1.001).contains(&value), "{name}: {value}, {least} to {most}");
        }
        let [least, most] = [&before, &after]
            .map(|stat| stat["pressure"]["some"]["total_us"].as_f64().expect("it is a number") / 1e6);
        let waited = value(text, "uswap_pressure_waiting_seconds_total");
        assert!(least <= waited && waited <= most, "{waited}, {least} to {most}");
    }
    assert!(scrape(&place, "/").contains("\"live\":true"));
    drop(running);
    assert!(TcpStream::connect(&place).is_err(), "it has ended with the run");
}

#[test]
fn the_socket_is_its_owners_and_goes_with_the_run() {
    use std::os::unix::fs::PermissionsExt as _;
    if !needs_uswap() {
        return;
    }
    let _turn = shared_turn();
    let scratch = Scratch::new();
    let (path, html) = (scratch.file("run.sock"), scratch.file("run.html"));
    let address = format!("unix:{}", path.display());
    let options = ["--quiet", "--metrics", &address, "--html", html.to_str().expect("it is text")];
    let end = scratch.file("end");
    let shell =
        format!("test -S '{}' && until test -e '{}'; do sleep 0.05; done", path.display(), end.display());
    let mut running = Run::plain("/bin/sh").args(["-c", &shell]).uswap(BUDGET_MIB, &options).start();
    let text = scrape_file(&path, &mut || !running.ended());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(value(&text, "uswap_ram_limit_bytes"), (BUDGET_MIB << 20) as f64);
    // Another run does not take it away.
    let refused = Run::plain("true").uswap(BUDGET_MIB, &["--metrics", &address]).finish();
    assert_eq!(refused.code, Some(125), "{refused:?}");
    assert!(refused.stderr.contains("another process listens"), "{}", refused.stderr);
    std::fs::write(end, "").expect("the scratch directory is writable");
    let outcome = running.finish();
    outcome.must_succeed();
    assert_eq!(outcome.stderr, "", "nothing is said with --quiet");
    assert!(!path.exists());
    let page = std::fs::read_to_string(&html).unwrap();
    assert!(page.contains("\"live\":false") && page.contains("\"program\":\"sh\""), "{page}");
}

#[test]
fn an_address_that_others_can_reach_is_refused() {
    let Some(binary) = uswap_binary() else { return skip("this case is about uswap itself") };
    let words = ["run", "--ram", "48M", "--metrics", "0.0.0.0:9100", "--", "true"];
    let output = Command::new(binary).args(words).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("password") && said.contains("ssh -L 9100:127.0.0.1:9100"), "{said}");
}

#[test]
fn a_run_that_was_started_without_is_shown_from_outside() {
    let Some(binary) = uswap_binary() else { return skip("this case is about uswap itself") };
    let _turn = shared_turn();
    let running = Run::plain("sleep").arg("600").uswap(BUDGET_MIB, &[]).start();
    let scratch = Scratch::new();
    let path = scratch.file("run.sock");
    let (pid, address) = (running.pid().to_string(), format!("unix:{}", path.display()));
    // The run may not listen yet.
    while !Command::new(&binary).args(["stat", &pid]).output().expect("it starts").status.success() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut server =
        Command::new(&binary).args(["metrics", "--listen", &address, &pid]).spawn().expect("it starts");
    let text = scrape_file(&path, &mut || server.try_wait().expect("it is ours").is_none());
    assert!(text.contains(&format!("pid=\"{pid}\"")), "{text}");
    let all = uswap(&binary, &["metrics", "--all"]);
    assert!(all.contains(&format!("uswap_ram_limit_bytes{{run=\"{pid}\"}} {}\n", BUDGET_MIB << 20)), "{all}");
    drop(running);
    assert!(server.wait().expect("it is ours").success(), "it ends with the run");
    assert!(!path.exists());
}

/// The text of a page as Chromium makes it, when its scripts have run; and a picture of it.
fn as_seen(browser: &Path, address: &str, picture: &Path) -> String {
    let flags =
        ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"];
    let mut command = Command::new(browser);
    command.args(flags).args(["--window-size=1000,700", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", picture.with_extension("profile").display()));
    command.arg(format!("--screenshot={}", picture.display())).arg(address);
    String::from_utf8_lossy(&command.output().expect("it starts").stdout).into_owned()
}

/// None: there is no Chromium.
fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path)
        .flat_map(|directory| names.map(|name| directory.join(name)))
        .find(|path| path.exists())
}

#[test]
fn a_browser_shows_the_numbers() {
    let Some(binary) = uswap_binary() else { return skip("this case is about uswap itself") };
    let Some(browser) = browser() else { return skip("chromium is not installed") };
    let _turn = shared_turn();
    let scratch = Scratch::new();
    let html = scratch.file("run.html");
    let mut running = start(&["--metrics", "127.0.0.1:0", "--html", html.to_str().expect("it is text")]);
    let place = place(&mut running);
    wait_for_pressure(&binary, &mut running);
    let picture = scratch.file("live.png");
    let seen = as_seen(&browser, &format!("http://{place}/"), &picture);
    let pid = running.pid().to_string();
    assert!(seen.contains(&format!("touch ({pid})")), "{seen}");
    assert!(
        seen.contains(" of 48 MiB (")
            && seen.contains("resident ")
            && seen.contains("<td class=\"text\">touch</td>")
    );
    assert!(std::fs::metadata(&picture).is_ok_and(|file| file.len() > 5000), "no picture");
    let name = uswap_tests::process::Process::now(running.pid()).expect("it runs");
    name.signal(rustix::process::Signal::TERM);
    running.finish();
    let seen = as_seen(&browser, &format!("file://{}", html.display()), &scratch.file("ended.png"));
    assert!(seen.contains("the run has ended") && seen.contains("zswpout"), "{seen}");
    report("metrics: the pages were drawn by a browser");
}
