//! Memory that the allocator keeps though nobody uses it. It counts against the limit as long as it is resident.
//!
//! Not here: allocators that programs bring themselves; they set `Config::release_memory`.
#![cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "malloc_trim is a function of the C library")
)]

/// Gives back what glibc's allocator keeps.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn give_back() {
    // SAFETY: takes no pointer, and locks what it touches itself.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators give back by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_back() {}
