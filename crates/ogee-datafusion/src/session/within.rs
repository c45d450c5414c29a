//! Statements that change rows within the `WITH` of another: run one after the other, each as by itself, and the other reads what they tell.
//!
//! Each sees what those before it have done. All of them, and the statement that has them, are done or none is: they are a transaction, unless there is one already.
//!
//! Not here: what one of them does (`changes`).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{ArrayRef, Int64Array, RecordBatch},
        datatypes::{DataType, Field, Schema},
    },
    catalog::TableProvider,
    execution::SendableRecordBatchStream,
    physical_plan::execute_stream,
    sql::parser::Statement as ParsedStatement,
};
use futures::{StreamExt, future::LocalBoxFuture};
use ogee_functions::{Error, Result};
use ogee_sql::{Statement, StatementContext, changes::within, parse, spellings::Spellings};

use super::{Outcome, Session, changes::Made, nullable, task_context};
use crate::{changing::RowsWriter, table::PagedTable};

/// What was done is put back where its future ends before it is done.
struct Undone<'a> {
    session: &'a Session,
    connection: u64,
}

impl Drop for Undone<'_> {
    fn drop(&mut self) {
        self.session.put_back(self.connection);
    }
}

impl Session {
    /// Runs `statement`, the `WITH` of which has statements that change rows.
    pub(super) fn run_changes_within<'a>(
        &'a self,
        statement: Statement,
        context: &'a Arc<StatementContext>,
    ) -> LocalBoxFuture<'a, Result<Outcome>> {
        Box::pin(async move {
            let connection = context.connection();
            if self.is_in_transaction(connection) {
                return self.run_in_order(statement, context).await;
            }
            self.transact(&parsed("BEGIN")?, connection).await?;
            let undone = Undone { session: self, connection };
            let outcome = self.run_in_order(statement, context).await?;
            self.transact(&parsed("COMMIT")?, connection).await?;
            // Nothing is open any more.
            drop(undone);
            Ok(outcome)
        })
    }

    async fn run_in_order(&self, statement: Statement, context: &Arc<StatementContext>) -> Result<Outcome> {
        let Statement(mut statement, spellings) = statement;
        let mut made = Made::default();
        while let Some((index, change)) = within::first(&statement) {
            let rows = match self.run(Statement(change, Spellings::default()), context).await? {
                Outcome::Rows(rows) => self.kept(rows).await?,
                Outcome::Done(count) => self.counted(count)?,
            };
            let name = self.make(Arc::new(rows), &mut made)?;
            within::read_from(&mut statement, index, &name)?;
        }
        let rows = match self.run(Statement(statement, spellings), context).await? {
            Outcome::Rows(rows) => self.kept(rows).await?,
            done @ Outcome::Done(_) => return Ok(done),
        };
        let state = self.context.state();
        let scan = rows.scan(&state, None, &[], None).await?;
        let context = task_context(&state, &scan);
        Ok(Outcome::Rows(execute_stream(scan, context)?))
    }

    /// The rows of a stream, all of them.
    async fn kept(&self, mut rows: SendableRecordBatchStream) -> Result<PagedTable> {
        let schema = nullable(&rows.schema());
        let memory = self.engine.memory();
        let mut writer = RowsWriter::new(&schema, memory);
        while let Some(batch) = rows.next().await.transpose()? {
            writer.push(batch)?;
        }
        Ok(PagedTable::of_blocks(schema, Arc::clone(memory), writer.finish()?))
    }

    /// What a statement tells that has no `RETURNING`.
    fn counted(&self, count: Option<u64>) -> Result<PagedTable> {
        let schema = Arc::new(Schema::new(vec![Field::new("count", DataType::Int64, true)]));
        let memory = self.engine.memory();
        let count: ArrayRef = Arc::new(Int64Array::from(vec![count.map(|count| count as i64)]));
        let mut writer = RowsWriter::new(&schema, memory);
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![count]);
        writer.push(batch.map_err(datafusion::error::DataFusionError::from)?)?;
        Ok(PagedTable::of_blocks(schema, Arc::clone(memory), writer.finish()?))
    }
}

fn parsed(text: &str) -> Result<ParsedStatement> {
    let parsed = parse(text)?.pop().map(|statement| statement.0);
    parsed.ok_or_else(|| Error::Internal(format!("'{text}' is no statement")))
}
