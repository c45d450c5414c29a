//! Runs statements at once on one handle, each on a connection of its own, and prints how long each took, and what the pool held.
//!
//! ```text
//! cargo run --release --example at_once -- 512MB 2 "SELECT ..." "SELECT ..."
//! ```
//!
//! The first argument is the memory limit, the second the number of workers.

use std::{alloc::System, error::Error, time::Instant};

use ogee::{Config, Database, arrow::util::pretty::pretty_format_batches};

#[global_allocator]
static HEAP: ogee_memory::CountingAllocator<System> = ogee_memory::CountingAllocator::new(System);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(limit), Some(threads)) = (arguments.next(), arguments.next()) else {
        return Err("usage: at_once LIMIT THREADS STATEMENT...".into());
    };
    let config = Config::default().memory_limit(ogee::parse_memory_limit(&limit)?).threads(threads.parse()?);
    let database = Database::open_in_memory(config)?;
    let start = Instant::now();
    let failed = std::thread::scope(|scope| {
        let run = |sql: &str| -> Result<String, Box<dyn Error>> {
            let batches = database.connect().execute(sql)?.collect::<ogee::Result<Vec<_>>>()?;
            Ok(pretty_format_batches(&batches)?.to_string())
        };
        let started: Vec<_> = arguments
            .map(|sql| {
                scope.spawn(move || {
                    let (table, is_error) = match run(&sql) {
                        Ok(table) => (table, false),
                        Err(error) => (error.to_string(), true),
                    };
                    println!("{sql}\n{table}\n{:.2} s", start.elapsed().as_secs_f64());
                    is_error
                })
            })
            .collect();
        started.into_iter().map(|thread| thread.join().unwrap_or(true)).filter(|&failed| failed).count()
    });
    println!("peak of the pool: {}", ogee::format_size(database.memory_stats().peak_used as u64));
    if failed > 0 { Err(format!("{failed} failed").into()) } else { Ok(()) }
}
