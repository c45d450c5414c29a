//! Spillable rows: the one form in which blocking operators keep state.
//!
//! A row is `[hash | key validity | keys | padding | keys that are strings | payload validity | payload | state | padding]` on a row page:
//! 4 bytes of hash (see [`RadixBits::stored_hash`]), validity bits of those columns only that may be NULL, columns as narrow as
//! [`Narrowing`] found possible. Strings longer than 12 bytes have their bytes on a heap page, and the row holds length, 4 bytes of prefix and a
//! pointer. Pages belong to the buffer manager: when they are not pinned they may be evicted and come back at another address.
//!
//! 1. No row address outlives the pin it was read under.
//! 2. A *segment* says that a range of rows of a row page has its long strings on one heap page, and at which address that page was.
//!    Pinning a row page pins the heap pages of its segments and, only if one moved, rebases the pointers of that segment's rows
//!    (paper B, section on spillable layout: lazy, in place).
//! 3. Row `i` of a page is at `i * width`; nothing else encodes position.
//! 4. Bytes of NULL values and padding are zero, so that keys without long strings are equal exactly if their bytes are.
//!
//! Rows that only wait to be read once have a narrower form (`serial`).
//!
//! After "Robust external hash aggregation in the solid state age", ICDE 2024.
//! Not here: what a state means, comparison order, when to spill (the buffer manager's business).
#![expect(unsafe_code, reason = "rows are raw bytes on pages of the buffer manager")]

mod dictionary;
mod equal;
mod gather;
mod layout;
mod narrow;
mod nested;
mod partition;
mod radix;
mod rows;
mod serial;
mod stage;
mod strings;
mod view;

pub use dictionary::{CodeCache, DICTIONARIES_MAX, Dictionary};
pub use equal::{keys_equal, keys_equal_words, row_hash};
pub use gather::{gather_column, gather_column_from, rows_of_chunk};
pub use layout::{RowColumn, RowLayout, RowLayoutBuilder};
pub use narrow::{Misfit, Narrowing, all_fit_32_bits};
pub use nested::NestedCodec;
pub use partition::{PinnedRows, RowPartition};
pub use radix::RadixBits;
pub use rows::PartitionedRows;
pub use serial::{PinnedSerial, SerialForm, SerialPartition, SerialPlace, SerialRows};
pub use stage::RowStage;
pub use strings::{HeapBuffers, own_strings};
pub use view::RowView;
