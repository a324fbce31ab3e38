//! Answers who asks how a run goes: `/` is the page, `/metrics` the text for Prometheus, `/events` what
//! [`uswap_control::stat::RunStat`] says each second, and `/map?run=PID&process=PID` where the memory of a process is.
//!
//! What must hold: clients at once are few, each has little time to say what it wants, and each takes what it is sent
//! or is left; dropping the server ends all of it at once, whatever they do. Nothing that is asked changes the run, and
//! nobody is told where in its address space the memory of a process lies: a port can be opened by every user.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use uswap_control::map::MemoryMap;
use uswap_control::stat::RunStat;
use uswap_control::unpoisoned;

use crate::address::Address;
use crate::http::{self, Answer, Method, Request, Status, Unheard};
use crate::openmetrics::{self, RunLabel};
use crate::page;
use crate::socket::{Listener, Stream};

/// What keeps clients small.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Clients at once. Each has a thread with a stack of 256 KiB, of which it touches a few pages.
    pub clients_max: usize,
    /// Those of them that get events, so that there is always room for a scrape.
    pub followers_max: usize,
    /// How long a client may take for its request, and for taking a part of what it is sent.
    pub patience: Duration,
    /// Between two events.
    pub period: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        let (patience, period) = (Duration::from_secs(5), Duration::from_secs(1));
        Limits { clients_max: 16, followers_max: 8, patience, period }
    }
}

const STACK_BYTES: usize = 256 * 1024;

/// Between two maps of processes, whoever asks: each costs a process some time.
const BETWEEN_MAPS: Duration = Duration::from_millis(250);

/// Says which parts of the memory of a process are where, or why that is not known.
pub type AnswersMaps = dyn Fn(&MapQuestion<'_>) -> Result<MemoryMap, String> + Send + Sync;

/// What is shown.
#[derive(Clone)]
pub struct Source {
    /// How the runs go now.
    pub stats: Arc<dyn Fn() -> Vec<RunStat> + Send + Sync>,
    /// Which parts of the memory of a process are where, or why that is not known.
    pub map: Arc<AnswersMaps>,
    /// Whether there may be several.
    pub label: RunLabel,
}

/// What is asked about the memory of a process.
pub struct MapQuestion<'a> {
    /// Its run.
    pub run: u32,
    /// The process; `None`: the one that has most memory under management.
    pub process: Option<u32>,
    /// Whether nobody waits for the answer any more.
    pub is_over: &'a dyn Fn() -> bool,
}

/// A server, until it is dropped.
pub struct Server {
    shared: Arc<Shared>,
    address: Address,
    /// The other end sees when it is closed.
    end: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Begins to answer.
    ///
    /// # Errors
    /// There is no room for a thread, or no descriptor left.
    pub fn start(listener: Listener, source: Source, limits: Limits) -> std::io::Result<Server> {
        let (end, seen) = UnixStream::pair()?;
        let address = listener.address().clone();
        let shared = Arc::new(Shared {
            source,
            limits,
            is_port: matches!(address, Address::Tcp(_)),
            clients: Mutex::default(),
            has_ended: Condvar::new(),
            mapped: Mutex::default(),
        });
        let thread = std::thread::Builder::new().name("uswap-metrics".to_owned()).stack_size(STACK_BYTES);
        let of_thread = Arc::clone(&shared);
        let thread = thread.spawn(move || of_thread.serve(&listener, &seen))?;
        Ok(Server { shared, address, end: Some(end), thread: Some(thread) })
    }

    /// Where it answers.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.end();
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _has_said_why = thread.join();
        }
    }
}

struct Shared {
    source: Source,
    limits: Limits,
    /// Clients come by the name of a host, which may be wrong.
    is_port: bool,
    clients: Mutex<Clients>,
    has_ended: Condvar,
    /// When the last map was made. Held while one is.
    mapped: Mutex<Option<Instant>>,
}

/// Who is connected.
#[derive(Default)]
struct Clients {
    /// For ending what they wait for, by a number of each.
    streams: Vec<(u64, Stream)>,
    next: u64,
    followers: usize,
    has_ended: bool,
}

impl Shared {
    /// Accepts clients until the end.
    fn serve(&self, listener: &Listener, end: &UnixStream) {
        std::thread::scope(|scope| {
            while wait_for_client(listener, end) {
                let Ok(stream) = listener.accept() else {
                    // It was gone again, or there is no descriptor left: then it goes on waiting.
                    self.pause(Duration::from_millis(10));
                    continue;
                };
                if stream.set_write_timeout(self.limits.patience).is_err() {
                    continue;
                }
                let Some(number) = self.enter(&stream) else {
                    let _may_be_gone = http::send(&stream, &Answer::refusal(Status::Busy).bytes(Method::Get));
                    continue;
                };
                let thread =
                    std::thread::Builder::new().name("uswap-client".to_owned()).stack_size(STACK_BYTES);
                let started = thread.spawn_scoped(scope, move || {
                    self.answer(&stream);
                    self.leave(number);
                });
                if started.is_err() {
                    self.leave(number);
                }
            }
            self.end();
        });
    }

    /// The number of one more client. None: there are too many.
    fn enter(&self, stream: &Stream) -> Option<u64> {
        let mut clients = self.clients();
        if clients.has_ended || clients.streams.len() >= self.limits.clients_max {
            return None;
        }
        let number = clients.next;
        clients.streams.push((number, stream.try_clone().ok()?));
        clients.next += 1;
        Some(number)
    }

