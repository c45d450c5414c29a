//! The twin of the operating system that fails on purpose, and the same way for the same seed and order of calls.
//!
//! Not here: faults of memory itself.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::io::{Io, IoFile, RealIo, SpareMemory, TempAccess};

/// A device and a clock that nobody waits for.
#[derive(Debug, Clone, Copy)]
pub struct SimulatedDevice {
    /// The clock moves so far whenever somebody looks at it: what compressing a page takes, and what a transfer takes at least.
    pub look: Duration,
    /// The clock moves by a transfer's bytes over this.
    pub bytes_per_second: u64,
}

/// What goes wrong. The default is nothing.
#[derive(Debug, Clone, Default)]
pub struct FaultPlan {
    /// Writes from the n-th on (counted from 0 when the plan is set) fail.
    pub fail_writes_from: Option<u64>,
    /// How many of them fail before the disk is well again; `None`: all.
    pub fail_writes_count: Option<u64>,
    /// The error number of failing writes; `ENOSPC` if `None`.
    pub write_error: Option<i32>,
    /// Reads from the n-th on fail with `EIO`.
    pub fail_reads_from: Option<u64>,
    /// The n-th write panics.
    pub panic_write: Option<u64>,
    /// The n-th read panics.
    pub panic_read: Option<u64>,
    /// Files cannot be opened (`EACCES`).
    pub fail_open: bool,
    /// Holes cannot be punched.
    pub refuse_punch: bool,
    /// Every second transfer moves only a part, a multiple of 4 KiB.
    pub short_transfers: bool,
    /// In the n-th read one bit is flipped.
    pub corrupt_read: Option<u64>,
    /// Each transfer takes up to so much longer.
    pub delay: Duration,
    /// A read waits until another is under way beside it, at most so long: then it fails with `ETIMEDOUT`.
    pub pair_reads: Option<Duration>,
    /// The clock and the speed of the device are simulated.
    pub simulated: Option<SimulatedDevice>,
    /// What `free_space` says.
    pub free_space: Option<u64>,
    /// What `is_in_memory` says.
    pub in_memory: bool,
    /// What `spare_memory` says.
    pub spare_memory: SpareMemory,
}

#[derive(Debug, Default)]
struct Faults {
    plan: Mutex<FaultPlan>,
    seed: u64,
    transfers: AtomicU64,
    writes: AtomicU64,
    reads: AtomicU64,
    punched: AtomicU64,
    files: AtomicU64,
    length: AtomicU64,
    /// The simulated clock, in nanoseconds.
    clock: AtomicU64,
    /// Reads that have come to wait for another, and those of them that none came to.
    paired: Mutex<u64>,
    pair: Condvar,
    alone: AtomicU64,
}

/// Files of the operating system with faults on top. Clones share plan and counts.
#[derive(Debug, Clone, Default)]
pub struct FaultyIo(Arc<Faults>);

impl FaultyIo {
    /// Nothing goes wrong until a plan is set. `seed` decides lengths of short transfers, delays and the bit that flips.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Faults { seed, ..Faults::default() }))
    }

    /// Sets what goes wrong from now on and starts the counts of reads and writes anew.
    pub fn set(&self, plan: FaultPlan) {
        let mut current = self.0.plan.lock();
        self.0.writes.store(0, Ordering::SeqCst);
        self.0.reads.store(0, Ordering::SeqCst);
        *current = plan;
    }

    /// Writes attempted since the plan was set.
    pub fn writes(&self) -> u64 {
        self.0.writes.load(Ordering::SeqCst)
    }

    /// Reads attempted since the plan was set.
    pub fn reads(&self) -> u64 {
        self.0.reads.load(Ordering::SeqCst)
    }

    /// Reads that waited for another beside them, and failed since there was none.
    pub fn reads_alone(&self) -> u64 {
        self.0.alone.load(Ordering::SeqCst)
    }

    /// Bytes punched so far.
    pub fn punched_bytes(&self) -> u64 {
        self.0.punched.load(Ordering::SeqCst)
    }

    /// Files open at the moment.
    pub fn open_files(&self) -> u64 {
        self.0.files.load(Ordering::SeqCst)
    }

    /// Bytes from the start to the furthest written and not truncated since, over all files.
    pub fn length(&self) -> u64 {
        self.0.length.load(Ordering::SeqCst)
    }
}

