//! Regular expressions with DuckDB's names, flags and groups, and texts cut where one matches, or a text is.
//!
//! A flag is `c` or `i` for case, `l` for a pattern that is taken literally, `s` and `m`, `n` or `p` for whether `.` is a line's end too; the last of those that
//! exclude each other counts. A pattern that matches nothing where it is to cut cuts behind the next letter.
//!
//! Not here: `regexp_replace` (`replacements`), whose flag `g` only it has.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, BooleanBuilder, Int64Array, ListBuilder, StringViewArray, StringViewBuilder},
        datatypes::{DataType, Field},
    },
    common::{Result, exec_datafusion_err, exec_err},
    logical_expr::ScalarUDF,
};
use memchr::memmem;
use ogee_memory::BufferManager;
use regex::{Regex, RegexBuilder};

use crate::{
    arguments::{Argument, taken, texts, wholes},
    function::{Function, Taken},
    growing::Promises,
    re2::in_words_of_the_crate,
    times::Zone,
};

/// The functions that statements may name; what they make is promised memory of `memory`.
pub fn functions(memory: &Arc<BufferManager>) -> Vec<ScalarUDF> {
    type Body = fn(&[ArrayRef], &mut Promises<'_>) -> Result<ArrayRef>;
    let lists = |name: &'static str, taken: Taken, body: Body| {
        Function::growing(name, taken, |_| Ok(text_list()), body, memory)
    };
    let functions = [
        Function::of(
            "regexp_matches",
            |given| pattern_taken("regexp_matches", given),
            |_| Ok(DataType::Boolean),
            |args, _| matches("regexp_matches", args, false),
        ),
        Function::of(
            "regexp_full_match",
            |given| pattern_taken("regexp_full_match", given),
            |_| Ok(DataType::Boolean),
            |args, _| matches("regexp_full_match", args, true),
        ),
        Function::of(
            "regexp_extract",
            |given| group_taken("regexp_extract", given),
            |_| Ok(DataType::Utf8View),
            extract,
        ),
        lists("regexp_extract_all", |given| group_taken("regexp_extract_all", given), extract_all),
        lists("regexp_split_to_array", |given| pattern_taken("regexp_split_to_array", given), split_by_pattern)
            .also(&["string_split_regex", "str_split_regex"]),
        lists(
            "string_split",
            |given| taken("string_split", &[Argument::Text, Argument::Text], 0, given),
            split_by_text,
        )
        .also(&["str_split", "split"]),
        Function::of(
            "regexp_escape",
            |given| taken("regexp_escape", &[Argument::Text], 0, given),
            |_| Ok(DataType::Utf8View),
            escape,
        ),
    ];
    functions.into_iter().map(Function::registered).collect()
}

fn text_list() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true)))
}

fn pattern_taken(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    taken(name, &[Argument::Text, Argument::Text, Argument::Text], 1, given)
}

fn group_taken(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    taken(name, &[Argument::Text, Argument::Text, Argument::Whole, Argument::Text], 2, given)
}

/// What flags say of a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Flags {
    pub(crate) ignores_case: bool,
    pub(crate) is_literal: bool,
    pub(crate) dot_is_all: bool,
    pub(crate) all: bool,
}

impl Flags {
    /// # Errors
    /// If function `name` has no such flag.
    pub(crate) fn of(flags: &str, name: &str) -> Result<Self> {
        let mut of = Self::default();
        for flag in flags.chars() {
            match flag {
                'c' => of.ignores_case = false,
                'i' => of.ignores_case = true,
                'l' => of.is_literal = true,
                'm' | 'n' | 'p' => of.dot_is_all = false,
                's' => of.dot_is_all = true,
                'g' => of.all = true,
                ' ' | '\t' | '\n' => {}
                other => return exec_err!("{name} has no flag '{other}'"),
            }
        }
        Ok(of)
    }

    /// Of a pattern that is no literal any more.
    pub(crate) fn builder(self, pattern: &str) -> RegexBuilder {
        let mut builder = RegexBuilder::new(pattern);
        builder.case_insensitive(self.ignores_case).dot_matches_new_line(self.dot_is_all);
        builder
    }
}

