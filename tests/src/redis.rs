//! A redis client of a few lines: enough to fill a server and read it back. Called by the redis tests.

use crate::run::{Run, Running};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// The command that starts a server on a socket in `directory`, without any saving by itself.
pub fn server(directory: &Path) -> Run {
    let socket = directory.join("redis.sock");
    Run::plain("redis-server")
        .args(["--port", "0", "--save", "", "--appendonly", "no", "--daemonize", "no", "--unixsocket"])
        .arg(&socket)
        .arg("--dir")
        .arg(directory)
}

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Client {
    /// Connects as soon as the server listens; panics after 60 s or if it has ended.
    pub fn connect(directory: &Path, server: &mut Running) -> Self {
        let started = Instant::now();
        loop {
            if let Ok(stream) = UnixStream::connect(directory.join("redis.sock")) {
                stream.set_read_timeout(Some(Duration::from_secs(300))).expect("the time is not zero");
                let reader = BufReader::new(stream.try_clone().expect("descriptors are left"));
                return Self { stream, reader };
            }
            assert!(!server.ended(), "redis-server ended: {}", server.output_so_far());
            assert!(started.elapsed() < Duration::from_secs(60), "redis-server does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Sends commands at once, and answers their replies.
    pub fn all(&mut self, commands: &[Vec<String>]) -> Vec<String> {
        let mut bytes = Vec::new();
        for words in commands {
            bytes.extend(format!("*{}\r\n", words.len()).into_bytes());
            words.iter().for_each(|word| bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes()));
        }
        self.stream.write_all(&bytes).expect("the server reads");
        commands.iter().map(|_| self.reply()).collect()
    }

    /// Sends one command of words separated by spaces.
    pub fn one(&mut self, command: &str) -> String {
        self.all(&[command.split(' ').map(ToString::to_string).collect()]).remove(0)
    }

    /// Sends a command after which the server closes the connection.
    pub fn last(mut self, command: &str) {
        self.stream.write_all(format!("{command}\r\n").as_bytes()).expect("the server reads");
        let mut rest = Vec::new();
        // It ends with or without a message; how the server itself ended is what the test looks at.
        let _ = self.reader.read_to_end(&mut rest);
    }

    fn reply(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("the server answers");
        let line = line.trim_end();
        match line.strip_prefix('$').map(|length| length.parse::<i64>().expect("a length")) {
            None => line.to_string(),
            Some(-1) => "(nil)".to_string(),
            Some(length) => {
                let mut bytes = vec![0; length as usize + 2];
                self.reader.read_exact(&mut bytes).expect("the server sends the whole value");
                bytes.truncate(length as usize);
                String::from_utf8(bytes).expect("our values are text")
            }
        }
    }

    /// Writes values `numbers` in version `version`, a hundred at a time.
    pub fn fill(&mut self, numbers: std::ops::Range<u64>, version: u64) {
        let numbers: Vec<u64> = numbers.collect();
        for hundred in numbers.chunks(100) {
            let command = |&number| {
                vec!["SET".to_string(), format!("key:{number}"), crate::content::json_value(number, version)]
            };
            let replies = self.all(&hundred.iter().map(command).collect::<Vec<_>>());
            assert!(replies.iter().all(|reply| reply == "+OK"), "SET was refused: {:?}", replies.first());
        }
    }

    /// Reads values back, scattered, and compares each.
    pub fn verify(&mut self, count: u64, version_of: impl Fn(u64) -> u64) {
        let order: Vec<u64> = (0..count).map(|step| (step * 7919) % count).collect();
        for hundred in order.chunks(100) {
            let commands: Vec<_> =
                hundred.iter().map(|number| vec!["GET".to_string(), format!("key:{number}")]).collect();
            for (number, value) in hundred.iter().zip(self.all(&commands)) {
                let wanted = crate::content::json_value(*number, version_of(*number));
                assert!(value == wanted, "key:{number} is wrong: {value:.80} instead of {wanted:.80}");
            }
        }
    }
}
