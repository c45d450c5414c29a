//! Patterns of RE2, which DuckDB's are, in the words of the `regex` crate.
//!
//! `\d`, `\w`, `\s` and `\b` are of ASCII there. In brackets `[`, `&` and `~` are letters, and `-` is one at either end of a range; a `{` that begins no count is a letter, as `<` and `>` are behind a backslash.
//! `\Q..\E` takes what is within literally, and `\141` is an octal code.
//!
//! Not here: what only the crate takes (`(?x)`, `a**`), which stays; `\B`, which is of Unicode, and `\C`.

use std::borrow::Cow;

/// `pattern` as the crate reads it.
pub fn in_words_of_the_crate(pattern: &str) -> Cow<'_, str> {
    if !pattern.contains(['\\', '[', '{']) {
        return Cow::Borrowed(pattern);
    }
    let mut written = Written { rest: pattern, text: String::with_capacity(2 * pattern.len()) };
    written.pattern();
    Cow::Owned(written.text)
}

struct Written<'a> {
    rest: &'a str,
    text: String,
}

impl Written<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        self.next_if(|_| true)
    }

    fn next_if(&mut self, wanted: impl FnOnce(char) -> bool) -> Option<char> {
        let next = self.peek().filter(|next| wanted(*next))?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    fn pattern(&mut self) {
        while let Some(next) = self.next() {
            match next {
                '\\' => self.escape(),
                '[' => self.class(),
                '{' if !self.begins_count() => self.text.push_str(r"\{"),
                other => self.text.push(other),
            }
        }
    }

    /// Whether what follows is the rest of `{1}`, `{1,}` or `{1,2}`.
    fn begins_count(&self) -> bool {
        let behind_number = |text: &str| text.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
        let rest = &self.rest[self.rest.len() - behind_number(self.rest)..];
        if rest.len() == self.rest.len() {
            return false;
        }
        let most = rest.strip_prefix(',').unwrap_or(rest);
        let end = if most.len() == rest.len() { rest } else { &most[most.len() - behind_number(most)..] };
        end.starts_with('}')
    }

    /// What follows a backslash that is in no class.
    fn escape(&mut self) {
        match self.next() {
            Some('Q') => self.literal(),
            Some('b') => self.text.push_str(r"(?-u:\b)"),
            Some(class @ ('D' | 'S' | 'W')) => self.negated(class),
            Some(class @ ('d' | 's' | 'w')) => {
                self.text.push('[');
                self.text.push_str(members(class));
                self.text.push(']');
            }
            other => self.letter_of_escape(other),
        }
    }

    /// `\Q..\E`, from behind its first two letters.
    fn literal(&mut self) {
        let (literal, rest) = self.rest.split_once(r"\E").unwrap_or((self.rest, ""));
        self.text.push_str(&regex::escape(literal));
        self.rest = rest;
    }

    fn negated(&mut self, class: char) {
        self.text.push_str("[^");
        self.text.push_str(members(class.to_ascii_lowercase()));
        self.text.push(']');
    }

    /// The escape of one letter, or what the crate knows as RE2 does.
    fn letter_of_escape(&mut self, escaped: Option<char>) {
        match escaped {
            Some(sign @ ('<' | '>')) => self.text.push(sign),
            Some(digit @ '0'..='7') if digit == '0' || matches!(self.peek(), Some('0'..='7')) => {
                let mut code = u32::from(digit) - u32::from('0');
                for _ in 0..2 {
                    let Some(digit) = self.next_if(|next| matches!(next, '0'..='7')) else { break };
                    code = code * 8 + u32::from(digit) - u32::from('0');
                }
                self.text.push_str(&format!(r"\x{{{code:x}}}"));
            }
            other => {
                self.text.push('\\');
                self.text.extend(other);
                if matches!(other, Some('P' | 'p' | 'x'))
                    && self.rest.starts_with('{')
                    && let Some((name, rest)) = self.rest.split_once('}')
                {
                    self.text.push_str(name);
                    self.text.push('}');
                    self.rest = rest;
                }
            }
        }
    }

    /// A class, from behind its bracket.
    fn class(&mut self) {
        self.text.push('[');
        if self.next_if(|next| next == '^').is_some() {
            self.text.push('^');
        }
        let mut is_first = true;
        while let Some(next) = self.next() {
            match next {
                ']' if !is_first => {
                    self.text.push(']');
                    return;
                }
                '[' if self.rest.starts_with(':') && self.named_class() => {}
                '\\' if matches!(self.peek(), Some('D' | 'S' | 'W' | 'd' | 's' | 'w' | 'p' | 'P')) => {
                    self.class_in_class();
                }
                letter => {
                    self.letter(letter);
                    if let Some(end) = self.rest.strip_prefix('-')
                        && !end.is_empty()
                        && !end.starts_with(']')
                    {
                        self.rest = end;
                        self.text.push('-');
                        if let Some(end) = self.next() {
                            self.letter(end);
                        }
                    }
                }
            }
            is_first = false;
        }
    }

    /// One of `\d`, `\s`, `\w` and their like in a class, from behind the backslash.
    fn class_in_class(&mut self) {
        match self.next() {
            Some(class @ ('D' | 'S' | 'W')) => self.negated(class),
            Some(class @ ('d' | 's' | 'w')) => self.text.push_str(members(class)),
            other => self.letter_of_escape(other),
        }
    }

    /// `[:alpha:]`, from behind its first bracket, if it is one.
    fn named_class(&mut self) -> bool {
        let behind = self.rest[1..].trim_start_matches(|letter: char| letter == '^' || letter.is_ascii_alphabetic());
        let Some(rest) = behind.strip_prefix(":]") else { return false };
        self.text.push('[');
        self.text.push_str(&self.rest[..self.rest.len() - rest.len()]);
        self.rest = rest;
        true
    }

    /// A letter of a class.
    fn letter(&mut self, letter: char) {
        match letter {
            '\\' => {
                let escaped = self.next();
                self.letter_of_escape(escaped);
            }
            '[' | ']' | '&' | '~' | '-' | '^' => {
                self.text.push('\\');
                self.text.push(letter);
            }
            other => self.text.push(other),
        }
    }
}

