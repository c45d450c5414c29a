//! Where `COPY` writes: beside the place, under a name of its own, until all is written, so that a copy that fails leaves what there was.
//!
//! ```text
//! COPY t TO 'x.csv'                     .x.csv.copying-N.csv  ──> x.csv
//! COPY t TO 'd' (PARTITION_BY (a))      .d.copying-N/a=1/..   ──> d/a=1/data_0.csv
//! COPY t TO '/dev/stdout'               a temporary file      ──> is written to the device
//! COPY t TO 's3://b/x.parquet'          parts of the object   ──> which is there when all have arrived
//! COPY t TO 's3://b/d' (PARTITION_BY (a))  temporary files    ──> are sent, one after the other
//! ```
//!
//! Not here: rows as bytes.

use std::{
    collections::hash_map::RandomState,
    fs::{self, OpenOptions},
    hash::BuildHasher,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use datafusion::{
    common::{
        config::{ConfigNonZeroUsize, ConfigOptions},
        plan_err,
    },
    error::Result,
    execution::runtime_env::RuntimeEnv,
    logical_expr::{LogicalPlan, dml::CopyTo},
    object_store::{ObjectStore, buffered::BufWriter},
};
use futures::StreamExt;
use ogee_functions::Error;
use ogee_vector::row_width;
use tokio::io::AsyncWriteExt;

use crate::remote::{self, Address, Held};

/// What options of a copy begin with that are said here.
const OWN: &str = "format.ogee_to_";

/// Bytes of a part of a file by URL: S3 takes 10,000 of them.
const PART_LEN: usize = 10 << 20;

/// Bytes that are read at once of a staged file.
const READ_LEN: usize = 1 << 20;

/// What becomes of the files of a directory that is written into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Existing {
    /// There are none.
    None,
    /// They are removed.
    Removed,
    /// Those of the same name are.
    Replaced,
    /// They stay.
    Kept,
}

