//! How a handle is set up.

use std::path::PathBuf;

use ogee_exec::{AggregateStrategy, JoinStrategy, KeyFilters};
use ogee_memory::TempCompression;

use crate::{
    Error, Result,
    settings::{Setting, by_name, check, parse_compression, parse_threads},
    size::{parse_memory_limit, parse_size},
};

/// Settings of a handle, in the style of a builder. What is not set has the default that its method names.
#[derive(Clone, Debug, Default)]
pub struct Config {
    pub(crate) memory_limit: Option<usize>,
    pub(crate) threads: Option<usize>,
    pub(crate) temp_directory: Option<PathBuf>,
    pub(crate) max_temp_size: Option<u64>,
    pub(crate) temp_compression: TempCompression,
    pub(crate) release_memory: Option<fn()>,
    pub(crate) counts_process: Option<bool>,
    pub(crate) spill_always: bool,
    pub(crate) chunk_capacity: Option<usize>,
    pub(crate) hash_mask: Option<u64>,
    pub(crate) aggregate_strategy: Option<AggregateStrategy>,
    pub(crate) join_strategy: Option<JoinStrategy>,
    pub(crate) key_filters: Option<KeyFilters>,
    /// Settings by name, which are set once the handle is there.
    pub(crate) named: Vec<(Setting, String)>,
}

impl Config {
    /// A setting by the name and with a value that `SET` takes: `Config::default().set("memory_limit", "1GB")?`.
    ///
    /// # Errors
    /// There is no such setting, or it does not take the value.
    pub fn set(mut self, name: &str, value: &str) -> Result<Self> {
        let Some(setting) = by_name(name)? else {
            return Err(Error::setting(format!("'{name}' is set when the handle is there: Connection::set")));
        };
        match setting {
            Setting::MemoryLimit => self.memory_limit = Some(parse_memory_limit(value)?),
            Setting::MaxTempSize => self.max_temp_size = Some(parse_size(value)?),
            Setting::TempDirectory => self.temp_directory = Some(value.into()),
            Setting::Threads => self.threads = Some(parse_threads(value)?),
            Setting::TempCompression => self.temp_compression = parse_compression(value)?,
            _ => {
                check(setting, value)?;
                self.named.push((setting, value.to_owned()));
            }
        }
        Ok(self)
    }

    /// Bytes that the process may hold. Default: 80 % of the memory of the machine or of the control group.
    #[must_use]
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.memory_limit = Some(bytes);
        self
    }

    /// Workers. Default: the processors that the process may use.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads.max(1));
        self
    }

    /// Where temporary data goes that does not fit into memory. Default: the system's temporary directory.
    #[must_use]
    pub fn temp_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.temp_directory = Some(directory.into());
        self
    }

    /// Bytes of temporary data on disk, at most. Default: 90 % of what is free.
    #[must_use]
    pub fn max_temp_size(mut self, bytes: u64) -> Self {
        self.max_temp_size = Some(bytes);
        self
    }

    /// Whether temporary data is compressed. Default: where that is quicker, or space is short.
    #[must_use]
    pub fn temp_compression(mut self, mode: TempCompression) -> Self {
        self.temp_compression = mode;
        self
    }

    /// Called at the end of each statement and when memory runs short, for an allocator that can give memory back to the system.
    /// Default: what the C library's can do, where it is glibc.
    #[must_use]
    pub fn release_memory(mut self, release: fn()) -> Self {
        self.release_memory = Some(release);
        self
    }

    /// Whether memory of the process outside the pool counts against the limit. Default: it does; tests of the pool alone turn it off.
    #[must_use]
    pub fn counts_process(mut self, counts: bool) -> Self {
        self.counts_process = Some(counts);
        self
    }

    /// A hostile setting for tests: every page is written out as soon as nobody works on it.
    #[must_use]
    pub fn spill_always(mut self, always: bool) -> Self {
        self.spill_always = always;
        self
    }

    /// A hostile setting for tests: rows of a chunk, at most. Default: 2048.
    #[must_use]
    pub fn chunk_capacity(mut self, rows: usize) -> Self {
        self.chunk_capacity = Some(rows.clamp(1, ogee_vector::CHUNK_CAPACITY));
        self
    }

    /// A hostile setting for tests: only these bits of hashes are kept, so that different keys collide.
    #[must_use]
    pub fn hash_mask(mut self, mask: u64) -> Self {
        self.hash_mask = Some(mask);
        self
    }

    /// A hostile setting for tests: how aggregations treat their rows. Default: they decide while they run.
    #[must_use]
    pub fn aggregate_strategy(mut self, strategy: AggregateStrategy) -> Self {
        self.aggregate_strategy = Some(strategy);
        self
    }

    /// A hostile setting for tests: which partitions of their build sides hash joins keep in memory. Default: as many as fit.
    #[must_use]
    pub fn join_strategy(mut self, strategy: JoinStrategy) -> Self {
        self.join_strategy = Some(strategy);
        self
    }

    /// A hostile setting for tests: what rows are asked about before they come to a join. Default: what pays.
    #[must_use]
    pub fn key_filters(mut self, filters: KeyFilters) -> Self {
        self.key_filters = Some(filters);
        self
    }
}
