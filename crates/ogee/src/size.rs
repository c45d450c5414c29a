//! Sizes as people write them: `512MB` is 10^6 bytes times 512, `512MiB` 2^20 times 512.

use crate::{Error, Result};

/// Bytes of a size such as `512MB`, `1.5 GiB`, `4096`.
///
/// # Errors
/// A setting error that names what is accepted.
pub fn parse_size(text: &str) -> Result<u64> {
    parse(text).ok_or_else(|| {
        Error::setting(format!(
            "'{text}' is not a size; write a number with a unit, as 512MB (10^6 bytes), 512MiB (2^20) or 2GB"
        ))
    })
}

/// Bytes of a memory limit: a size, or a share of the memory there is (`80%`), which is that of the machine or of the control group.
///
/// # Errors
/// A setting error that names what is accepted.
pub fn parse_memory_limit(text: &str) -> Result<usize> {
    if let Some(percent) = text.trim().strip_suffix('%') {
        let share: Option<f64> =
            percent.trim().parse().ok().filter(|share| (0.0..=100.0).contains(share) && *share > 0.0);
        let Some(share) = share else {
            return Err(Error::setting(format!(
                "'{text}' is not a share of memory; write a number up to 100 with %, as 80%"
            )));
        };
        // The default is 80 % of what there is.
        return Ok((ogee_memory::default_limit() as f64 / 80.0 * share) as usize);
    }
    Ok(usize::try_from(parse_size(text)?).unwrap_or(usize::MAX))
}

fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" | "byte" | "bytes" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return None,
    };
    let number = number.replace('_', "");
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit);
    }
    let bytes = number.parse::<f64>().ok()? * unit as f64;
    (bytes.is_finite() && bytes < u64::MAX as f64).then_some(bytes as u64)
}

/// `bytes` such that [`parse_size`] gives them back, in the largest unit that divides them.
pub fn format_size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 8] = [
        ("TiB", 1 << 40),
        ("TB", 1_000_000_000_000),
        ("GiB", 1 << 30),
        ("GB", 1_000_000_000),
        ("MiB", 1 << 20),
        ("MB", 1_000_000),
        ("KiB", 1 << 10),
        ("KB", 1_000),
    ];
    match UNITS.iter().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn units_are_what_they_say() {
        for (text, bytes) in [
            ("512MB", 512_000_000),
            ("512 MiB", 512 << 20),
            ("1.5GiB", 3 << 29),
            ("4096", 4096),
            ("2g", 2_000_000_000),
            ("0.5kb", 500),
            ("1_000 B", 1000),
        ] {
            assert_eq!(parse_size(text).unwrap(), bytes, "{text}");
        }
        for text in ["", "MB", "-1GB", "12 parsecs", "1e400GB", "99999999999TB", "1.2.3MB"] {
            assert_eq!(parse_size(text).unwrap_err().code(), "OGEE_Q004", "{text}");
        }
    }

    #[test]
    fn sizes_survive_being_written() {
        for bytes in [0, 1, 999, 1000, 1024, 512_000_000, 512 << 20, 3 << 29, u64::MAX] {
            assert_eq!(parse_size(&format_size(bytes)).unwrap(), bytes);
        }
    }

    #[test]
    fn shares_are_of_what_there_is() {
        let all = parse_memory_limit("100%").unwrap();
        let half = parse_memory_limit(" 50 %").unwrap();
        assert!(all / 2 - half <= 1 && half > 0);
        for text in ["0%", "101%", "%", "ten%"] {
            assert!(parse_memory_limit(text).is_err(), "{text}");
        }
    }
}
