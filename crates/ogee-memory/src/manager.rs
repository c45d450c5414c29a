//! The face of the pool: one manager per database handle.
//!
//! Not here: how any of it is done (`pool`).

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::account::is_due;
use crate::config::{EvictionPolicy, MemoryConfig, TempCompression};
use crate::error::MemoryError;
use crate::governor::Governor;
use crate::non_paged::NonPaged;
use crate::page::{PageHandle, PinnedPage};
use crate::pool::Pool;
use crate::reservation::Reservation;
use crate::statements::{Statements, optional};
use crate::{LIMIT_MIN, PAGE_SIZE, address_space, neighbours, variable_page};

/// The budget is looked at this often, however often workers ask.
const REVISE_NS: u64 = 2_000_000;

/// Free frames that a trim may leave for the next statement.
const TRIM_KEEP_BYTES: usize = 16 << 20;

/// Pages, non-paged memory and promises under one limit.
///
/// Pages may outlive the manager; without it they are written out by the threads that need memory.
#[derive(Debug)]
pub struct BufferManager {
    pool: Arc<Pool>,
    policy: EvictionPolicy,
    governor: Governor,
    revised_ns: AtomicU64,
}

/// What a manager holds and has done. Bytes, unless said otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// The limit.
    pub limit: usize,
    /// What the pool may hold at the moment.
    pub budget: usize,
    /// What the pool holds: pages in memory, free frames kept for reuse, non-paged memory.
    pub used: usize,
    /// The most it held since the peaks were reset.
    pub peak_used: usize,
    /// Pinned pages.
    pub pinned: usize,
    /// Non-paged memory.
    pub non_paged: usize,
    /// Promises.
    pub reserved: usize,
    /// Bytes of pages written to the temporary space since the manager was made.
    pub spilled_bytes: u64,
    /// What was written for them: less where they were compressed.
    pub temp_written_bytes: u64,
    /// Of those, what went through the system's page cache, since there was memory to spare.
    pub temp_cached_bytes: u64,
    /// Bytes of pages read back from it since the manager was made.
    pub read_back_bytes: u64,
    /// In the temporary space at the moment.
    pub temp_bytes: u64,
    /// The most that was there since the peaks were reset.
    pub temp_peak: u64,
    /// Pages evicted since the manager was made (a number).
    pub evictions: u64,
    /// Consumers by what they hold in memory or have been promised, largest first.
    pub consumers: Vec<(&'static str, usize)>,
}

impl BufferManager {
    /// A manager that holds nothing yet; neither files nor threads exist before memory runs short.
    ///
    /// # Errors
    /// The limit is below [`LIMIT_MIN`], or beyond the addresses that the process may map.
    pub fn new(config: MemoryConfig) -> Result<Arc<Self>, MemoryError> {
        if config.limit < LIMIT_MIN {
            return Err(MemoryError::LimitTooSmall { limit: config.limit, least: LIMIT_MIN });
        }
        address_space::check(config.limit, None)?;
        let pool = Pool::new(&config);
        if config.counts_process {
            neighbours::enter(&pool);
        }
        pool.revise_budget();
        Ok(Arc::new(Self {
            pool,
            policy: config.eviction_policy,
            governor: Governor::default(),
            revised_ns: AtomicU64::new(0),
        }))
    }

    /// A new page of [`PAGE_SIZE`], pinned once. Its contents are whatever the memory held before.
    ///
    /// # Errors
    /// Out of memory, or pages evicted for it cannot be written.
    pub fn allocate(self: &Arc<Self>, consumer: &'static str) -> Result<PinnedPage, MemoryError> {
        let counted = self.pool.count_page()?;
        let memory = self.pool.take_frame(consumer)?;
        counted.made();
        Ok(PinnedPage::create(&self.pool, self.pool.consumers.intern(consumer), PAGE_SIZE, memory))
    }

    /// A new page of `bytes`, rounded up to 4 KiB, pinned once, with a mapping and, when spilled, a file of its own.
    ///
    /// # Errors
    /// Out of memory, or pages evicted for it cannot be written.
    ///
    /// # Panics
    /// If `bytes` is 0.
    pub fn allocate_variable(
        self: &Arc<Self>,
        consumer: &'static str,
        bytes: usize,
    ) -> Result<PinnedPage, MemoryError> {
        let len = variable_page::rounded(bytes);
        let counted = self.pool.count_page()?;
        let memory = self.pool.take_variable(consumer, len)?;
        counted.made();
        Ok(PinnedPage::create(&self.pool, self.pool.consumers.intern(consumer), len, memory))
    }

    /// Zeroed memory of the pool that is never evicted, for arrays of hash tables.
    ///
    /// # Errors
    /// Out of memory, or pages evicted for it cannot be written.
    ///
    /// # Panics
    /// If `bytes` is 0.
    pub fn allocate_non_paged(self: &Arc<Self>, consumer: &'static str, bytes: usize) -> Result<NonPaged, MemoryError> {
        NonPaged::new(&self.pool, consumer, bytes)
    }

    /// Promises heap allocations of `bytes` to come; evicts to make room for them.
    ///
    /// # Errors
    /// Out of memory, or evicted pages cannot be written.
    pub fn reserve(self: &Arc<Self>, consumer: &'static str, bytes: usize) -> Result<Reservation, MemoryError> {
        Reservation::new(&self.pool, consumer, bytes)
    }

