//! Sizes as people read them. What `SHOW` writes is exact, and long.

const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// `bytes` with one digit after the point, in the largest unit of which there is one.
pub fn shown(bytes: u64) -> String {
    let mut unit = 0;
    let mut value = bytes as f64;
    // What would be shown as 1024.0 is one of the next unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_one_digit_after_the_point() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (300 << 20, "300.0 MiB"),
            (5 << 40, "5.0 TiB"),
            (5 << 50, "5120.0 TiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(shown(bytes), text);
        }
    }
}
