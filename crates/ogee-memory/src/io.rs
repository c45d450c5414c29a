//! The door to files: a trait, and the operating system behind it.
//!
//! Temporary files have no name from the moment they are opened, so a process that dies leaves nothing behind. Direct I/O, where it is asked
//! for, is given up where the file system refuses.
//!
//! Not here: what is in the files, retries of short transfers, caps (`temp_file`, `temp_space`).

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};

use crate::defaults::spare_memory;

/// How bytes get to a temporary file and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TempAccess {
    /// From and to the device: the page cache would hold in memory what was written out to free it.
    Direct,
    /// Through the page cache, for where there is memory to spare (see `temp_cache`).
    PageCache,
}

/// Memory that is left for whoever asks; nothing where nobody tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpareMemory {
    /// Bytes; what the page cache would give up is among them.
    pub bytes: u64,
    /// Bytes that may be put into the page cache before the system begins to write them to disks.
    pub unwritten: u64,
}

/// What the buffer manager asks of the system; `FaultyIo` is the twin that fails on purpose.
pub trait Io: Debug + Send + Sync {
    /// A new file without a name in `directory`, which is created if need be.
    ///
    /// # Errors
    /// What the system says.
    fn open_temp(&self, directory: &Path, access: TempAccess) -> io::Result<Box<dyn IoFile>>;

    /// Bytes an ordinary user may still write in `directory`, or in its nearest ancestor that exists.
    ///
    /// # Errors
    /// What the system says.
    fn free_space(&self, directory: &Path) -> io::Result<u64>;

    /// Whether `directory`, or its nearest ancestor that exists, lies in memory (tmpfs, ramfs).
    ///
    /// # Errors
    /// What the system says.
    fn is_in_memory(&self, directory: &Path) -> io::Result<bool>;

    /// What the machine and the control groups of this process have left.
    fn spare_memory(&self) -> SpareMemory;

    /// The time since some moment in the past, by which transfers and compression are measured; it never goes back.
    fn now(&self) -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }
}

/// A temporary file. Offsets and lengths are multiples of 4 KiB, and so are the addresses of the buffers.
pub trait IoFile: Debug + Send + Sync {
    /// Reads some bytes from `offset`; 0 at the end of the file.
    ///
    /// # Errors
    /// What the system says.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes some of `bytes` to `offset`. They may change meanwhile: then what is written is of no use, but nothing else breaks.
    ///
    /// # Errors
    /// What the system says.
    fn write_at(&self, bytes: &[AtomicU8], offset: u64) -> io::Result<usize>;

    /// Gives the space of a range back; it reads as zeros.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where the file system cannot; else what the system says.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Makes the file `len` bytes long.
    ///
    /// # Errors
    /// What the system says.
    fn truncate(&self, len: u64) -> io::Result<()>;
}

/// The operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealIo;

impl Io for RealIo {
    fn open_temp(&self, directory: &Path, access: TempAccess) -> io::Result<Box<dyn IoFile>> {
        std::fs::create_dir_all(directory)?;
        let file = match open_nameless(directory, access) {
            Err(error) if error.raw_os_error() == Some(libc::EMFILE) && raise_open_files() => {
                open_nameless(directory, access)
            }
            result => result,
        }?;
        Ok(Box::new(file))
    }

    fn free_space(&self, directory: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(existing_ancestor(directory))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn is_in_memory(&self, directory: &Path) -> io::Result<bool> {
        #[cfg(target_os = "linux")]
        {
            const TMPFS: u64 = 0x0102_1994;
            const RAMFS: u64 = 0x8584_58f6;
            let kind = rustix::fs::statfs(existing_ancestor(directory))?.f_type as u64 & 0xffff_ffff;
            Ok(kind == TMPFS || kind == RAMFS)
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = directory;
            Ok(false)
        }
    }

    fn spare_memory(&self) -> SpareMemory {
        spare_memory()
    }
}

fn existing_ancestor(directory: &Path) -> &Path {
    directory.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"))
}

/// Raises the soft limit on open files to the hard one: each spilled variable-size page has a file of its own. Whether it was lower.
fn raise_open_files() -> bool {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    limit.current != limit.maximum
        && setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).is_ok()
}

