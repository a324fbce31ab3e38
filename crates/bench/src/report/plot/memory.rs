//! True RAM over time: resident and compressed pages on top of each other, the budget as a line; one small picture for
//! each rival, all with the same height of a byte.
//!
//! Of each rival the run with the highest peak is shown, however it ended.

use crate::results::{Cell, Results, Run, Workload};

use super::super::number;
use super::super::sheet::{one_line, shortened};
use super::axis::{Axis, Scale, Span, plain};
use super::{Anchor, Sample, Svg, WIDTH, legend, text_width};

const PANELS_ACROSS: usize = 3;
const PANEL_HEIGHT: f64 = 190.0;
const TOP: f64 = 34.0;
/// Room for the labels left of a panel.
const LABELS: f64 = 62.0;

/// The picture; none if nothing was sampled.
pub fn picture(results: &Results, workload: &Workload) -> Option<String> {
    let panels: Vec<(&str, &Run)> = results
        .rivals
        .iter()
        .filter_map(|rival| Some((rival.name.as_str(), highest(results.cell(&workload.name, &rival.name)?)?)))
        .collect();
    let peak = panels
        .iter()
        .flat_map(|(_, run)| &run.memory_over_time)
        .map(|at| sum(at.resident_bytes, at.compressed_bytes));
    let peak = peak.reduce(f64::max)?.max(results.budget_of(workload) as f64);

    let height = TOP + PANEL_HEIGHT * panels.len().div_ceil(PANELS_ACROSS) as f64;
    let mut svg = Svg::new(height, &format!("True RAM over time of {}", one_line(&workload.name)));
    let area = |class: &str| Sample::Area(class.to_owned());
    let items = [
        (area("resident"), "resident"),
        (area("compressed"), "compressed, and uswap's own"),
        (Sample::Line("line budget".to_owned()), "budget"),
    ];
    legend(Some(&mut svg), LABELS, 16.0, &items.map(|(sample, name)| (sample, name.to_owned())));
    let width = WIDTH / PANELS_ACROSS as f64;
    for (index, (rival, run)) in panels.iter().enumerate() {
        let corner =
            (width * (index % PANELS_ACROSS) as f64, TOP + PANEL_HEIGHT * (index / PANELS_ACROSS) as f64);
        panel(&mut svg, corner, (rival, run), (peak, results.budget_of(workload) as f64));
    }
    Some(svg.finish())
}

/// The run with the highest peak that has at least two points.
fn highest(cell: &Cell) -> Option<&Run> {
    let runs = cell.runs.iter().filter(|run| run.memory_over_time.len() >= 2);
    runs.max_by_key(|run| run.memory.sum_bytes)
}

fn panel(svg: &mut Svg, (x, y): (f64, f64), (rival, run): (&str, &Run), (peak, budget): (f64, f64)) {
    let (left, right) = (x + LABELS, x + WIDTH / PANELS_ACROSS as f64 - 12.0);
    let (top, bottom) = (y + 28.0, y + PANEL_HEIGHT - 34.0);
    let points = &run.memory_over_time;
    let seconds = points.iter().map(|at| at.ms).max().unwrap_or(0) as f64 / 1000.0;
    let x_axis =
        Axis::new(Scale::Even, Span { first: 0.0, last: seconds }, Span { first: left, last: right });
    let y_axis = Axis::new(
        Scale::EvenBinary,
        Span { first: 0.0, last: peak * 1.04 },
        Span { first: bottom, last: top },
    );

    let peak_text = format!("peak {}", number::bytes(run.memory.sum_bytes as f64));
    let room = ((right - left - text_width(&peak_text)) / text_width("n") - 1.0).max(4.0) as usize;
    svg.text(left, y + 20.0, Anchor::Start, "name", &shortened(&one_line(rival), room));
    svg.text(right, y + 20.0, Anchor::End, "tick", &peak_text);

    let across = |index: usize| x_axis.place(points[index].ms as f64 / 1000.0);
    let resident = |index: usize| y_axis.place(points[index].resident_bytes as f64);
    let both = |index: usize| y_axis.place(sum(points[index].resident_bytes, points[index].compressed_bytes));
    let last = points.len() - 1;
    let mut area = vec![(across(0), bottom)];
    area.extend((0..=last).map(|index| (across(index), resident(index))));
    area.push((across(last), bottom));
    svg.shape(&area, "resident");
    let mut area: Vec<(f64, f64)> = (0..=last).map(|index| (across(index), both(index))).collect();
    area.extend((0..=last).rev().map(|index| (across(index), resident(index))));
    svg.shape(&area, "compressed");

    for tick in y_axis.ticks(26.0) {
        svg.line((left, y_axis.place(tick)), (right, y_axis.place(tick)), "grid");
        svg.text(left - 6.0, y_axis.place(tick) + 4.0, Anchor::End, "tick", &number::bytes(tick));
    }
    for tick in x_axis.ticks(52.0) {
        let text = format!("{} s", plain(tick));
        svg.line((x_axis.place(tick), bottom), (x_axis.place(tick), bottom + 4.0), "one");
        svg.text(
            x_axis.place(tick).min(right - text_width(&text) / 2.0),
            bottom + 18.0,
            Anchor::Middle,
            "tick",
            &text,
        );
    }
    svg.line((left, bottom), (right, bottom), "one");
    if budget > 0.0 {
        svg.line((left, y_axis.place(budget)), (right, y_axis.place(budget)), "line budget");
    }
}

fn sum(resident_bytes: u64, compressed_bytes: u64) -> f64 {
    resident_bytes as f64 + compressed_bytes as f64
}

#[cfg(test)]
mod tests {
    use super::super::super::sample::{awkward, sample};
    use super::*;

    #[test]
    fn each_rival_that_ran_has_a_panel_with_its_peak() {
        let results = sample();
        let seqscan = picture(&results, &results.workloads[0]).expect("sampled");
        assert_eq!(seqscan.matches(">peak ").count(), results.rivals.len());
        let sort = picture(&results, &results.workloads[3]).expect("sampled");
        assert_eq!(sort.matches(">peak ").count(), results.rivals.len() - 1, "mapped-file was left out");
    }

    #[test]
    fn the_run_with_the_highest_peak_is_shown() {
        let mut results = sample();
        let cell = results.cells.iter_mut().find(|cell| cell.rival == "uswap").expect("uswap");
        cell.runs[3].memory.sum_bytes = 999 << 20;
        assert_eq!(highest(cell).expect("sampled").round, 3);
        cell.runs.iter_mut().for_each(|run| run.memory_over_time.truncate(1));
        assert_eq!(highest(cell), None, "one point is no course");
    }

    #[test]
    fn odd_data_draw_no_nan() {
        let results = awkward();
        for workload in &results.workloads {
            let picture = picture(&results, workload).unwrap_or_default();
            assert!(!picture.contains("NaN") && !picture.contains("inf"), "{picture}");
        }
    }
}
