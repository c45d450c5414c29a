//! Whether a page is compressed on its way to the temporary space, and the compression.
//!
//! Devices differ by ten times between machines and over minutes, and so do pages: rows of narrow keys hardly shrink, strings shrink by half. So
//! both ways are measured while they work: what a page takes to be written and to be read as it is and compressed, and what a thread takes to
//! compress and decompress it. Compression pays if it spares the device more time than it takes, shared by the threads that do it:
//!
//! ```text
//! (compress + decompress) / threads  <  (write + read) as it is - (write + read) compressed
//! ```
//!
//! The right side is measured rather than computed from bytes: of a device that takes its time for each request, fewer bytes are no faster.
//!
//! 1. The device's time is that during which at least one transfer is outstanding, so that transfers side by side are not taken for slow ones.
//! 2. One page in 64 goes the other way than the rest, so that the choice can change in both directions.
//! 3. Older measurements count less: their weight halves with every 16 pages that follow, whichever way those went; so what was last seen of the
//!    rarer way is what counts.
//! 4. Scratch memory is one buffer for each thread that compresses or decompresses at the moment; it is memory of the process outside the pool.
//!
//! Not here: where compressed pages lie (`temp_space`), checksums (`pool`). Pages of variable size are written as they are.
#![expect(unsafe_code, reason = "a buffer is seen as bytes by the compressor and as atomics by the files")]

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_queue::ArrayQueue;
use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};
use parking_lot::Mutex;

use crate::PAGE_SIZE;
use crate::config::TempCompression;

/// Of so many pages one goes the other way.
const PROBE_EVERY: u64 = 64;

/// The weight of a measurement halves when so many (4 MiB of pages) have followed.
const HALF_LIFE: f64 = 16.0;

/// A transfer counts for so many times the mean at most: a pause of the device says little about the way the page went, but a device that has become slow
/// is believed after a few pages.
const OUTLIER: f64 = 8.0;

/// Until pages have been read back, decompression is taken to be so many times as fast as compression (LZ4 is five to six times).
const DECOMPRESSION_GUESS: f64 = 5.0;

/// Transfers are of multiples of this.
const BLOCK_BYTES: usize = 4096;

/// Buffers that are kept for reuse.
const SCRATCH_KEPT: usize = 4;

/// Bytes of a slot class: compressed pages lie in slots of multiples of this. One in sixteen bytes of a page is lost on average, and there are eight
/// files at most.
pub(crate) const SLOT_STEP: usize = 32 << 10;

/// Seconds a page, the older ones with less weight.
#[derive(Debug, Default, Clone, Copy)]
struct Mean {
    weight: f64,
    seconds: f64,
}

impl Mean {
    fn age(&mut self) {
        let weight = (-1.0 / HALF_LIFE).exp2();
        self.weight *= weight;
        self.seconds *= weight;
    }

    fn add(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        self.seconds += self.get().map_or(seconds, |mean| seconds.min(OUTLIER * mean));
        self.weight += 1.0;
    }

    /// `None` until something was measured.
    fn get(self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.seconds / self.weight)
    }
}

/// How a page goes to the temporary space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    AsItIs,
    /// Compressed, or tried to: what did not shrink was written as it is.
    Compressed,
}

/// Transfers in one direction.
#[derive(Debug, Default)]
struct Traffic {
    outstanding: u32,
    /// Up to when the time has been counted.
    since: Duration,
    as_it_is: Mean,
    compressed: Mean,
}

impl Traffic {
    fn begin(&mut self, now: Duration) {
        if self.outstanding == 0 {
            self.since = now;
        }
        self.outstanding += 1;
    }

    /// The transfer of a page ends; `None` if that says nothing: it failed, or was of another size.
    fn end(&mut self, now: Duration, way: Option<Way>) {
        debug_assert!(self.outstanding > 0, "a transfer ends once");
        self.outstanding -= 1;
        let time = now.saturating_sub(self.since);
        self.since = now;
        let Some(way) = way else { return };
        self.as_it_is.age();
        self.compressed.age();
        match way {
            Way::AsItIs => self.as_it_is.add(time),
            Way::Compressed => self.compressed.add(time),
        }
    }

    /// Seconds that compression spares the device for each page; `None` until both ways were measured.
    fn spared(&self) -> Option<f64> {
        Some(self.as_it_is.get()? - self.compressed.get()?)
    }
}

/// What is known about device and compressor.
#[derive(Debug, Default)]
struct Model {
    writes: Traffic,
    reads: Traffic,
    compression: Mean,
    decompression: Mean,
}

