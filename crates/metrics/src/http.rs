//! As much of HTTP/1.1 as a scrape and a browser need: one request, one answer, and the connection ends.
//!
//! What must hold: a request is at most [`HEAD_BYTES_MAX`] long and arrives within a time, whatever a client sends and
//! however slowly. A body is never read.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Shutdown};
use std::time::{Duration, Instant};

use crate::socket::Stream;

/// First line and headers of a request.
pub const HEAD_BYTES_MAX: usize = 8 << 10;

/// Headers of a request: browsers send some twenty.
const HEADERS_MAX: usize = 64;

/// What a client has still sent when it is answered is read and thrown away, up to so much and for so long: the kernel
/// would throw away the answer with it.
const REST_BYTES_MAX: usize = 64 << 10;
const REST_TIME: Duration = Duration::from_millis(200);

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// GET or HEAD, if it is one that is known.
    pub method: Option<Method>,
    /// Without what follows a question mark.
    pub path: String,
    /// What follows it.
    pub query: String,
    /// The host by whose name the client has come here.
    pub host: String,
}

impl Request {
    /// The number of this name in the query; 0 if there is none. `None`: it is no number.
    pub fn number(&self, name: &str) -> Option<u32> {
        let value = |pair: &str| pair.strip_prefix(name)?.strip_prefix('=').map(|value| value.parse().ok());
        self.query.split('&').find_map(value).unwrap_or(Some(0))
    }
}

/// How it is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// All of it.
    Get,
    /// Only what would be said of it.
    Head,
}

/// Why there is no request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unheard {
    /// The client is told.
    Refused(Status),
    /// It is gone.
    Gone,
}

/// The first line of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Here it is.
    Ok,
    /// It is no HTTP.
    BadRequest,
    /// It came by a name that is not this machine's.
    Forbidden,
    /// There is no such thing here.
    NotFound,
    /// It can only be read.
    MethodNotAllowed,
    /// It took too long.
    Timeout,
    /// The first line is too long.
    UriTooLong,
    /// All of it is too long.
    HeadersTooLarge,
    /// Too many ask at once.
    Busy,
}

impl Status {
    /// As it stands in the first line.
    pub fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::BadRequest => "400 Bad Request",
            Status::Forbidden => "403 Forbidden",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::Timeout => "408 Request Timeout",
            Status::UriTooLong => "414 URI Too Long",
            Status::HeadersTooLarge => "431 Request Header Fields Too Large",
            Status::Busy => "503 Service Unavailable",
        }
    }

    /// What a person can do about it.
    fn text(self) -> &'static str {
        match self {
            Status::Ok => "",
            Status::BadRequest => "this is no request of HTTP/1.1",
            Status::Forbidden => {
                "come here by localhost, 127.0.0.1 or [::1]: by another name a page could do so, too"
            }
            Status::NotFound => "there are /, /metrics, /events and /map?run=PID",
            Status::MethodNotAllowed => "there is nothing here but to be read: GET or HEAD",
            Status::Timeout => "the request took too long",
            Status::UriTooLong | Status::HeadersTooLarge => "the request is longer than 8 KiB",
            Status::Busy => "too many ask at once: try again",
        }
    }
}

/// Reads a request, within `patience`.
///
/// # Errors
/// There is none, or none that can be answered.
pub fn read_request(mut stream: &Stream, patience: Duration) -> Result<Request, Unheard> {
    let end = Instant::now() + patience;
    let mut head = Vec::with_capacity(1024);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Unheard::Refused(Status::Timeout));
        }
        stream.set_read_timeout(left).map_err(|_| Unheard::Gone)?;
        let mut part = [0; 2048];
        let room = part.len().min(HEAD_BYTES_MAX - head.len());
        match stream.read(&mut part[..room]) {
            Ok(0) => return Err(Unheard::Gone),
            Ok(count) => head.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // Of a time that is over: the loop sees it.
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                continue;
            }
            Err(_) => return Err(Unheard::Gone),
        }
        if let Some(request) = parse(&head)? {
            return Ok(request);
        }
        if head.len() == HEAD_BYTES_MAX {
            let is_one_line = !head.contains(&b'\n');
            return Err(Unheard::Refused(if is_one_line {
                Status::UriTooLong
            } else {
                Status::HeadersTooLarge
            }));
        }
    }
}

/// None: there is more to come.
fn parse(head: &[u8]) -> Result<Option<Request>, Unheard> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(head) {
        Ok(httparse::Status::Complete(_)) => (),
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Unheard::Refused(Status::HeadersTooLarge)),
        Err(_) => return Err(Unheard::Refused(Status::BadRequest)),
    }
    let mut hosts = parsed.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(Unheard::Refused(Status::BadRequest));
    };
    let path = parsed.path.unwrap_or_default();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    Ok(Some(Request {
        method: match parsed.method {
            Some("GET") => Some(Method::Get),
            Some("HEAD") => Some(Method::Head),
            _ => None,
        },
        path: path.to_owned(),
        query: query.to_owned(),
        host: String::from_utf8_lossy(host.value).into_owned(),
    }))
}

