//! How far a statement is, seen from another thread, and the end of one that takes too long.

use std::{thread, time::Duration};

use ogee::{Config, Database, Result};

/// Runs the example.
pub fn main() -> Result<()> {
    let connection = Database::open_in_memory(Config::default())?.connect();
    let (progress, interrupt) = (connection.progress_handle(), connection.interrupt_handle());
    assert!(progress.progress().is_none(), "nothing runs");

    // It would take years.
    let watch = thread::spawn(move || {
        loop {
            match progress.progress() {
                Some(now) if now.rows_read > 100_000 => {
                    interrupt.interrupt();
                    return now;
                }
                _ => thread::sleep(Duration::from_millis(1)),
            }
        }
    });
    let rows = connection.execute("SELECT count(*) FROM range(9000000000000) WHERE value % 7 = 3");
    let ended = rows.and_then(|mut rows| rows.next().transpose());
    assert_eq!(ended.expect_err("it was interrupted").code(), "OGEE_X004");
    let seen = watch.join().expect("no panic");
    assert!(seen.fraction.is_some_and(|fraction| fraction < 0.01) && !seen.is_over, "{seen:?}");

    // A result tells of itself.
    let mut rows = connection.execute("SELECT * FROM range(50000)")?;
    assert!(rows.by_ref().all(|batch| batch.is_ok()));
    let after = rows.progress();
    assert!(after.is_over && after.rows == 50_000 && after.fraction == Some(1.0), "{after:?}");
    Ok(())
}
