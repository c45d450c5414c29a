//! Colours of what is typed.

use super::tokens::{Kind, Token, tokens};

const KEYWORD: &str = "\x1b[32m";
const VALUE: &str = "\x1b[33m";
const QUOTED: &str = "\x1b[36m";
const FAINT: &str = "\x1b[90m";
const COMMAND: &str = "\x1b[35m";
const BRACKET: &str = "\x1b[1;34m";
const END: &str = "\x1b[0m";

fn colour(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Keyword => Some(KEYWORD),
        Kind::Text { .. } | Kind::Number => Some(VALUE),
        Kind::Quoted => Some(QUOTED),
        Kind::Comment => Some(FAINT),
        Kind::Command => Some(COMMAND),
        Kind::Blank | Kind::Word | Kind::Open | Kind::Close | Kind::Symbol => None,
    }
}

/// `text` with colours; `cursor` is where brackets are matched, if they are.
pub fn coloured(text: &str, cursor: Option<usize>) -> String {
    let tokens = tokens(text);
    let pair = cursor.and_then(|cursor| pair(text, &tokens, cursor));
    let mut line = String::with_capacity(text.len() * 2);
    for (at, token) in tokens.iter().enumerate() {
        let part = &text[token.place.clone()];
        let is_paired = pair.is_some_and(|(one, other)| at == one || at == other);
        match if is_paired { Some(BRACKET) } else { colour(token.kind) } {
            // A colour is of one line, so that each can be drawn alone.
            Some(colour) => {
                for (number, part) in part.split('\n').enumerate() {
                    if number > 0 {
                        line.push('\n');
                    }
                    if !part.is_empty() {
                        line.extend([colour, part, END]);
                    }
                }
            }
            None => line.push_str(part),
        }
    }
    line
}

/// Text that is only a proposal.
pub fn faint(text: &str) -> String {
    format!("{FAINT}{text}{END}")
}

/// The bracket at or before the cursor and the one that belongs to it.
fn pair(text: &str, tokens: &[Token], cursor: usize) -> Option<(usize, usize)> {
    let is_bracket = |at: &usize| matches!(tokens[*at].kind, Kind::Open | Kind::Close);
    let with = |place: &dyn Fn(&Token) -> bool| tokens.iter().position(place).filter(is_bracket);
    let one = with(&|token| token.place.start == cursor).or_else(|| with(&|token| token.place.end == cursor))?;
    let mut depth = 0_usize;
    let mut step = |at: &usize, deeper: Kind| {
        match tokens[*at].kind {
            kind if kind == deeper => depth += 1,
            Kind::Open | Kind::Close => depth -= 1,
            _ => {}
        }
        depth == 0
    };
    let other = match tokens[one].kind {
        Kind::Open => (one..tokens.len()).find(|at| step(at, Kind::Open)),
        _ => (0..=one).rev().find(|at| step(at, Kind::Close)),
    }?;
    let belong = |open: &str, close: &str| matches!((open, close), ("(", ")") | ("[", "]") | ("{", "}"));
    let (first, last) = (one.min(other), one.max(other));
    belong(&text[tokens[first].place.clone()], &text[tokens[last].place.clone()]).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is between escapes.
    fn plain(text: &str) -> String {
        let mut parts = text.split('\x1b');
        let first = parts.next().unwrap_or_default().to_owned();
        first + &parts.map(|part| part.split_once('m').map_or("", |(_, rest)| rest)).collect::<String>()
    }

    #[test]
    fn colours_change_no_letter() {
        for text in ["SELECT 'a\nb', (1 + \"é\") -- x", ".mode csv", "", "((]", "/* a\n\nb"] {
            for cursor in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                assert_eq!(plain(&coloured(text, Some(cursor))), text);
            }
        }
        assert_eq!(coloured("SELECT x", None), "\x1b[32mSELECT\x1b[0m x");
    }

    #[test]
    fn brackets_are_matched() {
        let text = "f(a[1], (b))";
        let tokens = tokens(text);
        let places = |cursor| pair(text, &tokens, cursor).map(|(a, b)| (tokens[a].place.start, tokens[b].place.start));
        assert_eq!(places(1), Some((1, 11)));
        assert_eq!(places(12), Some((1, 11)));
        assert_eq!(places(3), Some((3, 5)));
        assert_eq!(places(0), None);
        assert_eq!(pair("(]", &super::tokens("(]"), 0), None);
    }
}
