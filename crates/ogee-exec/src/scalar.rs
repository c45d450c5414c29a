//! The end of a pipeline that gives one value: an uncorrelated scalar subquery.

use arrow_array::ArrayRef;
use ogee_scheduler::TaskContext;
use ogee_vector::Chunk;
use parking_lot::Mutex;
use std::sync::Arc;

use crate::{ExecContext, ExecError, Flow, Sink, SinkLocal};

/// Who is told the value: an array of one row, or that there was no row.
type Tell = Box<dyn Fn(Option<ArrayRef>) -> Result<(), ExecError> + Send + Sync>;

/// Takes the one row of a subquery; it is an error if there are more.
pub struct ScalarSink {
    value: Arc<Mutex<Option<ArrayRef>>>,
    tell: Tell,
}

impl ScalarSink {
    /// A sink that tells the first column of the row when all rows have been seen.
    pub fn new(tell: impl Fn(Option<ArrayRef>) -> Result<(), ExecError> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { value: Arc::default(), tell: Box::new(tell) })
    }
}

impl Sink for ScalarSink {
    fn name(&self) -> &str {
        "scalar"
    }

    fn local(&self, _ctx: &ExecContext, _lane: usize) -> Result<Box<dyn SinkLocal>, ExecError> {
        Ok(Box::new(ScalarLocal(Arc::clone(&self.value))))
    }

    fn finish(&self, _ctx: &ExecContext, _task: &TaskContext) -> Result<(), ExecError> {
        (self.tell)(self.value.lock().take())
    }
}

struct ScalarLocal(Arc<Mutex<Option<ArrayRef>>>);

impl SinkLocal for ScalarLocal {
    fn consume(&mut self, chunk: Chunk, _task: &TaskContext) -> Result<Flow, ExecError> {
        let mut value = self.0.lock();
        if value.is_some() || chunk.len() > 1 {
            return Err(ExecError::ManyRows);
        }
        *value = Some(chunk.column(0).flatten()?);
        Ok(Flow::Continue)
    }

    fn combine(self: Box<Self>, _task: &TaskContext) -> Result<(), ExecError> {
        Ok(())
    }
}