/// What is in the class `\d`, `\s` or `\w`.
fn members(class: char) -> &'static str {
    match class {
        'd' => "0-9",
        's' => r"\t\n\x0C\r\x20",
        _ => "0-9A-Za-z_",
    }
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Regex::new(&in_words_of_the_crate(pattern)).expect("a pattern").is_match(text)
    }

    #[test]
    fn classes_are_of_ascii() {
        for pattern in [r"\w", r"[\w]", r"\d", r"[x\d]"] {
            assert!(!matches(pattern, "ä٣"), "{pattern}");
        }
        for pattern in [r"^\W$", r"^[\W]$", r"^[^\w]$", r"^\D$", r"^\S$"] {
            assert!(matches(pattern, "ä"), "{pattern}");
        }
        assert!(!matches(r"\s", "\u{a0}\u{b}") && matches(r"[\s]", " "));
        assert!(matches(r"ü\b", "über") && !matches(r"\bü", "ü"));
    }

    #[test]
    fn signs_in_brackets_are_letters() {
        assert!(matches("^a[[]b$", "a[b") && matches("^[]]$", "]") && matches("^[^]]$", "a"));
        assert!(matches("^[a&&b]+$", "a&b") && matches("^[a~~b]+$", "~") && matches("^[a-]+$", "a-"));
        assert!(matches("^[+--]+$", "+,-") && !matches("^[+--]$", "."));
        assert!(matches("^[[:alpha:]-]+$", "a-") && matches(r"^[\]x]+$", "]x"));
    }

    #[test]
    fn what_is_a_letter_elsewhere() {
        for (pattern, text) in
            [("a{", "a{"), ("a{1", "a{1"), ("a{,3}", "a{,3}"), ("{", "{"), ("^a{2}$", "aa"), ("^a{1,}$", "aaa")]
        {
            assert!(matches(pattern, text), "{pattern}");
        }
        assert!(matches(r"\<a\>", "<a>") && matches(r"\141", "a") && matches(r"^\0$", "\0"));
        assert!(matches(r"^\Qa.b\E.$", "a.bc") && !matches(r"\Qa.b\E", "axb") && matches(r"\Qä[", "ä["));
        assert!(matches(r"^\p{Greek}\x{e4}[\p{Greek}\x{6A}]$", "βäj"));
        assert_eq!(in_words_of_the_crate("abc.*"), "abc.*");
    }
}
