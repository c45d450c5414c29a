//! Results as streams, on any executor.

use futures::{StreamExt, TryStreamExt, executor::block_on, future::join};
use ogee::{Config, Connection, Database, Result, params};

async fn rows_of(connection: &Connection, sql: &str) -> Result<usize> {
    let batches = connection.execute_async(sql).await?;
    batches.try_fold(0, |rows, batch| async move { Ok(rows + batch.num_rows()) }).await
}

async fn run(connection: &Connection) -> Result<()> {
    // Statements run at once on threads of the engine; the executor has one here, which waits for none of them.
    let (first, second) = join(
        rows_of(connection, "SELECT * FROM range(100000)"),
        rows_of(connection, "SELECT value % 10 FROM range(100000) r(value) GROUP BY ALL"),
    )
    .await;
    assert_eq!((first?, second?), (100_000, 10));

    // Rows come no faster than they are read, and dropping the rest ends the statement.
    let mut endless = connection.execute_async_with("SELECT * FROM range($1)", params![i64::MAX]).await?;
    let first = endless.next().await.expect("rows")?;
    assert!(first.num_rows() > 0 && !endless.progress().is_over);
    drop(endless);

    let insert = connection.prepare("CREATE TABLE t AS SELECT ? AS a")?;
    assert_eq!(insert.execute_async(params![7]).await?.affected_rows(), Some(1));
    Ok(())
}

/// Runs the example.
pub fn main() -> Result<()> {
    let connection = Database::open_in_memory(Config::default())?.connect();
    block_on(run(&connection))
}
