//! Window functions that the engine has no kernel for, evaluated as DataFusion does: a partition at once, or piece by piece.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{ArrayRef, NullArray, RecordBatch, RecordBatchOptions},
        compute::cast,
        datatypes::{DataType, Field, Schema, SchemaRef},
    },
    logical_expr::window_state::{PartitionBatchState, WindowAggState},
    physical_expr::{
        PhysicalExpr,
        window::{PartitionBatches, PartitionKey, PartitionWindowAggStates, WindowEvalContext, WindowExpr},
    },
};
use ogee_exec::{
    ExecError,
    window::{ForeignWindow, ForeignWindowStream},
};
use ogee_functions::error::to_exec;

use super::window::{columns_of, reads};

/// A function evaluated as DataFusion does.
#[derive(Debug)]
pub(super) struct Foreign {
    function: Arc<dyn WindowExpr>,
    /// The window's columns that it reads.
    columns: Vec<usize>,
    input: Arc<Arguments>,
}

/// What a function reads of its input.
#[derive(Debug)]
pub(super) struct Arguments {
    columns: Vec<usize>,
    /// The columns of its own input in the types that the function was planned for; those that it does not read have none.
    schema: SchemaRef,
}

impl Foreign {
    pub(super) fn new(function: &Arc<dyn WindowExpr>, input: &Schema, map: &[usize]) -> Self {
        let (input, columns) = Arguments::of(function, input, map);
        Self { function: Arc::clone(function), columns, input: Arc::new(input) }
    }
}

impl Arguments {
    /// Those of `function`, and which columns of `input` they are, of which `map` says where its own input has them.
    pub(super) fn of(function: &Arc<dyn WindowExpr>, input: &Schema, map: &[usize]) -> (Self, Vec<usize>) {
        Self::beside(function, &[], input, map)
    }

    /// Those of `function` and `others`, and which columns of `input` they are, of which `map` says where its own input has them.
    pub(super) fn beside(
        function: &Arc<dyn WindowExpr>,
        others: &[Arc<dyn PhysicalExpr>],
        input: &Schema,
        map: &[usize],
    ) -> (Self, Vec<usize>) {
        let mut columns = reads(function, map.len());
        columns.extend(columns_of(others));
        columns.sort_unstable();
        columns.dedup();
        let fields: Vec<Field> = (0..map.len())
            .map(|index| match columns.binary_search(&index) {
                // What DataFusion inferred from nullability is already in the plan.
                Ok(_) => input.field(map[index]).clone().with_nullable(true),
                Err(_) => Field::new(format!("c{index}"), DataType::Null, true),
            })
            .collect();
        let read = columns.iter().map(|&column| map[column]).collect();
        (Self { columns, schema: Arc::new(Schema::new(fields)) }, read)
    }

    /// `rows` rows of `columns` where the function expects them.
    pub(super) fn batch(&self, columns: &[ArrayRef], rows: usize) -> Result<RecordBatch, ExecError> {
        let absent: ArrayRef = Arc::new(NullArray::new(rows));
        let mut all = vec![absent; self.schema.fields().len()];
        for (&index, column) in self.columns.iter().zip(columns) {
            let declared = self.schema.field(index).data_type();
            all[index] = if column.data_type() == declared { Arc::clone(column) } else { cast(column, declared)? };
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), all, &options)?)
    }
}

impl ForeignWindow for Foreign {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef, ExecError> {
        self.function.evaluate(&self.input.batch(columns, rows)?).map_err(to_exec)
    }

    fn stream(&self) -> Result<Option<Box<dyn ForeignWindowStream>>, ExecError> {
        if !self.function.uses_bounded_memory() {
            return Ok(None);
        }
        let mut partition = PartitionBatches::default();
        partition.insert(PartitionKey::default(), PartitionBatchState::new(Arc::clone(&self.input.schema)));
        Ok(Some(Box::new(Stream {
            function: Arc::clone(&self.function),
            input: Arc::clone(&self.input),
            partition,
            states: PartitionWindowAggStates::default(),
        })))
    }
}

/// One partition, in DataFusion's state of a function with bounded memory.
struct Stream {
    function: Arc<dyn WindowExpr>,
    input: Arc<Arguments>,
    partition: PartitionBatches,
    states: PartitionWindowAggStates,
}

impl ForeignWindowStream for Stream {
    fn push(&mut self, columns: &[ArrayRef], rows: usize, last: bool) -> Result<ArrayRef, ExecError> {
        let key = PartitionKey::default();
        let batch = self.input.batch(columns, rows)?;
        let partition = self.partition.get_mut(&key).expect("made with the stream");
        partition.extend(&batch).map_err(to_exec)?;
        partition.is_end = last;
        let context = WindowEvalContext::default();
        self.function.evaluate_stateful(&self.partition, &mut self.states, &context).map_err(to_exec)?;
        let state: &mut WindowAggState = &mut self.states.get_mut(&key).expect("evaluated just now").state;
        let values = state.out_col.slice(0, state.out_col.len());
        state.out_col = state.out_col.slice(0, 0);
        // Rows before the frame of the next are not needed any more.
        let done = state.window_frame_range.start.min(state.last_calculated_index);
        if done > 0 {
            state.prune_state(done);
            let partition = self.partition.get_mut(&key).expect("made with the stream");
            let left = partition.record_batch.num_rows() - done;
            partition.record_batch = partition.record_batch.slice(done, left);
        }
        Ok(values)
    }
}
