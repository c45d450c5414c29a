//! URLs of files, and their places in the store of all of them.
//!
//! Not here: which files a pattern means.

use datafusion::object_store::path::Path;
use ogee_functions::{Error, Result};

/// In a location, what the query of a URL is behind. No name of a file has it.
pub(super) const QUERY: char = '\u{E000}';

/// What serves files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scheme {
    S3,
    Gcs,
    Azure,
    Http,
    Https,
}

/// Schemes of URLs; the first of each kind is the one that it has here.
const SCHEMES: [(&str, Scheme); 12] = [
    ("s3", Scheme::S3),
    ("s3a", Scheme::S3),
    ("s3n", Scheme::S3),
    ("gs", Scheme::Gcs),
    ("gcs", Scheme::Gcs),
    ("az", Scheme::Azure),
    ("azure", Scheme::Azure),
    ("abfs", Scheme::Azure),
    ("abfss", Scheme::Azure),
    ("adl", Scheme::Azure),
    ("http", Scheme::Http),
    ("https", Scheme::Https),
];

/// What ends the name of an account of Azure where it is a host.
const AZURE_HOSTS: [&str; 2] = [".blob.core.windows.net", ".dfs.core.windows.net"];

impl Scheme {
    /// How URLs of it begin here.
    pub(crate) fn name(self) -> &'static str {
        SCHEMES.iter().find(|(_, scheme)| *scheme == self).map_or("", |(name, _)| name)
    }

    /// Whether it is a plain server of files, which lists none and takes none.
    pub(crate) fn is_web(self) -> bool {
        matches!(self, Self::Http | Self::Https)
    }

    /// What it calls the place of files.
    pub(crate) fn place(self) -> &'static str {
        match self {
            Self::S3 | Self::Gcs => "bucket",
            Self::Azure => "container",
            Self::Http | Self::Https => "host",
        }
    }
}

/// The scheme of `url`, and what is behind it, if it is one of those.
pub(super) fn scheme_of(url: &str) -> Option<(Scheme, &str)> {
    let (name, rest) = url.split_once("://")?;
    let (_, scheme) = SCHEMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some((*scheme, rest))
}

/// A URL in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) scheme: Scheme,
    /// The bucket, the container, or the host and its port.
    pub(crate) place: String,
    /// What is behind that, without a slash in front; of the web decoded, with its query.
    pub(crate) key: String,
}

impl Address {
    /// That of `url`; `None` if it is none of a kind that is known here.
    ///
    /// # Errors
    /// Nothing is behind the scheme, or there are credentials.
    pub(crate) fn of(url: &str) -> Result<Option<Self>> {
        let Some((scheme, rest)) = scheme_of(url) else { return Ok(None) };
        let (place, key) = rest.split_once('/').unwrap_or((rest, ""));
        let wrong = |why: String| Err(Error::Plan(format!("'{}' is no address of files: {why}", bare(url))));
        let (mut place, mut key) = (place.to_owned(), key.to_owned());
        if scheme == Scheme::Azure {
            // `account.host/container/path` is `container@account.host/path`.
            if AZURE_HOSTS.iter().any(|host| place.ends_with(host)) && !place.contains('@') {
                let (container, rest) = key.split_once('/').unwrap_or((key.as_str(), ""));
                (place, key) = (format!("{container}@{place}"), rest.to_owned());
            }
        }
        if scheme.is_web() {
            if place.contains('@') {
                return wrong("a name and a password in it are not taken".to_owned());
            }
            let plain = key.split('#').next().unwrap_or_default();
            let (path, query) = plain.split_once('?').map_or((plain, None), |(path, query)| (path, Some(query)));
            let decoded = crate::tables::decoded(path).into_owned();
            key = match query {
                Some(query) => format!("{decoded}{QUERY}{}", query.replace('%', "%25").replace('/', "%2F")),
                None => decoded,
            };
            place = place.to_ascii_lowercase();
        }
        if place.is_empty() {
            return wrong(format!("it names no {}", scheme.place()));
        }
        if place.contains(['*', '?', '[']) {
            return wrong(format!("its {} is a pattern", scheme.place()));
        }
        Ok(Some(Self { scheme, place, key }))
    }

    /// The bucket or container, and the account of Azure if the URL names one.
    #[cfg(feature = "remote")]
    pub(super) fn parts(&self) -> (&str, Option<&str>) {
        match self.place.split_once('@') {
            Some((container, host)) => {
                let ending = AZURE_HOSTS.iter().find_map(|ending| host.strip_suffix(ending));
                (container, Some(ending.unwrap_or(host)))
            }
            None => (&self.place, None),
        }
    }

