//! The server, as clients see it that are right, wrong, slow or silent.

use super::*;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use crate::address::parse_address;
use uswap_control::map::{MapBucket, Places};

const FOREVER: Duration = Duration::from_secs(1 << 30);

/// Without any time in which something has to be done.
fn limits() -> Limits {
    Limits { clients_max: 3, followers_max: 1, patience: FOREVER, period: Duration::from_millis(5) }
}

fn start(address: &str, limits: Limits) -> Server {
    let listener = Listener::bind(&parse_address(address).unwrap()).unwrap();
    let stat =
        RunStat { pid: 812, program: "so</script>rt".to_owned(), ram_bytes: 64 << 20, ..RunStat::default() };
    let stats: Arc<dyn Fn() -> Vec<RunStat> + Send + Sync> = Arc::new(move || vec![stat.clone()]);
    Server::start(listener, Source { stats, map: Arc::new(map), label: RunLabel::Without }, limits).unwrap()
}

/// What the run says of its process 7, and of no other.
fn map(question: &MapQuestion<'_>) -> Result<MemoryMap, String> {
    assert!(question.run == 812 && !(question.is_over)());
    match question.process {
        None | Some(7) => {
            let places = Places { pool_bytes: 4096, ..Places::default() };
            let bucket = MapBucket { start: 0x7f12_3456_7000, end: 0x7f12_3456_8000, places };
            Ok(MemoryMap::new(7, "touch".to_owned(), vec![bucket]))
        }
        Some(other) => Err(format!("process {other} is stopped")),
    }
}

fn port(server: &Server) -> SocketAddr {
    match server.address() {
        Address::Tcp(address) => *address,
        other => panic!("{other}"),
    }
}

