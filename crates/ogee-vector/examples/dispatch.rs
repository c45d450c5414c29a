//! Times the kernels that are compiled for several widths of vectors, side by side: `cargo run --release -p ogee-vector --example dispatch`.
//!
//! Prints how many times as fast each width is as the one that the binary is built for, the widest last.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use ogee_vector::{BitsUsed, CHUNK_CAPACITY, Distances, Integer, Level, Offset, dispatch_at};

/// The shortest of many runs of `kernel` at each level, taken in turns.
fn ratios(levels: &[Level], mut kernel: impl FnMut(Level)) -> String {
    let mut shortest = vec![Duration::MAX; levels.len()];
    for _ in 0..500 {
        for (shortest, &level) in shortest.iter_mut().zip(levels) {
            let start = Instant::now();
            (0..20).for_each(|_| kernel(level));
            *shortest = start.elapsed().min(*shortest);
        }
    }
    let ratio = |time: &Duration| format!("{:5.2}", shortest[0].as_secs_f64() / time.as_secs_f64());
    shortest.iter().map(ratio).collect::<Vec<_>>().join(" ")
}

fn time<S: Integer, T: Offset>(types: &str, from: impl Fn(i64) -> S) {
    let values: Vec<S> = (0..CHUNK_CAPACITY as i64).map(|row| from(row * 7)).collect();
    let values = values.as_slice();
    let mut stored = vec![T::default(); values.len()];
    let levels = Level::available();
    let distances = ratios(&levels, |level| {
        black_box(dispatch_at(level, Distances { values: black_box(values), base: 3, stored: black_box(&mut stored) }));
    });
    let bits = ratios(&levels, |level| {
        black_box(dispatch_at(level, BitsUsed { values: black_box(values), signed: true }));
    });
    println!("{types:12} distances {distances}   bits {bits}");
}

fn main() {
    println!("{:?}", Level::available());
    time::<i32, u8>("i32 to u8", |value| value as i32);
    time::<i32, u16>("i32 to u16", |value| value as i32);
    time::<i64, u8>("i64 to u8", |value| value);
    time::<i64, u16>("i64 to u16", |value| value);
    time::<i64, u32>("i64 to u32", |value| value);
    time::<i128, u32>("i128 to u32", i128::from);
}
