//! Parts of paths of files, and paths of parts: `parse_filename('dir/file.csv', true)`, `path_join('dir', 'file')`.
//!
//! What is between the parts of a path is `/` and `\`, or one of them as the last argument says: `both_slash`, `forward_slash`, `backslash`, or `system`, which is the first of them here.
//!
//! Not here: files.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BooleanArray, ListBuilder, StringViewArray, StringViewBuilder},
        datatypes::{DataType, Field},
    },
    common::{Result, exec_err},
    logical_expr::ScalarUDF,
};

use crate::{
    arguments::{Argument, refused, taken, texts},
    function::{Function, Taken},
    times::Zone,
};

/// The functions that statements may name.
pub fn functions() -> Vec<ScalarUDF> {
    fn path(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
        taken(name, &[Argument::Text, Argument::Text], 1, given)
    }
    type Body = fn(&[ArrayRef], &Zone) -> Result<ArrayRef>;
    let text =
        |name: &'static str, taken: Taken, body: Body| Function::of(name, taken, |_| Ok(DataType::Utf8View), body);
    let functions = [
        text("parse_filename", name_taken, names),
        text("parse_dirname", |given| path("parse_dirname", given), |args, _| each(args, first)),
        text("parse_dirpath", |given| path("parse_dirpath", given), |args, _| each(args, before_last)),
        Function::of("parse_path", |given| path("parse_path", given), |_| Ok(list()), parts),
        text(JOIN, join_taken, joined),
    ];
    functions.into_iter().map(Function::registered).collect()
}

const JOIN: &str = "path_join";

fn list() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true)))
}

/// Whether the extension goes may be left out.
fn name_taken(given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [path, trims @ DataType::Boolean, rest @ ..] => {
            let others: Vec<DataType> = std::iter::once(path).chain(rest).cloned().collect();
            let mut types = taken("parse_filename", &[Argument::Text, Argument::Text], 1, &others)?;
            types.insert(1, trims.clone());
            Ok(types)
        }
        _ => taken("parse_filename", &[Argument::Text, Argument::Text], 1, given),
    }
}

/// What is between parts, as the argument at `at` says it for each row.
struct Separators(Option<StringViewArray>);

impl Separators {
    fn of(args: &[ArrayRef], at: usize) -> Result<Self> {
        Ok(Self(args.get(at).map(texts).transpose()?))
    }

    /// `None` where the argument is NULL.
    fn at(&self, row: usize) -> Option<&'static [char]> {
        match self.0.as_ref().map(|names| names.is_valid(row).then(|| names.value(row))) {
            None => Some(&['/', '\\']),
            Some(name) => Some(match name? {
                "forward_slash" | "system" => &['/'],
                "backslash" => &['\\'],
                _ => &['/', '\\'],
            }),
        }
    }
}

fn each(args: &[ArrayRef], of: for<'t> fn(&'t str, &[char]) -> &'t str) -> Result<ArrayRef> {
    let (paths, separators) = (texts(&args[0])?, Separators::of(args, 1)?);
    let mut parts = StringViewBuilder::with_capacity(paths.len());
    for (row, path) in paths.iter().enumerate() {
        parts.append_option(path.zip(separators.at(row)).map(|(path, separators)| of(path, separators)));
    }
    Ok(Arc::new(parts.finish()))
}

/// The first part, which is a separator if the path begins with one, or nothing if there is only one.
fn first<'t>(path: &'t str, separators: &[char]) -> &'t str {
    match path.find(separators) {
        Some(0) => &path[..1],
        Some(at) => &path[..at],
        None => "",
    }
}

fn before_last<'t>(path: &'t str, separators: &[char]) -> &'t str {
    path.rfind(separators).map_or("", |at| &path[..at])
}

fn last<'t>(path: &'t str, separators: &[char]) -> &'t str {
    path.rfind(separators).map_or(path, |at| &path[at + 1..])
}

