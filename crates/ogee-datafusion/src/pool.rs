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
    sync::Arc,
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
use ogee_memory::{BufferManager, MemoryError, PAGE_SIZE, Reservation};
use parking_lot::Mutex;

use crate::page_chain::{ChainReader, ChainWriter, PageChain};

/// DataFusion's view of the buffer manager.
pub(crate) struct OgeePool {
    memory: Arc<BufferManager>,
    accounts: [Mutex<Account>; CONSUMERS.len()],
}

/// What to look for in a DataFusion consumer's name, and the name that errors and statistics give it.
const CONSUMERS: [(&str, &str); 7] = [
    ("Sort", "sort (DataFusion)"),
    ("Join", "join (DataFusion)"),
    ("Aggregate", "aggregate (DataFusion)"),
    ("Window", "window (DataFusion)"),
    ("Repartition", "exchange (DataFusion)"),
    ("Sink", "file writer (DataFusion)"),
    ("", "other (DataFusion)"),
];

/// Reservations grow in steps of a page, so that most requests need not go to the buffer manager.
const STEP: usize = PAGE_SIZE;

#[derive(Default)]
struct Account {
    used: usize,
    reservation: Option<Reservation>,
}

impl Account {
    fn resize(&mut self, memory: &Arc<BufferManager>, consumer: &'static str, used: usize) -> Result<(), MemoryError> {
        let bytes = used.next_multiple_of(STEP);
        match &mut self.reservation {
            _ if bytes == 0 => self.reservation = None,
            Some(reservation) if reservation.bytes() == bytes => {}
            Some(reservation) => reservation.resize(bytes)?,
            None => self.reservation = Some(memory.reserve(consumer, bytes)?),
        }
        self.used = used;
        Ok(())
    }
}

impl OgeePool {
    /// The pool of `memory`.
    pub(crate) fn new(memory: Arc<BufferManager>) -> Self {
        Self { memory, accounts: Default::default() }
    }

    fn account(&self, reservation: &MemoryReservation) -> (&'static str, &Mutex<Account>) {
        let name = reservation.consumer().name();
        let index = CONSUMERS.iter().position(|(part, _)| name.contains(part)).expect("the last matches every name");
        (CONSUMERS[index].1, &self.accounts[index])
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
        account
            .resize(&self.memory, consumer, used)
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
