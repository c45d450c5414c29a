//! `regexp_replace` with the replacements and flags of DuckDB.
//!
//! DataFusion reads a replacement as Rust does, where `$` names a group. Here `\1` to `\9` are groups, `\0` is all that is matched, `\\` a backslash, and everything else stands for
//! itself; a group that the pattern has not, or a backslash before something else, is an error. Flags are `c` and `i` for case, `l` for a pattern that is taken
//! literally, `s` and `m`, `n` or `p` for whether `.` is a line's end too, and `g` for all matches; the last of those that exclude each other counts.
//!
//! Not here: what a pattern matches, which the library knows.

use std::{
    borrow::Cow,
    collections::{HashMap, hash_map::Entry},
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder},
        compute::cast,
        datatypes::DataType,
    },
    common::{Result, ScalarValue, exec_datafusion_err, exec_err},
    functions::regex::regexp_replace,
    logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature},
};
use ogee_exec::PART_BYTES;
use ogee_memory::BufferManager;
use regex::{CaptureLocations, Captures, NoExpand, Regex, Replacer};

use crate::{growing::Promises, re2::in_words_of_the_crate, regexes::Flags};

/// To register in a session, instead of DataFusion's; what it makes is promised memory of `memory`.
pub fn function(memory: &Arc<BufferManager>) -> ScalarUDF {
    let inner = regexp_replace();
    ScalarUDF::new_from_impl(RegexpReplace { signature: inner.signature().clone(), inner, memory: Arc::clone(memory) })
}

/// What the function is called.
pub const NAME: &str = "regexp_replace";

struct RegexpReplace {
    inner: Arc<ScalarUDF>,
    signature: Signature,
    memory: Arc<BufferManager>,
}

impl fmt::Debug for RegexpReplace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)
    }
}

impl PartialEq for RegexpReplace {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

impl Eq for RegexpReplace {}

impl Hash for RegexpReplace {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl ScalarUDFImpl for RegexpReplace {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let replaced = replaced(&args.args, rows, &self.memory)?;
        let replaced = cast(&replaced, args.return_field.data_type())?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&replaced, 0)?),
            false => ColumnarValue::Array(replaced),
        })
    }
}

/// An argument: a text for all rows, or one for each.
pub struct Texts {
    texts: StringViewArray,
    is_constant: bool,
}

impl Texts {
    /// The texts of `arg`, one for each of `rows`.
    pub fn of(arg: &ColumnarValue, rows: usize) -> Result<Self> {
        let is_constant = matches!(arg, ColumnarValue::Scalar(_));
        let texts = cast(&arg.to_array(if is_constant { 1 } else { rows })?, &DataType::Utf8View)?;
        Ok(Self { texts: texts.as_string_view().clone(), is_constant })
    }

    /// The text of row `row`; `None` where it is NULL.
    pub fn at(&self, row: usize) -> Option<&str> {
        let row = if self.is_constant { 0 } else { row };
        self.texts.is_valid(row).then(|| self.texts.value(row))
    }
}

fn replaced(args: &[ColumnarValue], rows: usize, memory: &Arc<BufferManager>) -> Result<ArrayRef> {
    let args = args.iter().map(|arg| Texts::of(arg, rows)).collect::<Result<Vec<_>>>()?;
    let [texts, patterns, replacements, flags @ ..] = args.as_slice() else {
        return exec_err!("regexp_replace takes a text, a pattern, a replacement, and flags or none");
    };
    let mut replaced = StringViewBuilder::with_capacity(rows);
    let mut compiled: HashMap<(&str, &str), Pattern> = HashMap::new();
    let flags = |row: usize| match flags.first() {
        Some(flags) => flags.at(row).ok_or_else(|| exec_datafusion_err!("the flags of regexp_replace are NULL")),
        None => Ok(""),
    };
    // What is the same for all rows is made once.
    let is_constant = args[1..].iter().all(|arg| arg.is_constant);
    let mut made: Option<(Pattern, Rewrite)> = None;
    let mut promises = Promises::new(memory, NAME, rows);
    for row in 0..rows {
        let flags = flags(row)?;
        let (Some(text), Some(pattern), Some(replacement)) = (texts.at(row), patterns.at(row), replacements.at(row))
        else {
            replaced.append_null();
            continue;
        };
        if is_constant {
            let (pattern, rewrite) = match &mut made {
                Some(made) => made,
                none => {
                    let pattern = Pattern::new(pattern, flags)?;
                    let rewrite = Rewrite::new(replacement, &pattern)?;
                    none.insert((pattern, rewrite))
                }
            };
            promises.add(row, pattern.bytes(text, rewrite))?;
            replaced.append_value(pattern.replaced(text, rewrite));
            continue;
        }
        let pattern = match compiled.entry((pattern, flags)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Pattern::new(pattern, flags)?),
        };
        let rewrite = Rewrite::new(replacement, pattern)?;
        promises.add(row, pattern.bytes(text, &rewrite))?;
        replaced.append_value(pattern.replaced(text, &rewrite));
    }
    Ok(Arc::new(replaced.finish()))
}