impl Model {
    /// Whether compressed pages are written and read back sooner.
    fn pays(&self, threads: usize) -> bool {
        let (Some(writing), Some(compression)) = (self.writes.spared(), self.compression.get()) else {
            return false;
        };
        // Until pages have been read back both ways, reading is taken to be like writing.
        let spared = writing + self.reads.spared().unwrap_or(writing);
        let decompression = self.decompression.get().unwrap_or(compression / DECOMPRESSION_GUESS);
        (compression + decompression) / (threads.max(1) as f64) < spared
    }
}

/// Direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Write,
    Read,
}

/// Decides and compresses.
#[derive(Debug)]
pub(crate) struct Compression {
    mode: AtomicU8,
    /// Threads that share the work of compressing.
    threads: usize,
    /// Pages for which it was decided.
    pages: AtomicU64,
    model: Mutex<Model>,
    scratch: ArrayQueue<Scratch>,
}

impl Compression {
    pub(crate) fn new(mode: TempCompression, threads: usize) -> Self {
        Self {
            mode: AtomicU8::new(mode as u8),
            threads,
            pages: AtomicU64::new(0),
            model: Mutex::new(Model::default()),
            scratch: ArrayQueue::new(SCRATCH_KEPT),
        }
    }

    pub(crate) fn set_mode(&self, mode: TempCompression) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    pub(crate) fn mode(&self) -> TempCompression {
        const ALL: [TempCompression; 3] = [TempCompression::Auto, TempCompression::Off, TempCompression::Always];
        const _: () = assert!(ALL[0] as u8 == 0 && ALL[1] as u8 == 1 && ALL[2] as u8 == 2);
        ALL[usize::from(self.mode.load(Ordering::Relaxed))]
    }

    /// How the next page should go. `space_is_short` if there may not be room for it as it is.
    pub(crate) fn way(&self, space_is_short: impl FnOnce() -> bool) -> Way {
        let compressed = match self.mode() {
            TempCompression::Off => false,
            TempCompression::Always => true,
            TempCompression::Auto => {
                // The first page goes as it is, the second compressed; then both ways are known.
                let is_probe = self.pages.fetch_add(1, Ordering::Relaxed) % PROBE_EVERY == 1;
                self.model.lock().pays(self.threads) != is_probe || space_is_short()
            }
        };
        if compressed { Way::Compressed } else { Way::AsItIs }
    }

    /// A transfer begins.
    pub(crate) fn begin(&self, direction: Direction, now: Duration) {
        let mut model = self.model.lock();
        match direction {
            Direction::Write => model.writes.begin(now),
            Direction::Read => model.reads.begin(now),
        }
    }

    /// A transfer that [`begin`](Self::begin) was called for has ended; `None` if it failed, or was not of a page of fixed size.
    pub(crate) fn end(&self, direction: Direction, now: Duration, way: Option<Way>) {
        let mut model = self.model.lock();
        match direction {
            Direction::Write => model.writes.end(now, way),
            Direction::Read => model.reads.end(now, way),
        }
    }

    /// Compresses a page; `None` if it would not come to lie in a smaller slot. `clock` tells the time.
    pub(crate) fn pack(&self, page: &[u8], clock: impl Fn() -> Duration) -> Option<Packed<'_>> {
        let mut packed = Packed { scratch: Some(self.take_scratch()), owner: self, len: 0 };
        let before = clock();
        let len = packed.scratch().compress(page);
        let time = clock().saturating_sub(before);
        {
            let mut model = self.model.lock();
            model.compression.age();
            model.compression.add(time);
        }
        packed.len = len?;
        Some(packed)
    }

    /// A buffer for `len` compressed bytes that are to be read.
    pub(crate) fn unpacker(&self, len: usize) -> Packed<'_> {
        Packed { scratch: Some(self.take_scratch()), owner: self, len }
    }

    fn take_scratch(&self) -> Scratch {
        self.scratch.pop().unwrap_or_else(Scratch::new)
    }

    /// Frees buffers that are not in use.
    pub(crate) fn trim(&self) {
        while self.scratch.pop().is_some() {}
    }
}

/// `len` rounded up to what a transfer moves.
pub(crate) fn padded(len: usize) -> usize {
    len.next_multiple_of(BLOCK_BYTES)
}

/// A buffer with a compressed page, or for one.
#[derive(Debug)]
pub(crate) struct Packed<'a> {
    /// `None` only while it is dropped.
    scratch: Option<Scratch>,
    owner: &'a Compression,
    len: usize,
}

