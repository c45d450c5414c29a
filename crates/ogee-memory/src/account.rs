//! The account of the process: what it holds, whoever holds it.
//!
//! There is one, because resident memory is the process's and not a handle's. Every pool, every reservation and the counting
//! allocator book here; resident memory is read from the system now and then.
//!
//! ```text
//! other = max(live bytes of the counting allocator, anonymous and shared resident memory - touched memory of all pools)
//! ```
//!
//! The allocator's count sees what has been allocated and not touched, the resident size sees what the allocator keeps for itself,
//! stacks, and libraries with allocators of their own. Pages and free frames are touched when they are charged; of
//! non-paged memory, which is zeroed lazily, the system is asked what has been touched.
//!
//! Not here: limits and budgets. Those are of a handle (`ledger`).

use std::io::Read;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::allocator;
use crate::mapping::untouched_bytes;

/// Resident memory is read at most this often: reading it costs about 5 µs, so 0.25 % of one thread.
const REFRESH_NS: u64 = 2_000_000;
/// Shared memory changes rarely and costs more to read: about 30 µs.
const SHARED_REFRESH_NS: u64 = 100_000_000;
/// The page tables of non-paged memory that is not wholly touched yet: up to 5 ns a page.
const UNTOUCHED_REFRESH_NS: u64 = 50_000_000;

/// What the process holds. See [`process_account`].
#[derive(Debug)]
pub struct ProcessAccount {
    pool: AtomicUsize,
    untouched: AtomicUsize,
    reserved: AtomicUsize,
    shared: AtomicUsize,
    other: AtomicUsize,
    baseline: AtomicUsize,
    refreshed_ns: AtomicU64,
    shared_ns: AtomicU64,
    untouched_ns: AtomicU64,
    lazy: Mutex<LazyMemory>,
}

/// Non-paged memory that may not be wholly touched yet.
#[derive(Debug)]
struct LazyMemory {
    regions: Vec<LazyRegion>,
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct LazyRegion {
    start: usize,
    len: usize,
    untouched: usize,
}

static ACCOUNT: ProcessAccount = ProcessAccount {
    pool: AtomicUsize::new(0),
    untouched: AtomicUsize::new(0),
    reserved: AtomicUsize::new(0),
    shared: AtomicUsize::new(0),
    other: AtomicUsize::new(0),
    baseline: AtomicUsize::new(0),
    refreshed_ns: AtomicU64::new(0),
    shared_ns: AtomicU64::new(0),
    untouched_ns: AtomicU64::new(0),
    lazy: Mutex::new(LazyMemory { regions: Vec::new(), scratch: Vec::new() }),
};

/// The account of this process, from which the pool of each handle draws.
pub fn process_account() -> &'static ProcessAccount {
    &ACCOUNT
}

/// Nanoseconds since the first call; never zero.
pub(crate) fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = *START.get_or_init(Instant::now);
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX).saturating_add(1)
}

