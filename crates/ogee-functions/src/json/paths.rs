//! Paths into JSON: `$.a.b[0]`, `/a/b/0`, a key as it is, the number of an element.
//!
//! `$` is the value itself; `.key` or `."any key"` a member; `[n]` an element, from the end as `[-n]` or `[#-n]`; `.*` and `[*]` all members and elements; `..` the value and all that
//! are within it, of which the next step is taken. What begins with `/` is a JSON pointer (RFC 6901). Any other text is one key. Of members with one key the first counts.
//!
//! Not here: what is done with what is found.

use std::borrow::Cow;

use datafusion::common::{Result, plan_err};

use super::reading::{Kind, Place, is_key};

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    /// The element at a place, counted from 0.
    Element(usize),
    /// The element at a place counted from the end, where the last is 1.
    FromEnd(usize),
    /// A member, or the element at a place.
    Pointer(String),
    Members,
    Elements,
    /// Both.
    Parts,
    /// The value and all within it.
    Anywhere,
}

/// A path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    steps: Vec<Step>,
}

impl Path {
    /// The path that `text` is.
    ///
    /// # Errors
    /// If it begins as one and does not go on so.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let steps = match text.as_bytes().first() {
            None => Vec::new(),
            Some(b'$') => return Self::parse_steps(text),
            Some(b'/') => {
                let step = |token: &str| Step::Pointer(token.replace("~1", "/").replace("~0", "~"));
                text[1..].split('/').map(step).collect()
            }
            Some(_) => vec![Step::Key(text.to_owned())],
        };
        Ok(Self { steps })
    }

    fn parse_steps(text: &str) -> Result<Self> {
        let mut steps = Vec::new();
        let mut rest = &text[1..];
        while !rest.is_empty() {
            let step = match rest.strip_prefix("..") {
                Some(_) if rest.starts_with("..[") => {
                    steps.push(Step::Anywhere);
                    next_step(&rest[2..])
                }
                Some(_) => {
                    steps.push(Step::Anywhere);
                    next_step(&rest[1..])
                }
                None => next_step(rest),
            };
            // `..*` is all that is within, whatever it is in.
            let step = match (steps.last(), step) {
                (Some(Step::Anywhere), Some((Step::Members, behind))) => Some((Step::Parts, behind)),
                (_, step) => step,
            };
            let Some((step, behind)) = step else {
                return plan_err!(
                    "JSON path error near {rest:?}; a path is written as $.key[0].*, and a key as it is has no $"
                );
            };
            steps.push(step);
            rest = behind;
        }
        Ok(Self { steps })
    }

    /// The member `key`, whatever it looks like.
    pub(super) fn member(key: &str) -> Self {
        Self { steps: vec![Step::Key(key.to_owned())] }
    }

    /// The element at place `place`, from the end where that is negative.
    pub(super) fn element(place: i64) -> Self {
        let distance = usize::try_from(place.unsigned_abs()).unwrap_or(usize::MAX);
        Self { steps: vec![if place < 0 { Step::FromEnd(distance) } else { Step::Element(distance) }] }
    }

    /// Whether it may lead to several values.
    pub(super) fn has_wildcards(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Members | Step::Elements | Step::Parts | Step::Anywhere))
    }

    /// Its steps, from the first on.
    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// What it leads to from `place`, if it has no wildcards.
    pub(super) fn find<'a>(&self, place: Place<'a>) -> Option<Place<'a>> {
        self.steps.iter().try_fold(place, |place, step| one(place, step))
    }

    /// Gives `each` all that it leads to from `place`.
    pub(super) fn find_all<'a>(&self, place: Place<'a>, each: &mut impl FnMut(Place<'a>) -> Result<()>) -> Result<()> {
        all(place, &self.steps, each)
    }
}

/// The step that `rest` begins with, and what is behind it.
fn next_step(rest: &str) -> Option<(Step, &str)> {
    if let Some(inner) = rest.strip_prefix('[') {
        let (inner, behind) = inner.split_once(']')?;
        let number = |digits: &str| {
            let are_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            are_digits.then(|| digits.parse().ok()).flatten()
        };
        let step = match inner {
            "*" => Step::Elements,
            // Behind the last.
            "#" => Step::FromEnd(0),
            inner => match inner.strip_prefix("#-").or_else(|| inner.strip_prefix('-')) {
                Some(digits) => Step::FromEnd(number(digits)?),
                None => Step::Element(number(inner)?),
            },
        };
        return Some((step, behind));
    }
    let key = rest.strip_prefix('.')?;
    if let Some(quoted) = key.strip_prefix('"') {
        let (key, behind) = quoted_key(quoted)?;
        return Some((Step::Key(key), behind)).filter(|_| !quoted.starts_with('"'));
    }
    let (key, behind) = key.split_at(key.find(['.', '[']).unwrap_or(key.len()));
    match key {
        "" => None,
        "*" => Some((Step::Members, behind)),
        key => Some((Step::Key(key.to_owned()), behind)),
    }
}

/// The key up to the quote, in which quotes and backslashes have a backslash before them.
fn quoted_key(quoted: &str) -> Option<(String, &str)> {
    let mut key = String::new();
    let mut letters = quoted.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((key, &quoted[at + 1..])),
            '\\' => match letters.next_if(|(_, next)| matches!(next, '"' | '\\')) {
                Some((_, next)) => key.push(next),
                None => key.push('\\'),
            },
            letter => key.push(letter),
        }
    }
    None
}

