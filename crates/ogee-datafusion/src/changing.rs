//! The rows of a table while a statement changes them: which go, which come, and the moment in which that is so for everybody.
//!
//! 1. Until [`Changing::publish`] nobody sees anything of it, and whoever stops before leaves the table as it was.
//! 2. A block that has rows which go is written anew without them, and takes the place of the old one. The others stay as they are. Rows that take the place of others lie where those lay.
//! 3. Of two statements that write the same block anew the second is refused: it has looked at rows that are not there any more.
//!
//! Rows go by their numbers, those that the table had when the statement began: a bit for each row of the blocks that some go from.
//!
//! Not here: which rows (`session::changes`), and when keys may be the same (`keys`).

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions},
        compute::filter_record_batch,
        datatypes::SchemaRef,
        util::display::{ArrayFormatter, FormatOptions},
    },
    common::{exec_datafusion_err, exec_err, internal_err},
    error::{DataFusionError, Result},
};
use ogee_functions::times::infinite::infinite_word;
use ogee_memory::{BufferManager, Reservation};

use crate::{
    coalesce::Coalescer,
    foreign::{self, Foreign, Needed},
    keys::NewRows,
    replaced::{Replaced, Runs},
    table::{Block, BlockWriter, Blocks, PagedTable, coalescer, first_rows, renamed},
};

/// Writes rows of one form into blocks.
pub(crate) struct RowsWriter {
    schema: SchemaRef,
    coalescer: Coalescer,
    writer: BlockWriter,
}

impl RowsWriter {
    /// A writer of rows of `schema`.
    pub(crate) fn new(schema: &SchemaRef, memory: &Arc<BufferManager>) -> Self {
        let (coalescer, writer) = (coalescer(schema), BlockWriter::sharing_out(schema, memory));
        Self { schema: Arc::clone(schema), coalescer, writer }
    }

    /// Appends the rows of `batch`, whose columns may have other names.
    pub(crate) fn push(&mut self, batch: RecordBatch) -> Result<()> {
        self.coalescer.push(&renamed(batch, &self.schema)?)?;
        self.write()
    }

    fn write(&mut self) -> Result<()> {
        while let Some(batch) = self.coalescer.next() {
            self.writer.write(&batch)?;
        }
        Ok(())
    }

    /// The blocks of all rows.
    pub(crate) fn finish(mut self) -> Result<Vec<Arc<Block>>> {
        self.coalescer.finish()?;
        self.write()?;
        self.writer.finish()
    }
}

/// See the module.
pub(crate) struct Changing<'a> {
    name: &'a str,
    table: &'a PagedTable,
    checks: Vec<String>,
    /// The table as it was, and the numbers of the first rows of its blocks.
    blocks: Blocks,
    first: Arc<[u64]>,
    gone: Gone,
    rows: RowsWriter,
    replaced: Replaced,
    keys: Option<NewRows>,
    foreign: Arc<Foreign>,
    needed: Needed,
    /// How many rows came.
    seen: u64,
}

/// Rows that go: for each block a bit for each row, if any goes.
struct Gone {
    memory: Arc<BufferManager>,
    blocks: Vec<Option<Vec<u64>>>,
    counts: Vec<usize>,
    bytes: usize,
    held: Option<Reservation>,
}

impl Gone {
    /// Row `row` of block `block`, which has `rows`, goes. Gives whether it did not before.
    fn insert(&mut self, block: usize, row: usize, rows: usize) -> Result<bool> {
        if self.blocks[block].is_none() {
            self.bytes += rows.div_ceil(64) * size_of::<u64>();
            let failed = |error| DataFusionError::External(Box::new(ogee_functions::Error::Memory(error)));
            match &mut self.held {
                Some(held) if held.bytes() < self.bytes => {
                    held.resize(self.bytes.next_multiple_of(64 << 10)).map_err(failed)?;
                }
                Some(_) => {}
                held => {
                    let bytes = self.bytes.next_multiple_of(64 << 10);
                    *held = Some(self.memory.reserve("rows that go", bytes).map_err(failed)?);
                }
            }
        }
        let bits = self.blocks[block].get_or_insert_with(|| vec![0; rows.div_ceil(64)]);
        let (word, bit) = (row / 64, 1_u64 << (row % 64));
        let is_new = bits[word] & bit == 0;
        bits[word] |= bit;
        self.counts[block] += usize::from(is_new);
        Ok(is_new)
    }
}

