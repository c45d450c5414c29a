//! Times how rows enter radix partitions: `cargo run --release -p ogee-row --example append`.
//!
//! Two lanes append rows of several widths to several numbers of partitions, by `append`, which tells where each row went, and by
//! `scatter`, which does not. Prints nanoseconds of a row and lane; memory that went back to the system in between is touched again in both.
#![expect(clippy::unwrap_used, reason = "an example")]
#![expect(unsafe_code, reason = "rows are addressed by pointers")]

use std::{sync::Arc, thread, time::Instant};

use arrow_schema::DataType;
use ogee_memory::{BufferManager, MemoryConfig};
use ogee_row::{PartitionedRows, RadixBits, RowLayout, RowLayoutBuilder, RowStage};

/// Bytes of rows that a lane appends.
const BYTES: usize = 1 << 30;
/// Rows of a chunk.
const CHUNK_ROWS: usize = 2048;

fn layout(width: usize) -> Arc<RowLayout> {
    let mut builder = RowLayoutBuilder::default();
    builder.key(DataType::Int32, false);
    if width > 8 {
        builder.state(width - 8);
    }
    let layout = builder.build().unwrap();
    assert_eq!(layout.width(), width);
    layout
}

/// Nanoseconds of a row, wall time of one lane, the hash included.
fn time(memory: &Arc<BufferManager>, width: usize, bits: u32, scatters: bool, lane: u64) -> f64 {
    let layout = layout(width);
    let mut stage = RowStage::default();
    stage.reset(&layout, CHUNK_ROWS);
    let mut rows =
        PartitionedRows::new(Arc::clone(&layout), Arc::clone(memory), "example", RadixBits::new(bits), false);
    let mut addresses = Vec::new();
    let mut state = 88_172_645_463_325_252 + lane;
    let chunks = BYTES / width / CHUNK_ROWS;
    let start = Instant::now();
    for _ in 0..chunks {
        let hashes = (0..CHUNK_ROWS).map(|_| {
            state = u64::wrapping_mul(state, 6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        });
        stage.write_stored_hashes(hashes);
        let sources = (0..CHUNK_ROWS).map(|row| stage.row(row));
        // SAFETY: staged rows with their hashes, without strings.
        unsafe {
            match scatters {
                true => rows.scatter(sources).unwrap(),
                false => rows.append(sources, &mut addresses).unwrap(),
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(rows.into_partitions().iter().map(|partition| partition.rows()).sum::<usize>(), chunks * CHUNK_ROWS);
    seconds * 1e9 / (chunks * CHUNK_ROWS) as f64
}

fn main() {
    let limit = 4 * BYTES;
    let memory = BufferManager::new(MemoryConfig { limit, counts_process: false, ..MemoryConfig::default() }).unwrap();
    let both = |width, bits, scatters| {
        let lane = |lane| time(&memory, width, bits, scatters, lane);
        let (first, second) = thread::scope(|scope| {
            let other = scope.spawn(|| lane(1));
            (lane(0), other.join().unwrap())
        });
        (first + second) / 2.0
    };
    // The first run touches all of it.
    both(64, 3, false);
    for width in [8, 16, 24, 32, 40, 64] {
        for bits in [3, 5, 6, 7, 8, 9, 10] {
            let (append, scatter) = (both(width, bits, false), both(width, bits, true));
            println!("{width:3} bytes, {:4} partitions: append {append:5.2}, scatter {scatter:5.2} ns", 1 << bits);
        }
    }
}
