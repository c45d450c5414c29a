//! The synchronization primitives of the parts that are model-checked: the standard ones, or loom's under `cfg(loom)`.
//!
//! Not here: what is not modelled uses the standard library, `parking_lot` and `crossbeam` directly.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};
#[cfg(not(loom))]
pub(crate) use parking_lot::{Condvar, Mutex};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

/// Locks; a poisoned lock cannot be, since nothing panics under it.
#[cfg(not(loom))]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> parking_lot::MutexGuard<'_, T> {
    mutex.lock()
}

/// Locks; a poisoned lock cannot be, since nothing panics under it.
#[cfg(loom)]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics under the lock")
}

/// Waits on the condition variable and gives the guard back.
#[cfg(not(loom))]
pub(crate) fn wait<'a, T>(
    condvar: &Condvar,
    mut guard: parking_lot::MutexGuard<'a, T>,
) -> parking_lot::MutexGuard<'a, T> {
    condvar.wait(&mut guard);
    guard
}

/// Waits on the condition variable and gives the guard back.
#[cfg(loom)]
pub(crate) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).expect("nothing panics under the lock")
}
