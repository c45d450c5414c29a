//! Rows that are scattered to partitions, and wait in cache for others of theirs, are all there whenever somebody looks.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(unsafe_code, reason = "rows are addressed by pointers")]

use std::sync::Arc;

use arrow_schema::DataType;
use ogee_memory::{BufferManager, MemoryConfig};
use ogee_row::{PartitionedRows, RadixBits, RowLayout, RowLayoutBuilder, RowPartition, RowStage};

/// As many partitions as rows are combined for.
const BITS: u32 = 7;
/// The partition that has half of the rows.
const HOT: usize = 77;

fn manager(spill_always: bool) -> Arc<BufferManager> {
    let limit = 256 << 20;
    BufferManager::new(MemoryConfig { limit, spill_always, counts_process: false, ..MemoryConfig::default() }).unwrap()
}

fn layout(width: usize) -> Arc<RowLayout> {
    let mut builder = RowLayoutBuilder::default();
    builder.key(DataType::Int32, false);
    if width > 8 {
        builder.state(width - 8);
    }
    let layout = builder.build().unwrap();
    assert_eq!(layout.width(), width);
    layout
}

/// The hash of row `id`: half of all are of one partition.
fn hash(id: u32) -> u32 {
    let mixed = id.wrapping_mul(0x9e37_79b9).rotate_left(15).wrapping_mul(0x85eb_ca6b);
    if id.is_multiple_of(2) { (HOT as u32) << (32 - BITS) | mixed >> BITS } else { mixed }
}

/// The word at place `at` of row `id`.
fn word(id: u32, at: usize) -> u64 {
    if at == 0 { u64::from(hash(id)) | u64::from(id) << 32 } else { u64::from(id) * 1_000_003 + at as u64 }
}

/// Rows `ids`, staged.
fn staged(layout: &RowLayout, ids: std::ops::Range<u32>) -> RowStage {
    let mut stage = RowStage::default();
    stage.reset(layout, ids.len());
    for (row, id) in ids.enumerate() {
        for at in 0..layout.width() / 8 {
            // SAFETY: within the row.
            unsafe { stage.row_mut(row).cast::<u64>().add(at).write(word(id, at)) };
        }
    }
    stage
}

fn scatter(rows: &mut PartitionedRows, layout: &RowLayout, ids: std::ops::Range<u32>) {
    let stage = staged(layout, ids);
    // SAFETY: staged rows with their hashes, without strings.
    unsafe { rows.scatter((0..stage.rows()).map(|row| stage.row(row))).unwrap() };
}

/// Sees that the partitions have the rows `0..count` between them, each where it belongs.
fn check(partitions: impl IntoIterator<Item = (usize, RowPartition)>, layout: &RowLayout, count: u32) {
    let mut seen = vec![false; count as usize];
    for (number, mut partition) in partitions {
        let mut rows = 0;
        for index in 0..partition.num_pages() {
            let page = partition.pin_page(index).unwrap();
            rows += page.len();
            for row in 0..page.len() {
                // SAFETY: the page is pinned.
                let words = unsafe { std::slice::from_raw_parts(page.row(row).cast::<u64>(), layout.width() / 8) };
                let id = (words[0] >> 32) as u32;
                assert!(words.iter().enumerate().all(|(at, &found)| found == word(id, at)), "row {id} is whole");
                assert_eq!(RadixBits::new(BITS).partition(hash(id)), number);
                assert!(!std::mem::replace(&mut seen[id as usize], true), "row {id} once");
            }
        }
        assert_eq!(partition.rows(), rows);
    }
    assert!(seen.into_iter().all(|seen| seen), "every row");
}

fn open(layout: &Arc<RowLayout>, memory: &Arc<BufferManager>) -> PartitionedRows {
    PartitionedRows::new(Arc::clone(layout), Arc::clone(memory), "test", RadixBits::new(BITS), false)
}

#[test]
fn rows_of_every_width_arrive() {
    for width in (8..=80).step_by(8) {
        let (layout, memory) = (layout(width), manager(false));
        let mut rows = open(&layout, &memory);
        // Several pages of one partition, none of others, and of some fewer rows than a block.
        for first in (0..100_000).step_by(2_000) {
            scatter(&mut rows, &layout, first..first + 2_000);
        }
        assert_eq!(rows.rows(), 100_000);
        assert_eq!((0..1 << BITS).map(|partition| rows.resident_rows(partition)).sum::<usize>(), 100_000);
        check(rows.into_partitions().into_iter().enumerate(), &layout, 100_000);
        let mut few = open(&layout, &memory);
        scatter(&mut few, &layout, 0..100);
        check(few.into_partitions().into_iter().enumerate(), &layout, 100);
    }
}

#[test]
fn rows_with_addresses_come_in_between() {
    let (layout, memory) = (layout(24), manager(false));
    let mut rows = open(&layout, &memory);
    rows.set_retain(true);
    let mut addresses = Vec::new();
    for (turn, first) in (0..60_000).step_by(500).enumerate() {
        match turn % 3 {
            0 => {
                let stage = staged(&layout, first..first + 500);
                // SAFETY: staged rows with their hashes, without strings.
                unsafe { rows.append((0..500).map(|row| stage.row(row)), &mut addresses).unwrap() };
            }
            _ => scatter(&mut rows, &layout, first..first + 500),
        }
        // SAFETY: the pages are retained.
        let second = unsafe { addresses[1].cast::<u64>().add(1).read() };
        assert_eq!(second, word(first - first % 1500 + 1, 1), "addresses stay");
    }
    let (partitions, _pages) = rows.into_retained();
    check(partitions.into_iter().enumerate(), &layout, 60_000);
}

#[test]
fn rows_are_taken_out_in_between() {
    // Pages that are full leave memory at once: what is taken out is what waits, and the page that is being filled.
    for spill_always in [false, true] {
        let (layout, memory) = (layout(24), manager(spill_always));
        let mut rows = open(&layout, &memory);
        let mut taken = Vec::new();
        for first in (0..100_000).step_by(1_000) {
            scatter(&mut rows, &layout, first..first + 1_000);
            if first % 30_000 == 27_000 {
                for partition in [HOT, 3] {
                    let before = (rows.rows(), rows.resident_rows(partition));
                    let part = rows.take_resident(partition).unwrap();
                    assert_eq!(rows.rows(), before.0 - part.rows());
                    assert!(spill_always || part.rows() == before.1);
                    taken.push((partition, part));
                }
            }
        }
        let left = rows.into_partitions().into_iter().enumerate();
        check(left.chain(taken), &layout, 100_000);
        assert_eq!(memory.stats().temp_bytes > 0 || memory.stats().spilled_bytes > 0, spill_always);
    }
}

#[test]
fn a_page_that_is_missing_leaves_what_was_appended() {
    let layout = layout(32);
    let limit = 6 << 20;
    let config = MemoryConfig { limit, max_temp_bytes: Some(0), counts_process: false, ..MemoryConfig::default() };
    let memory = BufferManager::new(config).unwrap();
    let mut rows = open(&layout, &memory);
    let stage = staged(&layout, 0..2_000);
    // SAFETY: staged rows with their hashes, without strings.
    let appended = unsafe { rows.scatter((0..2_000).map(|row| stage.row(row))) };
    assert!(appended.is_err(), "there is no page for each partition");
    let kept = rows.rows();
    assert!(kept > 0);
    check(rows.into_partitions().into_iter().enumerate(), &layout, kept as u32);
}
