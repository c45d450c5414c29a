//! Buffer manager: one limit, pages that spill, reservations.
//!
//! Every byte of state that grows with the data is a page of a [`BufferManager`], non-paged memory of it, or a promise
//! to it ([`Reservation`]). Users pin pages to work on them and unpin them when they can do without; they never open a
//! file and never decide what is written out. The manager does, when the limit asks for it.
//!
//! ```text
//! limit = what the process may hold
//!       = outside                 max(other, baseline + reservations) + the pools of other handles     (account, ledger)
//!                                 records of pages are among the reservations                         (page_count)
//!       + used                    pages in memory, free frames kept for reuse, non-paged memory        (ledger)
//!       + room                    what may still be taken without eviction
//! budget = limit - outside;  used <= budget, except for what is pinned when the outside grows
//! ```
//!
//! A page is a frame of 256 KiB cut out of a 2 MiB piece (`frame`), or a mapping of its own (`variable_page`). Its state,
//! pin count and eviction sequence are one atomic word (`page_state`):
//!
//! ```text
//!            pin / unpin
//!             +------+
//!             v      |   claim            begin_write          finish_write
//!  new ----> Resident+---------> Evicting -----------> Writing ------------> Evicted
//!             ^  ^                                      |  |                  |   ^
//!             |  +---- finish_write of a re-pinned page-+  |  pin, load_ahead |   | fail_load
//!             |  +---- abort_write (the disk refused) -----+                  v   |
//!             +----------------------- finish_load -------------------------Loading
//!  destroy: from every state, by the drop of the last handle
//! ```
//!
//! Invariants:
//!
//! 1. The bytes of a page are written only by those who hold a pin, and read by the evictor only where the kernel does it
//!    (state Writing) or while no pin can be had (state Evicting).
//! 2. A page that was pinned while it was being written stays resident, and the slot just written is given up: the one who
//!    pinned it may have changed it.
//! 3. `used` is raised before memory is mapped or touched and lowered after it has gone back to the system.
//! 4. A frame has one owner: a page, the free list, or the thread that carries it from one to the other.
//! 5. A page has a slot or a file of its own exactly while it is Evicted, Loading, or being written; a page that was sealed
//!    also from then on, until it is destroyed, and is evicted without a write.
//! 6. The eviction queue holds an entry for the present sequence of every resident page without pins, except while the
//!    entry is in the hands of a thread that is counted in `in_flight`.
//! 7. Nobody reports that memory has run out while a write is in flight, or while another statement that holds some may give it up (`statements`);
//!    a refusal means that everything the pool holds was pinned, or that the temporary space refused.
//! 8. Temporary files have no name: a process that dies leaves nothing behind.
//! 9. What is read back has the checksum it was written with (compressed, if it was), or the page is reported as corrupt and never handed out.
//!
//! After "Robust external hash aggregation in the solid state age", ICDE 2024 (sections III and IV: one pool, three kinds of
//! temporary memory, lock-free eviction queue, slots reused, pages destroyed eagerly). It departs from the paper in
//! writing and reading ahead by threads of its own, where the paper has the thread that needs memory write one page at a time.
//!
//! Not here: what is on a page. Pointers into pages are recomputed by their owner, rows and hash tables are unknown, and
//! so are queries.

mod account;
mod address_space;
mod allocator;
mod background;
mod backing;
mod checksum;
mod code_pages;
mod compression;
mod config;
mod consumers;
mod counter;
mod defaults;
mod error;
mod eviction_queue;
mod faulty_io;
mod frame;
mod governor;
mod io;
mod ledger;
mod manager;
mod mapping;
mod neighbours;
mod non_paged;
mod page;
mod page_count;
#[cfg(not(loom))]
mod page_state;
#[cfg(loom)]
pub mod page_state;
mod pool;
#[cfg(not(loom))]
mod progress;
#[cfg(loom)]
pub mod progress;
mod reservation;
mod statements;
mod sync;
mod temp_cache;
mod temp_file;
mod temp_space;
mod thread_counts;
mod variable_page;

pub use account::{ProcessAccount, process_account};
pub use allocator::CountingAllocator;
pub use backing::Access;
pub use config::{EvictionPolicy, MemoryConfig, TempCompression};
pub use defaults::{default_limit, default_threads};
pub use error::{MemoryError, format_bytes};
pub use eviction_queue::NeededAt;
pub use faulty_io::{FaultPlan, FaultyIo, SimulatedDevice};
pub use governor::MemoryShare;
pub use io::{Io, IoFile, RealIo, SpareMemory, TempAccess};
pub use manager::{BufferManager, MemoryStats};
pub use non_paged::NonPaged;
pub use page::{PageHandle, PinnedPage};
pub use reservation::Reservation;
pub use statements::optional;

/// Bytes of a fixed-size page, 256 KiB: large enough that a device transfers it at full speed, small enough that a page for
/// each of many partitions is affordable (paper B, section III).
pub const PAGE_SIZE: usize = 1 << 18;

/// Bytes of a piece, 2 MiB: the unit in which page frames are mapped, one huge page of x86-64 and of 64-bit ARM with 4 KiB pages.
pub const PIECE_SIZE: usize = 2 << 20;

/// The smallest limit a manager accepts, 1 MiB: four pages, the least with which a row page and its heap page can be
/// copied to another pair.
pub const LIMIT_MIN: usize = 4 * PAGE_SIZE;

const _: () = assert!(PIECE_SIZE.is_multiple_of(PAGE_SIZE));
const _: () = assert!(cfg!(target_endian = "little"), "Ogee is built for little-endian machines");
const _: () = assert!(size_of::<usize>() == 8, "Ogee is built for 64-bit machines");