/// Patterns that are kept compiled.
const PATTERNS_MAX: usize = 64;

/// The pattern of each row, compiled once for all rows that have it.
struct Patterns {
    patterns: StringViewArray,
    flags: Option<StringViewArray>,
    name: &'static str,
    whole: bool,
    compiled: HashMap<(String, String), usize>,
    regexes: Vec<Regex>,
    /// Of the row before.
    last: Option<(usize, usize)>,
}

impl Patterns {
    /// For function `name`; `whole`: each is to match all of a text.
    fn new(name: &'static str, patterns: &ArrayRef, flags: Option<&ArrayRef>, whole: bool) -> Result<Self> {
        let flags = flags.map(texts).transpose()?;
        let patterns = texts(patterns)?;
        Ok(Self { patterns, flags, name, whole, compiled: HashMap::new(), regexes: Vec::new(), last: None })
    }

    /// That of row `row`; `None` where it is NULL.
    fn at(&mut self, row: usize) -> Result<Option<&Regex>> {
        let flags = match &self.flags {
            Some(flags) if flags.is_null(row) => return exec_err!("the flags of {} are NULL", self.name),
            Some(flags) => flags.value(row),
            None => "",
        };
        if self.patterns.is_null(row) {
            return Ok(None);
        }
        let pattern = self.patterns.value(row);
        if let Some((before, regex)) = self.last {
            let same_flags = self.flags.as_ref().is_none_or(|all| all.value(before) == flags);
            if same_flags && self.patterns.value(before) == pattern {
                return Ok(Some(&self.regexes[regex]));
            }
        }
        let key = (pattern.to_owned(), flags.to_owned());
        let regex = match self.compiled.get(&key) {
            Some(regex) => *regex,
            None => {
                // Each takes some kilobytes, or some hundreds.
                if self.regexes.len() == PATTERNS_MAX {
                    self.regexes.clear();
                    self.compiled.clear();
                }
                self.regexes.push(compiled(pattern, flags, self.name, self.whole)?);
                self.compiled.insert(key, self.regexes.len() - 1);
                self.regexes.len() - 1
            }
        };
        self.last = Some((row, regex));
        Ok(Some(&self.regexes[regex]))
    }
}

fn compiled(pattern: &str, flags: &str, name: &str, whole: bool) -> Result<Regex> {
    let flags = Flags::of(flags, name)?;
    if flags.all {
        return exec_err!("the flag 'g' is regexp_replace's only, not {name}'s");
    }
    let source = if flags.is_literal { Cow::Owned(regex::escape(pattern)) } else { in_words_of_the_crate(pattern) };
    let refused = |error| exec_datafusion_err!("'{pattern}' is no pattern: {error}");
    let alone = flags.builder(&source).build().map_err(refused)?;
    // Which has to be one by itself: `)(` would be within brackets.
    if !whole {
        return Ok(alone);
    }
    flags.builder(&format!(r"\A(?:{source})\z")).build().map_err(refused)
}

fn matches(name: &'static str, args: &[ArrayRef], whole: bool) -> Result<ArrayRef> {
    let values = texts(&args[0])?;
    let mut patterns = Patterns::new(name, &args[1], args.get(2), whole)?;
    let mut matches = BooleanBuilder::with_capacity(values.len());
    for (row, text) in values.iter().enumerate() {
        let pattern = patterns.at(row)?;
        matches.append_option(text.zip(pattern).map(|(text, pattern)| pattern.is_match(text)));
    }
    Ok(Arc::new(matches.finish()))
}

/// The groups that are asked for: all of a match without an argument.
fn groups(args: &[ArrayRef]) -> Result<Option<Int64Array>> {
    args.get(2).map(wholes).transpose()
}

/// Groups that a pattern may have, from the whole match on.
const GROUPS_MAX: i64 = 9;

