//! Memory and temporary files of the operators that are DataFusion's, out of Ogee's own pool.
//!
//! What they reserve is a reservation in the buffer manager, so that pages make room for it or it is refused; what they spill is
//! pages, which stay in memory as long as there is room and otherwise go to the pool's temporary file, under its cap.
//!
//! Not here: memory that DataFusion does not tell of. The process account sees it.

use std::{
    fmt,
    io::Write,
    path::Path,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use datafusion::{
    common::{DataFusionError, Result},
    execution::{
        SpillFile, SpillWriter, TempFileFactory,
        memory_pool::{MemoryLimit, MemoryPool, MemoryReservation},
    },
};
use futures::Stream;
use ogee_memory::{BufferManager, MemoryError, PAGE_SIZE, Reservation, format_bytes};
use parking_lot::Mutex;

use crate::page_chain::{ChainReader, ChainWriter, PageChain};

/// DataFusion's view of the buffer manager.
pub(crate) struct OgeePool {
    memory: Arc<BufferManager>,
    /// Makes the allocator give memory back that nobody uses.
    release: Option<fn()>,
    started: Instant,
    /// When it was last called, in milliseconds since `started`.
    released_ms: AtomicU64,
    accounts: [Mutex<Account>; CONSUMERS.len()],
}

/// An operator of DataFusion, by a part of its consumers' names.
struct Consumer {
    part: &'static str,
    /// How errors and statistics name it.
    name: &'static str,
    /// What is reserved for 100 bytes that it tells of. DataFusion counts the arrays that an operator keeps, not what it copies
    /// while it sorts, merges, concatenates and encodes: sorts were seen to make the process grow by twice what they tell.
    percent: usize,
}

const CONSUMERS: [Consumer; 7] = [
    Consumer { part: "Sort", name: "sort (DataFusion)", percent: 200 },
    Consumer { part: "Join", name: "join (DataFusion)", percent: 150 },
    Consumer { part: "Aggregate", name: "aggregate (DataFusion)", percent: 150 },
    Consumer { part: "Window", name: "window (DataFusion)", percent: 125 },
    Consumer { part: "Repartition", name: "exchange (DataFusion)", percent: 125 },
    Consumer { part: "Sink", name: "file writer (DataFusion)", percent: 150 },
    Consumer { part: "", name: "other (DataFusion)", percent: 125 },
];

/// Reservations grow in steps of a page, so that most requests need not go to the buffer manager.
const STEP: usize = PAGE_SIZE;

/// Between two calls for memory back from the allocator, which may take milliseconds.
const RELEASE_EVERY: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Account {
    /// Bytes that DataFusion told of.
    used: usize,
    reservation: Option<Reservation>,
}

impl Account {
    fn resize(&mut self, memory: &Arc<BufferManager>, consumer: &Consumer, used: usize) -> Result<(), MemoryError> {
        let bytes = (used / 100 * consumer.percent).next_multiple_of(STEP);
        match &mut self.reservation {
            _ if used == 0 => self.reservation = None,
            Some(reservation) if reservation.bytes() == bytes => {}
            Some(reservation) => reservation.resize(bytes)?,
            None => self.reservation = Some(memory.reserve(consumer.name, bytes)?),
        }
        self.used = used;
        Ok(())
    }
}

/// What is kept free for pages when DataFusion asks for more: an operator that is refused spills, and spilling takes pages.
fn headroom(limit: usize) -> usize {
    (limit / 32).clamp(4 * PAGE_SIZE, 64 * PAGE_SIZE)
}

impl OgeePool {
    /// The pool of `memory`. `release` makes the allocator give memory back.
    pub(crate) fn new(memory: Arc<BufferManager>, release: Option<fn()>) -> Self {
        Self { memory, release, started: Instant::now(), released_ms: AtomicU64::new(0), accounts: Default::default() }
    }

    fn account(&self, reservation: &MemoryReservation) -> (&'static Consumer, &Mutex<Account>) {
        let name = reservation.consumer().name();
        let index = CONSUMERS.iter().position(|c| name.contains(c.part)).expect("the last matches every name");
        (&CONSUMERS[index], &self.accounts[index])
    }

    /// Grows an account, or leaves it as it was.
    fn try_resize(&self, consumer: &Consumer, account: &mut Account, used: usize) -> Result<(), MemoryError> {
        let before = account.used;
        account.resize(&self.memory, consumer, used)?;
        let headroom = headroom(self.memory.limit());
        if self.memory.available() >= headroom {
            return Ok(());
        }
        // Less is never refused.
        account.resize(&self.memory, consumer, before)?;
        let stats = self.memory.stats();
        let mut largest: Vec<_> =
            stats.consumers.iter().take(3).map(|(n, b)| format!("{n} {}", format_bytes(*b))).collect();
        if largest.is_empty() {
            largest.push("none".to_owned());
        }
        Err(MemoryError::OutOfMemory {
            consumer: consumer.name,
            requested: used - before,
            held: stats.used,
            limit: stats.limit,
            outside: stats.limit.saturating_sub(stats.budget),
            largest: largest.join(", "),
        })
    }

    /// Whether the allocator was asked for memory back just now.
    fn release(&self) -> bool {
        let Some(release) = self.release else { return false };
        let now = self.started.elapsed().as_millis() as u64;
        let last = self.released_ms.load(Ordering::Relaxed);
        if now < last + RELEASE_EVERY.as_millis() as u64
            || self.released_ms.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            return false;
        }
        release();
        self.memory.revise();
        true
    }
}