impl Gone {
    /// Whether there were rows, and all of them go.
    fn is_all(&self, blocks: &Blocks) -> bool {
        !blocks.is_empty() && self.counts.iter().zip(blocks.iter()).all(|(gone, block)| *gone == block.rows())
    }
}

impl<'a> Changing<'a> {
    /// Nothing is changed yet of `table`, called `name`, which has `blocks`. `keys`: whether rows that come may have keys of others.
    pub(crate) fn begin(
        name: &'a str,
        table: &'a PagedTable,
        blocks: Blocks,
        foreign: Arc<Foreign>,
        keys: bool,
    ) -> Self {
        let memory = table.memory();
        let gone = Gone {
            memory: Arc::clone(memory),
            blocks: vec![None; blocks.len()],
            counts: vec![0; blocks.len()],
            bytes: 0,
            held: None,
        };
        Self {
            name,
            checks: table.definition().checks().iter().map(ToString::to_string).collect(),
            first: first_rows(&blocks),
            blocks,
            gone,
            rows: RowsWriter::new(&table.rows_schema(), memory),
            replaced: Replaced::new(&table.rows_schema(), memory),
            keys: table.keys().filter(|_| keys).map(crate::keys::Keys::begin),
            foreign,
            needed: Needed::default(),
            table,
            seen: 0,
        }
    }

    /// The rows of these numbers go. Gives which of them did not go before.
    pub(crate) fn take_away(&mut self, rows: &Int64Array) -> Result<BooleanArray> {
        let mut block = 0;
        let mut is_new = Vec::with_capacity(rows.len());
        for row in rows {
            let Some(row) = row.and_then(|row| u64::try_from(row).ok()) else {
                return internal_err!("a row of the table without a number");
            };
            let is_within = |block: usize| {
                let first = self.first.get(block).copied();
                first.is_some_and(|first| row >= first && row - first < self.blocks[block].rows() as u64)
            };
            if !is_within(block) {
                block = self.first.partition_point(|first| *first <= row).saturating_sub(1);
            }
            if !is_within(block) {
                return internal_err!("a row of the table that it has not");
            }
            is_new.push(self.gone.insert(block, (row - self.first[block]) as usize, self.blocks[block].rows())?);
        }
        Ok(is_new.into())
    }

    /// All rows go.
    pub(crate) fn take_away_all(&mut self) {
        for (at, block) in self.blocks.iter().enumerate() {
            self.gone.blocks[at] = Some(Vec::new());
            self.gone.counts[at] = block.rows();
        }
    }

    /// How many rows came so far.
    pub(crate) fn count(&self) -> u64 {
        self.seen
    }

    /// The rows of `columns` come: those of the table, and behind them whether each condition of it holds.
    ///
    /// # Errors
    /// A row does not meet what the table asks for.
    pub(crate) fn add(&mut self, columns: &[ArrayRef], rows: usize) -> Result<()> {
        let batch = self.seen(columns, rows)?;
        self.rows.push(batch)
    }

    /// The same, where each row takes the place of the one of these numbers, which goes.
    ///
    /// # Errors
    /// A row does not meet what the table asks for.
    pub(crate) fn replace(&mut self, numbers: &Int64Array, columns: &[ArrayRef]) -> Result<()> {
        let batch = self.seen(columns, numbers.len())?;
        match self.replaced.push(numbers, batch)? {
            None => Ok(()),
            // There are too many pieces in no order: those come last.
            Some(batch) => self.rows.push(batch),
        }
    }