/// A pattern with its flags.
struct Pattern {
    regex: Regex,
    all: bool,
    first: Option<First>,
}

/// `^...(group)...` of a pattern that goes on with `.*$`: where all else is replaced by the group, the rest need not be matched.
struct First {
    regex: Regex,
    groups: CaptureLocations,
}

impl Pattern {
    fn new(pattern: &str, flags: &str) -> Result<Self> {
        let flags = Flags::of(flags, NAME)?;
        let Flags { is_literal, all, .. } = flags;
        let compiled = |pattern: &str| flags.builder(pattern).build();
        let source = if is_literal { Cow::Owned(regex::escape(pattern)) } else { in_words_of_the_crate(pattern) };
        let regex = compiled(&source).map_err(|error| exec_datafusion_err!("'{pattern}' is no pattern: {error}"))?;
        // A choice may have the beginning, or the end, in one of its sides only.
        let begin = source.strip_suffix(".*$").filter(|begin| {
            begin.starts_with('^') && !begin.contains('|') && !all && !is_literal && regex.captures_len() == 2
        });
        let first = begin.and_then(|begin| compiled(begin).ok()).filter(|first| first.captures_len() == 2);
        let first = first.map(|regex| First { groups: regex.capture_locations(), regex });
        Ok(Self { regex, all, first })
    }

    /// What [`Self::replaced`] takes, at most.
    fn bytes(&self, text: &str, rewrite: &Rewrite) -> u128 {
        let of_texts = |part: &Part| if let Part::Text(text) = part { text.len() } else { 0 };
        let by: usize = rewrite.parts.iter().map(of_texts).sum();
        let groups = rewrite.parts.iter().filter(|part| matches!(part, Part::Group(_))).count();
        let many = if self.all { text.len() + 1 } else { 1 };
        let most = text.len() as u128 * (1 + groups as u128) + many as u128 * by as u128;
        if most <= PART_BYTES as u128 || !self.all {
            return most;
        }
        let matches = self.regex.find_iter(text).count();
        text.len() as u128 * (1 + groups as u128) + matches as u128 * by as u128
    }

    fn replaced<'t>(&mut self, text: &'t str, rewrite: &Rewrite) -> Cow<'t, str> {
        let many = if self.all { 0 } else { 1 };
        match &rewrite.parts[..] {
            [] => self.regex.replacen(text, many, NoExpand("")),
            [Part::Text(by)] => self.regex.replacen(text, many, NoExpand(by)),
            [Part::Group(1)] if self.first.is_some() => self.first_group(text, rewrite),
            _ => self.regex.replacen(text, many, rewrite),
        }
    }

    fn first_group<'t>(&mut self, text: &'t str, rewrite: &Rewrite) -> Cow<'t, str> {
        let Some(First { regex, groups }) = &mut self.first else { return Cow::Borrowed(text) };
        let Some(begin) = regex.captures_read(groups, text) else { return Cow::Borrowed(text) };
        // `.*` may end before the text does.
        if memchr::memchr(b'\n', &text.as_bytes()[begin.end()..]).is_some() {
            return self.regex.replacen(text, 1, rewrite);
        }
        Cow::Borrowed(groups.get(1).map_or("", |(from, to)| &text[from..to]))
    }
}

