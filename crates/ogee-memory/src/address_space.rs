//! How many addresses the process may still map, where somebody limits them (`ulimit -v`, `ulimit -d`).
//!
//! Code and the allocator of the process cannot tell a limit of addresses from the end of memory, and end with it. So whoever opens a handle is
//! told before anything is done, while the limit can still be named.
//!
//! Not here: how much memory there is (`defaults`).

use rustix::process::{Resource, getrlimit};

use crate::{LIMIT_MIN, MemoryError};

/// Bytes of addresses that a handle takes beside its memory: a statement's stack of 256 MiB, which another may have as well, and those of its other threads.
const BESIDE: usize = 640 << 20;

/// Bytes that the process may still map; `None` if nobody limits them.
fn left() -> Option<usize> {
    let allowed = |resource| getrlimit(resource).current.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let (addresses, data) = (allowed(Resource::As), allowed(Resource::Data));
    if addresses.is_none() && data.is_none() {
        return None;
    }
    let [all, private] = mapped().unwrap_or_default();
    let left = |allowed: Option<usize>, mapped: usize| allowed.map(|bytes| bytes.saturating_sub(mapped));
    left(addresses, all).into_iter().chain(left(data, private)).min()
}

/// Bytes that are mapped: all, and those that are written to. `None` where the system does not tell.
fn mapped() -> Option<[usize; 2]> {
    // Pages: all, resident, shared, code, libraries, data and stack, dirty.
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut numbers = text.split_whitespace().map(str::parse::<usize>);
    let (all, data) = (numbers.next()?.ok()?, numbers.nth(4)?.ok()?);
    Some([all, data].map(|pages| pages.saturating_mul(rustix::param::page_size())))
}

/// The largest memory limit that there are addresses for.
pub(crate) fn limit_max() -> usize {
    left().map_or(usize::MAX, |left| left.saturating_sub(BESIDE).max(LIMIT_MIN))
}

/// An error if there are no addresses for a handle of this limit, of which it holds so many bytes already.
///
/// # Errors
/// [`MemoryError::AddressSpace`].
pub(crate) fn check(limit: usize, held: Option<usize>) -> Result<(), MemoryError> {
    let Some(left) = left() else { return Ok(()) };
    // A handle that holds something has its threads.
    let wanted = held.map_or_else(|| limit.saturating_add(BESIDE), |held| limit.saturating_sub(held));
    if wanted <= left { Ok(()) } else { Err(MemoryError::AddressSpace { limit, wanted, left }) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_is_known_where_the_system_tells() {
        if cfg!(target_os = "linux") {
            let before = mapped().expect("Linux tells");
            // Mapped and not touched; tests beside this one map and unmap less.
            let more = Vec::<u8>::with_capacity(1 << 30);
            let after = mapped().expect("Linux tells");
            let expected = before.map(|bytes| bytes + more.capacity() / 2);
            assert!(after[0] >= expected[0] && after[1] >= expected[1], "{before:?} {after:?}");
        }
    }
}
