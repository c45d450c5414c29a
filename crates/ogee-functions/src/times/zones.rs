//! Time zones: by name, and from instants to local times and back.
//!
//! A local time that a change of the clocks skips is taken with the offset before the change, one that comes twice is the later, as in ICU.
//!
//! Not here: columns of times (`instants`).

use std::{collections::HashMap, str::FromStr, sync::LazyLock};

use chrono::{DateTime, NaiveDateTime, Offset, TimeDelta, TimeZone};
use chrono_tz::{TZ_VARIANTS, Tz};
use datafusion::common::{Result, exec_datafusion_err, exec_err};

use super::infinite::is_infinite;

/// A time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Zone {
    /// So many seconds ahead of UTC, always.
    Fixed(i32),
    /// With changes of its own.
    Named(Tz),
}

const SECOND: i64 = 1_000_000;

impl Zone {
    /// Coordinated universal time.
    pub const UTC: Self = Self::Fixed(0);

    /// The zone of this name; upper and lower case do not matter.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(name: &str) -> Result<Self> {
        static BY_NAME: LazyLock<HashMap<String, Tz>> =
            LazyLock::new(|| TZ_VARIANTS.iter().map(|zone| (zone.name().to_ascii_lowercase(), *zone)).collect());
        if let Ok(zone) = Tz::from_str(name) {
            return Ok(Self::of(zone));
        }
        let lower = name.trim().to_ascii_lowercase();
        if let Some(zone) = BY_NAME.get(&lower) {
            return Ok(Self::of(*zone));
        }
        let offset = lower.strip_prefix("utc").or_else(|| lower.strip_prefix("gmt")).and_then(offset_of);
        // What files may have for a name.
        let offset = offset.or_else(|| offset_of(&lower));
        offset.map(Self::Fixed).ok_or_else(|| exec_datafusion_err!("unknown time zone '{name}'"))
    }

    fn of(zone: Tz) -> Self {
        match zone {
            Tz::UTC | Tz::Etc__UTC => Self::UTC,
            zone => Self::Named(zone),
        }
    }

    /// Seconds ahead of UTC at an instant, given in microseconds.
    pub fn offset_at(&self, instant: i64) -> Result<i64> {
        Ok(match self {
            Self::Fixed(seconds) => i64::from(*seconds),
            Self::Named(zone) => i64::from(zone.offset_from_utc_datetime(&naive(instant)?).fix().local_minus_utc()),
        })
    }

    /// What clocks show at an instant; both in microseconds. One that is infinite is so in all zones.
    pub fn to_local(self, instant: i64) -> Result<i64> {
        if is_infinite(instant) {
            return Ok(instant);
        }
        let offset = self.offset_at(instant)?;
        instant.checked_add(offset * SECOND).filter(|local| !is_infinite(*local)).ok_or_else(out_of_range)
    }

    /// The instant at which clocks show `local`; both in microseconds.
    pub fn to_instant(self, local: i64) -> Result<i64> {
        if is_infinite(local) {
            return Ok(local);
        }
        let seconds = match self {
            Self::Fixed(seconds) => seconds,
            Self::Named(zone) => {
                let at = naive(local)?;
                // A change may skip a day, where a country moves over the date line.
                let before = || zone.offset_from_local_datetime(&(at - TimeDelta::hours(26))).latest();
                let offset = zone.offset_from_local_datetime(&at).latest().or_else(before);
                offset.ok_or_else(out_of_range)?.fix().local_minus_utc()
            }
        };
        let instant = local.checked_sub(i64::from(seconds) * SECOND);
        instant.filter(|instant| !is_infinite(*instant)).ok_or_else(out_of_range)
    }

    /// What the zone is called.
    pub fn name(&self) -> String {
        match self {
            Self::Fixed(0) => "UTC".to_owned(),
            Self::Fixed(seconds) => format!("UTC{}", offset_text(i64::from(*seconds))),
            Self::Named(zone) => zone.name().to_owned(),
        }
    }
}

