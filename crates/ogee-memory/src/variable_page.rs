//! Pages of any size: a mapping of their own in memory, an unnamed file of their own when spilled.
//!
//! They are for what does not fit a page, a single long value above all; a page of fixed size is cheaper in every respect.
//! Each spilled one costs a file descriptor.
//!
//! Not here: pins, eviction order. Those are the same for all pages.
#![expect(unsafe_code, reason = "a mapping is touched by address when it is made")]

use std::io;

use crate::ledger::Ledger;
use crate::mapping::{Backing, MAPPING_UNIT, Mapping, populate};

/// The size of a variable-size page that holds `bytes`: the next multiple of 4 KiB.
pub(crate) fn rounded(bytes: usize) -> usize {
    assert!(bytes > 0, "a page holds at least one byte");
    bytes.next_multiple_of(MAPPING_UNIT)
}

/// Memory for a page of `len` bytes (rounded), charged and touched, if the budget has room.
///
/// # Errors
/// The system refuses memory that the budget allows.
pub(crate) fn map(ledger: &Ledger, len: usize) -> io::Result<Option<Mapping>> {
    if !ledger.try_charge(len) {
        return Ok(None);
    }
    let mapped = Mapping::new(len, MAPPING_UNIT, Backing::Small).and_then(|mapping| {
        // SAFETY: the mapping is new and ours.
        unsafe { populate(mapping.start(), len) }?;
        Ok(mapping)
    });
    mapped.map(Some).inspect_err(|_| ledger.uncharge(len))
}

/// Gives the memory of a page back to the system.
pub(crate) fn unmap(ledger: &Ledger, mapping: Mapping) {
    let len = mapping.len();
    drop(mapping);
    ledger.uncharge(len);
}