impl Faults {
    /// A number that depends on the seed and on how many were drawn.
    fn draw(&self) -> u64 {
        let mut value = self.seed ^ self.transfers.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// Waits until there are two reads; the second of a pair opens the door for both.
    fn wait_for_another(&self, patience: Duration) -> io::Result<()> {
        let mut paired = self.paired.lock();
        *paired += 1;
        self.pair.notify_all();
        let pair = paired.div_ceil(2) * 2;
        if self.pair.wait_while_for(&mut paired, |paired| *paired < pair, patience).timed_out() {
            // Whoever comes next is the first of a pair.
            *paired = pair;
            self.alone.fetch_add(1, Ordering::SeqCst);
            return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
        }
        Ok(())
    }

    /// Waits as long as the plan says, or has the clock do so, and returns how many bytes of `len` to transfer.
    fn transfer(&self, plan: &FaultPlan, len: usize) -> usize {
        let draw = self.draw();
        if let Some(device) = plan.simulated {
            let time = len as u64 * 1_000_000_000 / device.bytes_per_second;
            self.clock.fetch_add(time, Ordering::SeqCst);
        }
        if !plan.delay.is_zero() {
            std::thread::sleep(plan.delay.mul_f64((draw >> 40) as f64 / (1u64 << 24) as f64));
        }
        let units = len / 4096;
        if plan.short_transfers && draw & 1 == 0 && units > 1 {
            4096 * (1 + (draw >> 1) as usize % (units - 1))
        } else {
            len
        }
    }
}

impl Io for FaultyIo {
    fn open_temp(&self, directory: &Path, access: TempAccess) -> io::Result<Box<dyn IoFile>> {
        if self.0.plan.lock().fail_open {
            return Err(io::Error::from_raw_os_error(libc::EACCES));
        }
        let file = RealIo.open_temp(directory, access)?;
        self.0.files.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(FaultyFile { faults: Arc::clone(&self.0), file }))
    }

    fn free_space(&self, directory: &Path) -> io::Result<u64> {
        let free = self.0.plan.lock().free_space;
        free.map_or_else(|| RealIo.free_space(directory), Ok)
    }

    fn is_in_memory(&self, _directory: &Path) -> io::Result<bool> {
        Ok(self.0.plan.lock().in_memory)
    }

    fn spare_memory(&self) -> SpareMemory {
        self.0.plan.lock().spare_memory
    }

    fn now(&self) -> Duration {
        let simulated = self.0.plan.lock().simulated;
        match simulated {
            None => RealIo.now(),
            Some(device) => {
                let look = device.look.as_nanos() as u64;
                Duration::from_nanos(self.0.clock.fetch_add(look, Ordering::SeqCst) + look)
            }
        }
    }
}

#[derive(Debug)]
struct FaultyFile {
    faults: Arc<Faults>,
    file: Box<dyn IoFile>,
}

impl Drop for FaultyFile {
    fn drop(&mut self) {
        self.faults.files.fetch_sub(1, Ordering::SeqCst);
    }
}

impl IoFile for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let plan = self.faults.plan.lock().clone();
        let number = self.faults.reads.fetch_add(1, Ordering::SeqCst);
        assert!(plan.panic_read != Some(number), "a read panics, as planned");
        if plan.fail_reads_from.is_some_and(|first| number >= first) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        if let Some(patience) = plan.pair_reads {
            self.faults.wait_for_another(patience)?;
        }
        let len = self.faults.transfer(&plan, buffer.len());
        let read = self.file.read_at(&mut buffer[..len], offset)?;
        if plan.corrupt_read == Some(number) && read > 0 {
            let draw = self.faults.draw();
            buffer[draw as usize % read] ^= 1 << (draw >> 61);
        }
        Ok(read)
    }

    fn write_at(&self, bytes: &[AtomicU8], offset: u64) -> io::Result<usize> {
        let plan = self.faults.plan.lock().clone();
        let number = self.faults.writes.fetch_add(1, Ordering::SeqCst);
        assert!(plan.panic_write != Some(number), "a write panics, as planned");
        if let Some(first) = plan.fail_writes_from
            && number >= first
            && plan.fail_writes_count.is_none_or(|count| number - first < count)
        {
            return Err(io::Error::from_raw_os_error(plan.write_error.unwrap_or(libc::ENOSPC)));
        }
        let len = self.faults.transfer(&plan, bytes.len());
        let written = self.file.write_at(&bytes[..len], offset)?;
        self.faults.length.fetch_max(offset + written as u64, Ordering::SeqCst);
        Ok(written)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        if self.faults.plan.lock().refuse_punch {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.file.punch(offset, len)?;
        self.faults.punched.fetch_add(len, Ordering::SeqCst);
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len)?;
        self.faults.length.fetch_min(len, Ordering::SeqCst);
        Ok(())
    }
}
