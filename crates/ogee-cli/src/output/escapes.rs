//! Texts of one line, for cells of drawn tables: what would move the cursor or change colours is written as an escape.

use unicode_width::UnicodeWidthChar;

/// Stands for what was cut off.
pub const CUT: char = '…';

/// Columns of a terminal that `text` takes, letter by letter.
pub fn width(text: &str) -> usize {
    text.chars().map(|letter| letter.width().unwrap_or(0)).sum()
}

/// `text` with escapes, in at most `width_max` columns: what is too long ends with [`CUT`].
pub fn one_line(text: &str, width_max: usize) -> String {
    let mut line = String::new();
    let mut taken = 0;
    // Where the line has to end if there is more than it takes.
    let mut cut_at = 0;
    for letter in text.chars() {
        let before = line.len();
        push(letter, &mut line);
        taken += match letter.is_control() {
            true => line.len() - before,
            false => letter.width().unwrap_or(0),
        };
        if taken > width_max {
            line.truncate(cut_at);
            line.push(CUT);
            return line;
        }
        if taken < width_max {
            cut_at = line.len();
        }
    }
    line
}

/// Appends `letter` as it is shown.
fn push(letter: char, line: &mut String) {
    match letter {
        '\n' => line.push_str("\\n"),
        '\r' => line.push_str("\\r"),
        '\t' => line.push_str("\\t"),
        '\u{7}' => line.push_str("\\a"),
        '\u{8}' => line.push_str("\\b"),
        '\u{1b}' => line.push_str("\\e"),
        other if other.is_control() => line.push_str(&format!("\\{}", u32::from(other))),
        other => line.push(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_cut() {
        assert_eq!(one_line("abcdef", 6), "abcdef");
        assert_eq!(one_line("abcdefg", 6), "abcde…");
        assert_eq!(one_line("漢字漢字", 7), "漢字漢…");
        assert_eq!(one_line("漢字漢字", 6), "漢字…");
        assert_eq!(one_line("abc", 1), "…");
        assert_eq!(one_line("", 1), "");
    }

    #[test]
    fn nothing_moves_the_cursor() {
        assert_eq!(one_line("a\nb\u{1b}[1m\u{1}\u{7f}", 100), "a\\nb\\e[1m\\1\\127");
        assert_eq!(width("é漢"), 3);
    }
}