    /// Where the file is in the store of all.
    ///
    /// # Errors
    /// Stores take no such name.
    pub(crate) fn location(&self) -> Result<Path> {
        self.location_of(&self.key)
    }

    /// Where `key` of the same place is.
    ///
    /// # Errors
    /// As [`location`](Self::location).
    pub(crate) fn location_of(&self, key: &str) -> Result<Path> {
        let key = key.trim_end_matches('/');
        let text = format!("{}:/{}{}{key}", self.scheme.name(), self.place, if key.is_empty() { "" } else { "/" });
        Path::parse(&text).map_err(|_| {
            let shown = url_of(&text).unwrap_or(text);
            Error::Unsupported(format!("'{shown}': names with empty parts, '.' or '..' in them are not supported"))
        })
    }

    /// The URL, without its query.
    pub(crate) fn url(&self) -> String {
        self.url_of(&self.key)
    }

    /// The URL of `key` of the same place.
    pub(crate) fn url_of(&self, key: &str) -> String {
        format!("{}://{}/{}", self.scheme.name(), self.place, super::without_query(key))
    }

    /// That of a location.
    #[cfg(feature = "remote")]
    pub(super) fn at(location: &str) -> Option<Self> {
        let (scheme, rest) = location.split_once(":/")?;
        let (_, scheme) = SCHEMES.iter().find(|(known, _)| *known == scheme)?;
        let (place, key) = rest.split_once('/').unwrap_or((rest, ""));
        Some(Self { scheme: *scheme, place: place.to_owned(), key: key.to_owned() })
    }
}

/// The URL that a location stands for, without its query.
pub(super) fn url_of(location: &str) -> Option<String> {
    let (scheme, rest) = location.split_once(":/")?;
    let (name, _) = SCHEMES.iter().find(|(known, _)| *known == scheme)?;
    Some(format!("{name}://{}", super::without_query(rest)))
}

/// `url` without what may be secret in it.
pub(crate) fn bare(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let is_web = scheme.to_ascii_lowercase().starts_with("http");
    let rest = if is_web { rest.split(['?', QUERY]).next().unwrap_or(rest) } else { rest };
    let host = rest.split('/').next().unwrap_or(rest);
    let rest = match host.rsplit_once('@') {
        Some((credentials, _)) if is_web => &rest[credentials.len() + 1..],
        _ => rest,
    };
    format!("{scheme}://{rest}")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn urls_are_locations() {
        for (url, location, shown) in [
            ("s3://b/d/x.parquet", "s3:/b/d/x.parquet", "s3://b/d/x.parquet"),
            ("S3A://b/x", "s3:/b/x", "s3://b/x"),
            ("gcs://b/x", "gs:/b/x", "gs://b/x"),
            ("azure://c/d/x", "az:/c/d/x", "az://c/d/x"),
            (
                "az://account.blob.core.windows.net/c/d/x",
                "az:/c@account.blob.core.windows.net/d/x",
                "az://c@account.blob.core.windows.net/d/x",
            ),
            ("https://Host:81/a%20b/x.csv", "https:/host:81/a b/x.csv", "https://host:81/a b/x.csv"),
            ("http://h/x.csv?a=b/c%2Fd#e", "http:/h/x.csv\u{E000}a=b%2Fc%252Fd", "http://h/x.csv"),
        ] {
            let address = Address::of(url).unwrap().unwrap();
            let found = address.location().unwrap();
            assert_eq!(found.as_ref(), location);
            assert_eq!((super::super::shown(&found), address.url()), (shown.to_owned(), shown.to_owned()));
        }
        assert_eq!(Address::of("ftp://h/x").unwrap(), None);
        assert_eq!(Address::of("/d/x.csv").unwrap(), None);
        assert_eq!(super::super::shown(&Path::from("d/x.csv")), "/d/x.csv");
    }

    #[test]
    fn what_is_secret_in_urls_is_not_told() {
        assert_eq!(bare("https://name:word@h/x.csv?sig=abc"), "https://h/x.csv");
        let error = Address::of("https://name:word@h/x.csv").unwrap_err().to_string();
        assert!(error.contains("'https://h/x.csv'") && !error.contains("word@"), "{error}");
        for url in ["s3:///x", "https://", "s3://b*/x"] {
            assert!(Address::of(url).is_err(), "{url}");
        }
        assert!(Address::of("s3://b/a//x").unwrap().unwrap().location().is_err());
    }
}