impl Packed<'_> {
    fn scratch(&mut self) -> &mut Scratch {
        self.scratch.as_mut().expect("there until the drop")
    }

    /// Bytes of the compressed page.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// What is written to the file or read from it: the compressed page, padded.
    pub(crate) fn padded_bytes(&mut self) -> &mut [u8] {
        let len = padded(self.len);
        &mut self.scratch().bytes_mut()[..len]
    }

    /// The same, to be written.
    pub(crate) fn shared_bytes(&mut self) -> &[AtomicU8] {
        let bytes = self.padded_bytes();
        // SAFETY: an atomic byte has the size and alignment of a byte, and the slice is borrowed mutably, so nobody else sees it.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<AtomicU8>(), bytes.len()) }
    }

    /// Decompresses what was read into `page`. False if that is not a page.
    pub(crate) fn unpack(mut self, page: &mut [u8], clock: impl Fn() -> Duration) -> bool {
        let len = self.len;
        let before = clock();
        let unpacked = decompress_into(&self.scratch().bytes_mut()[..len], page);
        let time = clock().saturating_sub(before);
        {
            let mut model = self.owner.model.lock();
            model.decompression.age();
            model.decompression.add(time);
        }
        unpacked.is_ok_and(|bytes| bytes == page.len())
    }
}

impl Drop for Packed<'_> {
    fn drop(&mut self) {
        if let Some(scratch) = self.scratch.take() {
            // Beyond those that are kept it is freed.
            drop(self.owner.scratch.push(scratch));
        }
    }
}

/// What direct I/O asks of addresses.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(4096))]
struct Block([u8; BLOCK_BYTES]);

fn bytes_of(blocks: &mut [Block]) -> &mut [u8] {
    // SAFETY: blocks are arrays of bytes without padding, one after the other, and borrowed mutably.
    unsafe { std::slice::from_raw_parts_mut(blocks.as_mut_ptr().cast::<u8>(), blocks.len() * BLOCK_BYTES) }
}

/// A buffer for a compressed page, and the compressor's table.
struct Scratch {
    blocks: Box<[Block]>,
    table: CompressTable,
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch").finish_non_exhaustive()
    }
}

impl Scratch {
    fn new() -> Self {
        let blocks = get_maximum_output_size(PAGE_SIZE).div_ceil(BLOCK_BYTES);
        Self { blocks: vec![Block([0; BLOCK_BYTES]); blocks].into_boxed_slice(), table: CompressTable::large() }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        bytes_of(&mut self.blocks)
    }

