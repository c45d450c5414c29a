//! Sums of 64-bit integers by one 64-bit key: the data sets of "Global hash tables strike back", PVLDB 2025, section 5.
//!
//! The paper has 100 million rows: *low* draws keys from 1,000 values, *high* from 10 million, *unique* from none twice; *zipf* has an exponent
//! of 0.8 over 10 million keys, and *heavy* one key in half of the rows and 10 million in the others.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use clap::{Args, ValueEnum};

use crate::files::{Files, in_batches, share};
use crate::queries::Query;
use crate::random::{Random, Zipf};

/// Exponent of the Zipf distribution.
const EXPONENT: f64 = 0.8;

/// How keys are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Keys {
    /// Few, all alike
    Low,
    /// Many, all alike
    High,
    /// A few frequent ones
    Zipf,
    /// One in every second row
    Heavy,
    /// Each once, in random order
    Unique,
}

impl Keys {
    const ALL: [Self; 5] = [Self::Low, Self::High, Self::Zipf, Self::Heavy, Self::Unique];

    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// Flags of `generate sums`.
#[derive(Args)]
pub struct Arguments {
    /// Rows of each table
    #[arg(long, default_value_t = 100_000_000)]
    rows: u64,
    /// Distributions, each a table of its own
    #[arg(long, value_delimiter = ',', value_enum, default_value = "low,high,zipf,heavy,unique")]
    keys: Vec<Keys>,
    /// Different keys there may be (default: a 10th of the rows, a 100,000th for low)
    #[arg(long)]
    groups: Option<u64>,
    /// Directory to write to
    #[arg(long)]
    out: PathBuf,
    #[command(flatten)]
    files: Files,
}

fn schema() -> SchemaRef {
    let field = |name: &str| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![field("k"), field("v")]))
}

/// A bijection of `0..=mask`, `mask` one less than a power of two: neighbours end up far apart.
fn scatter(value: u64, mask: u64) -> u64 {
    let shift = (mask.count_ones() / 2).max(1);
    let mut mixed = value & mask;
    for factor in [0x9e37_79b9_7f4a_7c15_u64, 0xd6e8_feb8_6659_fd93] {
        mixed = mixed.wrapping_mul(factor) & mask;
        mixed ^= mixed >> shift;
    }
    mixed
}

/// The keys of rows `start..end`.
struct Drawn {
    keys: Keys,
    random: Random,
    zipf: Zipf,
    groups: u64,
    rows: u64,
    next: u64,
}

impl Drawn {
    fn draw(&mut self) -> i64 {
        let row = self.next;
        self.next += 1;
        let key = match self.keys {
            Keys::Low | Keys::High => self.random.below(self.groups),
            Keys::Zipf => self.zipf.draw(&mut self.random) - 1,
            Keys::Heavy if self.random.next() & 1 == 0 => 0,
            Keys::Heavy => self.random.below(self.groups),
            Keys::Unique => {
                // Steps along the bijection's cycle until it is among the rows again.
                let mask = self.rows.next_power_of_two() - 1;
                let mut key = scatter(row, mask);
                while key >= self.rows {
                    key = scatter(key, mask);
                }
                key
            }
        };
        key as i64
    }
}

/// Writes the tables.
pub fn generate(arguments: &Arguments) -> io::Result<()> {
    let rows = arguments.rows;
    for &keys in &arguments.keys {
        let usual = if keys == Keys::Low { rows / 100_000 } else { rows / 10 };
        let groups = arguments.groups.unwrap_or(usual).max(1);
        arguments.files.write_table(&arguments.out, &format!("sums-{}", keys.name()), |number, count| {
            let own = share(rows, number, count);
            let random = Random::new(number as u64);
            let mut drawn = Drawn { keys, random, zipf: Zipf::new(groups, EXPONENT), groups, rows, next: own.start };
            let batches = in_batches(own.end - own.start, move |next| {
                let keys = Int64Array::from_iter_values((0..next).map(|_| drawn.draw()));
                let values = (0..next).map(|_| drawn.random.below(1000) as i64);
                let values = Int64Array::from_iter_values(values);
                RecordBatch::try_new(schema(), vec![Arc::new(keys), Arc::new(values)])
            });
            (schema(), batches)
        })?;
    }
    Ok(())
}

/// A query for each table that is below `data`.
pub fn queries(data: &Path) -> Vec<Query> {
    let present = Keys::ALL.into_iter().filter(|keys| data.join(format!("sums-{}", keys.name())).is_dir());
    let query = |keys: Keys| {
        let table = data.join(format!("sums-{}", keys.name()));
        let sql = format!("SELECT k, sum(v) AS v FROM '{}/*.parquet' GROUP BY k", table.display());
        let check = format!("SELECT count(*) AS groups, sum(k), sum(v), min(v), max(v) FROM ({sql}) AS groups");
        Query { name: keys.name(), sql, check }
    };
    present.map(query).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unique_keys_are_unique() {
        for rows in [1_u64, 1000, 1025] {
            let mut drawn = Drawn {
                keys: Keys::Unique,
                random: Random::new(1),
                zipf: Zipf::new(1, EXPONENT),
                groups: 1,
                rows,
                next: 0,
            };
            let mut keys: Vec<i64> = (0..rows).map(|_| drawn.draw()).collect();
            keys.sort_unstable();
            assert!(keys.iter().copied().eq(0..rows as i64));
        }
    }

    #[test]
    fn zipf_is_as_skewed_as_it_says() {
        let (zipf, mut random) = (Zipf::new(1000, EXPONENT), Random::new(7));
        let weight: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-EXPONENT)).sum();
        let mut counts = [0_u32; 1001];
        for _ in 0..1_000_000 {
            counts[zipf.draw(&mut random) as usize] += 1;
        }
        for rank in [1_u32, 2, 3, 10, 100] {
            let expected = 1e6 * f64::from(rank).powf(-EXPONENT) / weight;
            let seen = f64::from(counts[rank as usize]);
            assert!((seen / expected - 1.0).abs() < 0.1, "rank {rank}: {seen} instead of {expected}");
        }
    }
}
