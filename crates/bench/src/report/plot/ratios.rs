//! uswap against the bar on every workload: a mark at the ratio, a line for its interval, on a logarithmic scale around
//! 1.
//!
//! Triangles that point up win, triangles that point down lose, circles tie; the word stands beside them.

use crate::statistics::{Basis, Ratio, Verdict};

use super::super::duel::{self, Duel};
use super::super::number;
use super::super::sheet::{one_line, shortened};
use super::axis::{Axis, Scale, Span, plain};
use super::{Anchor, Svg, WIDTH, text_width};

const ROW: f64 = 26.0;
const TOP: f64 = 40.0;

/// The picture; none if uswap was not measured.
pub fn picture(duels: &[Duel<'_>]) -> Option<String> {
    if duels.is_empty() {
        return None;
    }
    let names: Vec<String> = duels.iter().map(|duel| shortened(&one_line(&duel.name()), 30)).collect();
    let words: Vec<String> = duels.iter().map(words).collect();
    let widest = |texts: &[String]| texts.iter().map(|text| text_width(text)).fold(0.0, f64::max);
    let (left, right) = (widest(&names) + 16.0, WIDTH - widest(&words) - 36.0);
    let bottom = TOP + ROW * duels.len() as f64;
    let axis = axis(duels, Span { first: left, last: right });

    let mut svg = Svg::new(
        bottom + 54.0,
        &format!("Ratio of uswap to the bar on each workload: {}", duel::score(duels)),
    );
    legend(&mut svg, left);
    for tick in axis.ticks(48.0) {
        let x = axis.place(tick);
        svg.line((x, TOP), (x, bottom), "grid");
        svg.text(x, bottom + 16.0, Anchor::Middle, "tick", &plain(tick));
    }
    svg.line((axis.place(1.0), TOP - 4.0), (axis.place(1.0), bottom + 4.0), "one");
    let middle = f64::midpoint(left, right);
    svg.text(
        middle,
        bottom + 40.0,
        Anchor::Middle,
        "label",
        "ratio uswap / bar, logarithmic; right of 1 uswap is better",
    );

    for (index, duel) in duels.iter().enumerate() {
        let y = TOP + ROW * (index as f64 + 0.5);
        let class = class(duel.advantage.verdict);
        svg.text(left - 12.0, y + 4.0, Anchor::End, "name", &names[index]);
        if let Some(ratio) = duel.advantage.ratio {
            interval(&mut svg, &axis, ratio, y, class);
            mark(&mut svg, (axis.place(ratio.ratio), y), duel.advantage.verdict);
        }
        mark(&mut svg, (right + 16.0, y), duel.advantage.verdict);
        svg.text(right + 28.0, y + 4.0, Anchor::Start, &format!("name {class}-text"), &words[index]);
    }
    Some(svg.finish())
}

/// From the smallest to the largest ratio, some way around 1 at least. Intervals may reach three times beyond; what is
/// further ends in an arrow.
fn axis(duels: &[Duel<'_>], pixels: Span) -> Axis {
    let ratios: Vec<Ratio> = duels.iter().filter_map(|duel| duel.advantage.ratio).collect();
    let smallest = ratios.iter().map(|ratio| ratio.ratio).fold(1.0, f64::min);
    let largest = ratios.iter().map(|ratio| ratio.ratio).fold(1.0, f64::max);
    let low = ratios.iter().map(|ratio| ratio.low).fold(smallest, f64::min).max(smallest / 3.0);
    let high = ratios.iter().map(|ratio| ratio.high).fold(largest, f64::max).min(largest * 3.0);
    Axis::new(Scale::Logarithmic, Span { first: low.min(0.8) / 1.08, last: high.max(1.25) * 1.08 }, pixels)
}

fn interval(svg: &mut Svg, axis: &Axis, ratio: Ratio, y: f64, class: &str) {
    let line = if ratio.basis == Basis::Assumed { "interval assumed" } else { "interval" };
    let (low, high) = (axis.place(ratio.low), axis.place(ratio.high));
    svg.line((low, y), (high, y), &format!("{line} {class}-line"));
    for (x, value, inwards) in [(low, ratio.low, 6.0), (high, ratio.high, -6.0)] {
        let end = if axis.holds(value) {
            vec![(x, y - 5.0), (x, y + 5.0)]
        } else {
            vec![(x + inwards, y - 5.0), (x, y), (x + inwards, y + 5.0)]
        };
        svg.path(&end, &format!("interval {class}-line"));
    }
}

fn mark(svg: &mut Svg, (x, y): (f64, f64), verdict: Verdict) {
    match verdict {
        Verdict::Win => svg.shape(&[(x - 6.0, y + 5.0), (x, y - 6.0), (x + 6.0, y + 5.0)], "win"),
        Verdict::Loss => svg.shape(&[(x - 6.0, y - 5.0), (x, y + 6.0), (x + 6.0, y - 5.0)], "loss"),
        Verdict::Tie => svg.circle((x, y), 5.0, "tie"),
        Verdict::Mixed => {
            svg.shape(&[(x - 6.0, y), (x, y - 6.0), (x + 6.0, y), (x, y + 6.0)], "mixed");
        }
        Verdict::NoData => {
            let (low, high) = (y + 4.0, y - 4.0);
            svg.shape(&[(x - 4.0, low), (x - 4.0, high), (x + 4.0, high), (x + 4.0, low)], "no-data");
        }
    }
}

fn legend(svg: &mut Svg, left: f64) {
    let mut x = left + 6.0;
    for verdict in [Verdict::Win, Verdict::Tie, Verdict::Mixed, Verdict::Loss, Verdict::NoData] {
        mark(svg, (x, 14.0), verdict);
        svg.text(x + 12.0, 18.0, Anchor::Start, "legend", verdict.word());
        x += 36.0 + text_width(verdict.word());
    }
    svg.path(&[(x, 9.0), (x, 19.0)], "interval tie-line");
    svg.line((x, 14.0), (x + 28.0, 14.0), "interval tie-line");
    svg.path(&[(x + 28.0, 9.0), (x + 28.0, 19.0)], "interval tie-line");
    svg.text(x + 36.0, 18.0, Anchor::Start, "legend", "interval");
}

/// `1.48 win`, or why there is no ratio.
fn words(duel: &Duel<'_>) -> String {
    let ratio =
        duel.advantage.ratio.map_or(String::new(), |ratio| format!("{} ", number::ratio(ratio.ratio)));
    shortened(&format!("{ratio}{}", duel::verdict_entry(&duel.advantage).text), 40)
}

/// The class of the style sheet for a verdict.
pub fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Win => "win",
        Verdict::Loss => "loss",
        Verdict::Tie => "tie",
        Verdict::Mixed => "mixed",
        Verdict::NoData => "no-data",
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::sample::{awkward, sample};
    use super::*;

    #[test]
    fn each_duel_has_a_row_with_its_word() {
        let results = sample();
        let duels = duel::duels(&results);
        let picture = picture(&duels).expect("uswap was measured");
        for duel in &duels {
            assert!(picture.contains(&format!(">{}<", duel.workload.name)), "{picture}");
        }
        assert!(picture.contains("1 win") || picture.contains(" win<"), "{picture}");
        // Once in the legend, twice in each row that has a ratio.
        let losses = duels.iter().filter(|duel| duel.advantage.verdict == Verdict::Loss).count();
        assert_eq!(picture.matches("class=\"loss\"").count(), 1 + 2 * losses);
    }

    #[test]
    fn an_interval_that_leaves_the_axis_ends_in_an_arrow() {
        let mut results = sample();
        results.workloads.truncate(1);
        for cell in &mut results.cells {
            cell.runs.truncate(2);
            if cell.rival == "uswap" {
                cell.runs[0].figures.values_mut().for_each(|value| *value *= 10.0);
            }
        }
        let duels = duel::duels(&results);
        let ratio = duels[0].advantage.ratio.expect("two rounds");
        assert!(
            ratio.low < 0.1 && !axis(&duels, Span { first: 0.0, last: 1.0 }).holds(ratio.low),
            "{ratio:?}"
        );
        assert!(picture(&duels).expect("a picture").matches('L').count() > 4);
    }

    #[test]
    fn nothing_to_compare_is_no_picture_and_odd_data_no_nan() {
        assert_eq!(picture(&[]), None);
        let results = awkward();
        let picture = picture(&duel::duels(&results)).expect("uswap is a rival");
        assert!(!picture.contains("NaN") && !picture.contains("<script"), "{picture}");
    }
}