    /// The rows of `columns`, which meet what the table asks for.
    fn seen(&mut self, columns: &[ArrayRef], rows: usize) -> Result<RecordBatch> {
        let schema = self.table.rows_schema();
        let width = schema.fields().len();
        let (columns, checks) = columns.split_at(width);
        for (column, field) in columns.iter().zip(schema.fields()) {
            if !field.is_nullable() && column.null_count() > 0 {
                return exec_err!(
                    "column '{}' of table '{}' is NOT NULL, and a row has NULL for it",
                    field.name(),
                    self.name
                );
            }
        }
        for (check, text) in checks.iter().zip(&self.checks) {
            let holds = check.as_boolean();
            if let Some(row) = (0..rows).find(|&row| holds.is_valid(row) && !holds.value(row)) {
                let number = self.seen + row as u64 + 1;
                let shown = shown(columns, &schema, row);
                return exec_err!("row {number} ({shown}) does not meet CHECK ({text}) of table '{}'", self.name);
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(schema, columns.to_vec(), &options)?;
        if let Some(keys) = &mut self.keys {
            keys.add(&batch)?;
        }
        if !self.foreign.parents.is_empty() {
            self.needed.add(&self.foreign, &batch, self.seen + 1, self.table.memory())?;
        }
        self.seen += rows as u64;
        Ok(batch)
    }

    /// All rows are told: those that came are in blocks.
    pub(crate) fn told(self) -> Result<Told<'a>> {
        let Self { name, table, blocks, first, gone, rows, replaced, keys, foreign, needed, .. } = self;
        let (new, replaced) = (rows.finish()?, replaced.finish()?);
        Ok(Told { name, table, blocks, first, gone, new, replaced, keys, foreign, needed })
    }
}

/// A change whose rows are all there.
pub(crate) struct Told<'a> {
    name: &'a str,
    table: &'a PagedTable,
    blocks: Blocks,
    first: Arc<[u64]>,
    gone: Gone,
    new: Vec<Arc<Block>>,
    replaced: Runs,
    keys: Option<NewRows>,
    foreign: Arc<Foreign>,
    needed: Needed,
}

impl Told<'_> {
    /// The blocks of the rows that came.
    pub(crate) fn new_blocks(&self) -> Vec<Arc<Block>> {
        self.replaced.blocks().chain(&self.new).cloned().collect()
    }

    /// Makes the change, wholly or not at all.
    ///
    /// # Errors
    /// Another statement has changed the same rows, or has taken a key; there is no memory.
    pub(crate) async fn publish(mut self) -> Result<()> {
        let replaced = self.rewrite().await?;
        let one_at_a_time = Arc::clone(&self.foreign.one_at_a_time);
        let _alone = if self.foreign.is_any() { Some(one_at_a_time.lock().await) } else { None };
        if self.foreign.is_any() {
            let rows = foreign::Rows {
                name: self.name,
                memory: self.table.memory(),
                blocks: &self.blocks,
                gone: &self.gone.blocks,
                all_gone: self.gone.is_all(&self.blocks),
                keys: self.keys.as_ref(),
            };
            self.foreign.check(&self.needed, &rows).await?;
        }
        let Self { name, table, blocks, gone, new, keys, .. } = self;
        let current = table.current();
        let all_gone = gone.is_all(&blocks);
        let has_keys = keys.is_some();
        let publish = || {
            let mut current = current.write();
            let known = current.iter().filter(|block| replaced.contains_key(&block.number())).count();
            // The keys of rows that another statement has added are not known here.
            if known != replaced.len() || all_gone && has_keys && current.len() != blocks.len() {
                return exec_err!(
                    "another statement has changed rows of table '{name}' that this one changes, too; run it again"
                );
            }
            let mut blocks = Vec::with_capacity(current.len() + new.len());
            for block in current.drain(..) {
                match replaced.get(&block.number()) {
                    Some(others) => blocks.extend(others.iter().cloned()),
                    None => blocks.push(block),
                }
            }
            blocks.extend(new);
            *current = blocks;
            Ok(())
        };
        match keys {
            Some(keys) => keys.join(all_gone, publish),
            None => publish(),
        }
    }

    /// What comes in the place of the blocks that rows go from, by their numbers.
    async fn rewrite(&mut self) -> Result<HashMap<u64, Vec<Arc<Block>>>> {
        let mut replaced = HashMap::new();
        let schema = self.table.rows_schema();
        let memory = self.table.memory();
        let all_gone = self.gone.is_all(&self.blocks);
        let touched: Vec<usize> = (0..self.blocks.len()).filter(|&at| self.gone.blocks[at].is_some()).collect();
        let all_touched: usize = touched.iter().map(|&at| self.blocks[at].rows()).sum();
        let are_neighbours = touched.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        // The rows of whole blocks are replaced by as many in their order: these are the blocks that come.
        if are_neighbours
            && (self.keys.is_none() || all_gone)
            && let Some(blocks) = self.replaced.whole(all_touched)
        {
            for (nth, &at) in touched.iter().enumerate() {
                let blocks = if nth == 0 { blocks.to_vec() } else { Vec::new() };
                replaced.insert(self.blocks[at].number(), blocks);
            }
            return Ok(replaced);
        }
        let mut comes = self.replaced.reader(&schema, memory)?;
        // The first of neighbours is replaced by the rows that stay of all of them.
        let mut open: Option<(u64, RowsWriter)> = None;
        for (at, block) in self.blocks.iter().enumerate() {
            let Some(bits) = &self.gone.blocks[at] else {
                if let Some((number, rows)) = open.take() {
                    replaced.insert(number, rows.finish()?);
                }
                continue;
            };
            let (_, rows) = open.get_or_insert_with(|| (block.number(), RowsWriter::new(&schema, memory)));
            replaced.entry(block.number()).or_insert_with(Vec::new);
            let goes_wholly = self.gone.counts[at] == block.rows();
            let first_row = self.first[at];
            let has_new = comes.is_within(first_row, block.rows() as u64);
            if goes_wholly && !has_new && (self.keys.is_none() || all_gone) {
                continue;
            }
            let failed = |error| DataFusionError::External(Box::new(ogee_functions::Error::Memory(error)));
            let _held = memory.reserve("rows that stay", 2 * block.batch_bytes()).map_err(failed)?;
            let mut first = 0;
            for batch in block.batches()? {
                let batch = renamed(batch?, &schema)?;
                let goes = |row: usize| bits[row / 64] & (1 << (row % 64)) != 0;
                let goes: BooleanArray = (first..first + batch.num_rows()).map(|row| Some(goes(row))).collect();
                first += batch.num_rows();
                if let Some(keys) = self.keys.as_mut().filter(|_| !all_gone) {
                    keys.take_away(&filter_record_batch(&batch, &goes)?)?;
                }
                let count = batch.num_rows() as u64;
                if has_new {
                    let begin = first_row + first as u64 - count;
                    rows.push(comes.put(&batch, begin, &goes)?)?;
                } else if !goes_wholly {
                    let stays = datafusion::arrow::compute::not(&goes)?;
                    rows.push(filter_record_batch(&batch, &stays)?)?;
                }
                // Here the statement may be interrupted.
                tokio::task::yield_now().await;
            }
        }
        if let Some((number, rows)) = open.take() {
            replaced.insert(number, rows.finish()?);
        }
        Ok(replaced)
    }
}