fn names(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let trims: Option<&BooleanArray> = args.get(1).and_then(|arg| arg.as_boolean_opt());
    let paths = texts(&args[0])?;
    let separators = Separators::of(args, if trims.is_some() { 2 } else { 1 })?;
    let mut names = StringViewBuilder::with_capacity(paths.len());
    for (row, path) in paths.iter().enumerate() {
        let trims = match trims {
            Some(trims) => trims.is_valid(row).then(|| trims.value(row)),
            None => Some(false),
        };
        let (Some(path), Some(separators), Some(trims)) = (path, separators.at(row), trims) else {
            names.append_null();
            continue;
        };
        let name = last(path, separators);
        let end = name.rfind('.').filter(|_| trims).unwrap_or(name.len());
        names.append_value(&name[..end]);
    }
    Ok(Arc::new(names.finish()))
}

fn parts(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let (paths, separators) = (texts(&args[0])?, Separators::of(args, 1)?);
    let mut lists = ListBuilder::with_capacity(StringViewBuilder::new(), paths.len());
    for (row, path) in paths.iter().enumerate() {
        let Some((path, separators)) = path.zip(separators.at(row)) else {
            lists.append(false);
            continue;
        };
        if path.starts_with(separators) {
            lists.values().append_value(&path[..1]);
        }
        path.split(separators).filter(|part| !part.is_empty()).for_each(|part| lists.values().append_value(part));
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

fn join_taken(given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [] => refused(JOIN, given),
        given => taken(JOIN, &vec![Argument::Text; given.len()], 0, given),
    }
}

fn joined(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let columns = args.iter().map(texts).collect::<Result<Vec<_>>>()?;
    let mut paths = StringViewBuilder::with_capacity(args[0].len());
    for row in 0..args[0].len() {
        if columns.iter().any(|column| column.is_null(row)) {
            paths.append_null();
            continue;
        }
        let path = columns.iter().map(|column| column.value(row)).try_fold(Path::default(), Path::with)?;
        paths.append_value(path.written());
    }
    Ok(Arc::new(paths.finish()))
}

/// A path in the making.
#[derive(Debug, Default)]
struct Path<'t> {
    /// What it begins with that no `..` leaves.
    root: &'t str,
    parts: Vec<&'t str>,
}

impl<'t> Path<'t> {
    /// The path with `more` behind it.
    fn with(mut self, more: &'t str) -> Result<Self> {
        let scheme = more.find("://").map(|at| at + 3);
        let root = scheme.unwrap_or_else(|| usize::from(more.starts_with(['/', '\\'])));
        if root > 0 && !(self.root.is_empty() && self.parts.is_empty()) {
            return exec_err!("Path: cannot join incompatible paths: \"{more}\" onto \"{}\"", self.written());
        }
        if root > 0 {
            self.root = if scheme.is_some() { &more[..root] } else { "/" };
        }
        for part in more[root..].split(['/', '\\']) {
            match part {
                "" | "." => {}
                ".." if self.parts.last().is_some_and(|last| *last != "..") => {
                    self.parts.pop();
                }
                ".." if !self.root.is_empty() => {}
                part => self.parts.push(part),
            }
        }
        Ok(self)
    }

    fn written(&self) -> String {
        format!("{}{}", self.root, self.parts.join("/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_in_one_form() -> Result<()> {
        for (parts, expected) in [
            (&["dir", "subdir", "file"][..], "dir/subdir/file"),
            (&["dir/", "../x", "file"], "x/file"),
            (&["/dir", "", "file"], "/dir/file"),
            (&["dir\\", "a"], "dir/a"),
            (&["s3://a", "b"], "s3://a/b"),
            (&["a//b", "./c"], "a/b/c"),
            (&["../a", ".."], ".."),
            (&["/", "..", "a"], "/a"),
        ] {
            assert_eq!(parts.iter().copied().try_fold(Path::default(), Path::with)?.written(), expected);
        }
        assert!(Path::default().with("dir").and_then(|path| path.with("/file")).is_err());
        Ok(())
    }
}
