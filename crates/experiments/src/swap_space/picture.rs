//! A scene as a picture: one line for each contender over the number of CPUs, both logarithmic.

use super::scenes::{OURS, Row, Scene};
use uswap_bench::report::page::STYLE;
use uswap_bench::report::plot::axis::{Axis, Scale, Span, plain};
use uswap_bench::report::plot::{Anchor, Sample, Svg, WIDTH, legend};

const LEFT: f64 = 84.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 380.0;

/// A whole SVG file. It shows the setting that was measured with the most numbers of CPUs; of equal ones the first.
#[must_use]
pub fn of(scene: &Scene, clock: &str) -> String {
    let count = |setting: &str| scene.rows.iter().filter(|row| row.setting == setting).count();
    let most = scene.rows.iter().map(|row| count(&row.setting)).max().unwrap_or(0);
    let setting = scene.rows.iter().find(|row| count(&row.setting) == most).map_or("", |row| &row.setting);
    let rows: Vec<&Row> = scene.rows.iter().filter(|row| row.setting == setting).collect();
    let has_fallbacks = rows.iter().any(|row| row.fallback_percent.is_some());
    let (what, value): (&str, fn(&Row) -> f64) = if has_fallbacks {
        ("nanoseconds each; less is better", |row| row.measured.mean_ns)
    } else {
        ("million a second; more is better", |row| row.measured.per_second / 1e6)
    };
    let title = format!("{}, {setting}, {clock}", scene.name);
    let mut svg = Svg::new(BOTTOM + 54.0, &title);
    svg.text(LEFT, 20.0, Anchor::Start, "name", &title);
    let (across, down) = axes(&mut svg, &rows, value);
    svg.text(f64::midpoint(LEFT, WIDTH), BOTTOM + 40.0, Anchor::Middle, "label", "CPUs");
    svg.upright_text(16.0, f64::midpoint(TOP, BOTTOM), what);

    let mut who: Vec<&str> = Vec::new();
    for row in &rows {
        if !who.contains(&row.who) {
            who.push(row.who);
        }
    }
    let mut samples = Vec::new();
    for (index, who) in who.into_iter().enumerate() {
        let class = if who == OURS { "line ours".to_owned() } else { format!("line colour-{}", index + 1) };
        let mut points: Vec<(u16, f64)> = rows
            .iter()
            .filter(|row| row.who == who)
            .map(|row| (row.measured.cpus, down.place(value(row))))
            .collect();
        points.sort_by_key(|&(cpus, _)| cpus);
        let points: Vec<(f64, f64)> =
            points.into_iter().map(|(cpus, y)| (across.place(f64::from(cpus)), y)).collect();
        svg.path(&points, &class);
        samples.push((Sample::Line(class), who.to_owned()));
    }
    legend(Some(&mut svg), LEFT, 44.0, &samples);
    let svg = svg.finish().replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1);
    svg.replacen(">\n", &format!(">\n<style>\n{STYLE}</style>\n"), 1)
}

fn axes(svg: &mut Svg, rows: &[&Row], value: fn(&Row) -> f64) -> (Axis, Axis) {
    let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
    let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    let cpus = || rows.iter().map(|row| f64::from(row.measured.cpus));
    let values = || rows.iter().map(|row| value(row));
    let across = Axis::new(
        Scale::Logarithmic,
        Span { first: least(&mut cpus()), last: most(&mut cpus()) },
        Span { first: LEFT, last: WIDTH - 24.0 },
    );
    let down = Axis::new(
        Scale::Logarithmic,
        Span { first: least(&mut values()) / 1.1, last: most(&mut values()) * 1.1 },
        Span { first: BOTTOM, last: TOP },
    );
    for tick in down.ticks(24.0) {
        svg.line((LEFT, down.place(tick)), (WIDTH - 24.0, down.place(tick)), "grid");
        svg.text(LEFT - 8.0, down.place(tick) + 4.0, Anchor::End, "tick", &plain(tick));
    }
    let mut numbers: Vec<f64> = cpus().collect();
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    for cpus in numbers {
        svg.text(across.place(cpus), BOTTOM + 16.0, Anchor::Middle, "tick", &plain(cpus));
    }
    (across, down)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swap_space::clock::Measured;

    #[test]
    fn each_contender_has_a_line_through_all_numbers_of_cpus() {
        let row = |who, cpus: u16| Row {
            setting: "alone".to_owned(),
            who,
            measured: Measured { cpus, per_second: f64::from(cpus) * 1e6, ..Measured::default() },
            fallback_percent: None,
            avoidable_percent: None,
        };
        let rows = [1, 2, 4].into_iter().flat_map(|cpus| [row("other", cpus), row(OURS, cpus)]).collect();
        let picture = of(&Scene { name: "scene", operation: "nothing", rows }, "no clock");
        assert!(picture.starts_with("<svg xmlns="), "{picture}");
        let ours = picture.lines().find(|line| line.contains("line ours")).expect("a line of ours");
        assert_eq!(ours.matches('L').count(), 2, "{ours}");
        assert!(picture.contains("line colour-1") && !picture.contains("NaN"), "{picture}");
    }
}
