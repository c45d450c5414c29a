//! What a join costs, in rows touched.
//!
//! The sum of all rows that joins take and give (C_out of Cluet and Moerkotte, ICDT 1995, with inputs). A row that is built into a table
//! costs twice one that probes it: it is copied, and found again.
//!
//! How wide rows are does not choose the order, since nobody knows it well, but of two sides of about as many rows the one that is built.

/// A row put into a hash table.
const BUILD: f64 = 2.0;

/// A row that looks into it.
const PROBE: f64 = 1.0;

/// A row that comes out.
const OUTPUT: f64 = 1.0;

/// A pair of rows that a nested loop compares.
const COMPARE: f64 = 0.2;

/// Sides that differ by more rows than so many times are told apart by rows alone.
const ALIKE: f64 = 4.0;

/// What a row that is built costs beyond its columns, as bytes to copy: its place in the table is a cache miss, twice.
const BUILT_ROW: f64 = 64.0;

/// What a row that probes costs, as such bytes.
const PROBING_ROW: f64 = 32.0;

/// Whether it is cheaper to build the other of two sides, each of some rows of some bytes, although it may have more rows.
pub(super) fn is_wider((rows, bytes): (f64, f64), other: (f64, f64)) -> bool {
    let built =
        |(rows, bytes): (f64, f64), (probing, _): (f64, f64)| rows * (BUILT_ROW + bytes) + probing * PROBING_ROW;
    other.0 <= ALIKE * rows && built(other, (rows, bytes)) < built((rows, bytes), other)
}

/// The cost of one join, without that of its inputs.
pub(super) fn join(build: f64, probe: f64, output: f64, hashes: bool) -> f64 {
    let pairs = if hashes { 0.0 } else { COMPARE * build * probe };
    BUILD * build + PROBE * probe + OUTPUT * output + pairs
}
