//! Mutations of a valid file: in the headers of its pages first, in its counts, sizes and positions, in its pages, and in where these are.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use parquet::{
    arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions},
    file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataBuilder, ParquetMetaDataWriter},
};

use crate::random::Random;

/// Bytes of a page's header, about.
const HEADER_LEN: usize = 40;

/// Numbers at the ends of what there may be.
const ENDS: [i64; 12] = [0, 1, -1, 2, 127, 128, 65_535, i32::MAX as i64, i32::MIN as i64, 1 << 40, i64::MAX, i64::MIN];

/// `bytes`, a file, with one to four mutations.
pub(super) fn mutated(mut bytes: Vec<u8>, random: &mut Random) -> Vec<u8> {
    for _ in 0..=random.below(4) {
        bytes = mutation(bytes, random);
    }
    bytes
}

fn mutation(bytes: Vec<u8>, random: &mut Random) -> Vec<u8> {
    let options = ArrowReaderOptions::new();
    let file = Bytes::from(bytes.clone());
    let load = || ogee_scan::has_whole_footer(&file).then(|| ArrowReaderMetadata::load(&file, options).ok()).flatten();
    let metadata = catch_unwind(AssertUnwindSafe(load)).ok().flatten();
    let starts = metadata.as_ref().map_or_else(Vec::new, |metadata| page_starts(metadata.metadata(), bytes.len()));
    match (random.below(10), metadata) {
        (0..=3, _) if !starts.is_empty() => {
            let start = starts[random.below(starts.len() as u64) as usize];
            changed(bytes, start, HEADER_LEN, random)
        }
        (4 | 5, Some(metadata)) => with_other_numbers(bytes, metadata.metadata(), random),
        (6, _) if starts.len() > 1 => {
            // A page in the place of another, whatever it is: a second dictionary, values before theirs.
            let mut pick = || starts[random.below(starts.len() as u64) as usize];
            let (from, to) = (pick(), pick());
            let len = (bytes.len() - from.max(to)).min(1 + random.below(300) as usize);
            let page = bytes[from..from + len].to_vec();
            let mut bytes = bytes;
            bytes[to..to + len].copy_from_slice(&page);
            bytes
        }
        (7, _) => {
            // The footer, which ends with its length.
            let len = bytes.len();
            let footer = bytes.get(len.saturating_sub(8)..).and_then(|tail| tail.first_chunk::<4>());
            let footer = footer.map_or(0, |length| u32::from_le_bytes(*length) as usize).clamp(8, len.max(9) - 1);
            changed(bytes, len.saturating_sub(footer + 8), footer + 8, random)
        }
        _ => {
            let len = bytes.len();
            changed(bytes, 0, len, random)
        }
    }
}

/// Where pages begin that the footer or the page index knows of.
fn page_starts(metadata: &ParquetMetaData, len: usize) -> Vec<usize> {
    let columns = metadata.row_groups().iter().flat_map(|group| group.columns());
    let starts =
        columns.flat_map(|column| column.dictionary_page_offset().into_iter().chain([column.data_page_offset()]));
    starts.filter_map(|start| usize::try_from(start).ok().filter(|&start| start < len)).collect()
}

/// `bytes` with something else somewhere in the `len` bytes from `start` on.
fn changed(mut bytes: Vec<u8>, start: usize, len: usize, random: &mut Random) -> Vec<u8> {
    let end = start.saturating_add(len).min(bytes.len());
    if start >= end {
        return bytes;
    }
    let at = start + random.below((end - start) as u64) as usize;
    match random.below(8) {
        0 | 1 => bytes[at] ^= 1 << random.below(8),
        2 | 3 => bytes[at] = [0, 1, 2, 0x7f, 0x80, 0xfe, 0xff, 0x15][random.below(8) as usize],
        4 => bytes[at] = bytes[at].wrapping_add(if random.below(2) == 0 { 1 } else { 0xff }),
        5 => {
            // A long number where a short one was.
            let long = [0xfe, 0xff, 0xff, 0xff, 0x0f];
            bytes.splice(at..at + 1, long[random.below(4) as usize..].iter().copied());
        }
        6 => {
            let gone = (1 + random.below(8) as usize).min(bytes.len() - at);
            bytes.drain(at..at + gone);
        }
        _ => {
            for byte in &mut bytes[at..end.min(at + 8)] {
                *byte = random.below(256) as u8;
            }
        }
    }
    bytes
}

/// The file with a footer that says something else of the columns or rows of a row group.
fn with_other_numbers(bytes: Vec<u8>, metadata: &ParquetMetaData, random: &mut Random) -> Vec<u8> {
    let changed = random.below(metadata.num_row_groups().max(1) as u64) as usize;
    let mut builder = ParquetMetaDataBuilder::new(metadata.file_metadata().clone());
    for (number, group) in metadata.row_groups().iter().enumerate() {
        if number != changed {
            builder = builder.add_row_group(group.clone());
            continue;
        }
        let rows = if random.below(4) == 0 { other(group.num_rows(), random) } else { group.num_rows() };
        let columns = group.columns().iter().map(|column| with_other_number(column, random)).collect();
        match group.clone().into_builder().set_num_rows(rows).set_column_metadata(columns).build() {
            Ok(group) => builder = builder.add_row_group(group),
            Err(_) => return bytes,
        }
    }
    let footer = bytes.get(bytes.len().saturating_sub(8)..).and_then(|tail| tail.first_chunk::<4>());
    let footer = footer.map_or(0, |length| u32::from_le_bytes(*length) as usize);
    let mut written = bytes.clone();
    written.truncate(bytes.len().saturating_sub(footer + 8));
    // The writer adds the numbers up, and panics where that overflows.
    let finished =
        catch_unwind(AssertUnwindSafe(|| ParquetMetaDataWriter::new(&mut written, &builder.build()).finish()));
    if matches!(finished, Ok(Ok(_))) { written } else { bytes }
}

fn other(number: i64, random: &mut Random) -> i64 {
    match random.below(3) {
        0 => number.wrapping_add(ENDS[random.below(6) as usize]),
        _ => ENDS[random.below(ENDS.len() as u64) as usize],
    }
}

fn with_other_number(column: &ColumnChunkMetaData, random: &mut Random) -> ColumnChunkMetaData {
    let builder = column.clone().into_builder();
    let builder = match random.below(7) {
        0 => builder.set_num_values(other(column.num_values(), random)),
        1 => builder.set_data_page_offset(other(column.data_page_offset(), random)),
        2 => builder.set_dictionary_page_offset(Some(other(column.data_page_offset(), random))),
        3 => builder.set_total_compressed_size(other(column.compressed_size(), random)),
        4 => builder.set_total_uncompressed_size(other(column.uncompressed_size(), random)),
        5 => builder.set_offset_index_offset(Some(other(column.data_page_offset(), random))),
        _ => builder.set_offset_index_length(Some(other(100, random) as i32)),
    };
    builder.build().unwrap_or_else(|_| column.clone())
}
