//! Texts of lists, structs and maps, taken apart as DuckDB does: `[a, b]`, `{'a': 1}`, `(1, 2)`, `{k=v}`.
//!
//! What is between commas may be in quotes, and a backslash takes what is behind it as it is. Lists, structs and maps within stay texts, to be taken apart where their
//! types are known; `NULL` without quotes is NULL.
//!
//! Not here: what the parts are cast to (`casting`).

use std::{iter::Peekable, str::Chars};

/// A part; `None` is NULL.
type Part = Option<String>;

/// The elements of the list that `text` is.
pub(super) fn list(text: &str) -> Option<Vec<Part>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    let mut elements = Vec::new();
    let mut chars = inner.chars().peekable();
    if inner.trim().is_empty() {
        return Some(elements);
    }
    loop {
        elements.push(part(&mut chars, &[','])?);
        match chars.next() {
            Some(',') => {}
            Some(_) => return None,
            None => return Some(elements),
        }
    }
}

/// The fields of the struct that `text` is, with their names, or without where it is written as a row.
pub(super) fn fields(text: &str) -> Option<Vec<(Part, Part)>> {
    let text = text.trim();
    if let Some(row) = text.strip_prefix('(') {
        let mut chars = row.strip_suffix(')')?.chars().peekable();
        let mut values = Vec::new();
        loop {
            skip_blanks(&mut chars);
            // A comma may be behind the last.
            if chars.peek().is_none() {
                return Some(values);
            }
            values.push((None, part(&mut chars, &[','])?));
            if chars.next().is_some_and(|between| between != ',') {
                return None;
            }
        }
    }
    pairs(text, ':')
}

/// The entries of the map that `text` is. A key that is NULL makes it none.
pub(super) fn entries(text: &str) -> Option<Vec<(Part, Part)>> {
    let entries = pairs(text.trim(), '=')?;
    entries.iter().all(|(key, _)| key.is_some()).then_some(entries)
}

fn pairs(text: &str, between: char) -> Option<Vec<(Part, Part)>> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    let mut pairs = Vec::new();
    let mut chars = inner.chars().peekable();
    if inner.trim().is_empty() {
        return Some(pairs);
    }
    loop {
        let key = part(&mut chars, &[between])?;
        if chars.next() != Some(between) {
            return None;
        }
        pairs.push((key, part(&mut chars, &[','])?));
        match chars.next() {
            Some(',') => {}
            Some(_) => return None,
            None => return Some(pairs),
        }
    }
}

fn skip_blanks(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|char| char.is_whitespace()).is_some() {}
}

/// The next part, up to one of `ends` or the end.
fn part(chars: &mut Peekable<Chars<'_>>, ends: &[char]) -> Option<Part> {
    skip_blanks(chars);
    if let Some(quote) = chars.next_if(|char| matches!(char, '"' | '\'')) {
        let mut part = String::new();
        loop {
            match chars.next()? {
                '\\' => part.push(chars.next()?),
                char if char == quote => break,
                char => part.push(char),
            }
        }
        skip_blanks(chars);
        return Some(Some(part));
    }
    let mut part = String::new();
    let mut open = Vec::new();
    while let Some(&char) = chars.peek() {
        match char {
            char if open.is_empty() && ends.contains(&char) => break,
            '[' => open.push(']'),
            '{' => open.push('}'),
            '(' => open.push(')'),
            ']' | '}' | ')' if open.pop() != Some(char) => return None,
            '"' | '\'' if !open.is_empty() => {
                part.push(char);
                chars.next();
                loop {
                    let inner = chars.next()?;
                    part.push(inner);
                    match inner {
                        '\\' => part.push(chars.next()?),
                        inner if inner == char => break,
                        _ => {}
                    }
                }
                continue;
            }
            '\\' => {
                chars.next();
                if !open.is_empty() {
                    part.push('\\');
                }
                part.push(chars.next()?);
                continue;
            }
            _ => {}
        }
        part.push(char);
        chars.next();
    }
    if !open.is_empty() {
        return None;
    }
    let part = part.trim();
    Some((!part.eq_ignore_ascii_case("null")).then(|| part.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let part = |part: &Part| part.clone().unwrap_or_else(|| "~".to_owned());
        list(text).map_or("none".to_owned(), |list| list.iter().map(part).collect::<Vec<_>>().join("|"))
    }

    fn shown_pairs(pairs: Option<Vec<(Part, Part)>>) -> String {
        let part = |part: Part| part.unwrap_or_else(|| "~".to_owned());
        let pair = |(key, value): (Part, Part)| format!("{}>{}", part(key), part(value));
        pairs.map_or("none".to_owned(), |pairs| pairs.into_iter().map(pair).collect::<Vec<_>>().join("|"))
    }

    #[test]
    fn lists_are_taken_apart() {
        assert_eq!(shown("[a, b ,NULL]"), "a|b|~");
        assert_eq!(shown(r#" ["c, d", 'e"f', "g\"h", "NULL"] "#), "c, d|e\"f|g\"h|NULL");
        assert_eq!(shown("[[1, 2], [3], []]"), "[1, 2]|[3]|[]");
        assert_eq!(shown("[['a]', \"b\\\"]\"], x]"), "['a]', \"b\\\"]\"]|x");
        assert_eq!((shown("[]"), shown("[ ]")), (String::new(), String::new()));
        assert_eq!(["a", "[a", "a]", "[[a]", "[a]]", "['a' b]", "['a]"].map(shown), ["none"; 7]);
    }

    #[test]
    fn structs_and_maps_are_taken_apart() {
        assert_eq!(shown_pairs(fields("{a: 1, 'b c': x y, d:}")), "a>1|b c>x y|d>");
        assert_eq!(shown_pairs(fields(" (1, NULL,) ")), "~>1|~>~");
        assert_eq!(shown_pairs(fields("{a: {b: 1, c: 'x'}, d: [1, 2]}")), "a>{b: 1, c: 'x'}|d>[1, 2]");
        assert_eq!(["{a 1}", "{a: 1", "{a: 1}, ", "a: 1"].map(|text| shown_pairs(fields(text))), ["none"; 4]);
        assert_eq!(shown_pairs(entries("{a=1=2, \"b=c\"=[1, 2]}")), "a>1=2|b=c>[1, 2]");
        assert_eq!(shown_pairs(entries("{{1=2}=x}")), "{1=2}>x");
        assert_eq!(["{NULL=1}", "{a: 1}", "nope"].map(|text| shown_pairs(entries(text))), ["none"; 3]);
    }
}
