//! Anonymous memory from the operating system: map, touch, give back.
//!
//! Not here: who may have how much (`ledger`).
#![expect(unsafe_code, reason = "memory mappings are made by hand; this is the only file that makes or unmakes one")]

use std::io;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// The granularity of mappings, direct I/O and accounting. Systems with larger pages round up further by themselves.
pub(crate) const MAPPING_UNIT: usize = 4096;

/// Bits of an address: tables of rows keep other bits of theirs above them.
const ADDRESS_BITS: u32 = 48;

/// Whether all addresses of a mapping have at most [`ADDRESS_BITS`].
fn is_addressable(start: usize, len: usize) -> bool {
    start.checked_add(len).is_some_and(|end| end <= 1 << ADDRESS_BITS)
}

/// How the kernel backs a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backing {
    /// Huge pages, 2 MiB each, where the system has them.
    Huge,
    /// Small pages, even where the system would choose huge ones by itself.
    Small,
}

/// Zeroed memory that is unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is plain memory with one owner; what threads do with its bytes is the owner's matter.
unsafe impl Send for Mapping {}
// SAFETY: a shared mapping gives out its address only; those who dereference it see to exclusion themselves.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes (a multiple of 4 KiB) at a multiple of `align` (a power of two).
    pub(crate) fn new(len: usize, align: usize, backing: Backing) -> io::Result<Self> {
        debug_assert!(len > 0 && len.is_multiple_of(MAPPING_UNIT) && align.is_power_of_two());
        let mapping = Self::anonymous(len)?;
        let mapping = if mapping.start.as_ptr().addr().is_multiple_of(align) {
            mapping
        } else {
            drop(mapping);
            Self::anonymous(len + align)?.aligned_part(len, align)
        };
        mapping.advise(backing);
        Ok(mapping)
    }

    fn anonymous(len: usize) -> io::Result<Self> {
        // SAFETY: the kernel chooses the address, so no existing mapping is replaced.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let start = NonNull::new(start.cast()).expect("the kernel maps nothing at address zero");
        let mapping = Self { start, len };
        // Without a hint kernels stay below, also where addresses have up to 57 bits.
        if !is_addressable(start.as_ptr().addr(), len) {
            return Err(io::Error::other("a mapping beyond the first 2^48 bytes of addresses"));
        }
        Ok(mapping)
    }

    /// Gives back the ends of a mapping that is `align` bytes longer than needed.
    fn aligned_part(self, len: usize, align: usize) -> Self {
        let start = self.start.as_ptr().addr();
        let head = start.next_multiple_of(align) - start;
        let tail = self.len - head - len;
        // SAFETY: `head + len <= self.len`, so the address is within the mapping.
        let part = unsafe { self.start.add(head) };
        if head > 0 {
            drop(Self { start: self.start, len: head });
        }
        if tail > 0 {
            // SAFETY: `head + len < self.len` here.
            drop(Self { start: unsafe { part.add(len) }, len: tail });
        }
        std::mem::forget(self);
        Self { start: part, len }
    }

    /// The mapping that `into_raw` took apart.
    ///
    /// # Safety
    /// `start` and `len` come from one `into_raw`, and this is the only mapping made of them since.
    pub(crate) unsafe fn from_raw(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len }
    }

    /// The address; the caller owns the memory now.
    pub(crate) fn into_raw(self) -> NonNull<u8> {
        let start = self.start;
        std::mem::forget(self);
        start
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Tells the kernel how to back what is touched from now on. Advice: a kernel without huge pages ignores it.
    pub(crate) fn advise(&self, backing: Backing) {
        self.advise_part(0, self.len, backing);
    }

    /// The same for `len` bytes from `start` on, both multiples of 4 KiB.
    pub(crate) fn advise_part(&self, start: usize, len: usize, backing: Backing) {
        assert!(start <= self.len && len <= self.len - start, "a part of the mapping");
        #[cfg(target_os = "linux")]
        {
            use rustix::mm::{Advice, madvise};
            let advice = match backing {
                Backing::Huge => Advice::LinuxHugepage,
                Backing::Small => Advice::LinuxNoHugepage,
            };
            // It fails in a kernel built without huge pages, which does what `Small` asks for anyway.
            // SAFETY: the range is ours, and neither advice changes its contents.
            let _ = unsafe { madvise(self.start.as_ptr().add(start).cast(), len, advice) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = backing;
    }

    /// Touches `len` bytes from `start` on, which others may use meanwhile.
    ///
    /// # Errors
    /// The system has no memory, or cannot touch it for others (Linux before 5.14).
    pub(crate) fn populate_part(&self, start: usize, len: usize) -> io::Result<()> {
        assert!(start <= self.len && len <= self.len - start, "a part of the mapping");
        // SAFETY: the range is ours.
        unsafe { advise_populate(self.start.add(start), len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `anonymous` and has no other owner; whoever gave out pointers into it saw to it
        // that they are no longer used.
        let result = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(result.is_ok(), "unmapping one's own memory: {result:?}");
    }
}

/// Asks the system to back a range with memory; contents stay as they are.
///
/// # Errors
/// Where there is no memory, or the system does not know how.
///
/// # Safety
/// The range must be mapped.
unsafe fn advise_populate(start: NonNull<u8>, len: usize) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::io::Errno;
        use rustix::mm::{Advice, madvise};
        loop {
            // SAFETY: the caller guarantees the range; populating leaves contents as they are.
            match unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxPopulateWrite) } {
                Err(Errno::INTR | Errno::AGAIN) => {}
                result => return Ok(result?),
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (start, len);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Touches every page of a range, so that it is resident from here on and what is charged is what the process holds.
///
/// # Errors
/// The system has no memory left.
///
/// # Safety
/// The range lies in a live mapping and nobody else uses its bytes during the call.
pub(crate) unsafe fn populate(start: NonNull<u8>, len: usize) -> io::Result<()> {
    // SAFETY: the caller guarantees the range.
    match unsafe { advise_populate(start, len) } {
        // A kernel before 5.14, or another system.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {}
        result => return result,
    }
    for offset in (0..len).step_by(MAPPING_UNIT) {
        // SAFETY: `offset < len`, and the caller guarantees that nobody else uses the bytes. The write must not be optimized
        // away, since the page fault is its purpose.
        unsafe {
            let byte = start.add(offset).as_ptr();
            byte.write_volatile(byte.read_volatile());
        }
    }
    Ok(())
}

/// Gives the memory of a range back to the system and keeps the addresses; the bytes are zero when touched again.
///
/// # Safety
/// The range lies in a live mapping, at multiples of the system's page size, and nobody uses its bytes during the call.
pub(crate) unsafe fn discard(start: NonNull<u8>, len: usize) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    // SAFETY: the caller guarantees that the contents are no longer needed.
    unsafe {
        rustix::mm::madvise(start.as_ptr().cast(), len, rustix::mm::Advice::LinuxDontNeed)?;
    }
    #[cfg(not(target_os = "linux"))]
    // SAFETY: the caller guarantees that the contents are no longer needed; the new mapping takes the place of the old at
    // once, so the addresses stay the owner's.
    unsafe {
        mmap_anonymous(
            start.as_ptr().cast(),
            len,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED,
        )?;
    }
    Ok(())
}

/// Bytes of the mapping that have never been touched. `None` where the system does not tell.
#[cfg(target_os = "linux")]
pub(crate) fn untouched_bytes(start: NonNull<u8>, len: usize, scratch: &mut Vec<u8>) -> Option<usize> {
    /// 64 MiB at a time: a vector of 16 KiB.
    const STEP: usize = 64 << 20;
    let page = rustix::param::page_size();
    scratch.resize(STEP / page, 0);
    let mut untouched = 0;
    for offset in (0..len).step_by(STEP) {
        let step = STEP.min(len - offset);
        let pages = step.div_ceil(page);
        // SAFETY: the range is mapped as long as the caller keeps the mapping; `mincore` only reads page tables and writes
        // `pages` bytes to `scratch`, which has that many.
        let result = unsafe { libc::mincore(start.as_ptr().add(offset).cast(), step, scratch.as_mut_ptr()) };
        if result != 0 {
            return None;
        }
        untouched += scratch[..pages].iter().filter(|&&resident| resident & 1 == 0).count() * page;
    }
    Some(untouched.min(len))
}

/// Bytes of the mapping that have never been touched. `None` where the system does not tell.
#[cfg(not(target_os = "linux"))]
pub(crate) fn untouched_bytes(_start: NonNull<u8>, _len: usize, _scratch: &mut Vec<u8>) -> Option<usize> {
    None
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_aligned_and_zero_and_can_be_discarded() {
        for _ in 0..8 {
            let mapping = Mapping::new(2 << 20, 2 << 20, Backing::Small).expect("2 MiB");
            assert!(mapping.start().as_ptr().addr().is_multiple_of(2 << 20));
            // SAFETY: the mapping is ours alone and long enough.
            unsafe {
                populate(mapping.start(), mapping.len()).expect("2 MiB");
                let byte = mapping.start().as_ptr().add(12345);
                assert_eq!(byte.read(), 0);
                byte.write(9);
                discard(mapping.start(), mapping.len()).expect("our own");
                assert_eq!(byte.read(), 0);
            }
        }
    }

    #[test]
    fn addresses_have_48_bits() {
        assert!(is_addressable(1 << 47, 1 << 47), "bit 47 may be one of an address");
        assert!(!is_addressable((1 << 48) - 4096, 8192));
        assert!(!is_addressable(1 << 52, 4096));
        assert!(!is_addressable(usize::MAX - 4095, 4096));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_was_touched_is_told() {
        let mapping = Mapping::new(1 << 20, 4096, Backing::Small).expect("1 MiB");
        let mut scratch = Vec::new();
        assert_eq!(untouched_bytes(mapping.start(), mapping.len(), &mut scratch), Some(1 << 20));
        // SAFETY: the mapping is ours alone and long enough.
        unsafe { populate(mapping.start(), 1 << 18).expect("256 KiB") };
        assert_eq!(untouched_bytes(mapping.start(), mapping.len(), &mut scratch), Some(3 << 18));
    }
}