fn out_of_range() -> datafusion::error::DataFusionError {
    exec_datafusion_err!("timestamp out of range")
}

/// The calendar's time of so many microseconds.
pub fn naive(micros: i64) -> Result<NaiveDateTime> {
    DateTime::from_timestamp_micros(micros).map(|time| time.naive_utc()).ok_or_else(out_of_range)
}

/// Seconds of `+02`, `-03:30`, `+0530` or `+05:53:28`.
pub fn offset_of(text: &str) -> Option<i32> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let parts: Vec<&str> = match digits.contains(':') {
        true => digits.split(':').collect(),
        false if digits.len() > 2 => vec![digits.get(..digits.len() - 2)?, digits.get(digits.len() - 2..)?],
        false => vec![digits],
    };
    if parts.len() > 3 || parts.iter().any(|part| !matches!(part.len(), 1 | 2)) {
        return None;
    }
    let mut seconds = 0;
    for (part, (unit, most)) in parts.iter().zip([(3600, 24), (60, 59), (1, 59)]) {
        if !part.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        seconds += part.parse::<i32>().ok().filter(|value| *value <= most)? * unit;
    }
    Some(sign * seconds)
}

/// `+02`, `-03:30`: an offset as it follows a time.
pub fn offset_text(seconds: i64) -> String {
    let (hours, minutes) = (seconds.abs() / 3600, seconds.abs() / 60 % 60);
    let sign = if seconds < 0 { '-' } else { '+' };
    if minutes == 0 { format!("{sign}{hours:02}") } else { format!("{sign}{hours:02}:{minutes:02}") }
}

/// The seconds ahead of UTC, or the zone, that follow a time in a text.
///
/// # Errors
/// If it is neither.
pub fn zone_in_text(text: &str) -> Result<Zone> {
    if text.eq_ignore_ascii_case("z") {
        return Ok(Zone::UTC);
    }
    match offset_of(text) {
        Some(seconds) => Ok(Zone::Fixed(seconds)),
        None if text.starts_with(['+', '-']) => exec_err!("'{text}' is no offset from UTC"),
        None => Zone::named(text),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn micros(text: &str) -> i64 {
        NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").unwrap().and_utc().timestamp_micros()
    }

    #[test]
    fn gaps_have_the_offset_before_and_overlaps_are_the_later() {
        let zone = Zone::named("america/new_york").unwrap();
        for (local, instant) in [
            ("2024-01-07 10:00", "2024-01-07 15:00"),
            ("2024-03-10 02:30", "2024-03-10 07:30"),
            ("2024-11-03 01:30", "2024-11-03 06:30"),
            ("2024-11-03 00:30", "2024-11-03 04:30"),
        ] {
            assert_eq!(zone.to_instant(micros(local)).unwrap(), micros(instant), "{local}");
        }
        assert_eq!(zone.to_local(micros("2024-03-10 07:30")).unwrap(), micros("2024-03-10 03:30"));
        // Samoa left out the 30th of December 2011.
        let samoa = Zone::named("Pacific/Apia").unwrap();
        assert_eq!(samoa.to_instant(micros("2011-12-30 12:00")).unwrap(), micros("2011-12-30 22:00"));
    }

    #[test]
    fn offsets_are_read_and_written() {
        let read = |text| offset_of(text);
        assert_eq!(read("+02"), Some(7200));
        assert_eq!(read("-0330"), Some(-12_600));
        assert_eq!(read("+05:53:28"), Some(21_208));
        assert_eq!((read("02"), read("+2x"), read("+99"), read("+"), read("+1:2:3:4")), (None, None, None, None, None));
        assert_eq!(
            (offset_text(-12_600), offset_text(7200), offset_text(0)),
            ("-03:30".into(), "+02".into(), "+00".into())
        );
        assert_eq!(Zone::named("UTC+2").unwrap(), Zone::Fixed(7200));
        assert!(Zone::named("Mars/Olympus").is_err());
    }
}
