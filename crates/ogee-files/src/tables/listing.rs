//! Which files a path means: a file, a directory with all that is below it, or a pattern.
//!
//! ```text
//! *  ?  [ab]  [!a-z]   within a name       **   any directories, or none
//! ```
//!
//! A path that exists is that path, whatever its name is made of. DataFusion's listing takes brackets for a pattern,
//! lets `*` reach into directories, and ends at the first link to a directory above it and at the first name that is
//! not UTF-8.
//!
//! Not here: formats.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use datafusion::object_store::{ObjectMeta, path::Path as StorePath};
use ogee_functions::{Error, Result};

/// A file and its place.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) meta: ObjectMeta,
    /// The path from where it was asked for, as far as it may name partitions.
    pub(crate) given: String,
}

/// Something in a directory whose name is not UTF-8, or that cannot be read.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) path: PathBuf,
    pub(crate) why: String,
}

/// The files that a path means.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// By path.
    pub(crate) files: Vec<Found>,
    pub(crate) unreadable: Vec<Unreadable>,
    /// Is one file that was named.
    pub(crate) is_file: bool,
    /// Is one directory that was named.
    pub(crate) is_directory: bool,
}

/// The files that `path` means; none if there are none.
pub(super) fn list(path: &str) -> Result<Listing> {
    let mut listing = Listing::default();
    let path = path.strip_prefix("file://").unwrap_or(path);
    let root = Path::new(path);
    match fs::metadata(root) {
        Ok(metadata) if metadata.is_dir() => {
            listing.is_directory = true;
            walk(root, &mut Vec::new(), &mut |found| add(found, &mut listing.files, &mut listing.unreadable));
        }
        Ok(_) => {
            listing.is_file = true;
            add(Ok(root.to_owned()), &mut listing.files, &mut listing.unreadable);
        }
        Err(_) if is_pattern(path) => {
            let absolute = path.starts_with('/');
            let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
            let start = if absolute { PathBuf::from("/") } else { PathBuf::new() };
            let mut matches = Vec::new();
            expand(&start, &segments, &mut matches, &mut listing.unreadable);
            for found in matches {
                if found.is_file() {
                    add(Ok(found), &mut listing.files, &mut listing.unreadable);
                }
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(Error::Source(format!("cannot read '{path}': {error}"))),
    }
    listing.files.sort_by(|a, b| a.meta.location.cmp(&b.meta.location));
    listing.files.dedup_by(|a, b| a.meta.location == b.meta.location);
    Ok(listing)
}

/// Whether `path` has marks of a pattern.
pub(crate) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

fn add(found: Result<PathBuf, Unreadable>, files: &mut Vec<Found>, unreadable: &mut Vec<Unreadable>) {
    let path = match found {
        Ok(path) => path,
        Err(other) => return unreadable.push(other),
    };
    match file(&path) {
        Ok(found) => files.push(found),
        Err(why) => unreadable.push(Unreadable { path, why }),
    }
}

fn file(path: &Path) -> Result<Found, String> {
    let given = path.to_str().ok_or("its name is not UTF-8")?;
    let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
    let absolute = std::path::absolute(path).map_err(|error| error.to_string())?;
    let location = absolute.to_str().ok_or("its name is not UTF-8")?;
    let location = without_dots(location);
    let location = StorePath::parse(location).map_err(|error| error.to_string())?;
    let last_modified = metadata.modified().map_err(|error| error.to_string())?.into();
    let meta = ObjectMeta { location, last_modified, size: metadata.len(), e_tag: None, version: None };
    Ok(Found { meta, given: given.to_owned() })
}

/// An absolute path that does not go up; a link before `..` is followed.
fn without_dots(path: &str) -> String {
    if !path.split('/').any(|part| part == "..") {
        return path.to_owned();
    }
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    match fs::canonicalize(parent) {
        Ok(parent) => format!("{}/{name}", parent.display()),
        Err(_) => path.to_owned(),
    }
}

/// Gives the files below `directory`, but not those whose names begin with a dot or an underscore: other programs keep
/// their own matters there. A link to a directory that is being walked leads nowhere new.
fn walk(directory: &Path, above: &mut Vec<PathBuf>, found: &mut dyn FnMut(Result<PathBuf, Unreadable>)) {
    let real = match fs::canonicalize(directory) {
        Ok(real) if above.contains(&real) => return,
        Ok(real) => real,
        Err(error) => {
            return found(Err(Unreadable { path: directory.to_owned(), why: error.to_string() }));
        }
    };
    let entries = match entries(directory) {
        Ok(entries) => entries,
        Err(error) => {
            return found(Err(Unreadable { path: directory.to_owned(), why: error.to_string() }));
        }
    };
    above.push(real);
    for path in entries {
        let name = path.file_name().map(std::ffi::OsStr::as_encoded_bytes).unwrap_or_default();
        if matches!(name.first(), Some(b'.' | b'_')) && !name.contains(&b'=') {
            continue;
        }
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => walk(&path, above, found),
            Ok(metadata) if metadata.is_file() => found(Ok(path)),
            // A link to nowhere, or what is neither file nor directory.
            _ => {}
        }
    }
    above.pop();
}

fn entries(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let mut entries =
        fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    entries.sort();
    Ok(entries)
}

/// Adds what `segments` match below `start`.
fn expand(start: &Path, segments: &[&str], matches: &mut Vec<PathBuf>, unreadable: &mut Vec<Unreadable>) {
    let Some((segment, rest)) = segments.split_first() else {
        return matches.push(start.to_owned());
    };
    if *segment == "**" {
        let mut seen = HashSet::new();
        return expand_below(start, rest, &mut seen, matches, unreadable);
    }
    let exact = start.join(segment);
    if !is_pattern(segment) || exact.exists() {
        if (rest.is_empty() || exact.is_dir()) && exact.exists() {
            expand(&exact, rest, matches, unreadable);
        }
        return;
    }
    let Ok(entries) = entries(start) else { return };
    for path in entries {
        let Some(name) = path.file_name() else { continue };
        let name = name.as_encoded_bytes();
        // Hidden files are asked for by name.
        if name.starts_with(b".") && !segment.starts_with('.') || !matches_name(segment.as_bytes(), name) {
            continue;
        }
        if rest.is_empty() || path.is_dir() {
            expand(&start.join(path.file_name().unwrap_or_default()), rest, matches, unreadable);
        }
    }
}

/// What `rest` matches in `start` and in all directories below it.
fn expand_below(
    start: &Path,
    rest: &[&str],
    seen: &mut HashSet<PathBuf>,
    matches: &mut Vec<PathBuf>,
    unreadable: &mut Vec<Unreadable>,
) {
    let here = if start.as_os_str().is_empty() { Path::new(".") } else { start };
    match fs::canonicalize(here) {
        Ok(real) if seen.insert(real.clone()) => {}
        _ => return,
    }
    match rest {
        [] => {
            let files = entries(start).unwrap_or_default();
            matches.extend(files.into_iter().filter(|path| path.is_file()));
        }
        rest => expand(start, rest, matches, unreadable),
    }
    for path in entries(start).unwrap_or_default() {
        let name = path.file_name().unwrap_or_default();
        if !name.as_encoded_bytes().starts_with(b".") && path.is_dir() {
            expand_below(&start.join(name), rest, seen, matches, unreadable);
        }
    }
}

/// Whether `pattern` describes `name`, byte by byte; `?` is a character.
pub(crate) fn matches_name(pattern: &[u8], name: &[u8]) -> bool {
    // The last star, and what it stands for so far.
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
                continue;
            }
            Some(b'?') => {
                p += 1;
                n += character(&name[n..]);
                continue;
            }
            Some(b'[') => {
                if let Some((is_in, length)) = class(&pattern[p..], &name[n..]) {
                    if is_in {
                        p += length;
                        n += character(&name[n..]);
                        continue;
                    }
                } else if name[n] == b'[' {
                    (p, n) = (p + 1, n + 1);
                    continue;
                }
            }
            Some(byte) if *byte == name[n] => {
                (p, n) = (p + 1, n + 1);
                continue;
            }
            _ => {}
        }
        let Some((at, taken)) = star else { return false };
        star = Some((at, taken + 1));
        (p, n) = (at + 1, taken + 1);
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Bytes of the character at the front.
fn character(name: &[u8]) -> usize {
    1 + name[1..].iter().take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000).count()
}

