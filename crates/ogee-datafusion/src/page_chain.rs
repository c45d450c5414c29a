//! Bytes on a chain of pages of the pool: a file that spills when memory runs short, and is memory otherwise.
//!
//! 1. Every page but the last is full.
//! 2. Bytes below `len` are written once and never change, so that a reader may follow a writer.
//!
//! Not here: what the bytes mean.
#![expect(unsafe_code, reason = "copies bytes to and from pinned pages")]

use std::{
    io::{self, Read, Write},
    sync::Arc,
};

use ogee_memory::{BufferManager, MemoryError, PAGE_SIZE, PageHandle, PinnedPage};
use parking_lot::Mutex;

/// A growing sequence of bytes in pages of the pool. Clones are the same sequence.
#[derive(Clone)]
pub(crate) struct PageChain {
    memory: Arc<BufferManager>,
    consumer: &'static str,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    pages: Vec<PageHandle>,
    len: usize,
}

impl PageChain {
    /// An empty sequence whose pages are accounted to `consumer`.
    pub(crate) fn new(memory: &Arc<BufferManager>, consumer: &'static str) -> Self {
        Self { memory: Arc::clone(memory), consumer, state: Arc::default() }
    }

    /// Bytes written so far.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().len
    }

    /// Starts to bring back what was spilled, as far as room is free.
    pub(crate) fn prefetch(&self) {
        let pages = self.state.lock().pages.clone();
        self.memory.prefetch(pages);
    }

    /// Appends at the end.
    pub(crate) fn writer(&self) -> ChainWriter {
        ChainWriter { chain: self.clone(), pinned: None }
    }

    /// Reads from the beginning to where the sequence ends at the time.
    pub(crate) fn reader(&self) -> ChainReader {
        ChainReader { chain: self.clone(), pinned: None, position: 0 }
    }
}

impl std::fmt::Debug for PageChain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PageChain({} bytes)", self.len())
    }
}

/// See [`PageChain::writer`]. There is one at a time.
pub(crate) struct ChainWriter {
    chain: PageChain,
    /// The last page, while it has room.
    pinned: Option<PinnedPage>,
}

impl ChainWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<usize, MemoryError> {
        let len = self.chain.len();
        let offset = len % PAGE_SIZE;
        let page = match self.pinned.take() {
            Some(page) => page,
            None if offset == 0 => {
                let page = self.chain.memory.allocate(self.chain.consumer)?;
                self.chain.state.lock().pages.push(page.handle().clone());
                page
            }
            None => {
                let last = self.chain.state.lock().pages.last().cloned();
                last.expect("a length between pages has a last page").pin()?
            }
        };
        let taken = bytes.len().min(PAGE_SIZE - offset);
        // SAFETY: the page is pinned until after the copy, `offset + taken` is within it, and readers copy only bytes
        // below `len`, which is raised afterwards; there is one writer.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), page.as_ptr().add(offset), taken) };
        self.chain.state.lock().len = len + taken;
        if offset + taken < PAGE_SIZE {
            self.pinned = Some(page);
        } else {
            page.handle().seal();
        }
        Ok(taken)
    }

    /// Unpins the last page; the writer may go on afterwards.
    pub(crate) fn release(&mut self) {
        self.pinned = None;
    }
}

impl Write for ChainWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        self.append(bytes).map_err(io::Error::other)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.release();
        Ok(())
    }
}

/// See [`PageChain::reader`].
pub(crate) struct ChainReader {
    chain: PageChain,
    pinned: Option<PinnedPage>,
    position: usize,
}

impl Read for ChainReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (len, page) = {
            let state = self.chain.state.lock();
            (state.len, state.pages.get(self.position / PAGE_SIZE).cloned())
        };
        let offset = self.position % PAGE_SIZE;
        let taken = into.len().min(len - self.position).min(PAGE_SIZE - offset);
        if taken == 0 {
            self.pinned = None;
            return Ok(0);
        }
        let page = match self.pinned.take() {
            Some(page) => page,
            None => page.expect("bytes below the length have a page").pin().map_err(io::Error::other)?,
        };
        // SAFETY: the page is pinned until after the copy, and the bytes are below `len`: written, and never again.
        unsafe { std::ptr::copy_nonoverlapping(page.as_ptr().add(offset), into.as_mut_ptr(), taken) };
        self.position += taken;
        if offset + taken < PAGE_SIZE {
            self.pinned = Some(page);
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use ogee_memory::MemoryConfig;

    use super::*;

    #[test]
    fn bytes_come_back_though_the_pool_is_smaller() {
        let directory = std::env::temp_dir();
        let config = MemoryConfig {
            limit: 4 << 20,
            temp_directory: Some(directory),
            counts_process: false,
            ..MemoryConfig::default()
        };
        let memory = BufferManager::new(config).unwrap();
        let chain = PageChain::new(&memory, "test");
        let bytes: Vec<u8> = (0..16 << 20).map(|i: u32| (i ^ (i >> 8)) as u8).collect();
        let mut writer = chain.writer();
        for part in bytes.chunks(100_003) {
            writer.write_all(part).unwrap();
            writer.flush().unwrap();
        }
        drop(writer);
        assert!(memory.stats().spilled_bytes > 0);
        let mut back = Vec::new();
        chain.reader().read_to_end(&mut back).unwrap();
        assert!(back == bytes);
    }
}
