//! Memory that readers of text take for long records, and for many columns.
//!
//! A reader of short records and a few columns takes a few MiB, which are part of what the limit leaves to the process. What goes beyond is
//! reserved before it is taken, or the record is refused by name.
//!
//! Not here: batches that wait, which the engine reserves for.

use std::sync::Arc;

use ogee_memory::{BufferManager, MemoryError, Reservation};

/// Bytes that a reader takes without asking.
const FREE: usize = 4 << 20;

/// Reservations grow in steps.
const STEP: usize = 1 << 20;

/// A batch ends with the record that brings its texts, or all of its values, to so many bytes.
pub(crate) const BATCH_BYTES: usize = 4 << 20;

/// Bytes of a piece of the long texts of one of `columns` columns, which share out what a batch takes: Arrow takes 16 KiB with the first of them, twice as much each
/// time, and that for each column.
pub(crate) fn text_block_bytes(columns: usize) -> u32 {
    (BATCH_BYTES / columns.max(1)).next_power_of_two().clamp(256, 256 << 10) as u32
}

/// What a reader takes memory for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// The text, as it is read.
    Text,
    /// A record that is taken apart.
    Record,
    /// The arrays of a batch.
    Batch,
}

const PARTS: usize = 3;

/// What one reader takes.
pub(crate) struct TextMemory {
    memory: Arc<BufferManager>,
    consumer: &'static str,
    parts: [usize; PARTS],
    held: Option<Reservation>,
}

impl TextMemory {
    /// Of a reader that takes nothing yet, and that errors call `consumer`.
    pub(crate) fn new(memory: &Arc<BufferManager>, consumer: &'static str) -> Self {
        Self { memory: Arc::clone(memory), consumer, parts: [0; PARTS], held: None }
    }

    /// Reserves for `bytes` of `part`, in place of what it had.
    ///
    /// # Errors
    /// When more is not to be had; it is as before then.
    pub(crate) fn set(&mut self, part: Part, bytes: usize) -> Result<(), MemoryError> {
        let before = std::mem::replace(&mut self.parts[part as usize], bytes);
        let wanted = self.parts.iter().fold(0, |sum: usize, part| sum.saturating_add(*part)).saturating_sub(FREE);
        let wanted = wanted.checked_next_multiple_of(STEP).unwrap_or(wanted);
        let result = match &mut self.held {
            None if wanted == 0 => return Ok(()),
            Some(held) if held.bytes() == wanted => return Ok(()),
            Some(held) => held.resize(wanted),
            None => self.memory.reserve(self.consumer, wanted).map(|held| self.held = Some(held)),
        };
        if result.is_err() {
            self.parts[part as usize] = before;
        }
        result
    }

    /// Makes `buffer`, the text as it is read, `wanted` bytes long if it is shorter.
    ///
    /// # Errors
    /// When memory for it is not to be had; it is as before then.
    pub(crate) fn grow(&mut self, buffer: &mut Vec<u8>, wanted: usize) -> Result<(), MemoryError> {
        if buffer.len() < wanted {
            // While it grows it is there twice.
            self.set(Part::Text, buffer.len() + wanted)?;
            buffer.reserve_exact(wanted - buffer.len());
            buffer.resize(wanted, 0);
            self.set(Part::Text, wanted)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use ogee_memory::MemoryConfig;

    use super::*;

    #[test]
    fn what_goes_beyond_a_few_megabytes_is_reserved() {
        let memory =
            BufferManager::new(MemoryConfig { limit: 64 << 20, counts_process: false, ..MemoryConfig::default() })
                .unwrap();
        let mut text = TextMemory::new(&memory, "a reader");
        let used = memory.stats().reserved;
        text.set(Part::Text, FREE).unwrap();
        assert_eq!(memory.stats().reserved, used);
        text.set(Part::Record, 1).unwrap();
        assert_eq!(memory.stats().reserved, used + STEP);
        assert!(text.set(Part::Batch, 1 << 30).is_err());
        assert!(text.set(Part::Batch, usize::MAX).is_err());
        assert_eq!(memory.stats().reserved, used + STEP);
        text.set(Part::Text, 0).unwrap();
        assert_eq!(memory.stats().reserved, used);
    }
}