    /// The compressed bytes, padded with zeros; `None` if they need a slot as large as the page itself.
    fn compress(&mut self, page: &[u8]) -> Option<usize> {
        assert_eq!(page.len(), PAGE_SIZE, "the buffer is made for pages");
        let Self { blocks, table } = self;
        let bytes = bytes_of(blocks);
        let len = compress_into_with_table(page, bytes, table).expect("the buffer has room for the worst case");
        if len.next_multiple_of(SLOT_STEP) >= PAGE_SIZE {
            return None;
        }
        bytes[len..padded(len)].fill(0);
        Some(len)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const PAGE_MIB: f64 = PAGE_SIZE as f64 / (1 << 20) as f64;

    /// A device that moves so many MiB a second and takes `latency` seconds for each transfer, and LZ4 that leaves `share` of a page.
    struct Device {
        rate: f64,
        latency: f64,
        share: f64,
        now: Duration,
    }

    impl Device {
        fn new(rate: f64, share: f64) -> Self {
            Self { rate, latency: 0.0, share, now: Duration::ZERO }
        }

        fn transfer(&mut self, traffic: &mut Traffic, way: Way) {
            let share = if way == Way::Compressed { self.share } else { 1.0 };
            traffic.begin(self.now);
            self.now += Duration::from_secs_f64(self.latency + share * PAGE_MIB / self.rate);
            traffic.end(self.now, Some(way));
        }

        /// Writes and reads a page; LZ4 compresses 500 and decompresses 2,500 MiB a second.
        fn page(&mut self, model: &mut Model, way: Way) {
            self.transfer(&mut model.writes, way);
            self.transfer(&mut model.reads, way);
            if way == Way::Compressed {
                for (mean, rate) in [(&mut model.compression, 500.0), (&mut model.decompression, 2500.0)] {
                    mean.age();
                    mean.add(Duration::from_secs_f64(PAGE_MIB / rate));
                }
            }
        }

        fn model(mut self) -> Model {
            let mut model = Model::default();
            assert!(!model.pays(2), "nothing is known yet");
            self.page(&mut model, Way::AsItIs);
            assert!(!model.pays(2), "only one way is known");
            self.page(&mut model, Way::Compressed);
            model
        }
    }

    #[test]
    fn compression_pays_where_the_device_is_slower_than_what_it_spares() {
        // At 4 GB/s: never. A disk of 200 MB/s: for what shrinks by a fifth, not for what does not.
        assert!(!Device::new(4000.0, 0.5).model().pays(2));
        assert!(Device::new(200.0, 0.5).model().pays(2));
        assert!(Device::new(200.0, 0.8).model().pays(2));
        assert!(!Device::new(200.0, 1.0).model().pays(2));
        // At x MiB/s half of 2/x s a MiB is spared and 1/500 + 1/2500 spent: one thread breaks even at 417 MiB/s, two at 833.
        assert!(Device::new(680.0, 0.5).model().pays(2) && !Device::new(680.0, 0.5).model().pays(1));
        // Four milliseconds a page, but for the request and not for its bytes.
        assert!(!Device { latency: 0.004, ..Device::new(4000.0, 0.5) }.model().pays(2));
    }

    #[test]
    fn transfers_side_by_side_are_not_taken_for_slow_ones() {
        let at = Duration::from_millis;
        let mut one_by_one = Traffic::default();
        let mut side_by_side = Traffic::default();
        for start in [0, 20] {
            one_by_one.begin(at(start));
            one_by_one.end(at(start + 10), Some(Way::AsItIs));
        }
        side_by_side.begin(at(0));
        side_by_side.begin(at(0));
        side_by_side.end(at(19), Some(Way::AsItIs));
        side_by_side.end(at(20), Some(Way::AsItIs));
        let (a, b) = (one_by_one.as_it_is.get().unwrap(), side_by_side.as_it_is.get().unwrap());
        assert!((a / b - 1.0).abs() < 0.05, "{a} {b}");
        // What failed says nothing.
        side_by_side.begin(at(100));
        side_by_side.end(at(900), None);
        assert_eq!(side_by_side.as_it_is.get(), Some(b));
    }

    #[test]
    fn a_device_that_becomes_slower_or_faster_is_noticed() {
        let mut device = Device::new(4000.0, 0.5);
        let mut model = Model::default();
        let mut pages = 0;
        let mut until = |device: &mut Device, wanted: bool| {
            let flip = (0..1000).find(|_| {
                pages += 1;
                let compressed = model.pays(2) != (pages % PROBE_EVERY == 1);
                device.page(&mut model, if compressed { Way::Compressed } else { Way::AsItIs });
                model.pays(2) == wanted
            });
            flip.unwrap()
        };
        until(&mut device, false);
        for _ in 0..3 {
            // A few slow pages are enough; that it became fast is seen when the next one goes as it is.
            device.rate = 100.0;
            assert!(until(&mut device, true) < 32);
            device.rate = 4000.0;
            assert!(until(&mut device, false) < 3 * PROBE_EVERY);
        }
    }

    #[test]
    fn one_pause_of_the_device_changes_little() {
        let mut device = Device::new(4000.0, 0.5);
        let mut model = Device::new(4000.0, 0.5).model();
        (0..100).for_each(|_| device.page(&mut model, Way::AsItIs));
        model.writes.begin(device.now);
        device.now += Duration::from_secs(1);
        model.writes.end(device.now, Some(Way::AsItIs));
        assert!(!model.pays(2));
    }

    #[test]
    fn pages_come_back_as_they_were() {
        let compression = Compression::new(TempCompression::Always, 1);
        let clock = || Duration::ZERO;
        let mut random = 7u64;
        let mut next = || {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (random >> 40) as u8
        };
        let noise: Vec<u8> = (0..PAGE_SIZE).map(|_| next()).collect();
        assert!(compression.pack(&noise, clock).is_none(), "noise does not shrink");
        for share in [0, 10, 60] {
            let page: Vec<u8> =
                (0..PAGE_SIZE).map(|i| if i % 4096 < share * 40 { noise[i] } else { (i >> 12) as u8 }).collect();
            let mut packed = compression.pack(&page, clock).unwrap();
            let len = packed.len();
            assert!(len.next_multiple_of(SLOT_STEP) < PAGE_SIZE);
            let stored = packed.padded_bytes().to_vec();
            assert!(stored.len().is_multiple_of(4096) && packed.shared_bytes().as_ptr().addr().is_multiple_of(4096));
            assert!(stored[len..].iter().all(|&byte| byte == 0));
            drop(packed);
            let mut back = vec![0; PAGE_SIZE];
            let mut unpacker = compression.unpacker(len);
            unpacker.padded_bytes().copy_from_slice(&stored);
            assert!(unpacker.unpack(&mut back, clock));
            assert!(back == page);
            // A page cut short is told, not made up.
            let mut unpacker = compression.unpacker(len / 2);
            let half = unpacker.padded_bytes().len();
            unpacker.padded_bytes().copy_from_slice(&stored[..half]);
            assert!(!unpacker.unpack(&mut back, clock));
        }
    }
}
