//! Functions of a row's place in its partition.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array};

use super::{
    results::Results,
    state::{Piece, WindowState, stretches},
};
use crate::ExecError;

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    Row,
    Rank,
    DenseRank,
}

/// `row_number`, `rank`, `dense_rank`.
pub(crate) struct Numbers {
    number: Number,
    /// Of the open partition, the current row's.
    row: i64,
    rank: i64,
    dense: i64,
}

impl Numbers {
    pub(crate) fn new(number: Number) -> Self {
        Self { number, row: 0, rank: 0, dense: 0 }
    }
}

impl WindowState for Numbers {
    fn push(&mut self, _columns: &[ArrayRef], piece: &Piece<'_>, results: &mut Results) -> Result<(), ExecError> {
        let mut numbers: Vec<i64> = Vec::with_capacity(piece.rows);
        let mut partitions = piece.partitions.iter().peekable();
        for peers in stretches(piece.rows, piece.peers, piece.last) {
            if partitions.next_if(|&&start| start == peers.start && peers.begins).is_some() {
                (self.row, self.dense) = (0, 0);
            }
            if peers.begins {
                self.rank = self.row + 1;
                self.dense += 1;
            }
            let rows = (peers.end - peers.start) as i64;
            match self.number {
                Number::Row => numbers.extend(self.row + 1..=self.row + rows),
                Number::Rank => numbers.extend(std::iter::repeat_n(self.rank, rows as usize)),
                Number::DenseRank => numbers.extend(std::iter::repeat_n(self.dense, rows as usize)),
            }
            self.row += rows;
        }
        results.push(Arc::new(Int64Array::from(numbers)));
        Ok(())
    }
}

/// What a partition is divided by.
#[derive(Clone, Copy)]
pub(crate) enum Share {
    PercentRank,
    CumeDist,
    Ntile(u64),
}

/// `percent_rank`, `cume_dist`, `ntile`: known when the partition's rows are counted. Until then the sizes of its groups of peers are kept.
pub(crate) struct Shares {
    share: Share,
    /// Groups of the open partition.
    groups: Vec<usize>,
}

impl Shares {
    pub(crate) fn new(share: Share) -> Self {
        Self { share, groups: Vec::new() }
    }

    /// Adds the values of a partition, and how many rows have each.
    fn finish(&mut self, floats: &mut Vec<f64>, buckets: &mut Vec<i64>, counts: &mut Vec<usize>) {
        let rows: usize = self.groups.iter().sum();
        let mut before = 0;
        match self.share {
            Share::PercentRank => {
                for &group in &self.groups {
                    floats.push(if rows > 1 { before as f64 / (rows - 1) as f64 } else { 0.0 });
                    before += group;
                }
                counts.append(&mut self.groups);
            }
            Share::CumeDist => {
                for &group in &self.groups {
                    before += group;
                    floats.push(before as f64 / rows as f64);
                }
                counts.append(&mut self.groups);
            }
            Share::Ntile(wanted) => {
                self.groups.clear();
                // The first buckets have one row more.
                let (least, more) = (rows as u64 / wanted, rows as u64 % wanted);
                for bucket in 0..wanted.min(rows as u64) {
                    buckets.push(bucket as i64 + 1);
                    counts.push((least + u64::from(bucket < more)) as usize);
                }
            }
        }
    }
}

impl WindowState for Shares {
    fn push(&mut self, _columns: &[ArrayRef], piece: &Piece<'_>, results: &mut Results) -> Result<(), ExecError> {
        let (mut floats, mut buckets, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        let mut partitions = piece.partitions.iter().peekable();
        for peers in stretches(piece.rows, piece.peers, piece.last) {
            if partitions.next_if(|&&start| start == peers.start && peers.begins).is_some() && !self.groups.is_empty() {
                self.finish(&mut floats, &mut buckets, &mut counts);
            }
            let rows = peers.end - peers.start;
            match self.groups.last_mut() {
                // Buckets do not look at peers.
                Some(open) if !peers.begins || matches!(self.share, Share::Ntile(_)) => *open += rows,
                _ if rows > 0 => self.groups.push(rows),
                _ => {}
            }
        }
        if piece.last && !self.groups.is_empty() {
            self.finish(&mut floats, &mut buckets, &mut counts);
        }
        let values: ArrayRef = match self.share {
            Share::Ntile(_) => Arc::new(Int64Array::from(buckets)),
            _ => Arc::new(Float64Array::from(floats)),
        };
        results.push_runs(values, counts);
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.groups.capacity() * 8
    }
}