/// All of the answer to all of a request. The place of the client is free again then.
fn ask(server: &Server, request: &str) -> String {
    let clients = || server.shared.clients().streams.len();
    let before = clients();
    let mut stream = TcpStream::connect(port(server)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    drop(stream);
    while clients() > before {
        std::thread::yield_now();
    }
    answer
}

fn get(server: &Server, path: &str, host: &str) -> String {
    ask(server, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
}

#[test]
fn metrics_page_and_nothing_else_is_found() {
    let server = start("127.0.0.1:0", limits());
    let metrics = get(&server, "/metrics?a=b", "localhost:1");
    assert!(
        metrics.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0; ")
    );
    assert!(
        metrics.contains("\nuswap_ram_limit_bytes 67108864\n") && metrics.ends_with("# EOF\n"),
        "{metrics}"
    );
    let page = get(&server, "/", "127.0.0.1");
    assert!(
        page.contains("text/html") && page.contains("Content-Security-Policy: default-src 'none'"),
        "{page}"
    );
    assert!(page.contains("67108864") && page.contains("so\\u003c/script>rt"), "{page}");
    for path in ["/metrics/", "/etc/passwd", "/../etc/passwd", "//", "*", "http://localhost/metrics"] {
        assert!(get(&server, path, "localhost").starts_with("HTTP/1.1 404 "), "{path}");
    }
    let head = ask(&server, "HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    let post = ask(&server, "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc");
    assert!(post.starts_with("HTTP/1.1 405 ") && post.contains("Allow: GET, HEAD"), "{post}");
}

#[test]
fn a_map_is_told_without_addresses() {
    let server = start("127.0.0.1:0", limits());
    for path in ["/map?run=812", "/map?process=7&run=812"] {
        let answer = get(&server, path, "localhost");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"), "{answer}");
        let (_, json) = answer.split_once("\r\n\r\n").unwrap();
        let map: MemoryMap = serde_json::from_str(json).unwrap();
        assert_eq!((map.pid, map.total.pool_bytes, map.buckets.len()), (7, 4096, 1));
        assert_eq!((map.buckets[0].start, map.buckets[0].end), (0, 0));
    }
    let silent = get(&server, "/map?run=812&process=8", "localhost");
    assert!(silent.starts_with("HTTP/1.1 503 ") && silent.ends_with("process 8 is stopped\n"), "{silent}");
    assert!(get(&server, "/map?run=x", "localhost").starts_with("HTTP/1.1 400 "));
    let head = ask(&server, "HEAD /map?run=9 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn a_page_that_came_by_a_name_of_its_own_is_told_nothing() {
    let server = start("127.0.0.1:0", limits());
    for path in ["/", "/metrics", "/events", "/map?run=812"] {
        let answer = get(&server, path, "rebound.example.org");
        assert!(answer.starts_with("HTTP/1.1 403 ") && !answer.contains("67108864"), "{answer}");
    }
    assert!(ask(&server, "GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400 "));
}

#[test]
fn what_is_too_long_or_takes_too_long_is_refused() {
    let server = start("127.0.0.1:0", limits());
    let line = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(20_000));
    assert!(ask(&server, &line).starts_with("HTTP/1.1 414 "));
    let header = format!("GET / HTTP/1.1\r\nHost: localhost\r\nCookie: {}\r\n\r\n", "a".repeat(20_000));
    assert!(ask(&server, &header).starts_with("HTTP/1.1 431 "));
    drop(server);
    let hasty = start("127.0.0.1:0", Limits { patience: Duration::from_millis(20), ..limits() });
    assert!(ask(&hasty, "GET / HTTP").starts_with("HTTP/1.1 408 "));
}

/// A silent client takes a place and no more: others are answered, and the end comes at once.
#[test]
fn a_client_that_hangs_holds_up_nobody() {
    let server = start("127.0.0.1:0", limits());
    let wait_for = |clients: usize| {
        while server.shared.clients().streams.len() != clients {
            std::thread::yield_now();
        }
    };
    let silent: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(port(&server)).unwrap()).collect();
    wait_for(2);
    assert!(get(&server, "/metrics", "localhost").starts_with("HTTP/1.1 200 "));
    wait_for(2);
    let mut third = TcpStream::connect(port(&server)).unwrap();
    third.write_all(b"GET /").unwrap();
    wait_for(3);
    assert!(get(&server, "/metrics", "localhost").starts_with("HTTP/1.1 503 "), "there is room for three");
    drop(server);
    drop(silent);
    let mut rest = Vec::new();
    let _reset_or_nothing = third.read_to_end(&mut rest);
    assert_eq!(rest, b"");
}

#[test]
fn events_come_again_and_again_and_end_with_the_server() {
    let server = start("127.0.0.1:0", limits());
    let mut stream = TcpStream::connect(port(&server)).unwrap();
    stream.write_all(b"GET /events HTTP/1.1\r\nHost: [::1]\r\n\r\n").unwrap();
    let mut text = String::new();
    while text.matches("\n\n").count() < 3 {
        let mut part = [0; 1024];
        let count = stream.read(&mut part).unwrap();
        text.push_str(std::str::from_utf8(&part[..count]).unwrap());
    }
    assert!(text.contains("Content-Type: text/event-stream\r\n"), "{text}");
    let events: Vec<RunStat> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map_while(|json| serde_json::from_str(json).ok())
        .collect();
    assert!(events.len() >= 3 && events.iter().all(|stat| stat.pid == 812), "{text}");
    let second = get(&server, "/events", "localhost");
    assert!(second.starts_with("HTTP/1.1 503 "), "there is room for one: {second}");
    drop(server);
    let _ends = stream.read_to_end(&mut Vec::new());
}

/// It has no name of a host that could be wrong: who may open the file may ask.
#[test]
fn a_socket_that_is_a_file_is_asked_by_any_name() {
    let path = std::env::temp_dir().join(format!("uswap-metrics-server-{}", std::process::id()));
    let server = start(&format!("unix:{}", path.display()), limits());
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: uswap\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("# EOF\n"), "{answer}");
    drop(server);
    assert!(!path.exists());
}