/// Where a copy writes, and what becomes of its files.
#[derive(Debug)]
pub struct Target {
    /// As the statement has it.
    path: String,
    /// What that is behind links.
    place: PathBuf,
    /// Where files are until all are written; a directory of them, or one.
    staging: PathBuf,
    is_directory: bool,
    existing: Existing,
    /// The names of files in a directory: `{i}` and `{uuid}` stand for what tells them apart.
    pattern: Option<String>,
    extension: Option<String>,
    /// What the text of a file ends with, and how that is compressed.
    suffix: Option<String>,
    codec: Option<String>,
    /// Rows of a file, about.
    file_rows: Option<ConfigNonZeroUsize>,
    /// Files are asked for.
    pub lists_files: bool,
    /// Where the files go that are staged here, or the file that is written there at once.
    remote: Option<Address>,
    /// What is written there at once.
    held: Option<Held>,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Target {
    /// Takes out of `copy` what it says of its files, and has it write them where they are staged.
    ///
    /// # Errors
    /// Options that go together with no others, a directory with files in it, or one where a file is to be.
    pub fn of(copy: &mut CopyTo) -> Result<Option<Self>> {
        let codec = copy.options.get("format.compression").map(|codec| codec.to_ascii_lowercase());
        let mut own = |name: &str| copy.options.remove(&format!("{OWN}{name}"));
        let remote = Address::of(&copy.output_url)?;
        let path = match (&remote, copy.output_url.split_once("://")) {
            (None, Some(("file", path))) => path.to_owned(),
            (None, Some(_)) => return Ok(None),
            _ => copy.output_url.clone(),
        };
        let (is_per_thread, lists_files) = (own("per_thread").is_some(), own("list").is_some());
        let existing = match own("existing").as_deref() {
            Some("overwrite") => Existing::Removed,
            Some("overwrite_or_ignore") => Existing::Replaced,
            Some("append") => Existing::Kept,
            _ => Existing::None,
        };
        let (pattern, extension, suffix) = (own("pattern"), own("extension"), own("suffix"));
        let width = row_width(copy.input.schema().as_arrow()).max(1);
        if let Some(bytes) = own("group_bytes").and_then(|bytes| bytes.parse::<usize>().ok()) {
            let rows = (bytes / width).max(1).to_string();
            copy.options.entry("format.max_row_group_size".to_owned()).or_insert(rows);
        }
        let mut own = |name: &str| copy.options.remove(&format!("{OWN}{name}"));
        let rows = |value: Option<String>| value.and_then(|value| value.parse::<usize>().ok());
        let file_rows = rows(own("file_rows")).or(rows(own("file_bytes")).map(|bytes| (bytes / width).max(1)));
        let file_rows = file_rows.map(ConfigNonZeroUsize::try_new).transpose()?;
        let is_partitioned = !copy.partition_by.is_empty();
        if is_partitioned && (is_per_thread || file_rows.is_some()) {
            return plan_err!(
                "PARTITION_BY does not go together with PER_THREAD_OUTPUT, FILE_SIZE_BYTES and ROW_GROUPS_PER_FILE"
            );
        }
        let keeps = copy.options.contains_key("execution.keep_partition_by_columns");
        let names = copy.input.schema().fields();
        if is_partitioned && !keeps && names.iter().all(|field| copy.partition_by.contains(field.name())) {
            return plan_err!(
                "PARTITION_BY has all columns, and none is left to write; use WRITE_PARTITION_COLUMNS true"
            );
        }
        let is_directory = is_partitioned || is_per_thread || file_rows.is_some() || path.ends_with('/');
        if let Some(address) = &remote {
            let wrong = |why: &str| Err(Error::Unsupported(format!("cannot write '{}': {why}", address.url())).into());
            if address.scheme.is_web() {
                return wrong(
                    "servers on the web take no files; write to S3, Google Cloud Storage or Azure, or to this machine",
                );
            }
            if address.key.trim_end_matches('/').is_empty() {
                return wrong("it names no file");
            }
            if is_directory && existing == Existing::Removed {
                return wrong("files by URL are not removed; use OVERWRITE_OR_IGNORE, or APPEND");
            }
        }
        let mut target = Self {
            path,
            place: PathBuf::new(),
            staging: PathBuf::new(),
            is_directory,
            existing,
            pattern,
            extension,
            suffix,
            codec,
            file_rows,
            lists_files,
            remote,
            held: None,
        };
        target.begin(copy)?;
        Ok(Some(target))
    }

    /// Has `copy` write where it is to: beside the place, or as parts of an object.
    fn begin(&mut self, copy: &mut CopyTo) -> Result<()> {
        let Self { path, is_directory, existing, remote, .. } = &*self;
        let (is_directory, existing) = (*is_directory, *existing);
        if let Some(address) = remote
            && !is_directory
            && self.suffix.is_none()
            // A name without an ending would be a directory.
            && Path::new(&address.key).extension().is_some()
        {
            let held = Held::new();
            copy.output_url = remote::written(address, &held)?;
            self.held = Some(held);
            return Ok(());
        }
        let place = match remote {
            // Its name only, of what is staged.
            Some(address) => Path::new(address.key.trim_end_matches('/')),
            None => Path::new(path.trim_end_matches('/')),
        };
        let is_here = remote.is_none();
        if is_here && !is_directory && place.is_dir() {
            return plan_err!("cannot write '{path}': it is a directory");
        }
        if is_here && is_directory && place.exists() && !place.is_dir() {
            return plan_err!("cannot write files into '{path}': it is no directory");
        }
        if is_here && is_directory && existing == Existing::None && has_files(place) {
            return plan_err!(
                "directory '{path}' is not empty; write to another, or use OVERWRITE, OVERWRITE_OR_IGNORE or APPEND"
            );
        }
        // A link stays one, and what it leads to is written.
        let place = match is_here && !is_device(place) {
            true => fs::canonicalize(place).unwrap_or(place.to_owned()),
            false => place.to_owned(),
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (parent, name) = match is_here && !is_device(&place) {
            true => {
                let name = place.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                (place.parent().map(Path::to_owned).unwrap_or_default(), name)
            }
            false => (std::env::temp_dir(), if is_here { "device" } else { "sent" }.to_owned()),
        };
        let staging = format!(".{name}.copying-{}-{number}", std::process::id());
        let staging = match is_directory {
            true => parent.join(staging),
            // A name without an ending would be a directory.
            false => parent.join(format!("{staging}.{}", copy.file_type.get_ext())),
        };
        copy.output_url = format!("{}{}", staging.display(), if is_directory { "/" } else { "" });
        (self.place, self.staging) = (place, staging);
        Ok(())
    }

    /// Sets how many rows a file has, and what is sent at once.
    pub fn set_in(&self, options: &mut ConfigOptions) {
        if self.held.is_some() {
            options.execution.objectstore_writer_buffer_size = PART_LEN;
        }
        if let Some(rows) = self.file_rows {
            options.execution.soft_max_rows_per_output_file = rows;
            if let Ok(one) = ConfigNonZeroUsize::try_new(1) {
                options.execution.minimum_parallel_output_files = one;
            }
        }
    }

    /// Refuses to write among other files by URL, unless that is said; here [`of`](Self::of) sees that.
    ///
    /// # Errors
    /// There are such files, or the place of them cannot be looked at.
    pub async fn check(&self, runtime: &RuntimeEnv) -> Result<()> {
        let Some(address) = &self.remote else { return Ok(()) };
        let store = remote::store_of(runtime, &self.path)?;
        if !self.is_directory || self.existing != Existing::None {
            return Ok(());
        }
        let place = address.location()?;
        match store.list(Some(&place)).next().await {
            None => Ok(()),
            Some(Err(error)) => Err(error.into()),
            Some(Ok(_)) => plan_err!(
                "directory '{}' is not empty; write to another, or use OVERWRITE_OR_IGNORE or APPEND",
                address.url()
            ),
        }
    }

    /// Puts the files where they belong, and gives their names.
    ///
    /// # Errors
    /// Of the file system, or of those who take files by URL.
    pub async fn place(mut self, runtime: &RuntimeEnv) -> Result<Vec<String>> {
        let path = self.path.clone();
        if let Some(address) = &self.remote {
            if let Some(held) = self.held.take() {
                held.finish().await?;
                return Ok(vec![address.url()]);
            }
            let store = remote::store_of(runtime, &path)?;
            let result = self.send(address, &store).await;
            self.discard();
            return result;
        }
        self.placed().map_err(|error| Error::Source(format!("cannot write '{path}': {error}")).into())
    }

    /// Sends the files that are staged.
    async fn send(&self, address: &Address, store: &Arc<dyn ObjectStore>) -> Result<Vec<String>> {
        let failed = |error: io::Error| Error::Source(format!("cannot write '{}': {error}", address.url()));
        let key = address.key.trim_end_matches('/');
        let mut sent = Vec::new();
        for (file, below) in self.staged_files().map_err(failed)? {
            self.end(&file).map_err(failed)?;
            let key = if below.as_os_str().is_empty() { key.to_owned() } else { format!("{key}/{}", below.display()) };
            let mut to = BufWriter::with_capacity(Arc::clone(store), address.location_of(&key)?, PART_LEN);
            let mut from = fs::File::open(&file).map_err(failed)?;
            let mut part = vec![0; READ_LEN];
            loop {
                let read = from.read(&mut part).map_err(failed)?;
                if read == 0 {
                    break;
                }
                to.put(Bytes::copy_from_slice(&part[..read])).await?;
            }
            to.shutdown().await.map_err(failed)?;
            sent.push(Address { key, ..address.clone() }.url());
        }
        Ok(sent)
    }

    /// The files that are staged, and what they are to be called below the directory; nothing, if there is one file.
    fn staged_files(&self) -> io::Result<Vec<(PathBuf, PathBuf)>> {
        if !self.is_directory {
            return Ok(vec![(self.staging.clone(), PathBuf::new())]);
        }
        let mut written = Vec::new();
        if self.staging.is_dir() {
            files_below(&self.staging, &mut written)?;
        }
        let mut named = Vec::with_capacity(written.len());
        let mut numbers: (PathBuf, usize) = (PathBuf::new(), 0);
        for file in written {
            let directory = file.strip_prefix(&self.staging).ok().and_then(Path::parent).unwrap_or(Path::new(""));
            numbers = if numbers.0 == directory { (numbers.0, numbers.1 + 1) } else { (directory.to_owned(), 0) };
            let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let ending = name.split_once('.').map_or("", |(_, ending)| ending);
            let to = directory.join(self.name(numbers.1, ending));
            named.push((file, to));
        }
        Ok(named)
    }

    /// `error` of what was to be written, or what a server said before that.
    pub fn told(&self, error: Error) -> Error {
        self.held.as_ref().and_then(Held::error).map_or(error, Error::Source)
    }

    /// Removes what was written.
    pub fn discard(&self) {
        // What is not there needs no removing.
        let _ = match self.is_directory {
            true => fs::remove_dir_all(&self.staging),
            false => fs::remove_file(&self.staging),
        };
    }

    fn placed(self) -> io::Result<Vec<String>> {
        let result = match self.is_directory {
            true => self.place_directory(),
            false => self.place_file(),
        };
        self.discard();
        result
    }

    fn place_file(&self) -> io::Result<Vec<String>> {
        self.end(&self.staging)?;
        if is_device(&self.place) {
            let mut device = device(&self.place)?;
            io::copy(&mut fs::File::open(&self.staging)?, &mut device)?;
            device.flush()?;
        } else {
            fs::rename(&self.staging, &self.place)?;
        }
        Ok(vec![self.path.clone()])
    }

    fn place_directory(&self) -> io::Result<Vec<String>> {
        let place = Path::new(self.path.trim_end_matches('/'));
        let written = self.staged_files()?;
        fs::create_dir_all(place)?;
        if self.existing == Existing::Removed {
            for entry in fs::read_dir(place)? {
                let path = entry?.path();
                if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
            }
        }
        let mut names = Vec::with_capacity(written.len());
        for (file, below) in written {
            self.end(&file)?;
            let to = place.join(below);
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::rename(&file, &to)?;
            names.push(to.display().to_string());
        }
        Ok(names)
    }

    /// The name of file `nth` of a directory.
    fn name(&self, nth: usize, ending: &str) -> String {
        let default = if self.existing == Existing::Kept { "{uuid}" } else { "data_{i}" };
        let pattern = self.pattern.as_deref().unwrap_or(default);
        let is_apart = pattern.contains("{i}") || pattern.contains("{uuid}");
        let stem = pattern.replace("{i}", &nth.to_string()).replace("{uuid}", &random_uuid());
        let number = if is_apart { String::new() } else { nth.to_string() };
        format!("{stem}{number}.{}", self.extension.as_deref().unwrap_or(ending))
    }

    /// Writes what comes behind the rows of `file`: another member of what is compressed.
    fn end(&self, file: &Path) -> io::Result<()> {
        let Some(suffix) = &self.suffix else { return Ok(()) };
        let mut out = OpenOptions::new().append(true).open(file)?;
        match self.codec.as_deref() {
            Some("gzip" | "gz") => {
                let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::default());
                encoder.write_all(suffix.as_bytes())?;
                encoder.finish()?;
            }
            Some("zstd" | "zst") => out.write_all(&zstd::stream::encode_all(suffix.as_bytes(), 0)?)?,
            _ => out.write_all(suffix.as_bytes())?,
        }
        Ok(())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.discard();
    }
}

/// A random UUID.
fn random_uuid() -> String {
    let bits =
        |half: u8| RandomState::new().hash_one((half, std::time::SystemTime::now(), std::thread::current().id()));
    let uuid =
        (u128::from(bits(0)) << 64 | u128::from(bits(1))) & !(0xf << 76) & !(0b11 << 62) | 0x4 << 76 | 0b10 << 62;
    let digits = format!("{uuid:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

/// Where the standard outputs of a process are, whatever they lead to.
const OUTPUTS: [&str; 2] = ["/dev/stdout", "/dev/stderr"];

/// Whether `path` is neither file nor directory, or an open file of a process, which may be one and is written on where it is.
fn is_device(path: &Path) -> bool {
    let is_open = OUTPUTS.iter().any(|output| path == Path::new(output))
        || ["/dev/fd", "/proc"].iter().any(|directory| path.starts_with(directory));
    is_open || fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// What writes to the device `path`: to the standard outputs behind what was written to them before.
fn device(path: &Path) -> io::Result<Box<dyn Write>> {
    Ok(match OUTPUTS.iter().position(|output| path == Path::new(output)) {
        Some(0) => Box::new(io::stdout()),
        Some(_) => Box::new(io::stderr()),
        None => Box::new(OpenOptions::new().write(true).open(path)?),
    })
}

fn has_files(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
}

/// Adds the files below `directory`, by name.
fn files_below(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut entries = fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() { files_below(&path, files)? } else { files.push(path) }
    }
    Ok(())
}

/// `plan` with its files where they are staged, if it is a copy of files.
///
/// # Errors
/// As [`Target::of`].
pub fn staged(plan: LogicalPlan) -> Result<(LogicalPlan, Option<Target>)> {
    match plan {
        LogicalPlan::Copy(mut copy) => {
            let target = Target::of(&mut copy)?;
            Ok((LogicalPlan::Copy(copy), target))
        }
        plan => Ok((plan, None)),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn target(root: &Path, existing: Existing, pattern: Option<&str>) -> Target {
        let staging = root.join(".d.copying");
        fs::create_dir_all(staging.join("a=1")).unwrap();
        for name in ["a=1/x_0.csv.gz", "a=1/x_1.csv.gz", "z.csv.gz"] {
            fs::write(staging.join(name), "text").unwrap();
        }
        Target {
            path: root.join("d").display().to_string(),
            place: root.join("d"),
            staging,
            is_directory: true,
            existing,
            pattern: pattern.map(str::to_owned),
            extension: None,
            suffix: None,
            codec: None,
            file_rows: None,
            lists_files: true,
            remote: None,
            held: None,
        }
    }

    fn names(root: &Path) -> Vec<String> {
        let mut files = Vec::new();
        files_below(&root.join("d"), &mut files).unwrap();
        files.iter().map(|file| file.strip_prefix(root).unwrap().display().to_string()).collect()
    }

    fn placed(target: Target) -> Vec<String> {
        futures::executor::block_on(target.place(&RuntimeEnv::default())).unwrap()
    }

    #[test]
    fn files_of_directories_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        assert_eq!(placed(target(root, Existing::None, None)).len(), 3);
        assert_eq!(names(root), ["d/a=1/data_0.csv.gz", "d/a=1/data_1.csv.gz", "d/data_0.csv.gz"]);
        assert!(!root.join(".d.copying").exists());
        placed(target(root, Existing::Replaced, Some("f")));
        assert_eq!(names(root).len(), 6);
        assert!(names(root).contains(&"d/a=1/f1.csv.gz".to_owned()));
        placed(target(root, Existing::Kept, None));
        assert_eq!(names(root).len(), 9);
        placed(target(root, Existing::Removed, Some("{i}_x")));
        assert_eq!(names(root), ["d/0_x.csv.gz", "d/a=1/0_x.csv.gz", "d/a=1/1_x.csv.gz"]);
        drop(target(root, Existing::None, None));
        assert!(!root.join(".d.copying").exists());
    }

    #[test]
    fn identifiers_differ() {
        let (one, other) = (random_uuid(), random_uuid());
        assert_ne!(one, other);
        assert_eq!((one.len(), one.as_bytes()[14]), (36, b'4'));
    }
}
