//! The handle: one pool, one set of workers, one catalog.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use ogee_datafusion::{Engine, Session};
use ogee_exec::ExecSettings;
use ogee_memory::{BufferManager, MemoryConfig, MemoryStats};
use ogee_vector::HashSeed;

use crate::{Config, Connection, Result, release, settings::Settings};

/// A database in memory, which spills.
#[derive(Clone)]
pub struct Database {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) session: Session,
    pub(crate) memory: Arc<BufferManager>,
    pub(crate) settings: Settings,
    pub(crate) release_memory: fn(),
}

impl Database {
    /// A database without tables. Threads start with the first statement.
    ///
    /// # Errors
    /// A memory limit that is too small.
    pub fn open_in_memory(config: Config) -> Result<Self> {
        let defaults = MemoryConfig::default();
        let memory = BufferManager::new(MemoryConfig {
            limit: config.memory_limit.unwrap_or(defaults.limit),
            temp_directory: config.temp_directory.clone(),
            max_temp_bytes: config.max_temp_size,
            temp_compression: config.temp_compression,
            spill_always: config.spill_always,
            counts_process: config.counts_process.unwrap_or(defaults.counts_process),
            ..defaults
        })?;
        let defaults = ExecSettings::default();
        let hash = HashSeed {
            // Not the same for every handle, so that nobody can prepare keys that collide.
            seed: RandomState::new().hash_one("ogee"),
            mask: config.hash_mask.unwrap_or(u64::MAX),
        };
        let release_memory = config.release_memory.unwrap_or(release::give_back);
        let engine = Engine::new(
            Arc::clone(&memory),
            ExecSettings {
                threads: config.threads.unwrap_or(defaults.threads),
                chunk_capacity: config.chunk_capacity.unwrap_or(defaults.chunk_capacity),
                hash,
                aggregate_strategy: config.aggregate_strategy,
                join_strategy: config.join_strategy,
                key_filters: config.key_filters,
                ..defaults
            },
            Some(release_memory),
        );
        let session = Session::new(engine)?;
        let settings = Settings::new(config.temp_directory, config.max_temp_size);
        let inner = Inner { session, memory, settings, release_memory };
        for (setting, value) in &config.named {
            inner.settings.set(*setting, Some(value), &inner)?;
        }
        let inner = Arc::new(inner);
        let told = Arc::downgrade(&inner);
        inner.session.set_tells_settings(Box::new(move || {
            told.upgrade().map(|inner| inner.settings.list(&inner)).unwrap_or_default()
        }));
        Ok(Self { inner })
    }

    /// A connection. Connections of a database see the same tables and settings.
    pub fn connect(&self) -> Connection {
        Connection::new(Arc::clone(&self.inner))
    }

    /// What the pool holds now, and what it did.
    pub fn memory_stats(&self) -> MemoryStats {
        self.inner.memory.stats()
    }

    /// The names of the databases: the one in memory, and those that are attached.
    pub fn names(&self) -> Vec<String> {
        let attached = self.inner.session.attached();
        std::iter::once(ogee_datafusion::DATABASE.to_owned()).chain(attached).collect()
    }

    /// The planner's session, to register tables and functions that SQL does not create.
    pub fn session(&self) -> &Session {
        &self.inner.session
    }
}