/// What a replacement is made of.
#[derive(Debug, PartialEq)]
struct Rewrite {
    parts: Vec<Part>,
}

#[derive(Debug, PartialEq)]
enum Part {
    Text(String),
    Group(usize),
}

impl Rewrite {
    /// What `replacement` means beside `pattern`.
    ///
    /// # Errors
    /// If it means nothing, or the pattern has no such group.
    fn new(replacement: &str, pattern: &Pattern) -> Result<Self> {
        let rewrite = Self::parsed(replacement)?;
        let groups = pattern.regex.captures_len();
        for part in &rewrite.parts {
            if let Part::Group(group) = part
                && *group >= groups
            {
                return exec_err!(
                    "the replacement '{replacement}' of regexp_replace asks for group {group}, but its pattern has {}",
                    groups - 1
                );
            }
        }
        Ok(rewrite)
    }

    fn parsed(replacement: &str) -> Result<Self> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut letters = replacement.chars();
        while let Some(letter) = letters.next() {
            if letter != '\\' {
                text.push(letter);
                continue;
            }
            match letters.next() {
                Some('\\') => text.push('\\'),
                Some(digit @ '0'..='9') => {
                    if !text.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut text)));
                    }
                    parts.push(Part::Group(digit as usize - '0' as usize));
                }
                _ => {
                    return exec_err!(
                        "the replacement '{replacement}' of regexp_replace has a backslash before neither a digit nor \
                         another one; write \\\\ for a backslash"
                    );
                }
            }
        }
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        Ok(Self { parts })
    }
}

impl Replacer for &Rewrite {
    fn replace_append(&mut self, groups: &Captures<'_>, replaced: &mut String) {
        for part in &self.parts {
            match part {
                Part::Text(text) => replaced.push_str(text),
                Part::Group(group) => {
                    replaced.push_str(groups.get(*group).map_or("", |group| group.as_str()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, pattern: &str, replacement: &str, flags: &str) -> Result<String> {
        let mut pattern = Pattern::new(pattern, flags)?;
        let rewrite = Rewrite::new(replacement, &pattern)?;
        Ok(pattern.replaced(text, &rewrite).into_owned())
    }

    #[test]
    fn replacements_are_those_of_duckdb() -> Result<()> {
        for (text, pattern, replacement, flags, expected) in [
            ("5 USD", r"(\d+) USD", r"$\1", "", "$5"),
            ("ab", "(b)", r"\12", "", "ab2"),
            ("abc", "b", r"\\", "", r"a\c"),
            ("abc", "b", r"\\1", "", r"a\1c"),
            ("ab", "b", "$$", "", "a$$"),
            ("ab", "(x)?b", r"[\1]", "", "a[]"),
            ("baac", "a*", "-", "g", "-b-c-"),
            ("a.b", ".", r"[\0]", "l", "a[.]b"),
            ("a\nb", "a.b", "x", "ms", "x"),
            ("aBb", "b", "x", "ci g", "axx"),
            ("http://x.y/z", "^http://([^/]+)/.*$", r"\1", "", "x.y"),
            ("http://x.y/z\nw", "^http://([^/]+)/.*$", r"\1", "", "http://x.y/z\nw"),
            ("http://x.y/z\nw", "^http://([^/]+)/.*$", r"\1", "s", "x.y"),
            ("xbc", "^(a)|b.*$", r"\1", "", "x"),
        ] {
            assert_eq!(of(text, pattern, replacement, flags)?, expected, "{pattern} {replacement}");
        }
        Ok(())
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for (pattern, replacement, flags) in
            [("b", r"\q", ""), ("b", r"x\", ""), ("b", r"\1", ""), ("(b)", r"\2", ""), ("b", "", "x"), ("(", "", "")]
        {
            assert!(of("zz", pattern, replacement, flags).is_err(), "{pattern} {replacement} {flags}");
        }
    }
}
