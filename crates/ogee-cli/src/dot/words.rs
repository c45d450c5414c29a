//! The words of a command: separated by blanks, in quotes where they hold some.
//!
//! Between double quotes `\n`, `\t`, `\\` and `\"` are escapes. Between single quotes nothing is but `''`.

/// The words of `text`.
///
/// # Errors
/// If a quote is not closed.
pub fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut letters = text.chars().peekable();
    loop {
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        let Some(first) = letters.peek().copied() else { return Ok(words) };
        let mut word = String::new();
        if first == '\'' || first == '"' {
            letters.next();
            loop {
                match letters.next() {
                    None => return Err(format!("a {first} is not closed")),
                    Some('\\') if first == '"' => {
                        word.push('\\');
                        word.extend(letters.next());
                    }
                    Some(letter) if letter == first => match letters.next_if_eq(&first) {
                        Some(_) => word.push(first),
                        None => break,
                    },
                    Some(letter) => word.push(letter),
                }
            }
            words.push(if first == '"' { unescaped(&word) } else { word });
        } else {
            while let Some(letter) = letters.next_if(|letter| !letter.is_whitespace()) {
                word.push(letter);
            }
            words.push(word);
        }
    }
}

/// `text` with what its escapes stand for.
pub fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('n') => plain.push('\n'),
                Some('r') => plain.push('\r'),
                Some('t') => plain.push('\t'),
                Some('0') => plain.push('\0'),
                Some(other) => plain.push(other),
                None => plain.push('\\'),
            },
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_blanks() {
        assert_eq!(
            words("  a 'b c'  \"d\\te\" f'g ").as_deref(),
            Ok(&["a", "b c", "d\te", "f'g"].map(String::from)[..])
        );
        assert_eq!(
            words("'it''s' \"say \"\"x\"\" \\\"\" ''").as_deref(),
            Ok(&["it's", "say \"x\" \"", ""].map(String::from)[..])
        );
        assert_eq!(words("").as_deref(), Ok(&[][..]));
        assert!(words("'a").is_err() && words("\"a\\\"").is_err());
    }
}
