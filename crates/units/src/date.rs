//! Dates out of a count of seconds.

/// Year, month and day (UTC) of a time in seconds since 1970.
pub const fn civil_date(unix_seconds: u64) -> (u64, u64, u64) {
    // Days since 0000-03-01, so that the leap day is the last of a year; 146,097 days are 400 years.
    let days = unix_seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months_after_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months_after_march + 2) / 5 + 1;
    let month = if months_after_march < 10 { months_after_march + 3 } else { months_after_march - 9 };
    let year = era * 400 + year_of_era + (month <= 2) as u64;
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leap_days_are_the_last_of_february() {
        assert_eq!(civil_date(0), (1970, 1, 1));
        assert_eq!(civil_date(951_782_400), (2000, 2, 29));
        assert_eq!(civil_date(951_868_800), (2000, 3, 1));
        assert_eq!(civil_date(4_107_542_399), (2100, 2, 28));
        assert_eq!(civil_date(4_107_542_400), (2100, 3, 1));
    }
}