/// Whether a host is this machine by a name that nobody else can give to it. A page of the web may come here by a name
/// of its own, and read what is answered (DNS rebinding).
pub fn is_this_machine(host: &str) -> bool {
    let (name, port) = match host.rfind(']') {
        Some(end) if host.starts_with('[') => (&host[1..end], &host[end + 1..]),
        _ => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| {
        port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_own = name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_own && (port.is_empty() || is_port(port))
}

/// An answer of known length.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// How it went.
    pub status: Status,
    /// What the content is.
    pub content_type: &'static str,
    /// More lines of the head, each with its end.
    pub headers: &'static str,
    /// The content.
    pub content: String,
}

impl Answer {
    /// Why there is none.
    pub fn refusal(status: Status) -> Answer {
        let headers = if status == Status::MethodNotAllowed { "Allow: GET, HEAD\r\n" } else { "" };
        let content = format!("{}\n", status.text());
        Answer { status, content_type: "text/plain; charset=utf-8", headers, content }
    }

    /// As it is sent.
    pub fn bytes(&self, method: Method) -> Vec<u8> {
        let length = format!("Content-Length: {}\r\n{}", self.content.len(), self.headers);
        let mut bytes = head(self.status, self.content_type, &length).into_bytes();
        if method == Method::Get {
            bytes.extend_from_slice(self.content.as_bytes());
        }
        bytes
    }
}

/// The head of an answer. `more` are lines, each with its end.
pub fn head(status: Status, content_type: &str, more: &str) -> String {
    format!(
        "HTTP/1.1 {}\r\nContent-Type: {content_type}\r\nCache-Control: no-store\r\nX-Content-Type-Options: \
         nosniff\r\nConnection: close\r\n{more}\r\n",
        status.line()
    )
}

/// Sends all of it, and ends the connection in a way that lets it arrive.
///
/// # Errors
/// The client is gone, or takes nothing.
pub fn send(mut stream: &Stream, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes)?;
    stream.shut_down(Shutdown::Write);
    let end = Instant::now() + REST_TIME;
    let (mut part, mut rest) = ([0; 2048], 0);
    while rest < REST_BYTES_MAX {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(left).is_err() {
            break;
        }
        match stream.read(&mut part) {
            Ok(0) | Err(_) => break,
            Ok(count) => rest += count,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_when_all_of_it_is_there() {
        let text = b"GET /metrics?x=1 HTTP/1.1\r\nHost: localhost:80\r\nAccept: */*\r\n\r\n";
        for end in 0..text.len() {
            assert_eq!(parse(&text[..end]), Ok(None), "{end}");
        }
        let [path, query, host] = ["/metrics", "x=1", "localhost:80"].map(str::to_owned);
        assert_eq!(parse(text), Ok(Some(Request { method: Some(Method::Get), path, query, host })));
    }

    #[test]
    fn numbers_of_a_query_are_found_by_their_names() {
        let [path, host] = ["/map", "localhost"].map(str::to_owned);
        let query = "run=812&process=x&more=4294967296".to_owned();
        let request = Request { method: Some(Method::Get), path, query, host };
        let numbers = ["run", "process", "more", "ru", "pid"].map(|name| request.number(name));
        assert_eq!(numbers, [Some(812), None, None, Some(0), Some(0)]);
    }

    #[test]
    fn nonsense_is_refused() {
        let refused = |text: &str| match parse(text.as_bytes()) {
            Err(Unheard::Refused(status)) => status,
            other => panic!("{text:?}: {other:?}"),
        };
        let two = "GET / HTTP/1.1\r\nHost: localhost\r\nhost: example.org\r\n\r\n";
        for text in
            ["\0\0", "GET\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/3\r\n\r\n", "SSH-2.0-x\r\n", two]
        {
            assert_eq!(refused(text), Status::BadRequest, "{text:?}");
        }
        let many = format!("GET / HTTP/1.1\r\n{}", "a: b\r\n".repeat(HEADERS_MAX + 1));
        assert_eq!(refused(&many), Status::HeadersTooLarge);
    }

    #[test]
    fn only_names_that_cannot_be_anothers_are_this_machine() {
        let own =
            ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:9100", "[::1]", "[::1]:80", "127.9.9.9:1"];
        for host in own {
            assert!(is_this_machine(host), "{host}");
        }
        let others = [
            "",
            ":80",
            "example.org",
            "localhost.example.org",
            "127.0.0.1.example.org:80",
            "10.0.0.1:80",
            "[::1",
            "[2001:db8::1]:80",
            "127.0.0.1:80:80",
            "localhost:x",
            "[::1]x",
            "localhost, example.org",
            "::1",
        ];
        for host in others {
            assert!(!is_this_machine(host), "{host}");
        }
    }

    #[test]
    fn an_answer_to_head_says_how_long_the_content_would_be() {
        let answer = Answer { content: "abc".to_owned(), ..Answer::refusal(Status::MethodNotAllowed) };
        let text = |method| String::from_utf8(answer.bytes(method)).unwrap();
        let head = text(Method::Head);
        assert!(head.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"), "{head}");
        assert!(head.contains("\r\nContent-Length: 3\r\nAllow: GET, HEAD\r\n\r\n"), "{head}");
        assert_eq!(text(Method::Get), format!("{head}abc"));
    }
}
