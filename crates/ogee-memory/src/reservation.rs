//! Promises of heap allocations to come: scans and expressions ask before they allocate.
//!
//! While a promise is held, the pool leaves that room free. A promise and the allocation it covers are not counted twice, see
//! `ledger`.
//!
//! Not here: the allocations. Nothing checks that a consumer allocates no more than it promised, except that the process
//! account will see it.

use std::sync::Arc;

use crate::consumers::ConsumerId;
use crate::error::MemoryError;
use crate::ledger::Ledger;
use crate::pool::{Need, Pool};
use crate::statements::{self, Statement};

/// Room that the pool leaves free until this is dropped.
#[derive(Debug)]
pub struct Reservation {
    pool: Arc<Pool>,
    consumer: ConsumerId,
    /// The statement that holds it.
    owner: Option<Arc<Statement>>,
    bytes: usize,
}

impl Reservation {
    pub(crate) fn new(pool: &Arc<Pool>, consumer: &'static str, bytes: usize) -> Result<Self, MemoryError> {
        let consumer = pool.consumers.intern(consumer);
        let mut reservation = Self { pool: Arc::clone(pool), consumer, owner: statements::current(), bytes: 0 };
        reservation.resize(bytes)?;
        Ok(reservation)
    }

    /// Bytes promised.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the promise to `bytes`; more may evict pages.
    ///
    /// # Errors
    /// Out of memory, or evicted pages cannot be written; the promise is what it was before.
    pub fn resize(&mut self, bytes: usize) -> Result<(), MemoryError> {
        let Self { pool, consumer, owner, .. } = self;
        if bytes <= self.bytes {
            let less = self.bytes - bytes;
            if less > 0 {
                pool.consumers.sub(*consumer, less);
                if let Some(owner) = owner {
                    owner.sub_held(less);
                }
                pool.ledger.sub_reserved(less);
                pool.memory_freed();
            }
        } else {
            let more = bytes - self.bytes;
            if more > pool.ledger.limit() {
                return Err(pool.out_of_memory(pool.consumers.name(*consumer), more));
            }
            // Booked first, so that the pool cannot grow into the room that is being made.
            let booked = Booked::new(&pool.ledger, more);
            let name = pool.consumers.name(*consumer);
            let fits = || Ok((pool.ledger.excess() == 0).then_some(()));
            pool.acquire(name, Need::Promise, more, fits)?;
            std::mem::forget(booked);
            pool.consumers.add(*consumer, more);
            if let Some(owner) = owner {
                owner.add_held(more);
            }
        }
        self.bytes = bytes;
        Ok(())
    }
}

/// Bytes that are reserved until this is dropped, by an error or a panic.
pub(crate) struct Booked<'a>(&'a Ledger, usize);

impl<'a> Booked<'a> {
    pub(crate) fn new(ledger: &'a Ledger, bytes: usize) -> Self {
        ledger.add_reserved(bytes);
        Self(ledger, bytes)
    }
}

impl Drop for Booked<'_> {
    fn drop(&mut self) {
        self.0.sub_reserved(self.1);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.pool.consumers.sub(self.consumer, self.bytes);
            if let Some(owner) = &self.owner {
                owner.sub_held(self.bytes);
            }
            self.pool.ledger.sub_reserved(self.bytes);
            self.pool.memory_freed();
        }
    }
}
