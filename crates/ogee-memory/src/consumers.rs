//! Who holds how much: one counter per consumer's name, found without a lock.
//!
//! Names are string literals, so a name is told from another by its address; the same name at two addresses is two counters that
//! are added when reported.
//!
//! Not here: limits per consumer.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicIsize, Ordering};

use crossbeam_utils::CachePadded;

use crate::error::format_bytes;

/// Consumers that are told apart; later ones share the last counter.
const CONSUMERS_MAX: usize = 64;

/// The counter of a consumer: an index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConsumerId(u8);

#[derive(Debug, Default)]
struct Consumer {
    name: OnceLock<&'static str>,
    bytes: AtomicIsize,
}

/// All consumers of a manager.
#[derive(Debug)]
pub(crate) struct Consumers(Box<[CachePadded<Consumer>]>);

impl Consumers {
    pub(crate) fn new() -> Self {
        Self((0..CONSUMERS_MAX).map(|_| CachePadded::default()).collect())
    }

    /// The counter for `name`.
    pub(crate) fn intern(&self, name: &'static str) -> ConsumerId {
        for (index, consumer) in self.0.iter().enumerate().take(CONSUMERS_MAX - 1) {
            if std::ptr::eq(*consumer.name.get_or_init(|| name), name) {
                return ConsumerId(index as u8);
            }
        }
        self.0[CONSUMERS_MAX - 1].name.get_or_init(|| "others");
        ConsumerId((CONSUMERS_MAX - 1) as u8)
    }

    /// Notes that the consumer holds `bytes` more in memory.
    pub(crate) fn add(&self, id: ConsumerId, bytes: usize) {
        self.0[id.0 as usize].bytes.fetch_add(bytes as isize, Ordering::Relaxed);
    }

    /// Notes that the consumer holds `bytes` less in memory.
    pub(crate) fn sub(&self, id: ConsumerId, bytes: usize) {
        self.0[id.0 as usize].bytes.fetch_sub(bytes as isize, Ordering::Relaxed);
    }

    /// The name the counter was made for.
    pub(crate) fn name(&self, id: ConsumerId) -> &'static str {
        self.0[id.0 as usize].name.get().copied().unwrap_or("others")
    }

    /// Those who hold something, largest first.
    pub(crate) fn largest(&self) -> Vec<(&'static str, usize)> {
        let mut all: Vec<(&'static str, usize)> = Vec::new();
        for consumer in &self.0 {
            let bytes = usize::try_from(consumer.bytes.load(Ordering::Relaxed)).unwrap_or(0);
            let Some(name) = consumer.name.get().copied() else { break };
            match all.iter_mut().find(|(other, _)| *other == name) {
                Some((_, sum)) => *sum += bytes,
                None if bytes > 0 => all.push((name, bytes)),
                None => {}
            }
        }
        all.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
        all
    }

    /// The three largest in words.
    pub(crate) fn describe(&self) -> String {
        let largest = self.largest();
        if largest.is_empty() {
            return "nobody".into();
        }
        let words: Vec<String> =
            largest.iter().take(3).map(|(name, bytes)| format!("{name} {}", format_bytes(*bytes))).collect();
        words.join(", ")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_apart_and_sorted() {
        let consumers = Consumers::new();
        let sort = consumers.intern("sort");
        let join = consumers.intern("hash join");
        consumers.add(sort, 100);
        consumers.add(join, 5000);
        consumers.add(consumers.intern("sort"), 100);
        assert_eq!(consumers.largest(), [("hash join", 5000), ("sort", 200)]);
        consumers.sub(join, 5000);
        assert_eq!(consumers.describe(), "sort 200 B");
    }

    #[test]
    fn too_many_names_share_a_counter() {
        let consumers = Consumers::new();
        let text: &'static str = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz";
        for index in 0..text.len() {
            consumers.add(consumers.intern(&text[index..=index]), 1);
        }
        let sum: usize = consumers.largest().iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(sum, text.len());
        assert!(consumers.largest().iter().any(|(name, _)| *name == "others"));
    }
}