    /// Like [`reserve`](Self::reserve), for those who can do with less: `None` where that is an error, or has to be waited for.
    pub fn try_reserve(self: &Arc<Self>, consumer: &'static str, bytes: usize) -> Option<Reservation> {
        optional(|| Reservation::new(&self.pool, consumer, bytes)).ok()
    }

    /// Bytes the pool may hold now: the limit less promises and, if the process counts, less its other memory and other handles'
    /// pools, as last revised.
    pub fn budget(&self) -> usize {
        self.pool.ledger.budget()
    }

    /// What could be had by evicting all that is unpinned, of other handles too: the budget less pinned pages and non-paged memory, and what others
    /// have unpinned.
    pub fn available(&self) -> usize {
        let ledger = &self.pool.ledger;
        self.budget_with_others().saturating_sub(ledger.pinned() + ledger.non_paged())
    }

    /// What the budget would be if other handles had nothing unpinned.
    pub(crate) fn budget_with_others(&self) -> usize {
        let ledger = &self.pool.ledger;
        ledger.limit().saturating_sub(ledger.outside().saturating_sub(self.pool.lendable()))
    }

    pub(crate) fn statements(&self) -> &Arc<Statements> {
        &self.pool.statements
    }

    pub(crate) fn governor(&self) -> &Governor {
        &self.governor
    }

    /// What could be had without evicting anything.
    pub fn room(&self) -> usize {
        self.pool.room()
    }

    /// The limit in bytes.
    pub fn limit(&self) -> usize {
        self.pool.ledger.limit()
    }

    /// Changes the limit, and evicts what is over it.
    ///
    /// # Errors
    /// As [`Self::new`]; nothing has changed then.
    pub fn set_limit(&self, bytes: usize) -> Result<(), MemoryError> {
        if bytes < LIMIT_MIN {
            return Err(MemoryError::LimitTooSmall { limit: bytes, least: LIMIT_MIN });
        }
        address_space::check(bytes, Some(self.pool.ledger.used()))?;
        self.pool.ledger.set_limit(bytes);
        self.pool.revise_budget();
        self.pool.shrink_now();
        Ok(())
    }

    /// Changes the cap on temporary space; `None`: 90 % of what is free. What is spilled already stays, also above the cap.
    pub fn set_max_temp_bytes(&self, bytes: Option<u64>) {
        self.pool.temp.set_bytes_max(bytes);
    }

    /// Changes whether pages are compressed when they are spilled from now on.
    pub fn set_temp_compression(&self, mode: TempCompression) {
        self.pool.compression.set_mode(mode);
    }

    /// Whether pages are compressed when they are spilled.
    pub fn temp_compression(&self) -> TempCompression {
        self.pool.compression.mode()
    }

    /// Changes where pages are spilled; `None`: the system's temporary directory.
    ///
    /// # Errors
    /// Something is spilled.
    pub fn set_temp_directory(&self, directory: Option<PathBuf>) -> Result<(), MemoryError> {
        self.pool.temp.set_directory(directory)
    }

    /// Where pages are spilled.
    pub fn temp_directory(&self) -> PathBuf {
        self.pool.temp.directory()
    }

    /// Which pages go first.
    pub fn eviction_policy(&self) -> EvictionPolicy {
        self.policy
    }

    /// Revises the budget by the memory of the process and brings the pool back under it. Workers call it at every morsel; it
    /// does something once in 2 ms.
    pub fn revise(&self) {
        if is_due(&self.revised_ns, REVISE_NS) {
            self.pool.revise_budget();
            self.pool.shrink();
        }
    }

    /// Has pages read back by the threads of the manager, as far as there is room without evicting others. Those who want them
    /// pin them as always.
    pub fn prefetch(self: &Arc<Self>, pages: impl IntoIterator<Item = PageHandle>) {
        for page in pages {
            self.pool.read_ahead(&page);
        }
        self.pool.background.kick();
    }

    /// What the manager holds and has done. Read without a lock, so the parts are not of one moment.
    pub fn stats(&self) -> MemoryStats {
        let Pool { ledger, temp, counts, consumers, .. } = &*self.pool;
        MemoryStats {
            limit: ledger.limit(),
            budget: ledger.budget(),
            used: ledger.used(),
            peak_used: ledger.used_peak(),
            pinned: ledger.pinned(),
            non_paged: ledger.non_paged(),
            reserved: ledger.reserved(),
            spilled_bytes: counts.spilled_bytes.load(Ordering::Relaxed),
            temp_written_bytes: counts.temp_written_bytes.load(Ordering::Relaxed),
            temp_cached_bytes: counts.temp_cached_bytes.load(Ordering::Relaxed),
            read_back_bytes: counts.read_back_bytes.load(Ordering::Relaxed),
            temp_bytes: temp.held(),
            temp_peak: temp.held_peak(),
            evictions: counts.evictions.load(Ordering::Relaxed),
            consumers: consumers.largest(),
        }
    }

    /// Starts the peaks of [`stats`](Self::stats) anew.
    pub fn reset_peaks(&self) {
        self.pool.ledger.reset_peak();
        self.pool.temp.reset_peak();
    }

    /// Gives free frames back to the system, but for 16 MiB, closes an empty temporary file, and stops keeping a reserve. To be
    /// called when a statement ends.
    pub fn trim(&self) {
        self.pool.trim(TRIM_KEEP_BYTES);
    }

    /// What people should know about the settings; empty if all is well.
    pub fn warnings(&self) -> Vec<String> {
        self.pool.temp.warning().into_iter().collect()
    }
}

impl Drop for BufferManager {
    fn drop(&mut self) {
        self.pool.background.stop();
    }
}