    fn leave(&self, number: u64) {
        self.clients().streams.retain(|(other, _)| *other != number);
    }

    /// Nobody waits for anything from now on.
    fn end(&self) {
        let mut clients = self.clients();
        clients.has_ended = true;
        clients.streams.iter().for_each(|(_, stream)| stream.shut_down(Shutdown::Both));
        self.has_ended.notify_all();
    }

    fn clients(&self) -> MutexGuard<'_, Clients> {
        unpoisoned(self.clients.lock())
    }

    /// Waits for so long, or for the end. True: it has come.
    fn pause(&self, time: Duration) -> bool {
        let waited = self.has_ended.wait_timeout_while(self.clients(), time, |clients| !clients.has_ended);
        unpoisoned(waited).0.has_ended
    }

    fn answer(&self, stream: &Stream) {
        let (answer, method) = match http::read_request(stream, self.limits.patience) {
            Ok(request) => match self.look_for(&request) {
                Found::Answer(answer) => (answer, request.method.unwrap_or(Method::Get)),
                Found::Events => return self.follow(stream),
            },
            Err(Unheard::Refused(status)) => (Answer::refusal(status), Method::Get),
            Err(Unheard::Gone) => return,
        };
        let _may_be_gone = http::send(stream, &answer.bytes(method));
    }

    fn look_for(&self, request: &Request) -> Found {
        let refused = |status| Found::Answer(Answer::refusal(status));
        let found = |content_type, headers, content| {
            Found::Answer(Answer { status: Status::Ok, content_type, headers, content })
        };
        if self.is_port && !http::is_this_machine(&request.host) {
            return refused(Status::Forbidden);
        }
        let stats = || (self.source.stats)();
        match (request.path.as_str(), request.method) {
            ("/" | "/metrics" | "/events" | "/map", None) => refused(Status::MethodNotAllowed),
            ("/", _) => found("text/html; charset=utf-8", page::HEADERS, page::live(&stats())),
            ("/metrics", _) => {
                let text = openmetrics::render_with(&stats(), self.source.label);
                found(openmetrics::CONTENT_TYPE, "", text)
            }
            ("/events", Some(Method::Head)) => found(EVENTS_TYPE, "", String::new()),
            ("/events", _) => Found::Events,
            ("/map", Some(Method::Head)) => found(JSON_TYPE, "", String::new()),
            ("/map", _) => match (request.number("run"), request.number("process")) {
                (Some(run), Some(process)) => Found::Answer(self.map(run, process)),
                _ => refused(Status::BadRequest),
            },
            _ => refused(Status::NotFound),
        }
    }

    /// A map, or why there is none. One at a time, and not too often.
    fn map(&self, run: u32, process: u32) -> Answer {
        let mut mapped = unpoisoned(self.mapped.lock());
        if let Some(at) = *mapped {
            self.pause(BETWEEN_MAPS.saturating_sub(at.elapsed()));
        }
        let is_over = || self.clients().has_ended;
        let process = (process != 0).then_some(process);
        let map = (self.source.map)(&MapQuestion { run, process, is_over: &is_over });
        *mapped = Some(Instant::now());
        match map.map(MemoryMap::without_addresses) {
            Ok(map) => {
                let content = serde_json::to_string(&map).expect("it has nothing that JSON cannot say");
                Answer { status: Status::Ok, content_type: JSON_TYPE, headers: "", content }
            }
            Err(why) => Answer { content: format!("{why}\n"), ..Answer::refusal(Status::Busy) },
        }
    }

    /// Says each second how the runs go, until the client or the server ends.
    fn follow(&self, stream: &Stream) {
        let _place = {
            let mut clients = self.clients();
            if clients.followers >= self.limits.followers_max {
                drop(clients);
                let _may_be_gone = http::send(stream, &Answer::refusal(Status::Busy).bytes(Method::Get));
                return;
            }
            clients.followers += 1;
            Follower(self)
        };
        let mut text = http::head(Status::Ok, EVENTS_TYPE, "");
        loop {
            for stat in (self.source.stats)() {
                let json = serde_json::to_string(&stat).expect("it has nothing that JSON cannot say");
                text.push_str("data: ");
                text.push_str(&json);
                text.push_str("\n\n");
            }
            if text.is_empty() {
                // A comment: whether the client is still there.
                text.push_str(":\n\n");
            }
            if write(stream, &text).is_err() || self.pause(self.limits.period) {
                return;
            }
            text.clear();
        }
    }
}

const EVENTS_TYPE: &str = "text/event-stream";
const JSON_TYPE: &str = "application/json";

enum Found {
    Answer(Answer),
    Events,
}

/// A place among those who get events.
struct Follower<'a>(&'a Shared);

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        self.0.clients().followers -= 1;
    }
}

fn write(mut stream: &Stream, text: &str) -> std::io::Result<()> {
    std::io::Write::write_all(&mut stream, text.as_bytes())
}

/// False: the server has ended.
fn wait_for_client(listener: &Listener, end: &UnixStream) -> bool {
    loop {
        let mut events = [PollFd::new(listener, PollFlags::IN), PollFd::new(end, PollFlags::IN)];
        match poll(&mut events, None) {
            Ok(_) => return events[1].revents().is_empty(),
            Err(Errno::INTR) => (),
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
