//! One count a thread, which that thread alone changes: adding is a load and a store, without the locked instruction that a shared count takes.
//!
//! An allocator counts twice for each thing that lives shortly, and planning is little else: locked instructions were a fourteenth of its time.
//!
//! There are as many counts as a process usually has threads that do anything. A thread takes one when it first counts, and gives it back when it
//! ends; what is in it stays, for whoever takes it next. Threads that find none, or count when they have given theirs back, use another counter.
//!
//! Not here: exact reads. A sum taken while others count is some value the counts might have had.
#![expect(unsafe_code, reason = "the end of a thread is heard of without allocating only through the C library")]

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicIsize, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

/// Counts there are: bits of [`TAKEN`].
const COUNTS: usize = 32;

/// The count of a thread that has not counted yet.
const UNKNOWN: usize = usize::MAX;

/// The count of a thread that has none.
const NONE: usize = COUNTS;

thread_local! {
    /// A `Cell` without a destructor: it can be read to the very end of a thread, also by an allocator.
    static COUNT: Cell<usize> = const { Cell::new(UNKNOWN) };
}

/// A bit for each count that a thread has.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// What tells that a thread ends, if the system has one more.
static ENDS: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();

/// The counts of the process.
#[derive(Debug)]
pub(crate) struct ThreadCounts([CachePadded<AtomicIsize>; COUNTS]);

impl ThreadCounts {
    /// All zero. There is one in a process, since threads know their count by its number.
    pub(crate) const fn new() -> Self {
        Self([const { CachePadded::new(AtomicIsize::new(0)) }; COUNTS])
    }

    /// The count of the calling thread, if it has one.
    #[inline]
    pub(crate) fn own(&self) -> Option<OwnCount<'_>> {
        let count = COUNT.try_with(Cell::get).unwrap_or(NONE);
        match self.0.get(count) {
            Some(count) => Some(OwnCount(count)),
            None if count == UNKNOWN => self.0.get(take()).map(|count| OwnCount(count)),
            None => None,
        }
    }

    /// The sum of all counts.
    pub(crate) fn sum(&self) -> isize {
        self.0.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

/// A count that nobody else changes.
pub(crate) struct OwnCount<'a>(&'a AtomicIsize);

impl OwnCount<'_> {
    /// Adds `amount`, and tells what the count is then.
    #[inline]
    pub(crate) fn add(&self, amount: isize) -> isize {
        let count = self.0.load(Ordering::Relaxed).wrapping_add(amount);
        self.0.store(count, Ordering::Relaxed);
        count
    }

    /// Makes the count zero.
    #[inline]
    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Takes a count for the calling thread: its number, [`NONE`] if all are taken or nobody would hear of the thread's end. Does not allocate by way of
/// the allocator that asks.
#[cold]
fn take() -> usize {
    // Whatever is counted meanwhile goes elsewhere.
    COUNT.set(NONE);
    let Some(key) = *ENDS.get_or_init(key) else { return NONE };
    // What the thread before has stored is seen: it let go of the bit after that.
    let free = TAKEN.fetch_update(Ordering::Acquire, Ordering::Relaxed, |taken| {
        let count = taken.trailing_ones() as usize;
        (count < COUNTS).then(|| taken | 1 << count)
    });
    let Ok(taken) = free else { return NONE };
    let count = taken.trailing_ones() as usize;
    // One more than the number, since nothing is told of a null pointer; it is no address, and nobody reads there.
    let value = std::ptr::without_provenance::<c_void>(count + 1);
    // SAFETY: `key` was made by `pthread_key_create` and is never deleted.
    if unsafe { libc::pthread_setspecific(key, value) } != 0 {
        release(count);
        return NONE;
    }
    COUNT.set(count);
    count
}

fn key() -> Option<libc::pthread_key_t> {
    let mut key = 0;
    // SAFETY: `key` is a valid place for a key, and `end` has the signature of a destructor and does not unwind.
    let made = unsafe { libc::pthread_key_create(&mut key, Some(end)) };
    (made == 0).then_some(key)
}

/// Called at the end of a thread, with what [`take`] has set.
extern "C" fn end(value: *mut c_void) {
    // Destructors that run after this one count elsewhere.
    COUNT.set(NONE);
    release(value.addr() - 1);
}

fn release(count: usize) {
    TAKEN.fetch_and(!(1 << count), Ordering::Release);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Barrier;

    use super::*;

    static COUNTED: ThreadCounts = ThreadCounts::new();

    /// One test, since threads of all tests take from the same counts.
    #[test]
    fn threads_have_counts_of_their_own_and_give_them_back() {
        // More threads than counts, one after the other: each gets one.
        for _ in 0..3 * COUNTS {
            assert!(
                std::thread::spawn(|| COUNTED.own().map(|count| count.add(2))).join().is_ok_and(|own| own.is_some())
            );
        }
        assert_eq!(COUNTED.sum(), 6 * COUNTS as isize);

        // More at once: as many as there are counts get one, no two the same.
        let together = Barrier::new(2 * COUNTS);
        let owners = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2 * COUNTS)
                .map(|_| {
                    scope.spawn(|| {
                        let own = COUNTED.own().map(|count| std::ptr::from_ref(count.0).addr());
                        together.wait();
                        (0..1000).for_each(|_| {
                            COUNTED.own().map(|count| count.add(1));
                        });
                        together.wait();
                        own
                    })
                })
                .collect();
            threads.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect::<Vec<_>>()
        });
        let mut distinct = owners.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), owners.len());
        // This thread and those of other tests may have one.
        assert!((COUNTS / 2..=COUNTS).contains(&owners.len()), "{}", owners.len());
        assert_eq!(COUNTED.sum(), 6 * COUNTS as isize + 1000 * owners.len() as isize);

        let own = std::thread::spawn(|| COUNTED.own().map(|count| (count.clear(), count.add(-5)))).join();
        assert!(own.is_ok_and(|own| own == Some(((), -5))));
    }
}
