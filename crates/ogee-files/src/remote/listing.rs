//! Which files a URL means: one, all below a directory, or those of a pattern, as with files here (`tables/listing`).
//!
//! A server on the web lists nothing: its URLs name a file each.
//!
//! Not here: requests.

use std::sync::Arc;

use datafusion::{
    error::{DataFusionError, Result},
    object_store::{self, GetOptions, GetRange, ObjectMeta, ObjectStore, path::Path},
};
use futures::TryStreamExt;
use ogee_functions::Error;

use super::{Address, address::QUERY};
use crate::tables::{Found, Listing, is_pattern, matches_name};

/// The files that `url` means; none if there are none.
///
/// # Errors
/// Those of the store, and a pattern where nothing can be listed.
pub(crate) async fn list(store: &Arc<dyn ObjectStore>, url: &str) -> Result<Listing> {
    let mut listing = Listing::default();
    let Some(address) = Address::of(url)? else { return Ok(listing) };
    let key = address.key.as_str();
    if address.scheme.is_web() {
        let path = key.split(QUERY).next().unwrap_or(key);
        if path.contains('*') {
            let shown = address.url();
            let why = format!(
                "'{shown}' is a pattern, and servers on the web list no files; name each: FROM read_csv(['..', '..'])"
            );
            return Err(Error::Unsupported(why).into());
        }
        let meta = described(store, &address.location()?).await?;
        listing.is_file = true;
        listing.files.push(Found { meta, given: address.url() });
        return Ok(listing);
    }
    let found = |meta: ObjectMeta| Found { given: super::shown(&meta.location), meta };
    if !key.is_empty() && !key.ends_with('/') {
        match store.get_opts(&address.location()?, head()).await {
            Ok(known) => {
                listing.is_file = true;
                listing.files.push(found(known.meta));
                return Ok(listing);
            }
            Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if is_pattern(key) {
        let segments: Vec<&str> = key.split('/').collect();
        let fixed = segments.iter().take_while(|segment| !is_pattern(segment)).count();
        let prefix = address.location_of(&segments[..fixed].join("/"))?;
        let rest = &segments[fixed..];
        let depth = prefix.parts().count();
        // A pattern of names alone needs no look into directories.
        let objects: Vec<ObjectMeta> = match rest {
            [_] if rest != ["**"] => store.list_with_delimiter(Some(&prefix)).await?.objects,
            _ => store.list(Some(&prefix)).try_collect().await?,
        };
        let is_meant = |meta: &ObjectMeta| {
            let names: Vec<&str> = meta.location.as_ref().split('/').skip(depth).collect();
            matches(rest, &names)
        };
        listing.files = objects.into_iter().filter(is_meant).map(found).collect();
    } else {
        listing.is_directory = true;
        let prefix = address.location()?;
        let depth = prefix.parts().count();
        let objects: Vec<ObjectMeta> = store.list(Some(&prefix)).try_collect().await?;
        let is_meant = |meta: &ObjectMeta| {
            let mut names = meta.location.as_ref().split('/').skip(depth).peekable();
            names.peek().is_some() && names.all(|name| !name.starts_with(['.', '_']) || name.contains('='))
        };
        // What programs put where they want a directory to be has no bytes.
        listing.files = objects.into_iter().filter(|meta| meta.size > 0 && is_meant(meta)).map(found).collect();
    }
    listing.files.sort_by(|a, b| a.meta.location.cmp(&b.meta.location));
    Ok(listing)
}

fn head() -> GetOptions {
    GetOptions { head: true, ..GetOptions::default() }
}

/// What the server of the web says of the file at `location`. Some do not answer to `HEAD`, such as those of addresses that are signed for `GET`.
async fn described(store: &Arc<dyn ObjectStore>, location: &Path) -> Result<ObjectMeta> {
    let mut meta = match store.get_opts(location, head()).await {
        Ok(known) => known.meta,
        Err(error @ object_store::Error::NotFound { .. }) => return Err(error.into()),
        Err(error) => {
            let first = GetOptions { range: Some(GetRange::Bounded(0..1)), ..GetOptions::default() };
            store.get_opts(location, first).await.map_err(|_| DataFusionError::from(error))?.meta
        }
    };
    // A server that does not say when a file was changed says that of its beginning: nothing that was known of it before holds.
    if meta.last_modified.timestamp() == 0 {
        meta.last_modified = std::time::SystemTime::now().into();
    }
    Ok(meta)
}

/// Whether `pattern` describes the path of `names`.
fn matches(pattern: &[&str], names: &[&str]) -> bool {
    let Some((first, rest)) = pattern.split_first() else { return names.is_empty() };
    if *first == "**" {
        let shown = names.iter().take_while(|name| !name.starts_with('.')).count();
        return match rest {
            [] => !names.is_empty() && shown == names.len(),
            _ => (0..=shown).any(|taken| matches(rest, &names[taken..])),
        };
    }
    let Some((name, others)) = names.split_first() else { return false };
    let is_hidden = name.starts_with('.') && !first.starts_with('.');
    !is_hidden && matches_name(first.as_bytes(), name.as_bytes()) && matches(rest, others)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use datafusion::object_store::{ObjectStoreExt, memory::InMemory};

    use super::*;

    async fn names(url: &str) -> Vec<String> {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        for key in ["a.csv", "b.csv", "d/c.csv", "d/x=1/e.csv", "d/_SUCCESS", "d/.h/f.csv", "g[1].csv"] {
            store.put(&Path::parse(format!("s3:/b/{key}")).unwrap(), "x".into()).await.unwrap();
        }
        let listing = list(&store, url).await.unwrap();
        listing.files.iter().map(|found| found.given["s3://b/".len()..].to_owned()).collect()
    }

    #[tokio::test]
    async fn urls_mean_files() {
        for (url, expected) in [
            ("s3://b/a.csv", &["a.csv"][..]),
            ("s3://b/none.csv", &[]),
            ("s3://b/*.csv", &["a.csv", "b.csv", "g[1].csv"]),
            ("s3://b/[ab].csv", &["a.csv", "b.csv"]),
            ("s3://b/g[1].csv", &["g[1].csv"]),
            ("s3://b/d", &["d/c.csv", "d/x=1/e.csv"]),
            ("s3://b/d/", &["d/c.csv", "d/x=1/e.csv"]),
            ("s3://b/d/*/*.csv", &["d/x=1/e.csv"]),
            ("s3://b/**/*.csv", &["a.csv", "b.csv", "d/c.csv", "d/x=1/e.csv", "g[1].csv"]),
        ] {
            assert_eq!(names(url).await, expected, "{url}");
        }
    }
}
