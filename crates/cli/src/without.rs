//! `USWAP_WITHOUT`: features of newer kernels that are switched off by hand, so that what is done without them can be
//! tried on any kernel.

use uswap_os::without::{KernelFeature, Without};

/// The variable.
pub const VARIABLE: &str = "USWAP_WITHOUT";

/// Reads its value: names with commas between them.
///
/// # Errors
/// Which name is unknown, and which there are.
pub fn parse_without(list: &str) -> Result<Without, String> {
    Without::parse(list).map_err(|name| {
        let known = KernelFeature::ALL.map(KernelFeature::name).join(", ");
        format!("{VARIABLE} knows no '{name}', but {known}, and all for all of them")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_that_cannot_be_switched_off_is_named_beside_those_that_can() {
        let message = parse_without("populate,magic").unwrap_err();
        assert!(
            message.contains("'magic'") && message.contains("process_madvise, procmap_query, pagemap_scan"),
            "{message}"
        );
        assert_eq!(parse_without("").map(Without::bits), Ok(0));
    }
}