/// Opens a file without a name: `O_TMPFILE` where the file system has it, else created and unlinked at once.
fn open_nameless(directory: &Path, access: TempAccess) -> io::Result<RealFile> {
    let mode = Mode::RUSR | Mode::WUSR;
    #[cfg(target_os = "linux")]
    for direct in [OFlags::DIRECT, OFlags::empty()] {
        if access == TempAccess::PageCache && !direct.is_empty() {
            continue;
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::EXCL | direct;
        match rustix::fs::open(directory, flags, mode) {
            Ok(fd) => return Ok(RealFile { fd, direct: AtomicBool::new(!direct.is_empty()) }),
            Err(rustix::io::Errno::INVAL) if !direct.is_empty() => {}
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    create_and_unlink(directory, mode, access)
}

fn create_and_unlink(directory: &Path, mode: Mode, access: TempAccess) -> io::Result<RealFile> {
    use std::sync::atomic::AtomicU64;
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("ogee-{}-{number}.tmp", std::process::id()));
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::open(&path, flags, mode) {
            Ok(fd) => {
                std::fs::remove_file(&path)?;
                let direct = access == TempAccess::Direct && ask_for_direct(&fd);
                return Ok(RealFile { direct: AtomicBool::new(direct), fd });
            }
            Err(rustix::io::Errno::EXIST) => {} // of a process with this number that died between the two calls
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(target_os = "linux")]
fn ask_for_direct(fd: &OwnedFd) -> bool {
    rustix::fs::fcntl_getfl(fd).and_then(|flags| rustix::fs::fcntl_setfl(fd, flags | OFlags::DIRECT)).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn ask_for_direct(_fd: &OwnedFd) -> bool {
    false
}

#[derive(Debug)]
struct RealFile {
    fd: OwnedFd,
    direct: AtomicBool,
}

impl RealFile {
    /// Some file systems accept direct I/O when the file is opened and refuse it when it is used. Whether to try again.
    fn gave_up_direct(&self, error: &io::Error) -> bool {
        #[cfg(target_os = "linux")]
        if error.raw_os_error() == Some(libc::EINVAL)
            && self.direct.swap(false, Ordering::Relaxed)
            && let Ok(flags) = rustix::fs::fcntl_getfl(&self.fd)
        {
            return rustix::fs::fcntl_setfl(&self.fd, flags - OFlags::DIRECT).is_ok();
        }
        let _ = (error, &self.direct);
        false
    }

    #[expect(
        unsafe_code,
        reason = "the bytes may change while the kernel reads them, which a slice of bytes does not allow"
    )]
    fn write_once(&self, bytes: &[AtomicU8], offset: u64) -> io::Result<usize> {
        let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        // SAFETY: the kernel reads `bytes.len()` bytes from a live slice; no reference to plain bytes is made, so it does not
        // matter that others may write them during the call.
        let written = unsafe { libc::pwrite(self.fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), offset) };
        usize::try_from(written).map_err(|_| io::Error::last_os_error())
    }
}

impl IoFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match rustix::io::pread(&self.fd, &mut *buffer, offset).map_err(io::Error::from) {
            Err(error) if self.gave_up_direct(&error) => Ok(rustix::io::pread(&self.fd, buffer, offset)?),
            result => result,
        }
    }

    fn write_at(&self, bytes: &[AtomicU8], offset: u64) -> io::Result<usize> {
        match self.write_once(bytes, offset) {
            Err(error) if self.gave_up_direct(&error) => self.write_once(bytes, offset),
            result => result,
        }
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::FallocateFlags;
            match rustix::fs::fallocate(&self.fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len) {
                Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Err(io::ErrorKind::Unsupported.into()),
                result => Ok(result?),
            }
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (offset, len);
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        Ok(rustix::fs::ftruncate(&self.fd, len)?)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn page(byte: u8) -> Vec<AtomicU8> {
        (0..8192).map(|_| AtomicU8::new(byte)).collect()
    }

    #[test]
    fn both_ways_of_opening_leave_no_name_and_keep_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let nested = directory.path().join("a/b");
        let io = RealIo;
        let files = [TempAccess::Direct, TempAccess::PageCache].map(|access| -> [Box<dyn IoFile>; 2] {
            let opened = io.open_temp(&nested, access).unwrap();
            [opened, Box::new(create_and_unlink(&nested, Mode::RUSR | Mode::WUSR, access).unwrap())]
        });
        for file in files.iter().flatten() {
            // Buffers that are not aligned make direct I/O refuse, which must not be noticed.
            let bytes = page(7);
            assert_eq!(file.write_at(&bytes, 8192).unwrap(), 8192);
            let mut back = vec![0; 8192];
            assert_eq!(file.read_at(&mut back, 8192).unwrap(), 8192);
            assert!(back.iter().all(|&byte| byte == 7));
            match file.punch(8192, 4096) {
                Ok(()) => {
                    assert_eq!(file.read_at(&mut back, 8192).unwrap(), 8192);
                    assert!(back[..4096].iter().all(|&byte| byte == 0) && back[4096] == 7);
                }
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::Unsupported),
            }
            file.truncate(0).unwrap();
            assert_eq!(file.read_at(&mut back, 0).unwrap(), 0);
        }
        assert_eq!(std::fs::read_dir(&nested).unwrap().count(), 0);
        assert!(io.free_space(&nested.join("not/there")).unwrap() > 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_is_told_from_disk() {
        if Path::new("/dev/shm").exists() {
            assert!(RealIo.is_in_memory(Path::new("/dev/shm/not-there")).unwrap());
        }
        assert!(!RealIo.is_in_memory(Path::new("/proc")).unwrap());
    }
}