/// Where `step`, which is no wildcard, leads from `place`.
fn one<'a>(place: Place<'a>, step: &Step) -> Option<Place<'a>> {
    let member = |key: &str| place.members().find(|(raw, _)| is_key(raw, key)).map(|(_, value)| value);
    match step {
        Step::Key(key) => member(key),
        Step::Element(at) => place.elements().nth(*at),
        Step::FromEnd(at) => {
            let at = place.elements().count().checked_sub(*at)?;
            place.elements().nth(at)
        }
        Step::Pointer(token) => match place.kind() {
            Kind::List => {
                let is_place =
                    token == "0" || token.bytes().all(|byte| byte.is_ascii_digit()) && !token.starts_with('0');
                place.elements().nth(is_place.then(|| token.parse().ok()).flatten()?)
            }
            _ => member(token),
        },
        Step::Members | Step::Elements | Step::Parts | Step::Anywhere => None,
    }
}

/// Steps are as many as the path is long, so that this goes no deeper than a path.
fn all<'a>(place: Place<'a>, steps: &[Step], each: &mut impl FnMut(Place<'a>) -> Result<()>) -> Result<()> {
    let mut here = place;
    for (at, step) in steps.iter().enumerate() {
        let behind = &steps[at + 1..];
        match step {
            Step::Members => return here.members().try_for_each(|(_, value)| all(value, behind, each)),
            Step::Elements => return here.elements().try_for_each(|value| all(value, behind, each)),
            Step::Parts => return here.parts().try_for_each(|value| all(value, behind, each)),
            Step::Anywhere => return here.all().try_for_each(|value| all(value, behind, each)),
            step => match one(here, step) {
                Some(found) => here = found,
                None => return Ok(()),
            },
        }
    }
    each(here)
}

/// A path that leads to the member `key` of what `path` leads to.
pub(super) fn with_key(path: &str, key: &str) -> String {
    let is_plain = key.bytes().next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match is_plain {
        true => format!("{path}.{key}"),
        false => format!("{path}.\"{}\"", with_backslashes(key)),
    }
}

pub(super) fn with_backslashes(key: &str) -> Cow<'_, str> {
    match key.contains(['"', '\\']) {
        true => Cow::Owned(key.replace('\\', "\\\\").replace('"', "\\\"")),
        false => Cow::Borrowed(key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(json: &str, path: &str) -> Vec<String> {
        let mut found = Vec::new();
        let path = Path::parse(path).expect("a path");
        let collected = path.find_all(Place::of_checked(json), &mut |place| {
            found.push(place.raw().to_owned());
            Ok(())
        });
        assert!(collected.is_ok());
        if !path.has_wildcards() {
            let one = path.find(Place::of_checked(json)).map(|place| place.raw().to_owned());
            assert_eq!(one.into_iter().collect::<Vec<_>>(), found);
        }
        found
    }

    #[test]
    fn paths_lead_where_they_lead_in_duckdb() {
        let json = r#"{"a":{"b":[1,{"c":2}]},"":5,"a.b":6,"x\"y":7,"a/b":8,"a~b":9}"#;
        for (path, expected) in [
            ("$.a.b[0]", "1"),
            ("$.a.b[-1].c", "2"),
            ("$.a.b[#-1]", "{\"c\":2}"),
            ("$.a.b[#-2]", "1"),
            ("/a/b/0", "1"),
            ("/a/b/1/c", "2"),
            ("/", "5"),
            ("a.b", "6"),
            ("$.\"a.b\"", "6"),
            ("x\"y", "7"),
            ("$.\"x\\\"y\"", "7"),
            ("/a~1b", "8"),
            ("/a~0b", "9"),
        ] {
            assert_eq!(found(json, path), [expected], "{path}");
        }
        for nothing in ["$.a.b[#]", "$.a.b[#-3]", "$.a.b[5]", "$.x", "/a/b/00", "/a/b/-", "/a/b/2", "c", "$.a[0]"] {
            assert_eq!(found(json, nothing), [""; 0], "{nothing}");
        }
        assert_eq!(found("[1]", ""), ["[1]"]);
        assert_eq!(found("[1]", "$"), ["[1]"]);
    }

    #[test]
    fn wildcards_lead_to_all() {
        for (json, path, expected) in [
            ("{\"x\":{\"y\":1},\"z\":2}", "$..*", "{\"y\":1} 2 1"),
            ("[[1],{\"b\":[2]}]", "$..*", "[1] {\"b\":[2]} 1 [2] 2"),
            ("[1,2]", "$.*", ""),
            ("{\"x\":{\"y\":{\"q\":1}},\"y\":2}", "$..y", "2 {\"q\":1}"),
            ("[[1,2],[3]]", "$..[*]", "[1,2] [3] 1 2 3"),
            ("{\"x\":[{\"y\":[5]},{\"y\":[6]}],\"y\":[7]}", "$..y[0]", "7 5 6"),
            ("[[1,[2]]]", "$..[-1]", "[1,[2]] [2] 2"),
            ("[{\"a\":1},{\"a\":2},{\"b\":3}]", "$[*].a", "1 2"),
            ("{\"a\":{\"x\":1},\"b\":{\"x\":2}}", "$.*.x", "1 2"),
            ("1", "$.*", ""),
        ] {
            assert_eq!(found(json, path).join(" "), expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in [
            "$.a.", "$a", "$[", "$[x]", "$.", "$.\"a", "$..", "$[1", "$[-]", "$[#1]", "$[*", "$[*]x", "$.\"a\"x",
            "$.\"\"", "$ .a",
        ] {
            assert!(Path::parse(path).is_err(), "{path}");
        }
    }
}
