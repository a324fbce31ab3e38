//! From values to pixels, and which values get a tick.

/// How values are spread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Equal steps; ticks at 1, 2 or 5 times a power of ten.
    Even,
    /// Equal steps; ticks at powers of two and their multiples, for memory.
    EvenBinary,
    /// Equal factors.
    Logarithmic,
}

/// Decades between ticks where the span is large.
const STRIDES: [usize; 4] = [12, 6, 3, 2];
/// Ticks of each decade where it is not.
const DIGITS: [&[f64]; 4] = [&[1.0], &[1.0, 3.0], &[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]];
/// So many candidates come before those with equal steps.
const LOGARITHMIC_CANDIDATES: usize = STRIDES.len() + DIGITS.len();

/// One axis of a picture.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

/// Which values, and which pixels.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Span {
    /// At the beginning.
    pub first: f64,
    /// At the end; for pixels it may be less, as the y axis goes up.
    pub last: f64,
}

impl Axis {
    /// `values` ascend, and are above 0 for a logarithmic scale. A span without width is given one.
    pub fn new(scale: Scale, values: Span, pixels: Span) -> Self {
        let (mut low, mut high) = (values.first, values.last);
        if scale == Scale::Logarithmic {
            low = low.max(f64::MIN_POSITIVE);
            if high <= low * 1.000_001 {
                (low, high) = (low / 2.0, low * 2.0);
            }
        } else if high <= low {
            high = low + 1.0;
        }
        Self { scale, low, high, from: pixels.first, to: pixels.last }
    }

    /// Pixel of a value; outside values at the nearer end.
    pub fn place(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let share = match self.scale {
            Scale::Logarithmic => (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln()),
            Scale::Even | Scale::EvenBinary => (value - self.low) / (self.high - self.low),
        };
        self.from + share * (self.to - self.from)
    }

    /// Whether a value is on it.
    pub fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// As many round values as have `gap` pixels between them.
    pub fn ticks(&self, gap: f64) -> Vec<f64> {
        let mut best = Vec::new();
        for (index, candidate) in self.candidates().into_iter().enumerate() {
            // Equal steps on a logarithmic scale only where its span is too small for other round values.
            if self.scale == Scale::Logarithmic && index >= LOGARITHMIC_CANDIDATES && best.len() >= 3 {
                break;
            }
            let wide =
                candidate.windows(2).all(|pair| (self.place(pair[1]) - self.place(pair[0])).abs() >= gap);
            if wide && candidate.len() > best.len() {
                best = candidate;
            }
        }
        best
    }

    fn candidates(&self) -> Vec<Vec<f64>> {
        let mut candidates = Vec::new();
        if self.scale == Scale::Logarithmic {
            for stride in STRIDES {
                candidates.push(self.decades(&[1.0], stride));
            }
            for digits in DIGITS {
                candidates.push(self.decades(digits, 1));
            }
        }
        candidates.extend(self.even_steps());
        candidates
    }

    /// `digits` times powers of ten.
    fn decades(&self, digits: &[f64], stride: usize) -> Vec<f64> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let first = first - first.rem_euclid(stride as i32);
        let powers = (first..=last).step_by(stride);
        let values =
            powers.flat_map(|power| digits.iter().map(move |digit| rounded(digit * 10_f64.powi(power))));
        values.filter(|value| self.holds(*value)).collect()
    }

    fn even_steps(&self) -> Vec<Vec<f64>> {
        let range = self.high - self.low;
        let steps: Vec<f64> = if self.scale == Scale::EvenBinary {
            let power = range.log2().floor() as i32;
            (power - 4..=power).map(|power| 2_f64.powi(power)).collect()
        } else {
            let power = range.log10().floor() as i32;
            (power - 2..=power)
                .flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)))
                .collect()
        };
        let multiples = |step: f64| {
            let first = (self.low / step).ceil();
            let count = ((self.high - first * step) / step + 1e-9).floor().clamp(0.0, 500.0) as usize;
            (0..=count)
                .map(|index| rounded((first + index as f64) * step))
                .filter(|value| self.holds(*value))
                .collect()
        };
        steps.into_iter().map(multiples).collect()
    }
}

/// Twelve digits: what floating point adds behind them is not meant.
fn rounded(value: f64) -> f64 {
    format!("{value:.11e}").parse().expect("Rust reads the numbers that it prints")
}

/// A tick's value without zeros at its end: `0.5`, `1`, `1000`.
pub fn plain(value: f64) -> String {
    let text = format!("{value:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(scale: Scale, low: f64, high: f64) -> Axis {
        Axis::new(scale, Span { first: low, last: high }, Span { first: 100.0, last: 500.0 })
    }

    #[test]
    fn values_go_where_they_belong() {
        let even = axis(Scale::Even, 0.0, 10.0);
        assert_eq!([0.0, 5.0, 10.0, 99.0].map(|value| even.place(value)), [100.0, 300.0, 500.0, 500.0]);
        let logarithmic = axis(Scale::Logarithmic, 1.0, 100.0);
        assert_eq!(logarithmic.place(10.0), 300.0);
        assert_eq!(logarithmic.place(0.0), 100.0, "what has no logarithm is at the low end");
    }

    #[test]
    fn ticks_are_round_and_keep_their_distance() {
        assert_eq!(axis(Scale::Even, 0.0, 10.0).ticks(70.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(axis(Scale::EvenBinary, 0.0, 300.0).ticks(50.0), [0.0, 64.0, 128.0, 192.0, 256.0]);
        assert_eq!(axis(Scale::Logarithmic, 0.4, 4.0).ticks(45.0), [0.5, 0.7, 1.0, 1.5, 2.0, 3.0]);
        assert_eq!(axis(Scale::Logarithmic, 1.0, 1e9).ticks(60.0), [1.0, 1e2, 1e4, 1e6, 1e8]);
        assert_eq!(axis(Scale::Logarithmic, 0.95, 1.05).ticks(70.0), [0.96, 0.98, 1.0, 1.02, 1.04]);
    }

    #[test]
    fn spans_without_width_and_large_ones_work() {
        for scale in [Scale::Even, Scale::EvenBinary, Scale::Logarithmic] {
            for (low, high) in [(0.0, 0.0), (5.0, 5.0), (1e-300, 1e300), (0.0, 1.8e19)] {
                let axis = axis(scale, low, high);
                for tick in axis.ticks(50.0) {
                    assert!(
                        axis.place(tick).is_finite() && axis.holds(tick),
                        "{scale:?} {low} {high} {tick}"
                    );
                }
            }
        }
    }

    #[test]
    fn labels_have_no_zeros_at_their_end() {
        assert_eq!([0.5, 1.0, 1000.0, 1.05].map(plain), ["0.5", "1", "1000", "1.05"]);
    }
}