impl fmt::Debug for OgeePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OgeePool({} bytes)", self.reserved())
    }
}

impl fmt::Display for OgeePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ogee")
    }
}

impl MemoryPool for OgeePool {
    fn name(&self) -> &str {
        "ogee"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        let (consumer, account) = self.account(reservation);
        let mut account = account.lock();
        let used = account.used + additional;
        if account.resize(&self.memory, consumer, used).is_err() {
            // DataFusion has allocated it already: what is not promised is at least seen by the process account.
            account.used = used;
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        let (consumer, account) = self.account(reservation);
        let mut account = account.lock();
        let used = account.used.saturating_sub(shrink);
        // A reservation that lagged behind `grow` may have to rise even now, and may be refused as it was then.
        if account.resize(&self.memory, consumer, used).is_err() {
            account.used = used;
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let (consumer, account) = self.account(reservation);
        let mut account = account.lock();
        let used = account.used + additional;
        match self.try_resize(consumer, &mut account, used) {
            Err(_) if self.release() => self.try_resize(consumer, &mut account, used),
            result => result,
        }
        .map_err(|error| DataFusionError::ResourcesExhausted(error.to_string()))
    }

    fn reserved(&self) -> usize {
        self.accounts.iter().map(|account| account.lock().used).sum()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.memory.limit())
    }
}

/// Makes DataFusion's temporary files out of pages.
#[derive(Debug)]
pub(crate) struct PoolFiles {
    memory: Arc<BufferManager>,
}

impl PoolFiles {
    /// Files in the pages of `memory`.
    pub(crate) fn new(memory: Arc<BufferManager>) -> Self {
        Self { memory }
    }
}

impl TempFileFactory for PoolFiles {
    fn create_temp_file(&self, _description: &str) -> Result<Arc<dyn SpillFile>> {
        Ok(Arc::new(PoolFile(PageChain::new(&self.memory, "spill (DataFusion)"))))
    }
}

#[derive(Debug)]
struct PoolFile(PageChain);

impl SpillFile for PoolFile {
    fn path(&self) -> Option<&Path> {
        None
    }

    fn size(&self) -> Option<u64> {
        Some(self.0.len() as u64)
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        Ok(Box::pin(futures::stream::try_unfold(self.0.reader(), |reader| async move { next_block(reader) })))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(PoolWriter(self.0.writer())))
    }
}

fn next_block(mut reader: ChainReader) -> Result<Option<(Bytes, ChainReader)>> {
    use std::io::Read;
    let mut block = Vec::with_capacity(PAGE_SIZE);
    reader.by_ref().take(PAGE_SIZE as u64).read_to_end(&mut block)?;
    Ok((!block.is_empty()).then(|| (Bytes::from(block), reader)))
}

struct PoolWriter(ChainWriter);

impl Write for PoolWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

impl SpillWriter for PoolWriter {
    fn finish(&mut self) -> Result<()> {
        self.0.release();
        Ok(())
    }
}
