//! The settings of a buffer manager.
//!
//! Not here: how the defaults are found (`defaults`).

use std::path::PathBuf;
use std::sync::Arc;

use crate::defaults::default_limit;
use crate::io::{Io, RealIo};

/// Which unpinned pages go first (paper B, section III). As long as every page is temporary, all three are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EvictionPolicy {
    /// By age alone.
    #[default]
    Mixed,
    /// Temporary pages before persistent ones: several queries share what they read.
    TemporaryFirst,
    /// Persistent pages before temporary ones: they need not be written.
    PersistentFirst,
}

/// Whether pages of fixed size are compressed (LZ4) when they are spilled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum TempCompression {
    /// If that is quicker, by the measured speeds of the device and of the compressor, or if temporary space is short.
    #[default]
    Auto,
    /// Never.
    Off,
    /// Whenever it makes a page smaller.
    Always,
}

/// How a [`BufferManager`](crate::BufferManager) is set up.
#[derive(Debug, Clone)]
pub struct MemoryConfig {
    /// Bytes the process may hold; at least [`LIMIT_MIN`](crate::LIMIT_MIN). Default: 80 % of the smaller of RAM and the
    /// control group's limit.
    pub limit: usize,
    /// Where pages go that do not fit; created when first needed. `None`: the system's temporary directory.
    pub temp_directory: Option<PathBuf>,
    /// The most that may lie there, in bytes. `None`: 90 % of what is free when spilling begins.
    pub max_temp_bytes: Option<u64>,
    /// Whether what goes there is compressed.
    pub temp_compression: TempCompression,
    /// The door to files.
    pub io: Arc<dyn Io>,
    /// A hostile setting for tests: every page is written out as soon as it is unpinned.
    pub spill_always: bool,
    /// Whether the rest of the process counts against the limit. False in tests of the pool alone, where the budget is the limit
    /// less what is reserved.
    pub counts_process: bool,
    /// Which pages go first.
    pub eviction_policy: EvictionPolicy,
    /// Threads that write out and read ahead, started when memory first runs short: a transfer of each is under way beside
    /// those of the workers, and with more of them no join or sort was quicker. Zero leaves all of it to the workers.
    pub io_threads: usize,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self {
            limit: default_limit(),
            temp_directory: None,
            max_temp_bytes: None,
            temp_compression: TempCompression::Auto,
            io: Arc::new(RealIo),
            spill_always: false,
            counts_process: true,
            eviction_policy: EvictionPolicy::Mixed,
            io_threads: 2,
        }
    }
}
