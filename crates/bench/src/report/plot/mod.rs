//! Pictures as inline SVG, drawn by us: no script, no external file.
//!
//! What must hold: every coordinate is a finite number inside the picture; text keeps its own room, reckoned from its
//! length; colour is never the only difference. Colours and fonts are classes of the page's style sheet (`page.css`),
//! so that light and dark work.

pub mod axis;
pub mod latency;
pub mod memory;
pub mod ratios;

use super::escape::escaped;
use crate::results::Results;
use crate::statistics::is_ours;

/// Width of a picture; the page shrinks it where there is less room.
pub const WIDTH: f64 = 900.0;
/// Colours beside the one of uswap.
const COLOURS: usize = 7;

/// Room that `text` needs in the 12 pixel font, rather too much than too little.
pub fn text_width(text: &str) -> f64 {
    let width = |letter| match letter {
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 12.0,
        'A'..='Z' => 8.8,
        letter if letter.is_ascii() => 6.9,
        _ => 12.0,
    };
    text.chars().map(width).sum()
}

/// Where text stands to its point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anchor {
    /// Right of it.
    Start,
    /// Around it.
    Middle,
    /// Left of it.
    End,
}

/// A picture that grows.
pub struct Svg {
    width: f64,
    height: f64,
    label: String,
    body: String,
}

impl Svg {
    /// An empty one. `label` says what it shows, for readers who do not see it.
    pub fn new(height: f64, label: &str) -> Self {
        Self { width: WIDTH, height, label: label.to_owned(), body: String::new() }
    }

    /// Text on the base line `y`.
    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y, text) = (self.across(x), self.down(y), escaped(text));
        self.body +=
            &format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>\n");
    }

    /// Text that is read from below, centred on `y`.
    pub fn upright_text(&mut self, x: f64, y: f64, text: &str) {
        let (x, y, text) = (self.across(x), self.down(y), escaped(text));
        self.body += &format!(
            "<text class=\"label\" transform=\"translate({x} {y}) rotate(-90)\" text-anchor=\"middle\">{text}</text>\n"
        );
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        self.path(&[from, to], class);
    }

    /// A line through points.
    pub fn path(&mut self, points: &[(f64, f64)], class: &str) {
        let path = self.through(points);
        self.body += &format!("<path class=\"{class}\" d=\"{path}\"/>\n");
    }

    /// A filled shape.
    pub fn shape(&mut self, points: &[(f64, f64)], class: &str) {
        let path = self.through(points);
        self.body += &format!("<path class=\"{class}\" d=\"{path}Z\"/>\n");
    }

    /// A filled circle.
    pub fn circle(&mut self, centre: (f64, f64), radius: f64, class: &str) {
        let (x, y) = (self.across(centre.0), self.down(centre.1));
        self.body += &format!("<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>\n");
    }

    /// The element.
    pub fn finish(self) -> String {
        let (width, height, label, body) = (self.width, self.height, escaped(&self.label), self.body);
        format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">\n{body}</svg>\n")
    }

    fn through(&self, points: &[(f64, f64)]) -> String {
        let mut path = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            path += &format!("{command}{} {}", self.across(*x), self.down(*y));
        }
        path
    }

    /// Tenths of a pixel are enough; what is outside, or no number, goes to the edge.
    fn across(&self, x: f64) -> f64 {
        (x.clamp(0.0, self.width).max(0.0) * 10.0).round() / 10.0
    }

    fn down(&self, y: f64) -> f64 {
        (y.clamp(0.0, self.height).max(0.0) * 10.0).round() / 10.0
    }
}

/// Classes of a rival's line, the same in all pictures of a page: uswap is the thick one, `+bg` is the colour of its
/// brother, dashed.
pub fn line_class(results: &Results, rival: &str) -> String {
    if is_ours(rival) {
        let dashed = if rival == "uswap" { "" } else { " dashed" };
        return format!("line ours{dashed}");
    }
    let brother = |name: &str| name.strip_suffix("+bg").unwrap_or(name).to_owned();
    let mut brothers: Vec<String> = Vec::new();
    for other in results.rivals.iter().filter(|other| !is_ours(&other.name)) {
        if !brothers.contains(&brother(&other.name)) {
            brothers.push(brother(&other.name));
        }
    }
    let index = brothers.iter().position(|name| *name == brother(rival)).unwrap_or(0);
    let dashes = match (rival.ends_with("+bg"), index / COLOURS % 2) {
        (false, 0) => "",
        (true, 0) => " dashed",
        (false, _) => " dotted",
        (true, _) => " dash-dotted",
    };
    format!("line colour-{}{dashes}", index % COLOURS)
}

/// What a sample in a legend looks like.
pub enum Sample {
    /// A line of these classes.
    Line(String),
    /// An area of these classes.
    Area(String),
}

/// Draws samples with their names in rows that begin at `left`, the first on base line `top`. Returns the height of all
/// rows; with no picture to draw in it only reckons.
pub fn legend(mut svg: Option<&mut Svg>, left: f64, top: f64, items: &[(Sample, String)]) -> f64 {
    const ROW: f64 = 19.0;
    let (mut x, mut rows) = (left, 1.0);
    for (sample, name) in items {
        let width = 34.0 + text_width(name) + 12.0;
        if x + width > WIDTH && x > left {
            x = left;
            rows += 1.0;
        }
        if let Some(svg) = svg.as_deref_mut() {
            let y = top + (rows - 1.0) * ROW;
            match sample {
                Sample::Line(class) => svg.line((x, y - 4.0), (x + 28.0, y - 4.0), class),
                Sample::Area(class) => {
                    let (low, high) = (y + 1.0, y - 10.0);
                    svg.shape(&[(x, low), (x, high), (x + 28.0, high), (x + 28.0, low)], class);
                }
            }
            svg.text(x + 34.0, y, Anchor::Start, "legend", name);
        }
        x += width;
    }
    rows * ROW
}

#[cfg(test)]
mod tests {
    use super::super::sample::sample;
    use super::*;

    #[test]
    fn coordinates_stay_inside_and_are_numbers() {
        let mut svg = Svg::new(100.0, "a < b");
        svg.path(&[(f64::NAN, -5.0), (1e9, f64::INFINITY)], "line");
        let text = svg.finish();
        assert!(text.contains("M0 0L900 100"), "{text}");
        assert!(text.contains("a &lt; b"), "{text}");
    }

    #[test]
    fn every_rival_has_its_own_line() {
        let results = sample();
        let mut classes: Vec<String> =
            results.rivals.iter().map(|rival| line_class(&results, &rival.name)).collect();
        assert_eq!(line_class(&results, "uswap"), "line ours");
        assert_eq!(
            line_class(&results, "zram-lz4+bg"),
            format!("{} dashed", line_class(&results, "zram-lz4"))
        );
        classes.sort();
        classes.dedup();
        assert_eq!(classes.len(), results.rivals.len());
    }

    #[test]
    fn legends_break_into_rows() {
        let items: Vec<_> =
            (0..20).map(|_| (Sample::Line("line".to_owned()), "a name of a rival".to_owned())).collect();
        let mut svg = Svg::new(400.0, "");
        assert_eq!(legend(Some(&mut svg), 60.0, 20.0, &items), legend(None, 60.0, 20.0, &items));
        assert!(legend(None, 60.0, 20.0, &items) > 60.0);
        assert_eq!(svg.finish().matches("<text").count(), 20);
    }
}
