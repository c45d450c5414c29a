//! Texts of moments: where in one the zone begins, and what an instant looks like.
//!
//! Not here: formats that users give (`formats`).

use chrono::Utc;
use datafusion::{
    arrow::compute::kernels::cast_utils::string_to_datetime,
    common::{Result, exec_datafusion_err},
};

use crate::text_casts::Written;

use super::{
    far::count_of,
    infinite::{infinite_count, is_infinite, text_of},
    instants::LOCAL,
    written,
    zones::{Zone, offset_text, zone_in_text},
};

/// `text` before the zone or offset that it ends in, and that; empty if there is none.
pub fn split_zone(text: &str) -> (&str, &str) {
    let text = text.trim();
    // What a date is written with; it may begin with a sign.
    let date_end = text
        .char_indices()
        .skip(1)
        .find(|(_, char)| !char.is_ascii_digit() && !matches!(char, '-' | '/'))
        .map_or(text.len(), |(at, _)| at);
    let era = text[date_end..].trim_start();
    let is_before = era.get(..4).is_some_and(|era| era.eq_ignore_ascii_case("(bc)"));
    let date_end = if is_before { text.len() - era.len() + 4 } else { date_end };
    let rest = &text[date_end..];
    let gap = match rest.bytes().next() {
        Some(b'T' | b't') => 1,
        _ => rest.len() - rest.trim_start().len(),
    };
    let time = &rest[gap..];
    let time_len = time.find(|char: char| !char.is_ascii_digit() && !matches!(char, ':' | '.')).unwrap_or(time.len());
    // A zone after a date alone belongs to its midnight.
    if time_len == 0 && (time.is_empty() || !rest.starts_with(' ')) {
        return (text, "");
    }
    let end = if time_len == 0 { date_end } else { date_end + gap + time_len };
    (text[..end].trim_end(), text[end..].trim_start())
}

/// The instant that `text` names, in `zone` unless it says which.
///
/// # Errors
/// If it is none.
pub fn instant_of(text: &str, zone: &Zone) -> Result<i64> {
    if let Some(infinite) = infinite_count(text.as_bytes()) {
        return Ok(infinite);
    }
    let (moment, suffix) = split_zone(text);
    let zone = if suffix.is_empty() { *zone } else { zone_in_text(suffix)? };
    let moment = Written::Moment.usual(moment);
    if let Some(far) = count_of(&moment, &LOCAL) {
        return zone.to_instant(far);
    }
    let local = string_to_datetime(&Utc, &moment)
        .map_err(|_| exec_datafusion_err!("Error parsing timestamp from '{text}': it is not YYYY-MM-DD HH:MM:SS"))?;
    zone.to_instant(local.timestamp_micros())
}

/// Writes `instant` as clocks in `zone` show it, with the offset.
pub fn write_instant(instant: i64, zone: &Zone, text: &mut String) -> Result<()> {
    if is_infinite(instant) {
        text.push_str(text_of(instant > 0));
        return Ok(());
    }
    let offset = zone.offset_at(instant)?;
    write_moment(zone.to_local(instant)?, text);
    text.push_str(&offset_text(offset));
    Ok(())
}

/// Writes a moment: `2024-01-02 03:04:05.5`.
pub fn write_moment(local: i64, text: &mut String) {
    match is_infinite(local) {
        true => text.push_str(text_of(local > 0)),
        false => written::write(local, &LOCAL, text),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn zones_end_a_text() {
        for (text, parts) in [
            ("2024-05-07", ("2024-05-07", "")),
            ("2024-05-07 10:00:00", ("2024-05-07 10:00:00", "")),
            ("2024-05-07 10:00:00.5+05:30", ("2024-05-07 10:00:00.5", "+05:30")),
            ("2024-05-07T10:00:00Z", ("2024-05-07T10:00:00", "Z")),
            ("2024-05-07 10:00:00 America/New_York", ("2024-05-07 10:00:00", "America/New_York")),
            ("2024-05-07 UTC", ("2024-05-07", "UTC")),
            ("", ("", "")),
            ("é", ("é", "")),
        ] {
            assert_eq!(split_zone(text), parts, "{text}");
        }
    }

    #[test]
    fn instants_show_their_offset() {
        let zone = Zone::named("Asia/Kolkata").unwrap();
        let mut text = String::new();
        write_instant(instant_of("2024-05-07 23:00:00.25Z", &zone).unwrap(), &zone, &mut text).unwrap();
        assert_eq!(text, "2024-05-08 04:30:00.25+05:30");
    }
}
