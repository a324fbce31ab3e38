//! The line of JSON in which a workload says what it measured.
//!
//! `{"figures":{"mb_s":12.5},"checksum":"0f..","latency":[[15,3]]}`: `checksum` depends on size and seed only,
//! `latency` is there where single accesses are measured.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};

/// What a workload printed.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// What it measured; units stand in the names.
    pub figures: BTreeMap<String, f64>,
    /// Checksum of its result, the same for the same size and seed.
    pub checksum: Option<String>,
    /// Latency of single accesses: upper end of each bucket in ns, and how many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency: Vec<(u64, u64)>,
}

impl Output {
    /// The line of JSON.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("figures are finite, so the output can be written as JSON")
    }
}

/// Finds the one line of JSON in what a workload wrote to its standard output.
pub fn parse_output(stdout: &str) -> anyhow::Result<Output> {
    let mut lines = stdout.lines().filter(|line| line.starts_with('{'));
    let Some(line) = lines.next() else {
        let end: String = stdout
            .lines()
            .rev()
            .take(3)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect::<Vec<_>>()
            .join(" | ");
        bail!("the workload printed no result; the end of its output: '{end}'");
    };
    ensure!(
        lines.next().is_none(),
        "the workload printed two results; only one program may write to its output"
    );
    let output: Output = serde_json::from_str(line)
        .with_context(|| format!("the workload's result is not what it must be: {line}"))?;
    ensure!(
        output.figures.values().all(|value| value.is_finite()),
        "a figure of the workload is no number: {line}"
    );
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_back() {
        let output = Output {
            figures: [("mb_s".to_string(), 12.5), ("free_us".to_string(), 3.0)].into(),
            checksum: Some("00ff".into()),
            latency: vec![(15, 3), (31, 1)],
        };
        assert_eq!(parse_output(&format!("warming up\n{}\n", output.to_line())).unwrap(), output);
        let plain = parse_output("{\"figures\":{\"fill_s\":1},\"checksum\":\"ab\"}\n").unwrap();
        assert_eq!((plain.figures["fill_s"], plain.latency.len()), (1.0, 0));
    }

    #[test]
    fn what_is_no_result_is_refused() {
        for (stdout, said) in [
            ("", "no result"),
            ("FAIL page 3\n", "FAIL page 3"),
            ("{\"figures\":{}}\n{\"figures\":{}}\n", "two results"),
            ("{\"figures\":{\"a\":\"b\"}}\n", "not what it must be"),
            ("{\"figures\":{},\"extra\":1}\n", "not what it must be"),
        ] {
            let error = format!("{:#}", parse_output(stdout).unwrap_err());
            assert!(error.contains(said), "{stdout:?}: {error}");
        }
    }
}
