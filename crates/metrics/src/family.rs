//! A metric family: what is said of it once, however many samples it has.
//!
//! What must hold: a name ends as OpenMetrics and Prometheus want it, with its unit, and `_total` if it only counts up;
//! the unit is a base unit, or pages.

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit as EncodedUnit;

/// A metric family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Family {
    /// Its name, without what [`Family::name`] puts behind it.
    pub base: &'static str,
    /// The unit of its samples.
    pub unit: Unit,
    /// How its samples change.
    pub kind: Kind,
    /// What it says.
    pub help: &'static str,
    /// Labels of its samples, beside that of the run.
    pub labels: &'static [&'static str],
}

/// A unit of samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Pages of 4 KiB.
    Pages,
    /// Seconds.
    Seconds,
    /// None: what is counted says the name.
    Number,
}

/// How samples change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Up and down.
    Gauge,
    /// Only up.
    Counter,
    /// Counts of values, by their size.
    Histogram,
    /// Not at all: the labels are what it says.
    Info,
}

impl Family {
    /// A family of gauges.
    pub const fn gauge(base: &'static str, unit: Unit, help: &'static str) -> Family {
        Family { base, unit, kind: Kind::Gauge, help, labels: &[] }
    }

    /// A family of counters.
    pub const fn counter(base: &'static str, unit: Unit, help: &'static str) -> Family {
        Family { base, unit, kind: Kind::Counter, help, labels: &[] }
    }

    /// The same with labels.
    pub const fn with(self, labels: &'static [&'static str]) -> Family {
        Family { labels, ..self }
    }

    /// The name under which Prometheus has its samples; of a histogram, what their names begin with.
    pub fn name(&self) -> String {
        let kind = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        format!("{}{}{kind}", self.base, self.unit.suffix())
    }
}

impl Unit {
    fn suffix(self) -> &'static str {
        match self {
            Unit::Bytes => "_bytes",
            Unit::Pages => "_pages",
            Unit::Seconds => "_seconds",
            Unit::Number => "",
        }
    }

    /// As the encoder has it, who puts it behind the name by himself.
    pub(crate) fn encoded(self) -> Option<EncodedUnit> {
        match self {
            Unit::Bytes => Some(EncodedUnit::Bytes),
            Unit::Pages => Some(EncodedUnit::Other("pages".to_owned())),
            Unit::Seconds => Some(EncodedUnit::Seconds),
            Unit::Number => None,
        }
    }
}

impl Kind {
    /// As the encoder has it.
    pub(crate) fn encoded(self) -> MetricType {
        match self {
            Kind::Gauge => MetricType::Gauge,
            Kind::Counter => MetricType::Counter,
            Kind::Histogram => MetricType::Histogram,
            Kind::Info => MetricType::Info,
        }
    }
}

/// The value of a sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// A whole number.
    Whole(u64),
    /// A number with parts.
    Parts(f64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_unit_and_kind() {
        let family = Family::counter("uswap_read", Unit::Bytes, "Bytes read");
        assert_eq!(family.name(), "uswap_read_bytes_total");
        assert_eq!(Family::gauge("uswap_processes", Unit::Number, "").name(), "uswap_processes");
        assert_eq!(
            Family { kind: Kind::Info, ..Family::gauge("uswap", Unit::Number, "") }.name(),
            "uswap_info"
        );
    }
}
