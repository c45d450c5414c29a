//! What can go wrong with memory and temporary space, and what to do about it.
//!
//! Not here: mistakes of the caller (unpinning twice and the like). Those panic.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// An error of the buffer manager. After each of them the manager and every page it holds are usable.
#[derive(Debug, Clone, thiserror::Error)]
pub enum MemoryError {
    /// Everything the pool holds is pinned, and the limit does not allow more.
    #[error(
        "{consumer} needs {} more; {} of {} held, {} outside the pool; largest: {largest}. Raise memory_limit or lower threads",
        format_bytes(*requested), format_bytes(*held), format_bytes(*limit), format_bytes(*outside)
    )]
    OutOfMemory {
        /// Who asked.
        consumer: &'static str,
        /// Bytes asked for.
        requested: usize,
        /// Bytes held by the pool.
        held: usize,
        /// The memory limit in bytes.
        limit: usize,
        /// Bytes of the process that are not the pool's, and promises of such.
        outside: usize,
        /// The consumers that hold most, with amounts.
        largest: String,
    },
    /// The limit is less than the manager can work with.
    #[error("a memory limit of {} is too small; the least is {}. Raise memory_limit", format_bytes(*limit), format_bytes(*least))]
    LimitTooSmall {
        /// The limit asked for, in bytes.
        limit: usize,
        /// The smallest limit accepted, in bytes.
        least: usize,
    },
    /// The temporary space has reached its cap.
    #[error(
        "{} of temporary space are not enough for {} more in '{}' ({} held). Raise max_temp_size, or memory_limit to spill less",
        format_bytes(to_usize(*cap)), format_bytes(to_usize(*requested)), directory.display(), format_bytes(to_usize(*held))
    )]
    TempSpaceExhausted {
        /// Bytes that were to be written.
        requested: u64,
        /// Bytes held in the temporary space.
        held: u64,
        /// The most it may hold.
        cap: u64,
        /// Where it is.
        directory: PathBuf,
    },
    /// The device of the temporary space is full.
    #[error(
        "the disk of '{}' is full: {} more do not fit ({} of it are temporary). Free space there, or set temp_directory to another disk",
        directory.display(), format_bytes(to_usize(*requested)), format_bytes(to_usize(*held))
    )]
    DiskFull {
        /// Bytes that were to be written.
        requested: u64,
        /// Bytes held in the temporary space.
        held: u64,
        /// Where it is.
        directory: PathBuf,
    },
    /// A temporary file has reached the size that the process may give a file.
    #[error(
        "a file in '{}' may not become larger (ulimit -f), and {} more have to be written. Raise that limit, or memory_limit to spill less",
        directory.display(), format_bytes(to_usize(*requested))
    )]
    FileTooLarge {
        /// Bytes that were to be written.
        requested: u64,
        /// Where the temporary space is.
        directory: PathBuf,
    },
    /// The operating system refused an operation on the temporary space.
    #[error("cannot {operation} temporary space in '{}': {source}. Check temp_directory", directory.display())]
    TempIo {
        /// What was attempted: a verb.
        operation: &'static str,
        /// Where the temporary space is.
        directory: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// A page came back from the temporary space with other bytes than were written.
    #[error("page {page} of the temporary file in '{}' came back changed: the disk or its driver is faulty", file.display())]
    Corrupt {
        /// The directory of the (nameless) temporary file.
        file: PathBuf,
        /// Slot in the file; 0 for a page with a file of its own.
        page: u64,
    },
    /// The operating system has no memory to give, though the limit would allow it.
    #[error("{consumer} needs {} more; the limit allows it, but the system refuses: {source}. Lower memory_limit", format_bytes(*requested))]
    SystemRefused {
        /// Who asked.
        consumer: &'static str,
        /// Bytes asked for.
        requested: usize,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The process may not map as much as a handle of this limit takes.
    #[error(
        "a memory limit of {} takes {} of address space, and the process has {} left (ulimit -v, ulimit -d). Raise that limit, or lower memory_limit",
        format_bytes(*limit), format_bytes(*wanted), format_bytes(*left)
    )]
    AddressSpace {
        /// The memory limit in bytes.
        limit: usize,
        /// Bytes to be mapped for it, threads' stacks included.
        wanted: usize,
        /// Bytes that may still be mapped.
        left: usize,
    },
    /// The setting can be changed only while nothing is spilled.
    #[error("{setting} cannot change while {} are spilled. Wait for the running statements, or cancel them", format_bytes(to_usize(*spilled)))]
    InUse {
        /// The setting.
        setting: &'static str,
        /// Bytes in the temporary space.
        spilled: u64,
    },
}

impl MemoryError {
    /// Whether there is no place for more in the temporary space.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::TempSpaceExhausted { .. } | Self::DiskFull { .. } | Self::FileTooLarge { .. })
    }

    /// The stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::OutOfMemory { .. } => "OGEE_M001",
            Self::LimitTooSmall { .. } => "OGEE_M002",
            Self::TempSpaceExhausted { .. } => "OGEE_M003",
            Self::DiskFull { .. } => "OGEE_M004",
            Self::TempIo { .. } => "OGEE_M005",
            Self::Corrupt { .. } => "OGEE_M006",
            Self::SystemRefused { .. } => "OGEE_M007",
            Self::InUse { .. } => "OGEE_M008",
            Self::AddressSpace { .. } => "OGEE_M009",
            Self::FileTooLarge { .. } => "OGEE_M010",
        }
    }
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Bytes as people read them, in binary units with one decimal where it says something: `256 KiB`, `1.9 GiB`.
pub fn format_bytes(bytes: usize) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut value = bytes as f64;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 || (value - value.round()).abs() < 0.05 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_well() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (256 << 10, "256 KiB"),
            ((1 << 20) - 1, "1 MiB"),
            (1_500_000_000, "1.4 GiB"),
            (2 << 30, "2 GiB"),
            (usize::MAX, "16777216 TiB"),
        ] {
            assert_eq!(format_bytes(bytes), text);
        }
    }

    #[test]
    fn an_error_names_amounts_and_what_to_do() {
        let error = MemoryError::OutOfMemory {
            consumer: "hash aggregate",
            requested: 256 << 10,
            held: 1_950 << 20,
            limit: 2 << 30,
            outside: 307 << 20,
            largest: "sort 1.1 GiB".into(),
        };
        assert_eq!(
            error.to_string(),
            "hash aggregate needs 256 KiB more; 1.9 GiB of 2 GiB held, 307 MiB outside the pool; largest: sort 1.1 GiB. \
             Raise memory_limit or lower threads"
        );
        assert_eq!(error.code(), "OGEE_M001");
    }
}
