//! Threads that write out and read ahead, so that workers seldom wait for the disk.
//!
//! They start when memory first runs short or something is to be read ahead, sleep on a condition variable when there is nothing to do,
//! and end with the manager. While memory is short they keep a reserve of free frames; they read ahead only into room
//! that is free.
//!
//! 1. A kick after the work was made visible is never lost, to none of the threads: each clears its mark before it looks for work and sleeps
//!    only while it is clear.
//!
//! Not here: how a page is written or read (`pool`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use crossbeam_queue::SegQueue;
use parking_lot::{Condvar, Mutex};

use crate::page::{OwnedPage, PageHandle};
use crate::pool::Pool;

/// Requests to read ahead that are kept; more are forgotten, since their pages would be evicted again before they are used.
const READS_MAX: usize = 4096;

#[derive(Debug)]
pub(crate) struct Background {
    threads: usize,
    pool: Weak<Pool>,
    /// A bit for each thread: a kick came since it last began to look for work. With one bit for all, the first that woke cleared it, and the others
    /// went on sleeping.
    kicked: AtomicU64,
    writing: AtomicUsize,
    reads: SegQueue<Weak<OwnedPage>>,
    crew: Mutex<Crew>,
    wake: Condvar,
    stopped: AtomicBool,
}

#[derive(Debug, Default)]
struct Crew {
    started: bool,
    handles: Vec<JoinHandle<()>>,
}

impl Background {
    pub(crate) fn new(threads: usize, pool: Weak<Pool>) -> Self {
        Self {
            threads,
            pool,
            kicked: AtomicU64::new(0),
            writing: AtomicUsize::new(0),
            reads: SegQueue::new(),
            crew: Mutex::new(Crew::default()),
            wake: Condvar::new(),
            stopped: AtomicBool::new(false),
        }
    }

    /// Whether there are threads, or will be.
    pub(crate) fn is_available(&self) -> bool {
        self.threads > 0 && !self.stopped.load(Ordering::SeqCst)
    }

    /// Pages being evicted by the threads at the moment.
    pub(crate) fn writing(&self) -> usize {
        self.writing.load(Ordering::SeqCst)
    }

    /// Makes the threads look for work.
    pub(crate) fn kick(&self) {
        let all = u64::MAX >> (64 - self.threads.clamp(1, 64));
        if self.is_available() && self.kicked.fetch_or(all, Ordering::SeqCst) & all != all {
            self.wake_up();
        }
    }

    #[cold]
    fn wake_up(&self) {
        let mut crew = self.crew.lock();
        if !crew.started && self.is_available() {
            crew.started = true;
            for index in 0..self.threads {
                let Some(pool) = self.pool.upgrade() else { break };
                let thread = std::thread::Builder::new().name(format!("ogee-io-{index}"));
                // A thread that cannot be started leaves its work to the workers.
                crew.handles.extend(thread.spawn(move || pool.background.run(&pool, index)).ok());
            }
            if crew.handles.is_empty() {
                self.stopped.store(true, Ordering::SeqCst);
            }
        }
        self.wake.notify_all();
    }

    /// Asks for a page to be read ahead; `kick` follows.
    pub(crate) fn read_ahead(&self, page: Weak<OwnedPage>) {
        if self.is_available() && self.reads.len() < READS_MAX {
            self.reads.push(page);
        }
    }

    /// Ends the threads and waits for them.
    pub(crate) fn stop(&self) {
        let handles = {
            let mut crew = self.crew.lock();
            self.stopped.store(true, Ordering::SeqCst);
            self.wake.notify_all();
            std::mem::take(&mut crew.handles)
        };
        for handle in handles {
            // A panic of the thread was reported by its hook; there is nothing left to do here.
            drop(handle.join());
        }
        while self.reads.pop().is_some() {}
    }

    fn run(&self, pool: &Arc<Pool>, index: usize) {
        // More than 64 share bits.
        let bit = 1 << (index % 64);
        // One thread prefers to write and the next to read, so that neither starves the other.
        loop {
            self.kicked.fetch_and(!bit, Ordering::SeqCst);
            while !self.stopped.load(Ordering::SeqCst) {
                let work = || match index % 2 {
                    0 => self.write_one(pool) || self.read_one(pool),
                    _ => self.read_one(pool) || self.write_one(pool),
                };
                // A panic was reported by its hook, and left pages as they were; the thread is there for the next kick.
                if !catch_unwind(AssertUnwindSafe(work)).unwrap_or(false) {
                    break;
                }
            }
            let mut crew = self.crew.lock();
            while self.kicked.load(Ordering::SeqCst) & bit == 0 {
                if self.stopped.load(Ordering::SeqCst) {
                    return;
                }
                self.wake.wait(&mut crew);
            }
            if self.stopped.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    /// Evicts a page if a reserve is to be kept. Whether to look again at once.
    fn write_one(&self, pool: &Pool) -> bool {
        if !pool.wants_write_out() {
            return false;
        }
        /// Those who waited for a write rather than writing themselves must look again, whatever came of it, a panic included.
        struct Writing<'a>(&'a AtomicUsize, &'a Pool);
        impl Drop for Writing<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
                self.1.write_finished();
            }
        }
        self.writing.fetch_add(1, Ordering::SeqCst);
        let writing = Writing(&self.writing, pool);
        let evicted = pool.evict_one();
        drop(writing);
        match evicted {
            Ok(evicted) => {
                pool.give_back_excess();
                evicted
            }
            Err(error) => {
                // Kept for a request that cannot be served otherwise; tried again when the next kick comes.
                pool.keep_failure(error);
                false
            }
        }
    }

    /// Reads a page ahead. Whether to look again at once.
    fn read_one(&self, pool: &Pool) -> bool {
        let Some(page) = self.reads.pop() else { return false };
        if let Some(page) = page.upgrade()
            && !pool.load_ahead(&PageHandle(page))
        {
            // No room for this one, so none for those after it.
            while self.reads.pop().is_some() {}
        }
        true
    }
}
