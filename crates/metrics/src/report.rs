//! The report of a run that has ended: the page of a run, with what happened in place of what goes on.

use std::io::Write;

use uswap_control::stat::RunStat;

use crate::page;
use crate::programs::Program;
use crate::series::Point;

/// What was seen of a run.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its end.
    pub last: RunStat,
    /// Moments of it, the end among them.
    pub points: Vec<Point>,
    /// What its programs did.
    pub programs: Vec<Program>,
}

impl Record {
    /// Writes the report as one file in HTML that needs no network.
    ///
    /// # Errors
    /// What writing says.
    pub fn write_html(&self, file: &mut impl Write) -> std::io::Result<()> {
        file.write_all(page::ended(&self.last, &self.points, &self.programs).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::Programs;
    use crate::series::Series;
    use uswap_control::stat::ProcessStat;

    #[test]
    fn the_report_has_all_that_was_seen() {
        let process =
            ProcessStat { pid: 5, name: "<i>sort".to_owned(), pages_taken: 77, ..ProcessStat::default() };
        let last = RunStat { processes: vec![process], uptime_seconds: 12.5, ..RunStat::default() };
        let (mut series, mut programs) = (Series::default(), Programs::default());
        series.add(&last);
        programs.add(&last);
        let record = Record { last, points: series.into_points(), programs: programs.finish() };
        let mut html = Vec::new();
        record.write_html(&mut html).unwrap();
        let html = String::from_utf8(html).unwrap();
        let json =
            html.split_once("type=\"application/json\">").and_then(|(_, rest)| rest.split_once("</script>"));
        let data: serde_json::Value = serde_json::from_str(json.expect("it has data").0).unwrap();
        assert_eq!(data["live"], false);
        assert_eq!(data["points"][0]["uptime_seconds"], 12.5);
        assert_eq!(data["programs"][0]["name"], "<i>sort");
        assert_eq!(data["programs"][0]["pages_taken"], 77);
    }
}