/// Whether the class at the front of `pattern` has the first character of `name`, and its bytes; `None` if it is not
/// closed.
fn class(pattern: &[u8], name: &[u8]) -> Option<(bool, usize)> {
    let inner = &pattern[1..];
    let (negated, skip) = match inner.first()? {
        b'!' | b'^' => (true, 1),
        _ => (false, 0),
    };
    let end = skip + 1 + inner.get(skip + 1..)?.iter().position(|byte| *byte == b']')?;
    let chars: Vec<char> = String::from_utf8_lossy(&inner[skip..end]).chars().collect();
    let wanted = String::from_utf8_lossy(&name[..character(name)]).chars().next()?;
    let (mut at, mut is_in) = (0, false);
    while at < chars.len() {
        if chars.get(at + 1) == Some(&'-') && at + 2 < chars.len() {
            is_in |= (chars[at]..=chars[at + 2]).contains(&wanted);
            at += 3;
        } else {
            is_in |= chars[at] == wanted;
            at += 1;
        }
    }
    Some((is_in != negated, end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_describe_names() {
        let yes =
            [("*.csv", "a.csv"), ("a?c", "aéc"), ("[a-c]1", "b1"), ("[!x]*", "abc"), ("a*b*c", "aXbYbc"), ("*", "é")];
        let no = [("*.csv", "a.csv.gz"), ("a?c", "ac"), ("[a-c]1", "d1"), ("[!x]*", "xbc"), ("a*b", "ac")];
        for (pattern, name) in yes {
            assert!(matches_name(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
        for (pattern, name) in no {
            assert!(!matches_name(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn directories_are_read_whatever_is_in_them() {
        use std::os::unix::ffi::OsStrExt;

        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        fs::create_dir_all(root.join("sub/deep")).expect("directories");
        for name in ["a.csv", "b[1].csv", "b1.csv", "sub/c.csv", "sub/deep/d.csv", ".hidden.csv", "_SUCCESS"] {
            fs::write(root.join(name), "x").expect("a file");
        }
        std::os::unix::fs::symlink(root, root.join("sub/loop")).expect("a link");
        std::os::unix::fs::symlink(root.join("nowhere"), root.join("dangling.csv")).expect("a link");
        fs::write(root.join(std::ffi::OsStr::from_bytes(b"caf\xe9.txt")), "x").expect("a file");
        let names = |path: &str| -> Vec<String> {
            let listing = list(&format!("{}{path}", root.display())).expect("a listing");
            let from = root.to_str().expect("a name").len() + 1;
            listing.files.iter().map(|found| found.given[from..].to_owned()).collect()
        };
        assert_eq!(names(""), ["a.csv", "b1.csv", "b[1].csv", "sub/c.csv", "sub/deep/d.csv"]);
        assert_eq!(names("/*.csv"), ["a.csv", "b1.csv", "b[1].csv"]);
        assert_eq!(names("/b[1].csv"), ["b[1].csv"]);
        assert_eq!(names("/b[0-9].csv"), ["b1.csv"]);
        assert_eq!(names("/**/*.csv"), ["a.csv", "b1.csv", "b[1].csv", "sub/c.csv", "sub/deep/d.csv"]);
        assert_eq!(names("/sub/*/*.csv"), ["sub/deep/d.csv", "sub/loop/a.csv", "sub/loop/b1.csv", "sub/loop/b[1].csv"]);
        assert_eq!(names("/sub/../a.csv").len(), 1);
        assert!(names("/none*").is_empty());
    }
}
