//! Runs of repeated and of bit-packed integers: dictionary codes and levels.
//!
//! ```text
//! run      = varint header, then      header & 1: (header >> 1) groups of 8 values of `width` bits each, the lowest bits first
//!                                     otherwise:  one value, (header >> 1) times, in as many bytes as `width` bits need
//! ```
//!
//! Bit-packed values are read where they are: a few of many rows cost what those few do.
//!
//! Not here: what the integers mean.

use ogee_vector::{Kernel, dispatch};
use parquet::errors::ParquetError;

use super::validity::Validity;

/// Which of the next values are wanted.
#[derive(Clone, Copy)]
pub(super) enum Picks<'a> {
    All,
    /// The values at `rows`, ascending, counted from `base`.
    At {
        rows: &'a [u32],
        base: u32,
    },
}

impl Picks<'_> {
    /// How many of `count` values are wanted.
    pub(super) fn len(&self, count: usize) -> usize {
        match self {
            Self::All => count,
            Self::At { rows, .. } => rows.len(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Run {
    Repeated(u32),
    /// Bits start at byte `at`; `next` values of the run are passed.
    Packed {
        at: usize,
        next: usize,
    },
}

/// A position in a sequence of runs, which lies in a page.
#[derive(Clone, Debug)]
pub(super) struct Hybrid {
    width: usize,
    /// The next run's header.
    at: usize,
    end: usize,
    run: Run,
    /// Values left in the run.
    left: usize,
    unpacked: Vec<u32>,
}

/// Bits that a word has in any case, wherever in its first byte they begin.
const WHOLE_BITS: usize = 56;

/// If more than one in so many values is wanted, all are unpacked.
const DENSE: usize = 4;

fn ended() -> ParquetError {
    ParquetError::EOF("a page has fewer values than its header says".into())
}

impl Hybrid {
    /// Values of `width` bits in bytes `at .. end` of the page.
    pub(super) fn new(width: usize, at: usize, end: usize) -> Result<Self, ParquetError> {
        if width > 32 {
            return Err(ParquetError::General(format!("dictionary codes of {width} bits")));
        }
        Ok(Self { width, at, end, run: Run::Repeated(0), left: 0, unpacked: Vec::new() })
    }

    /// The value that the next `count` values all are, if they are known to be equal without being looked at.
    pub(super) fn repeated(&mut self, page: &[u8], count: usize) -> Result<Option<u32>, ParquetError> {
        self.begin_run(page)?;
        Ok(match self.run {
            Run::Repeated(value) if self.left >= count => Some(value),
            _ => None,
        })
    }

    /// Makes sure that the run at hand has values left.
    #[inline(always)]
    fn begin_run(&mut self, page: &[u8]) -> Result<(), ParquetError> {
        if self.left > 0 { Ok(()) } else { self.next_run(page) }
    }

    /// Goes to the next run that has values.
    fn next_run(&mut self, page: &[u8]) -> Result<(), ParquetError> {
        let page = &page[..self.end];
        while self.left == 0 {
            let first = *page.get(self.at).ok_or_else(ended)?;
            self.at += 1;
            // Most runs are short.
            let header = if first & 0x80 == 0 { u64::from(first) } else { self.long_header(page, first)? };
            let count = usize::try_from(header >> 1).map_err(|_| ended())?;
            if header & 1 == 1 {
                let (whole, rest) = (count * self.width, self.end - self.at);
                // The last group of a page may be cut off after the last value.
                let bytes = whole.min(rest);
                self.left = if bytes == whole { count * 8 } else { bytes * 8 / self.width };
                self.run = Run::Packed { at: self.at, next: 0 };
                self.at += bytes;
                if self.left == 0 && bytes == 0 && count > 0 {
                    return Err(ended());
                }
            } else {
                let bytes = self.width.div_ceil(8);
                let value = page.get(self.at..self.at + bytes).ok_or_else(ended)?;
                let value = value.iter().rev().fold(0u32, |value, &byte| value << 8 | u32::from(byte));
                if value > mask(self.width) {
                    return Err(ParquetError::General(format!("a value of {} bits is {value}", self.width)));
                }
                self.at += bytes;
                self.left = count;
                self.run = Run::Repeated(value);
            }
        }
        Ok(())
    }

    /// The rest of a header whose first byte is not its last.
    #[cold]
    fn long_header(&mut self, page: &[u8], first: u8) -> Result<u64, ParquetError> {
        let mut header = u64::from(first & 0x7f);
        for shift in (7..).step_by(7) {
            let byte = *page.get(self.at).ok_or_else(ended)?;
            self.at += 1;
            if shift > 35 {
                return Err(ParquetError::General("a run of values is too long".into()));
            }
            header |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        Ok(header)
    }

    fn pass_in_run(&mut self, count: usize) {
        self.left -= count;
        if let Run::Packed { next, .. } = &mut self.run {
            *next += count;
        }
    }

    /// Passes `count` values.
    pub(super) fn skip(&mut self, page: &[u8], mut count: usize) -> Result<(), ParquetError> {
        while count > 0 {
            self.begin_run(page)?;
            let here = count.min(self.left);
            self.pass_in_run(here);
            count -= here;
        }
        Ok(())
    }

    /// Appends the next `count` values.
    fn read_all(&mut self, page: &[u8], mut count: usize, out: &mut Vec<u32>) -> Result<(), ParquetError> {
        while count > 0 {
            self.begin_run(page)?;
            let here = count.min(self.left);
            match self.run {
                Run::Repeated(value) => out.resize(out.len() + here, value),
                Run::Packed { at, next } => unpack(page, at, self.width, next, here, out),
            }
            self.pass_in_run(here);
            count -= here;
        }
        Ok(())
    }

    /// Appends the next `count` values, each of one bit.
    pub(super) fn read_bits(&mut self, page: &[u8], mut count: usize, out: &mut Validity) -> Result<(), ParquetError> {
        debug_assert_eq!(self.width, 1, "values are bits");
        while count > 0 {
            self.begin_run(page)?;
            let here = count.min(self.left);
            match self.run {
                Run::Repeated(value) => out.append_n(value == 1, here),
                Run::Packed { at, next } => {
                    for bit in (next..next + here).step_by(WHOLE_BITS) {
                        let bits = word(page, at + bit / 8) >> (bit % 8);
                        out.append(bits, WHOLE_BITS.min(next + here - bit));
                    }
                }
            }
            self.pass_in_run(here);
            count -= here;
        }
        Ok(())
    }

    /// Passes `count` values and appends those of `picks`.
    pub(super) fn read(
        &mut self,
        page: &[u8],
        mut count: usize,
        picks: Picks<'_>,
        out: &mut Vec<u32>,
    ) -> Result<(), ParquetError> {
        let Picks::At { mut rows, mut base } = picks else { return self.read_all(page, count, out) };
        // Groups are unpacked several times as fast as values one by one.
        if rows.len() * DENSE > count {
            let mut unpacked = std::mem::take(&mut self.unpacked);
            unpacked.clear();
            let read = self.read_all(page, count, &mut unpacked);
            if read.is_ok() {
                out.extend(rows.iter().map(|&row| unpacked[(row - base) as usize]));
            }
            self.unpacked = unpacked;
            return read;
        }
        while count > 0 {
            if rows.is_empty() {
                return self.skip(page, count);
            }
            self.begin_run(page)?;
            let here = count.min(self.left);
            let end = base + here as u32;
            // Not more rows than values.
            let upto = &rows[..rows.len().min(here)];
            let (now, later) = rows.split_at(upto.partition_point(|&row| row < end));
            match self.run {
                Run::Repeated(value) => out.resize(out.len() + now.len(), value),
                Run::Packed { at, next } => {
                    let (width, mask) = (self.width, mask(self.width));
                    out.extend(now.iter().map(|&row| packed(page, at, width, mask, next + (row - base) as usize)));
                }
            }
            self.pass_in_run(here);
            (rows, base, count) = (later, end, count - here);
        }
        Ok(())
    }
}

const fn mask(width: usize) -> u32 {
    ((1u64 << width) - 1) as u32
}

/// Value `index` of those packed from byte `at` on.
#[inline(always)]
fn packed(page: &[u8], at: usize, width: usize, mask: u32, index: usize) -> u32 {
    let bit = index * width;
    (word(page, at + bit / 8) >> (bit % 8)) as u32 & mask
}

/// The 8 bytes from `at` on, with zeros behind the end of the page.
#[inline(always)]
fn word(page: &[u8], at: usize) -> u64 {
    match page.get(at..at + 8) {
        Some(bytes) => u64::from_le_bytes(bytes.try_into().expect("8 bytes")),
        None => page.get(at..).unwrap_or_default().iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

/// Appends `count` values from the `next`-th on.
fn unpack(page: &[u8], at: usize, width: usize, next: usize, count: usize, out: &mut Vec<u32>) {
    let mask = mask(width);
    let one = |index| packed(page, at, width, mask, index);
    let end = next + count;
    // Whole groups begin at bytes; the loads of the last one must not pass the end of the page.
    let first = next.next_multiple_of(8).min(end);
    let in_page = match width {
        0 => 0,
        _ => page.len().saturating_sub(at + 8) / width * 8,
    };
    let last = (end / 8 * 8).min(in_page / 8 * 8).max(first);
    out.extend((next..first).map(one));
    if first < last {
        groups(&page[at + first / 8 * width..], width, (last - first) / 8, out);
    }
    out.extend((last..end).map(one));
}

macro_rules! widths {
    ($width:expr, $bytes:expr, $groups:expr, $out:expr, $($w:literal)*) => {
        match $width {
            $($w => groups_of::<$w>($bytes, $groups, $out),)*
            _ => unreachable!("widths are checked when a page is begun"),
        }
    };
}

fn groups(bytes: &[u8], width: usize, groups: usize, out: &mut Vec<u32>) {
    widths!(width, bytes, groups, out,
        1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
}

/// Appends `groups` groups of 8 values of `W` bits, which begin at a byte; 8 bytes can be read wherever a value begins.
fn groups_of<const W: usize>(bytes: &[u8], groups: usize, out: &mut Vec<u32>) {
    let start = out.len();
    out.resize(start + groups * 8, 0);
    dispatch(Unpack::<W> { bytes, values: &mut out[start..] });
}

/// Groups of 8 values of `W` bits to their values.
struct Unpack<'a, const W: usize> {
    bytes: &'a [u8],
    values: &'a mut [u32],
}

impl<const W: usize> Kernel for Unpack<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let load = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let groups = self.values.as_chunks_mut::<8>().0;
        for (group, values) in groups.iter_mut().enumerate() {
            let bytes = &self.bytes[group * W..group * W + W - W.div_ceil(8) + 8];
            if W <= 8 {
                // One word has all of them: vectors of it are shifted by a distance for each value.
                let word = load(bytes, 0);
                for (i, value) in values.iter_mut().enumerate() {
                    *value = (word >> (i * W)) as u32 & mask(W);
                }
            } else if W <= 15 {
                // One word each for four, of which the second may begin within a byte.
                let (low, high) = (load(bytes, 0), load(bytes, W / 2) >> (W % 2 * 4));
                for i in 0..4 {
                    values[i] = (low >> (i * W)) as u32 & mask(W);
                    values[i + 4] = (high >> (i * W)) as u32 & mask(W);
                }
            } else {
                for (i, value) in values.iter_mut().enumerate() {
                    *value = (load(bytes, i * W / 8) >> (i * W % 8)) as u32 & mask(W);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn value(i: usize, width: usize) -> u32 {
        (i as u32).wrapping_mul(2_654_435_761).rotate_left(7) & mask(width)
    }

    /// A repeated run of 21, 40 packed values, and 16 packed ones of which the last is cut off.
    fn encode(width: usize) -> (Vec<u8>, Vec<u32>) {
        let mut bytes = vec![21 << 1];
        let repeated = mask(width) & 0x5a5a_5a5a;
        bytes.extend(&repeated.to_le_bytes()[..width.div_ceil(8)]);
        let mut values = vec![repeated; 21];
        for (groups, cut) in [(5, 0), (2, 1)] {
            bytes.push(groups << 1 | 1);
            let count = usize::from(groups) * 8;
            let start = values.len();
            values.extend((0..count - cut).map(|i| value(start + i, width)));
            let mut packed = vec![0u8; ((count - cut) * width).div_ceil(8)];
            for (i, value) in values[start..].iter().enumerate() {
                for bit in 0..width {
                    let to = i * width + bit;
                    packed[to / 8] |= (((value >> bit) & 1) as u8) << (to % 8);
                }
            }
            bytes.extend(packed);
        }
        (bytes, values)
    }

    #[test]
    fn every_width_in_any_pieces() {
        for width in 0..=32 {
            let (bytes, values) = encode(width);
            // With and without something behind the runs, in a page that begins elsewhere.
            for slack in [0, 16] {
                let mut page = vec![0xff; 3];
                page.extend(&bytes);
                page.extend(vec![0xff; slack]);
                for piece in [1, 7, 8, 24, 75, 76] {
                    let mut hybrid = Hybrid::new(width, 3, 3 + bytes.len()).unwrap();
                    let (mut all, mut odd) = (Vec::new(), Vec::new());
                    let mut picking = hybrid.clone();
                    let total = if width == 0 { 76 } else { values.len() };
                    for start in (0..total).step_by(piece) {
                        let count = piece.min(total - start);
                        hybrid.read(&page, count, Picks::All, &mut all).unwrap();
                        let rows: Vec<u32> = (start..start + count).filter(|i| i % 3 == 1).map(|i| i as u32).collect();
                        picking.read(&page, count, Picks::At { rows: &rows, base: start as u32 }, &mut odd).unwrap();
                    }
                    assert_eq!(all, values[..total], "width {width}, pieces of {piece}");
                    assert!(odd.iter().eq(values[..total].iter().skip(1).step_by(3)), "width {width}, {piece}");
                    let mut skipping = Hybrid::new(width, 3, 3 + bytes.len()).unwrap();
                    skipping.skip(&page, 30).unwrap();
                    let mut rest = Vec::new();
                    skipping.read(&page, total - 30, Picks::All, &mut rest).unwrap();
                    assert_eq!(rest, values[30..total]);
                }
            }
        }
    }

    #[test]
    fn bits_are_those_of_their_values() {
        let (bytes, values) = encode(1);
        for piece in [1, 5, 24, 60, 76] {
            let mut hybrid = Hybrid::new(1, 0, bytes.len()).unwrap();
            let mut bits = Validity::default();
            for start in (0..values.len()).step_by(piece) {
                hybrid.read_bits(&bytes, piece.min(values.len() - start), &mut bits).unwrap();
            }
            assert!(bits.to_nulls().iter().eq(values.iter().map(|&value| value == 1)), "pieces of {piece}");
            // The last byte has room for one more.
            assert!(hybrid.read_bits(&bytes, 2, &mut bits).is_err());
        }
    }

    #[test]
    fn runs_that_end_too_early_are_errors() {
        let (bytes, values) = encode(9);
        let mut hybrid = Hybrid::new(9, 0, bytes.len()).unwrap();
        assert!(hybrid.read(&bytes, values.len() + 1, Picks::All, &mut Vec::new()).is_err());
        for end in 0..bytes.len() - 2 {
            let mut hybrid = Hybrid::new(9, 0, end).unwrap();
            assert!(hybrid.read(&bytes, values.len(), Picks::All, &mut Vec::new()).is_err(), "{end}");
            assert!(Hybrid::new(9, 0, end).unwrap().skip(&bytes, values.len()).is_err());
        }
        assert!(Hybrid::new(33, 0, 1).is_err());
        let endless = [0xff; 20];
        assert!(Hybrid::new(8, 0, 20).unwrap().skip(&endless, 1).is_err());
    }

    #[test]
    fn repeats_are_known() {
        let (bytes, _) = encode(1);
        let mut hybrid = Hybrid::new(1, 0, bytes.len()).unwrap();
        assert_eq!(hybrid.repeated(&bytes, 21).unwrap(), Some(0));
        assert_eq!(hybrid.repeated(&bytes, 22).unwrap(), None);
        hybrid.skip(&bytes, 21).unwrap();
        assert_eq!(hybrid.repeated(&bytes, 1).unwrap(), None);
    }
}