/// `a = 1, b = x`: the values of a row, as far as they are few.
fn shown(columns: &[ArrayRef], schema: &SchemaRef, row: usize) -> String {
    const SHOWN: usize = 8;
    let values = columns.iter().zip(schema.fields()).take(SHOWN);
    let mut shown: Vec<String> = values.map(|(column, field)| named_value(field.name(), column, row, "NULL")).collect();
    if columns.len() > SHOWN {
        shown.push("..".to_owned());
    }
    shown.join(", ")
}

/// `a = 1`: what is at `row` of the column called `name`; `null` if that is NULL.
pub(crate) fn named_value(name: &str, column: &ArrayRef, row: usize, null: &str) -> String {
    let options = FormatOptions::default().with_null(null);
    let plain = || {
        let formatter = ArrayFormatter::try_new(column, &options);
        formatter.map_or_else(|_| "?".to_owned(), |formatter| formatter.value(row).to_string())
    };
    let value = infinite_word(column, row).map_or_else(plain, str::to_owned);
    format!("{name} = {value}")
}

/// Those rows of `batch` that `which` says, of its columns from `first` on.
pub(crate) fn some_rows(batch: &RecordBatch, first: usize, which: &BooleanArray) -> Result<RecordBatch> {
    let columns: Vec<usize> = (first..batch.num_columns()).collect();
    Ok(filter_record_batch(&batch.project(&columns)?, which)?)
}

/// The first columns of `batch`.
pub(crate) fn first_columns(batch: &RecordBatch, count: usize) -> Result<RecordBatch> {
    Ok(batch.project(&(0..count).collect::<Vec<_>>())?)
}

/// Column `at` of `batch`, which has the numbers of rows.
pub(crate) fn numbers(batch: &RecordBatch, at: usize) -> Result<&Int64Array> {
    let column = batch.column(at).as_any().downcast_ref::<Int64Array>();
    column.ok_or_else(|| exec_datafusion_err!("numbers of rows that are none"))
}
