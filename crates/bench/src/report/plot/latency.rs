//! How slow the slow accesses are: for each time, which share of the accesses took longer; one line for each rival,
//! both scales logarithmic.

use std::collections::BTreeMap;

use crate::results::{Cell, Results, Workload};
use crate::statistics::{Endings, done_runs};

use super::super::number;
use super::super::sheet::{one_line, shortened};
use super::axis::{Axis, Scale, Span, plain};
use super::{Anchor, Sample, Svg, WIDTH, legend, line_class};

const LEFT: f64 = 86.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 330.0;
/// Slower ones are drawn at the edge: 1,000 s.
const SLOWEST_NS: f64 = 1e12;
/// Shares below are not drawn.
const SMALLEST_SHARE: f64 = 1e-7;

/// A point: accesses slower than `ns` are `share` of all.
type Point = (f64, f64);

/// The picture; none if no rival has latencies of this workload.
pub fn picture(results: &Results, workload: &Workload) -> Option<String> {
    let mut curves = Vec::new();
    for rival in &results.rivals {
        let Some(cell) = results.cell(&workload.name, &rival.name) else { continue };
        let Some(points) = curve(&merged(cell)) else { continue };
        let endings = Endings::of(cell);
        let note = if endings.all_well() { String::new() } else { format!(" ({endings})") };
        curves.push((
            line_class(results, &rival.name),
            shortened(&one_line(&format!("{}{note}", rival.name)), 60),
            points,
        ));
    }
    let fastest = curves.iter().map(|(_, _, points)| points[0].0).reduce(f64::min)?;
    let slowest = curves.iter().map(|(_, _, points)| points[points.len() - 1].0).reduce(f64::max)?;
    let smallest =
        curves.iter().flat_map(|(_, _, points)| points).map(|point| point.1).filter(|share| *share > 0.0);
    let smallest = smallest.fold(0.1, f64::min).max(SMALLEST_SHARE);
    let floor = 10_f64.powi(smallest.log10().floor() as i32);
    let x_axis = Axis::new(
        Scale::Logarithmic,
        Span { first: fastest / 1.1, last: slowest * 1.1 },
        Span { first: LEFT, last: WIDTH - 16.0 },
    );
    let y_axis =
        Axis::new(Scale::Logarithmic, Span { first: floor, last: 1.0 }, Span { first: BOTTOM, last: TOP });

    let items: Vec<(Sample, String)> =
        curves.iter().map(|(class, name, _)| (Sample::Line(class.clone()), name.clone())).collect();
    let height = BOTTOM + 60.0 + legend(None, LEFT, 0.0, &items);
    let mut svg = Svg::new(height, &format!("Latency of accesses of {}", one_line(&workload.name)));
    for tick in x_axis.ticks(62.0) {
        svg.line((x_axis.place(tick), TOP), (x_axis.place(tick), BOTTOM), "grid");
        svg.text(x_axis.place(tick), BOTTOM + 16.0, Anchor::Middle, "tick", &number::nanoseconds(tick));
    }
    for tick in
        y_axis.ticks(28.0).into_iter().filter(|tick| (tick.log10() - tick.log10().round()).abs() < 1e-6)
    {
        svg.line((LEFT, y_axis.place(tick)), (WIDTH - 16.0, y_axis.place(tick)), "grid");
        let label = format!("{} %", plain(tick * 100.0));
        svg.text(LEFT - 6.0, y_axis.place(tick) + 4.0, Anchor::End, "tick", &label);
    }
    svg.text(
        f64::midpoint(LEFT, WIDTH - 16.0),
        BOTTOM + 36.0,
        Anchor::Middle,
        "label",
        "time of an access, logarithmic",
    );
    svg.upright_text(14.0, f64::midpoint(TOP, BOTTOM), "share of accesses that took longer");
    for (class, _, points) in &curves {
        let points: Vec<Point> =
            points.iter().map(|(ns, share)| (x_axis.place(*ns), y_axis.place(*share))).collect();
        svg.path(&points, class);
    }
    legend(Some(&mut svg), LEFT, BOTTOM + 60.0, &items);
    Some(svg.finish())
}

/// Buckets of all runs that ended well, by their upper end.
fn merged(cell: &Cell) -> BTreeMap<u64, u128> {
    let mut buckets = BTreeMap::new();
    for (end_ns, count) in done_runs(cell).flat_map(|run| &run.latency).filter(|(_, count)| *count > 0) {
        *buckets.entry(*end_ns).or_default() += u128::from(*count);
    }
    buckets
}

/// From all accesses down to none. None if there is no access.
fn curve(buckets: &BTreeMap<u64, u128>) -> Option<Vec<Point>> {
    let all: u128 = buckets.values().sum();
    let first = *buckets.keys().next()?;
    let place = |end_ns: u64| (end_ns as f64).clamp(1.0, SLOWEST_NS);
    let mut points = vec![(place(first), 1.0)];
    let mut slower = all;
    for (end_ns, count) in buckets {
        slower -= count;
        points.push((place(*end_ns), slower as f64 / all as f64));
    }
    Some(points)
}

#[cfg(test)]
mod tests {
    use super::super::super::sample::{awkward, sample};
    use super::*;
    use crate::results::{Outcome, Run};

    #[test]
    fn shares_by_hand_over_two_rounds() {
        let run = |latency: &[(u64, u64)]| Run { latency: latency.to_vec(), ..Run::default() };
        let killed = Run { outcome: Outcome::Killed, latency: vec![(5, 1000)], ..Run::default() };
        let cell = Cell {
            runs: vec![run(&[(10, 6), (100, 1)]), run(&[(10, 2), (1000, 1)]), killed],
            ..Cell::default()
        };
        let points = curve(&merged(&cell)).expect("ten accesses");
        assert_eq!(points, [(10.0, 1.0), (10.0, 0.2), (100.0, 0.1), (1000.0, 0.0)]);
        assert_eq!(curve(&merged(&Cell::default())), None);
    }

    #[test]
    fn rivals_with_latencies_have_a_line_and_a_name() {
        let results = sample();
        let read = picture(&results, &results.workloads[1]).expect("latencies");
        assert_eq!(
            read.matches("<path class=\"line").count(),
            2 * results.rivals.len(),
            "line and sample of each"
        );
        let killed = picture(&results, &results.workloads[4]).expect("latencies");
        assert!(killed.contains("zram-lz4 (killed 3 of 5)"), "{killed}");
        assert_eq!(picture(&results, &results.workloads[3]), None, "sort measures none");
    }

    #[test]
    fn extreme_times_stay_in_the_picture() {
        let results = awkward();
        let picture = picture(&results, &results.workloads[4]).expect("latencies of uswap");
        assert!(!picture.contains("NaN") && !picture.contains("inf"), "{picture}");
    }
}
