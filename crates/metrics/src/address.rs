//! Where a run is shown, as it is typed: `unix:PATH`, or an address of this machine only.
//!
//! What must hold: no address is taken that another machine can reach. Who connects is not asked for a password.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Where a run is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A socket that is a file, with the rights of a file.
    Unix(PathBuf),
    /// A port of this machine.
    Tcp(SocketAddr),
}

/// As a client writes it.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(address) => write!(f, "http://{address}/"),
        }
    }
}

/// Reads an address.
///
/// # Errors
/// What is wrong with `text`, and what to do instead.
pub fn parse_address(text: &str) -> Result<Address, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return match path {
            "" => Err("'unix:' names no file: write unix:PATH".to_owned()),
            path => Ok(Address::Unix(path.into())),
        };
    }
    let address = match text.strip_prefix("localhost:").map(str::parse::<u16>) {
        Some(Ok(port)) => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        _ => text.parse::<SocketAddr>(),
    };
    match address {
        Ok(address) if address.ip().is_loopback() => Ok(Address::Tcp(address)),
        Ok(address) => Err(format!(
            "other machines can reach '{text}', and nobody is asked for a password there: take 127.0.0.1:{port}, and \
             from elsewhere 'ssh -L {port}:127.0.0.1:{port} MACHINE'; or a file, unix:PATH",
            port = address.port()
        )),
        Err(_) => Err(format!(
            "'{text}' is no address: write 127.0.0.1:PORT, 127.0.0.1:0 for any free port, or unix:PATH"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_taken() {
        let tcp = |text: &str| Address::Tcp(text.parse().unwrap());
        assert_eq!(parse_address("unix:/run/a b"), Ok(Address::Unix("/run/a b".into())));
        assert_eq!(parse_address("127.0.0.1:9100"), Ok(tcp("127.0.0.1:9100")));
        assert_eq!(parse_address("[::1]:0"), Ok(tcp("[::1]:0")));
        assert_eq!(parse_address("localhost:80"), Ok(tcp("127.0.0.1:80")));
        assert_eq!(tcp("[::1]:80").to_string(), "http://[::1]:80/");
    }

    #[test]
    fn others_are_refused_with_what_to_do() {
        for text in ["0.0.0.0:9100", "192.168.1.5:80", "[::]:80", "[2001:db8::1]:80", "[::ffff:10.0.0.1]:80"]
        {
            let error = parse_address(text).unwrap_err();
            assert!(error.contains("password") && error.contains("ssh -L"), "{error}");
        }
        for text in ["", "unix:", "9100", ":9100", "127.0.0.1", "example.org:80", "localhost:x", "localhost"]
        {
            assert!(parse_address(text).unwrap_err().contains("unix:PATH"), "{text}");
        }
    }
}
