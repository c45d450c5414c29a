//! Lengths of values that a page encodes as differences (`DELTA_LENGTH_BYTE_ARRAY`, `DELTA_BYTE_ARRAY`), counted before the library decodes them.
//!
//! ```text
//! page, version 1     [length, repetition] [length, definition] │ values
//! page, version 2     [repetition] [definition]                 │ values
//! DELTA_LENGTH_BYTE_ARRAY values    [lengths] bytes
//! DELTA_BYTE_ARRAY values           [lengths of prefixes] [lengths of suffixes] bytes
//! lengths             block size, miniblocks of a block, count, first │ blocks: least difference, widths, miniblocks
//! ```
//!
//! The library has room for as many lengths as their header says before it looks for one: a count of 2⁵⁵ ends the process.
//!
//! Not here: decoding.

use parquet::{basic::Encoding, column::page::Page, errors::ParquetError, schema::types::ColumnDescriptor};

use crate::thrift::{pass, varint};

/// Checks that data page `page` of `column` does not say that it has more lengths than values.
///
/// # Errors
/// If it does, or its levels and lengths do not end within it.
pub(crate) fn check(page: &Page, column: &ColumnDescriptor) -> Result<(), ParquetError> {
    let sections = match page.encoding() {
        Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
        Encoding::DELTA_BYTE_ARRAY => 2,
        _ => return Ok(()),
    };
    let values = page.num_values() as usize;
    let mut rest = behind_levels(page, column).ok_or_else(|| damaged("levels are longer than their page"))?;
    // A page of NULLs may end here.
    for _ in 0..sections {
        if rest.is_empty() {
            break;
        }
        pass_lengths(&mut rest, values).ok_or_else(|| damaged("lengths are not those of the page's values"))?;
    }
    Ok(())
}

fn damaged(what: &str) -> ParquetError {
    ParquetError::General(what.to_owned())
}

/// The values of a data page.
fn behind_levels<'p>(page: &'p Page, column: &ColumnDescriptor) -> Option<&'p [u8]> {
    match page {
        Page::DataPage { buf, num_values, def_level_encoding, rep_level_encoding, .. } => {
            let mut rest = &buf[..];
            let levels = [(column.max_rep_level(), rep_level_encoding), (column.max_def_level(), def_level_encoding)];
            for (max, encoding) in levels.into_iter().filter(|(max, _)| *max > 0) {
                pass_levels(&mut rest, max, *encoding, *num_values as usize)?;
            }
            Some(rest)
        }
        Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, .. } => {
            buf.get((*def_levels_byte_len as usize).checked_add(*rep_levels_byte_len as usize)?..)
        }
        Page::DictionaryPage { .. } => Some(&[]),
    }
}

/// Passes the levels up to `max` of a page of version 1.
fn pass_levels(bytes: &mut &[u8], max: i16, encoding: Encoding, values: usize) -> Option<()> {
    #[expect(deprecated, reason = "files of old writers have it")]
    let len = match encoding {
        Encoding::BIT_PACKED => {
            let bits = (i16::BITS - max.leading_zeros()) as usize;
            values.checked_mul(bits)?.div_ceil(8)
        }
        _ => u32::from_le_bytes(pass(bytes, 4)?.try_into().ok()?) as usize,
    };
    pass(bytes, len).map(|_| ())
}

/// Passes lengths and gives their count, which is `most` or less.
fn pass_lengths(bytes: &mut &[u8], most: usize) -> Option<usize> {
    let mut number = || varint(bytes).and_then(|number| usize::try_from(number).ok());
    let (block, miniblocks, count) = (number()?, number()?, number()?);
    number()?;
    if count > most {
        return None;
    }
    let of_miniblock = block.checked_div(miniblocks)?;
    let mut left = count.saturating_sub(1);
    while left > 0 {
        varint(bytes)?;
        let mut packed = 0usize;
        // The widths of miniblocks behind the last value mean nothing.
        for &width in pass(bytes, miniblocks)? {
            if left > 0 {
                packed = packed.checked_add(of_miniblock.checked_mul(usize::from(width))? / 8)?;
            }
            left = left.saturating_sub(of_miniblock);
        }
        // The last block may end with its last value.
        match left {
            0 => *bytes = bytes.get(packed..).unwrap_or_default(),
            _ => pass(bytes, packed).map(|_| ())?,
        }
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 128 values of a block, four miniblocks, `count` values that are all 3.
    fn equal(count: u8) -> Vec<u8> {
        // One block, of widths that are nothing.
        let blocks: &[u8] = if count > 1 { &[0, 0, 0, 0, 0] } else { &[] };
        [&[0x80, 1, 4, count, 6], blocks].concat()
    }

    #[test]
    fn lengths_end_behind_their_last_block() {
        for count in [0, 1, 2, 100] {
            let mut bytes = equal(count);
            bytes.extend([7, 8]);
            let mut rest = &bytes[..];
            assert_eq!(pass_lengths(&mut rest, 100), Some(usize::from(count)));
            assert_eq!(rest, [7, 8]);
        }
        // A block of 33 values: one miniblock of 2 bits and one of 4, the widths behind them mean nothing.
        let mut bytes = vec![0x80, 1, 4, 34, 6, 0, 2, 4, 99, 99];
        bytes.extend([0xff; 8 + 16]);
        bytes.push(7);
        let mut rest = &bytes[..];
        assert_eq!(pass_lengths(&mut rest, 34), Some(34));
        assert_eq!(rest, [7]);
    }

    #[test]
    fn lengths_that_are_made_up_are_refused() {
        assert_eq!(pass_lengths(&mut &equal(101)[..], 100), None);
        // 2⁵⁵ of them, blocks of no miniblocks, blocks whose widths are not there, and an end in the middle.
        let many = [0x80, 1, 4, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 6];
        assert_eq!(pass_lengths(&mut &many[..], 1 << 31), None);
        assert_eq!(pass_lengths(&mut &[0x80, 1, 0, 5, 6][..], 100), None);
        assert_eq!(pass_lengths(&mut &[0x80, 1, 0xff, 0xff, 0xff, 0x7f, 5, 6, 0][..], 100), None);
        assert_eq!(pass_lengths(&mut &[0x80, 1, 4, 5][..], 100), None);
    }
}