/// Whether `interval` has passed since `last`; true for one of several callers.
pub(crate) fn is_due(last: &AtomicU64, interval: u64) -> bool {
    let now = now_ns();
    let before = last.load(Ordering::Relaxed);
    (before == 0 || now.saturating_sub(before) >= interval)
        && last.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

impl ProcessAccount {
    /// Anonymous plus shared-memory resident bytes, read now: what the limit is measured against. Where the system does
    /// not tell, what the pools and the counting allocator hold.
    pub fn anonymous_bytes(&self) -> usize {
        exact_resident().map_or_else(|| self.pool_bytes() + allocator::live(), |(anonymous, shared)| anonymous + shared)
    }

    /// Bytes held by the pools of all handles.
    pub fn pool_bytes(&self) -> usize {
        self.pool.load(Ordering::Relaxed)
    }

    /// Bytes allocated through the counting allocator and not freed; zero if it is not installed.
    pub fn allocator_bytes(&self) -> usize {
        allocator::live()
    }

    /// The most the counting allocator had out at once since [`reset_peaks`](Self::reset_peaks).
    pub fn allocator_peak_bytes(&self) -> usize {
        allocator::peak()
    }

    /// Bytes promised to allocations outside the pools.
    pub fn reserved_bytes(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Bytes of the process that belong to no pool, as last read.
    pub fn other_bytes(&self) -> usize {
        self.other.load(Ordering::Relaxed)
    }

    /// Starts the allocator's peak anew.
    pub fn reset_peaks(&self) {
        allocator::reset_peak();
    }

    /// What counts against the limit of a handle whose pool holds `own` bytes, beside those.
    pub(crate) fn outside_of(&self, own: usize) -> usize {
        let promised = self.baseline.load(Ordering::SeqCst) + self.reserved.load(Ordering::SeqCst);
        let pools = self.pool.load(Ordering::SeqCst).saturating_sub(own);
        self.other.load(Ordering::SeqCst).max(promised) + pools
    }

    /// Whether there is more outside of the pools than the baseline and what was promised.
    pub(crate) fn is_beyond_promises(&self) -> bool {
        let promised = self.baseline.load(Ordering::SeqCst) + self.reserved.load(Ordering::SeqCst);
        self.other.load(Ordering::SeqCst) > promised
    }

    pub(crate) fn add_pool(&self, bytes: usize) {
        self.pool.fetch_add(bytes, Ordering::SeqCst);
    }

    pub(crate) fn sub_pool(&self, bytes: usize) {
        self.pool.fetch_sub(bytes, Ordering::SeqCst);
    }

    pub(crate) fn add_reserved(&self, bytes: usize) {
        self.reserved.fetch_add(bytes, Ordering::SeqCst);
    }

    pub(crate) fn sub_reserved(&self, bytes: usize) {
        self.reserved.fetch_sub(bytes, Ordering::SeqCst);
    }

    /// Books memory that is charged in full and touched bit by bit.
    pub(crate) fn add_lazy(&self, start: NonNull<u8>, len: usize) {
        let mut lazy = self.lazy.lock();
        lazy.regions.push(LazyRegion { start: start.as_ptr().addr(), len, untouched: len });
        self.untouched.fetch_add(len, Ordering::SeqCst);
    }

    /// Forgets it again; to be called before it is unmapped.
    pub(crate) fn remove_lazy(&self, start: NonNull<u8>) {
        let mut lazy = self.lazy.lock();
        let start = start.as_ptr().addr();
        if let Some(index) = lazy.regions.iter().position(|region| region.start == start) {
            let region = lazy.regions.swap_remove(index);
            self.untouched.fetch_sub(region.untouched, Ordering::SeqCst);
        }
    }

    /// Reads resident memory if that was not done within the last 2 ms.
    pub(crate) fn refresh(&self) {
        if is_due(&self.refreshed_ns, REFRESH_NS) {
            self.refresh_now();
        }
    }

    fn refresh_now(&self) {
        if is_due(&self.untouched_ns, UNTOUCHED_REFRESH_NS) {
            self.refresh_untouched();
        }
        // The pool is read before the resident size: a page mapped in between then counts as other memory for 2 ms, where the
        // opposite order would let the pool grow by as much too far.
        let pool = self.pool.load(Ordering::SeqCst).saturating_sub(self.untouched.load(Ordering::SeqCst));
        let live = allocator::live();
        let resident = fast_anonymous().map(|anonymous| {
            if is_due(&self.shared_ns, SHARED_REFRESH_NS)
                && let Some((_, shared)) = exact_resident()
            {
                self.shared.store(shared, Ordering::Relaxed);
            }
            anonymous + self.shared.load(Ordering::Relaxed)
        });
        let other = live.max(resident.unwrap_or(0).saturating_sub(pool));
        self.other.store(other, Ordering::SeqCst);
        if self.reserved.load(Ordering::SeqCst) == 0 {
            self.baseline.store(other, Ordering::SeqCst);
        } else {
            // What covers the promises is in `other` too, so without it there is even less.
            self.baseline.fetch_min(other, Ordering::SeqCst);
        }
    }

    fn refresh_untouched(&self) {
        let mut lazy = self.lazy.lock();
        let LazyMemory { regions, scratch } = &mut *lazy;
        for region in regions.iter_mut().filter(|region| region.untouched > 0) {
            let Some(start) = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(region.start)) else { continue };
            // Where the system does not tell, all of it counts as touched.
            let untouched = untouched_bytes(start, region.len, scratch).unwrap_or(0);
            let before = std::mem::replace(&mut region.untouched, untouched);
            add_signed(&self.untouched, untouched as isize - before as isize);
        }
    }
}

fn add_signed(counter: &AtomicUsize, change: isize) {
    if change >= 0 {
        counter.fetch_add(change as usize, Ordering::SeqCst);
    } else {
        counter.fetch_sub(change.unsigned_abs(), Ordering::SeqCst);
    }
}

/// Anonymous resident bytes: in `/proc/self/statm`, resident less shared pages, where shared are those of files and of shared memory.
fn fast_anonymous() -> Option<usize> {
    let (resident, shared) = statm()?;
    Some(resident.saturating_sub(shared))
}

/// Resident bytes of files, and of shared memory. `None` where the system does not tell.
pub(crate) fn file_bytes() -> Option<usize> {
    Some(statm()?.1)
}

/// Resident bytes: all, and those of files and of shared memory.
fn statm() -> Option<(usize, usize)> {
    let mut buffer = [0u8; 128];
    let text = read_small("/proc/self/statm", &mut buffer)?;
    let mut fields = text.split_ascii_whitespace().skip(1).map(|pages| pages.parse::<usize>().ok());
    let page = rustix::param::page_size();
    Some((fields.next()?? * page, fields.next()?? * page))
}

/// Anonymous and shared-memory resident bytes from `/proc/self/status`.
fn exact_resident() -> Option<(usize, usize)> {
    let mut buffer = [0u8; 4096];
    let text = read_small("/proc/self/status", &mut buffer)?;
    let field = |name: &str| -> Option<usize> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib << 10)
    };
    Some((field("RssAnon:")?, field("RssShmem:")?))
}

fn read_small<'a>(path: &str, buffer: &'a mut [u8]) -> Option<&'a str> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let mut file = std::fs::File::open(path).ok()?;
    let mut len = 0;
    while len < buffer.len() {
        match file.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    std::str::from_utf8(&buffer[..len]).ok()
}

#[cfg(all(test, not(loom), target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_follows_what_is_touched() {
        let account = process_account();
        let before = account.anonymous_bytes();
        let memory = vec![1u8; 64 << 20];
        let with = account.anonymous_bytes();
        assert!(with >= before + (60 << 20), "{before} {with} {}", memory.len());
        let fast = fast_anonymous().expect("procfs");
        assert!(fast.abs_diff(with) < 32 << 20, "{fast} {with}");
        drop(memory);
    }

    #[test]
    fn a_long_status_is_cut_without_harm() {
        let mut buffer = [0u8; 8];
        assert_eq!(read_small("/proc/self/statm", &mut buffer).map(str::len), Some(8));
    }
}