/// The first match of a pattern, or a group of it; empty where there is none.
fn extract(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let (values, groups) = (texts(&args[0])?, groups(args)?);
    let mut patterns = Patterns::new("regexp_extract", &args[1], args.get(3), false)?;
    let mut extracted = StringViewBuilder::with_capacity(values.len());
    for (row, text) in values.iter().enumerate() {
        let group = match &groups {
            Some(groups) if groups.is_null(row) => None,
            Some(groups) => Some(groups.value(row)),
            None => Some(0),
        };
        if group.is_some_and(|group| !(0..=GROUPS_MAX).contains(&group)) {
            return exec_err!("a group of regexp_extract is a number from 0 to {GROUPS_MAX}");
        }
        let Some((text, pattern)) = text.zip(patterns.at(row)?) else {
            extracted.append_null();
            continue;
        };
        extracted.append_value(match group {
            None => "",
            Some(0) => pattern.find(text).map_or("", |found| found.as_str()),
            Some(group) => {
                let captures = pattern.captures(text);
                captures.and_then(|captures| captures.get(group as usize)).map_or("", |group| group.as_str())
            }
        });
    }
    Ok(Arc::new(extracted.finish()))
}

/// Lists of texts in the making.
struct Lists<'p, 'm> {
    lists: ListBuilder<StringViewBuilder>,
    promises: &'p mut Promises<'m>,
}

/// What an element of a list takes beside its bytes.
const ELEMENT_BYTES: usize = size_of::<u128>();

impl<'p, 'm> Lists<'p, 'm> {
    fn new(promises: &'p mut Promises<'m>, rows: usize) -> Self {
        Self { lists: ListBuilder::with_capacity(StringViewBuilder::new(), rows), promises }
    }

    fn push(&mut self, row: usize, text: Option<&str>) -> Result<()> {
        self.promises.add(row, (text.map_or(0, str::len) + ELEMENT_BYTES) as u128)?;
        self.lists.values().append_option(text);
        Ok(())
    }

    fn end_row(&mut self, is_valid: bool) {
        self.lists.append(is_valid);
    }

    fn finish(mut self) -> ArrayRef {
        Arc::new(self.lists.finish())
    }
}

/// All matches, or a group of each.
fn extract_all(args: &[ArrayRef], promises: &mut Promises<'_>) -> Result<ArrayRef> {
    let (values, groups) = (texts(&args[0])?, groups(args)?);
    let mut patterns = Patterns::new(promises.name(), &args[1], args.get(3), false)?;
    let mut lists = Lists::new(promises, values.len());
    for (row, text) in values.iter().enumerate() {
        let group = match &groups {
            Some(groups) if groups.is_null(row) => None,
            Some(groups) => Some(groups.value(row)),
            None => Some(0),
        };
        let Some(((text, pattern), group)) = text.zip(patterns.at(row)?).zip(group) else {
            lists.end_row(false);
            continue;
        };
        match usize::try_from(group) {
            // Before the first there is no group.
            Err(_) => {}
            Ok(0) => {
                let mut from = 0;
                while let Some(found) = pattern.find_at(text, from) {
                    lists.push(row, Some(found.as_str()))?;
                    let Some(next) = behind(text, found.range()) else { break };
                    from = next;
                }
            }
            Ok(group) if group < pattern.captures_len() => {
                let mut from = 0;
                while let Some(captures) = pattern.captures_at(text, from) {
                    lists.push(row, captures.get(group).map(|group| group.as_str()))?;
                    let Some(next) = behind(text, captures.get_match().range()) else { break };
                    from = next;
                }
            }
            Ok(group) => {
                return exec_err!("Pattern has {} groups. Cannot access group {group}", pattern.captures_len() - 1);
            }
        }
        lists.end_row(true);
    }
    Ok(lists.finish())
}

/// Where the match behind `found` may begin: at its end, or behind the next letter if it is empty. None of them follow one another at a place.
fn behind(text: &str, found: std::ops::Range<usize>) -> Option<usize> {
    if !found.is_empty() {
        return Some(found.end);
    }
    text[found.end..].chars().next().map(|letter| found.end + letter.len_utf8())
}

