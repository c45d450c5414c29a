//! Atomics of the parts that are model-checked: the standard library's, or loom's under `--cfg loom`.
//!
//! Only lane states and morsel ranges are lock-free protocols; they alone use these. The rest of the crate is guarded by
//! the dispatcher's lock and is not modelled, so it does not go through here.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU8, AtomicUsize, Ordering, fence};
