//! Text that is being typed, as tokens, for colours and completion. Every text has tokens, however wrong or unfinished it is.
//!
//! Not here: where a statement ends (`splitter`).

use std::ops::Range;

use super::keywords::is_keyword;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Blank,
    Comment,
    Keyword,
    /// A name, or the name of a function.
    Word,
    /// A name in quotes.
    Quoted,
    Number,
    /// A text, and whether its end is there.
    Text {
        closed: bool,
    },
    Open,
    Close,
    Symbol,
    /// The name of a command that starts with a dot.
    Command,
}

/// A token and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    pub place: Range<usize>,
}

/// Whether `text` is a command that starts with a dot.
pub fn is_command(text: &str) -> bool {
    text.trim_start().starts_with('.') && !text.trim_end().contains('\n')
}

/// The tokens of `text`, one behind the other without a gap.
pub fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut start = 0;
    if is_command(text) {
        let blank = text.len() - text.trim_start().len();
        let end = text[blank..].find(char::is_whitespace).map_or(text.len(), |end| blank + end);
        if blank > 0 {
            tokens.push(Token { kind: Kind::Blank, place: 0..blank });
        }
        tokens.push(Token { kind: Kind::Command, place: blank..end });
        start = end;
    }
    while start < text.len() {
        let (kind, length) = first(&text[start..]);
        tokens.push(Token { kind, place: start..start + length });
        start += length;
    }
    tokens
}

/// The first token of `text`, which is not empty, and its length.
fn first(text: &str) -> (Kind, usize) {
    let until = |end: &dyn Fn(char) -> bool| text.find(|letter| !end(letter)).unwrap_or(text.len());
    let Some(letter) = text.chars().next() else { return (Kind::Blank, 0) };
    match letter {
        _ if letter.is_whitespace() => (Kind::Blank, until(&char::is_whitespace)),
        '-' if text.starts_with("--") => (Kind::Comment, text.find('\n').unwrap_or(text.len())),
        '/' if text.starts_with("/*") => (Kind::Comment, comment(text)),
        '\'' => {
            let (length, closed) = quoted(text, '\'');
            (Kind::Text { closed }, length)
        }
        '"' => (Kind::Quoted, quoted(text, '"').0),
        '$' => match dollar(text) {
            Some((length, closed)) => (Kind::Text { closed }, length),
            None => (Kind::Symbol, 1),
        },
        '(' | '[' | '{' => (Kind::Open, 1),
        ')' | ']' | '}' => (Kind::Close, 1),
        _ if letter.is_ascii_digit() => (Kind::Number, number(text)),
        '.' if text[1..].starts_with(|next: char| next.is_ascii_digit()) => (Kind::Number, number(text)),
        _ if letter.is_alphabetic() || letter == '_' => {
            let length = until(&|letter| letter.is_alphanumeric() || letter == '_');
            (if is_keyword(&text[..length]) { Kind::Keyword } else { Kind::Word }, length)
        }
        other => (Kind::Symbol, other.len_utf8()),
    }
}

/// The length of the comment that `text` begins with; comments nest.
fn comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The length of what stands in quotes at the beginning of `text`, and whether they are closed.
fn quoted(text: &str, quote: char) -> (usize, bool) {
    let mut at = 1;
    while let Some(end) = text[at..].find(quote) {
        at += end + 1;
        if !text[at..].starts_with(quote) {
            return (at, true);
        }
        at += 1;
    }
    (text.len(), false)
}

/// The same of `$tag$`.
fn dollar(text: &str) -> Option<(usize, bool)> {
    let end = text[1..].find('$')? + 2;
    let tag = &text[..end];
    let is_tag = tag[1..end - 1].chars().all(|letter| letter.is_alphanumeric() || letter == '_')
        && !tag[1..].starts_with(|first: char| first.is_ascii_digit());
    is_tag.then(|| text[end..].find(tag).map_or((text.len(), false), |close| (2 * end + close, true)))
}

fn number(text: &str) -> usize {
    let mut length = 0;
    let mut before = ' ';
    for letter in text.chars() {
        let is_sign = matches!(letter, '+' | '-') && matches!(before, 'e' | 'E') && !text.starts_with("0x");
        if !(letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_') || is_sign) {
            break;
        }
        length += letter.len_utf8();
        before = letter;
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(Kind, &str)> {
        let tokens = tokens(text);
        let mut end = 0;
        for token in &tokens {
            assert_eq!(token.place.start, end);
            end = token.place.end;
        }
        assert_eq!(end, text.len());
        tokens
            .iter()
            .filter(|token| token.kind != Kind::Blank)
            .map(|token| (token.kind, &text[token.place.clone()]))
            .collect()
    }

    #[test]
    fn every_text_has_tokens() {
        assert_eq!(
            kinds("SELECT a.b, 'it''s', 1.5e-3 FROM \"x\"\"y\" -- end"),
            [
                (Kind::Keyword, "SELECT"),
                (Kind::Word, "a"),
                (Kind::Symbol, "."),
                (Kind::Word, "b"),
                (Kind::Symbol, ","),
                (Kind::Text { closed: true }, "'it''s'"),
                (Kind::Symbol, ","),
                (Kind::Number, "1.5e-3"),
                (Kind::Keyword, "FROM"),
                (Kind::Quoted, "\"x\"\"y\""),
                (Kind::Comment, "-- end"),
            ]
        );
        assert_eq!(kinds("/* a /* b */ c"), [(Kind::Comment, "/* a /* b */ c")]);
        assert_eq!(kinds("'é"), [(Kind::Text { closed: false }, "'é")]);
        assert_eq!(
            kinds("$a$ ' $a$x $1"),
            [(Kind::Text { closed: true }, "$a$ ' $a$"), (Kind::Word, "x"), (Kind::Symbol, "$"), (Kind::Number, "1")]
        );
        assert_eq!(kinds(" .mode csv")[0], (Kind::Command, ".mode"));
        assert_eq!(kinds("(€)"), [(Kind::Open, "("), (Kind::Symbol, "€"), (Kind::Close, ")")]);
    }
}
