//! The metrics as tables of docs/METRICS.md. A test keeps that equal to what is declared.

use std::fmt::Write as _;

use crate::counters::counter_metrics;
use crate::family::Kind;
use crate::tables::families;

/// Both tables, with their headings.
pub fn tables() -> String {
    let mut text = String::from(
        "## Every counter\n\n| name | in OpenMetrics | unit of the name | what it counts |\n|---|---|---|---|\n",
    );
    for (described, metric) in counter_metrics() {
        let meaning = described.text.trim_end_matches('.');
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "| `{}` | `{}` | {} | {meaning} |",
            described.name,
            metric.family.name(),
            described.unit
        );
    }
    text.push_str(
        "\n## Beside the counters\n\n| in OpenMetrics | labels | kind | what it says |\n|---|---|---|---|\n",
    );
    for family in families() {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let kind = match family.kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
            Kind::Info => "info",
        };
        let _ = writeln!(text, "| `{}` | {} | {kind} | {} |", family.name(), labels.join(", "), family.help);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    fn documents(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
    }

    /// Written anew with `USWAP_WRITE_METRICS=1`.
    #[test]
    fn the_document_of_metrics_has_each_metric_as_it_is_declared() {
        let path = documents("METRICS.md");
        let document = std::fs::read_to_string(&path).unwrap();
        let (introduction, _) = document.split_once("## Every counter\n").expect("it has a table");
        let right = format!("{introduction}{}", tables());
        if std::env::var_os("USWAP_WRITE_METRICS").is_some() {
            std::fs::write(&path, &right).unwrap();
        }
        let why = "USWAP_WRITE_METRICS=1 cargo test -p uswap-metrics metrics writes it anew";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), right, "{why}");
    }
}
