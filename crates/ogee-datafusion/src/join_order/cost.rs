//! What a join costs, in rows touched.
//!
//! The sum of all rows that joins take and give (C_out of Cluet and Moerkotte, ICDT 1995, with inputs). A row that is built into a table
//! costs twice one that probes it: it is copied, and found again.

/// A row put into a hash table.
const BUILD: f64 = 2.0;

/// A row that looks into it.
const PROBE: f64 = 1.0;

/// A row that comes out.
const OUTPUT: f64 = 1.0;

/// A pair of rows that a nested loop compares.
const COMPARE: f64 = 0.2;

/// The cost of one join, without that of its inputs.
pub(super) fn join(build: f64, probe: f64, output: f64, hashes: bool) -> f64 {
    let pairs = if hashes { 0.0 } else { COMPARE * build * probe };
    BUILD * build + PROBE * probe + OUTPUT * output + pairs
}
