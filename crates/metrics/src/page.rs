//! The page of a run: one file, with nothing from the network but the events of the server.
//!
//! What must hold: what a program or a directory is called cannot become a part of the page. It comes as JSON without
//! any `<`, and the script of the page writes it as text only.

use serde::Serialize;
use uswap_control::stat::RunStat;

use crate::programs::Program;
use crate::series::Point;

/// The page, but for its data.
const PAGE: &str = include_str!("assets/page.html");

/// Where the data go.
const PLACE: &str = "@DATA@";

/// Headers of the page: it takes nothing from elsewhere, and stands in no other page.
pub const HEADERS: &str = "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src \
                           'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'; base-uri \
                           'none'\r\nReferrer-Policy: no-referrer\r\n";

/// What the script of the page is given.
#[derive(Serialize)]
struct Data<'a> {
    /// There is a server that says how it goes on.
    live: bool,
    /// How the runs go, or how the run was when it ended.
    runs: &'a [RunStat],
    /// Earlier moments of the run.
    points: &'a [Point],
    /// The programs of the run, when it has ended.
    programs: &'a [Program],
}

/// The page of runs that go on.
pub fn live(runs: &[RunStat]) -> String {
    fill(&Data { live: true, runs, points: &[], programs: &[] })
}

/// The page of a run that has ended.
pub fn ended(run: &RunStat, points: &[Point], programs: &[Program]) -> String {
    fill(&Data { live: false, runs: std::slice::from_ref(run), points, programs })
}

fn fill(data: &Data<'_>) -> String {
    let json = serde_json::to_string(data).expect("it has nothing that JSON cannot say");
    // It stands in strings only, where this is the same.
    PAGE.replacen(PLACE, &json.replace('<', "\\u003c"), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_and_needs_no_network() {
        assert_eq!(PAGE.matches(PLACE).count(), 1);
        let page = live(&[RunStat { program: "</script><!--".to_owned(), ..RunStat::default() }]);
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        assert!(!page.contains("</script><!--"), "a name stays a name");
        // The names of SVG's namespace, and nothing else, look like an address.
        let addresses = page.matches("://").count() - page.matches("http://www.w3.org/2000/svg").count();
        assert_eq!(addresses, 0);
        for tag in ["<link", "<img", "<iframe", "src=", "@import", "url(", "innerHTML", "eval("] {
            assert!(!page.contains(tag), "{tag}");
        }
    }
}