fn split_by_pattern(args: &[ArrayRef], promises: &mut Promises<'_>) -> Result<ArrayRef> {
    let values = texts(&args[0])?;
    let mut patterns = Patterns::new(promises.name(), &args[1], args.get(2), false)?;
    let mut lists = Lists::new(promises, values.len());
    for (row, text) in values.iter().enumerate() {
        let pattern = patterns.at(row)?;
        if let Some(text) = text {
            let find = |from| pattern?.find_at(text, from).map(|found| (found.start(), found.len()));
            split(text, find, |part| lists.push(row, Some(part)))?;
        }
        lists.end_row(text.is_some());
    }
    Ok(lists.finish())
}

fn split_by_text(args: &[ArrayRef], promises: &mut Promises<'_>) -> Result<ArrayRef> {
    let (values, between) = (texts(&args[0])?, texts(&args[1])?);
    let mut lists = Lists::new(promises, values.len());
    for (row, (text, between)) in values.iter().zip(&between).enumerate() {
        if let Some(text) = text {
            let finder = between.map(memmem::Finder::new);
            let find = |from: usize| {
                let at = finder.as_ref()?.find(&text.as_bytes()[from..])?;
                Some((from + at, between.map_or(0, str::len)))
            };
            split(text, find, |part| lists.push(row, Some(part)))?;
        }
        lists.end_row(text.is_some());
    }
    Ok(lists.finish())
}

/// Gives `each` what of `text` is between what `find` finds in it from some place on: where that begins and how long it is.
fn split<'t>(
    text: &'t str,
    find: impl Fn(usize) -> Option<(usize, usize)>,
    mut each: impl FnMut(&'t str) -> Result<()>,
) -> Result<()> {
    let mut from = 0;
    while let Some((at, length)) = find(from).filter(|_| from < text.len()) {
        let at = if (at, length) == (from, 0) {
            let letter = text[from..].chars().next().map_or(0, char::len_utf8);
            if from + letter == text.len() {
                break;
            }
            from + letter
        } else {
            at
        };
        each(&text[from..at])?;
        from = at + length;
    }
    each(&text[from..])
}

/// A text in which nothing means anything in a pattern: every letter of ASCII that is no letter, digit or `_` has a backslash before it.
fn escape(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let values = texts(&args[0])?;
    let mut escaped = StringViewBuilder::with_capacity(values.len());
    let mut text = String::new();
    for value in &values {
        text.clear();
        for letter in value.unwrap_or_default().chars() {
            match letter {
                '\0' => text.push_str(r"\x00"),
                letter if letter.is_ascii() && !letter.is_ascii_alphanumeric() && letter != '_' => {
                    text.push('\\');
                    text.push(letter);
                }
                letter => text.push(letter),
            }
        }
        escaped.append_option(value.map(|_| text.as_str()));
    }
    Ok(Arc::new(escaped.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str, pattern: &str) -> Vec<String> {
        let regex = Regex::new(pattern).expect("a pattern");
        let mut parts = Vec::new();
        let find = |from| regex.find_at(text, from).map(|found| (found.start(), found.len()));
        let split = split(text, find, |part| {
            parts.push(part.to_owned());
            Ok(())
        });
        assert!(split.is_ok());
        parts
    }

    #[test]
    fn texts_are_cut_as_in_duckdb() {
        assert_eq!(parts("abc", ""), ["a", "b", "c"]);
        assert_eq!(parts("äb", ""), ["ä", "b"]);
        assert_eq!(parts("", ","), [""]);
        assert_eq!(parts("aXbX", "X"), ["a", "b", ""]);
        assert_eq!(parts("ab1", "[0-9]*"), ["a", "b", "", ""]);
        assert_eq!(parts("a  b", " +"), ["a", "b"]);
        assert_eq!(parts("abc", "$"), ["abc", ""]);
        assert_eq!(parts("abc", "^"), ["a", "bc"]);
        assert_eq!(parts("ab cd", r"\b"), ["a", "b", " ", "c", "d", ""]);
    }

    #[test]
    fn a_whole_match_is_of_one_pattern() {
        assert!(compiled(")(", "", "f", true).is_err());
        assert!(compiled("a|ab", "", "f", true).is_ok_and(|regex| regex.is_match("ab") && !regex.is_match("ab\n")));
    }
}
