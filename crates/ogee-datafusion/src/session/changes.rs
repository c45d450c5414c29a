//! Statements that change the rows of a table in memory: run as queries of the rows that they change (`ogee_sql::changes`).
//!
//! What a statement tells by `RETURNING` is computed before the change is made, so that an error in it leaves the table as it was.
//!
//! Not here: tables of others than this crate, whose `INSERT` is DataFusion's.

use std::{collections::HashSet, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringViewArray},
        compute::cast,
        datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
    },
    catalog::{TableProvider, view::ViewTable},
    common::{
        Column, TableReference,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    datasource::TableType,
    execution::{SendableRecordBatchStream, SessionState},
    logical_expr::{Cast, Expr, LogicalPlan, LogicalPlanBuilder},
    physical_plan::execute_stream,
    sql::{
        parser::Statement as ParsedStatement,
        planner::object_name_to_table_reference,
        sqlparser::ast::{Query, Statement as SqlStatement},
    },
};
use futures::StreamExt;
use ogee_functions::{
    Error, Result,
    marks::{has_mark, is_alike},
};
use ogee_sql::{
    changes::{Action, Change, Columns, Definition, Merge, MergeDoes, ROW, prepared},
    in_full, meant_names, name_apart,
    prepared::Use,
    spellings::Spellings,
    times,
    views::{self, name_columns},
};

use super::{Computed, Outcome, Session, drain, nullable, single_partition, task_context};
use crate::{
    changing::{Changing, RowsWriter, Told, first_columns, numbers, some_rows},
    foreign::Foreign,
    keys::{Conflict, SeenKeys},
    table::{Blocks, NumberedRows, PagedTable},
};

/// The column that says what a `MERGE` did with a row.
const MERGE_ACTION: &str = "merge_action";

/// Tables that a statement has made for itself, which are gone with it.
#[derive(Default)]
pub(super) struct Made<'a>(Vec<Computed<'a>>);

/// A table that a statement changes.
pub(super) struct Target<'a> {
    pub(super) name: String,
    pub(super) table: &'a PagedTable,
    pub(super) columns: Columns,
    /// As it was when the statement began.
    pub(super) blocks: Blocks,
    pub(super) foreign: Arc<Foreign>,
}

/// What is told of the rows of a statement, planned before there are any.
struct Returning {
    plan: LogicalPlan,
    rows: Arc<PagedTable>,
    /// The rows that go, or those of `MERGE`, which are written for this alone.
    writer: Option<RowsWriter>,
}

impl Session {
    /// Runs `statement` if it changes the rows of a table of this crate.
    pub(super) async fn change(&self, state: &SessionState, statement: &ParsedStatement) -> Result<Option<Outcome>> {
        let Some(change) = Change::of(statement)? else { return Ok(None) };
        let reference = object_name_to_table_reference(change.table.clone(), true)?;
        let Some(provider) = self.changed(state, &change, &reference).await? else { return Ok(None) };
        let Some(table) = provider.downcast_ref::<PagedTable>() else { return Ok(None) };
        let columns = Columns { schema: table.rows_schema(), definition: table.definition().clone() };
        let numbered;
        let change = match with_row_numbers(statement, &columns) {
            Some(statement) => {
                numbered = statement;
                Change::of(&numbered)?.unwrap_or(change)
            }
            None => change,
        };
        let foreign = self.foreign(state, &reference, table).await?;
        let target = Target { name: reference.table().to_owned(), table, columns, blocks: table.blocks(), foreign };
        let mut made = Made::default();
        let returning = self.returning(state, &change, &target, &mut made).await?;
        match &change.action {
            Action::Insert(_) => self.insert(state, &change, &target, returning, made).await,
            Action::Update(_) => self.update(state, &change, &target, returning, made).await,
            Action::Delete(_) => self.delete(state, &change, &target, returning, made).await,
            Action::Merge(merge) => self.merge(state, &change, merge, &target, returning, made).await,
            Action::Truncate => {
                let mut changing = target.begin(true);
                let rows: usize = target.blocks.iter().map(|block| block.rows()).sum();
                changing.take_away_all();
                changing.told()?.publish().await?;
                Ok(Outcome::Done(Some(rows as u64)))
            }
        }
        .map(Some)
    }

    /// What is to be run of `statement` if it prepares, runs or drops another: that statement, and how its names are spelled, or nothing.
    pub(super) async fn prepared_change(
        &self,
        statement: &ParsedStatement,
    ) -> Result<Option<Option<(ParsedStatement, Spellings)>>> {
        let Some(of) = Use::of(statement) else { return Ok(None) };
        let mut kept = self.prepared.lock().await;
        Ok(match of {
            Use::Prepare(name) if prepared::prepares(statement) => {
                kept.insert(name, (statement.clone(), Spellings::default()));
                Some(None)
            }
            Use::Execute(name) => match kept.get(&name) {
                Some((known, spellings)) => {
                    prepared::filled(known, statement)?.map(|filled| Some((filled, spellings.clone())))
                }
                None => None,
            },
            Use::Deallocate(name) => kept.remove(&name).map(|_| None),
            Use::Prepare(_) => None,
        })
    }

    /// Gives the columns of the table that `statement` makes a type that are computed of others, and have none written.
    pub(super) async fn type_generated(
        &self,
        state: &SessionState,
        statement: &mut ParsedStatement,
        definition: &Definition,
    ) -> Result<()> {
        for name in Definition::untyped(statement) {
            let mut made = Made::default();
            let query = definition.typed(statement, &name)?;
            let plan = self.planned(state, query, &mut made).await?;
            let plan = state.optimize(&plan)?;
            Definition::set_type(statement, &name, plan.schema().field(0).data_type())?;
        }
        Ok(())
    }

    /// Sees that what `definition` says of a table of these columns can be computed.
    pub(super) async fn check_definition(
        &self,
        state: &SessionState,
        definition: &Definition,
        schema: &SchemaRef,
    ) -> Result<()> {
        if !definition.is_computed() {
            return Ok(());
        }
        let mut made = Made::default();
        let columns = Columns { schema: Arc::clone(schema), definition: definition.clone() };
        let rows = PagedTable::new(nullable(schema), Arc::clone(self.engine.memory()));
        let rows = self.make(Arc::new(rows), &mut made)?;
        let plan = self.planned(state, definition.computed(&columns, &rows, &[])?, &mut made).await?;
        of_rows(&plan, "a CHECK or a generated column")?;
        let truth = Arc::new(Field::new("check", DataType::Boolean, true));
        let checks = definition.checks().iter().map(|_| Arc::clone(&truth));
        let plan = with_types(plan, &schema.fields().iter().cloned().chain(checks).map(Some).collect::<Vec<_>>())?;
        self.physical_plan(state, &plan).await?;
        Ok(())
    }

    /// The query of the rows that `statement` changes, which is what `EXPLAIN` shows of it; `None` if it is no such statement.
    pub(super) async fn explained(
        &self,
        state: &SessionState,
        statement: &ParsedStatement,
        analyzes: bool,
    ) -> Result<Option<(Query, Vec<Computed<'_>>)>> {
        let Some(change) = Change::of(statement)? else { return Ok(None) };
        if matches!(change.action, Action::Insert(_)) {
            return Ok(None);
        }
        if analyzes {
            let instead = "use EXPLAIN, or EXPLAIN ANALYZE of a SELECT";
            return Err(Error::Unsupported(format!(
                "EXPLAIN ANALYZE of a statement that changes rows is not supported; {instead}"
            )));
        }
        let reference = object_name_to_table_reference(change.table.clone(), true)?;
        let Some(provider) = self.changed(state, &change, &reference).await? else { return Ok(None) };
        let Some(table) = provider.downcast_ref::<PagedTable>() else { return Ok(None) };
        let columns = Columns { schema: table.rows_schema(), definition: table.definition().clone() };
        let foreign = Arc::default();
        let target = Target { name: reference.table().to_owned(), table, columns, blocks: table.blocks(), foreign };
        let mut made = Made::default();
        let rows = self.numbered(&target, &mut made)?;
        let query = match &change.action {
            Action::Merge(_) => {
                let source = self.source_columns(state, &change, &mut made).await?;
                change.both(&target.columns, &source, &rows)?
            }
            Action::Truncate => {
                let text = format!("SELECT {ROW} FROM {rows}");
                match ogee_sql::parse(&text)?.pop().map(|statement| statement.0) {
                    Some(ParsedStatement::Statement(statement)) => match *statement {
                        SqlStatement::Query(query) => *query,
                        _ => return Ok(None),
                    },
                    _ => return Ok(None),
                }
            }
            _ => change.query(&target.columns, &rows, false)?,
        };
        Ok(Some((query, made.0)))
    }

    /// The table that `change` is of, or `None` if that is not one of this crate's.
    async fn changed(
        &self,
        state: &SessionState,
        change: &Change,
        reference: &TableReference,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let inserts = matches!(change.action, Action::Insert(_));
        if !self.table_exists(reference)? {
            if inserts {
                return Ok(None);
            }
            return Err(Error::Plan(format!("table '{}' does not exist", change.table)));
        }
        let schema = state.schema_for_ref(reference.clone())?;
        if schema.table_type(reference.table()).await? == Some(TableType::View) {
            return Err(Error::Plan(format!("'{}' is a view; rows of tables can be changed", change.table)));
        }
        let provider = schema.table(reference.table()).await?;
        let is_ours = provider.as_ref().is_some_and(|provider| provider.downcast_ref::<PagedTable>().is_some());
        if !is_ours && !inserts {
            return Err(Error::Unsupported(format!(
                "changing rows of '{}', which is no table in memory, is not supported; use CREATE TABLE .. AS",
                change.table
            )));
        }
        Ok(provider.filter(|_| is_ours))
    }

    /// Registers `table` under a name that nobody knows.
    pub(super) fn make<'a>(&'a self, table: Arc<dyn TableProvider>, made: &mut Made<'a>) -> Result<String> {
        let number = self.computed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("ogee_changed_{number}");
        self.context.register_table(name.as_str(), table)?;
        made.0.push(Computed { context: &self.context, name: name.clone() });
        Ok(name)
    }

    /// The rows of the table, with their numbers, by name.
    fn numbered<'a>(&'a self, target: &Target<'_>, made: &mut Made<'a>) -> Result<String> {
        let blocks = Arc::clone(&target.blocks);
        let rows = NumberedRows::new(&target.columns.schema, blocks, self.engine.memory());
        self.make(Arc::new(rows), made)
    }

    /// The plan of `query`.
    pub(super) async fn planned<'a>(
        &'a self,
        state: &SessionState,
        query: Query,
        made: &mut Made<'a>,
    ) -> Result<LogicalPlan> {
        let mut statement = ParsedStatement::Statement(Box::new(SqlStatement::Query(Box::new(query))));
        name_apart(&mut statement);
        let (tables, plan) = views::bound(async {
            in_full::write_out(state, &mut statement).await?;
            let tables = self.compute_ctes(state, &mut statement, None).await?;
            Ok::<_, Error>((tables, ogee_sql::plan(state, statement).await?))
        })
        .await?;
        made.0.extend(tables);
        Ok(plan)
    }

    /// The rows of `plan`, all columns of which are known, with those that the definition of the table computes: `before`, all columns, and whether each condition holds.
    pub(super) async fn computed<'a>(
        &'a self,
        state: &SessionState,
        target: &Target<'_>,
        plan: LogicalPlan,
        before: &[&str],
        made: &mut Made<'a>,
    ) -> Result<LogicalPlan> {
        let columns = &target.columns;
        let given: Vec<&str> = columns.given();
        let of_columns = |names: &mut dyn Iterator<Item = &str>| -> Vec<Option<FieldRef>> {
            let before = before.iter().map(|_| None);
            let fields = names.map(|name| columns.schema.fields().find(name).map(|(_, field)| Arc::clone(field)));
            before.chain(fields).collect()
        };
        // An INSERT has a value for each column; those that are computed are not looked at.
        let width = plan.schema().fields().len() - before.len();
        let all = (0..columns.len()).map(|at| columns.name(at));
        let types = match width == columns.len() {
            true => of_columns(&mut all.clone()),
            false => of_columns(&mut given.into_iter()),
        };
        let plan = with_types(plan, &types)?;
        if !columns.definition.is_computed() {
            return Ok(plan);
        }
        let rows = self.make(Arc::new(ViewTable::new(plan, None)), made)?;
        let plan = self.planned(state, columns.definition.computed(columns, &rows, before)?, made).await?;
        let truth = Arc::new(Field::new("check", DataType::Boolean, true));
        let checks = columns.definition.checks().iter().map(|_| Some(Arc::clone(&truth)));
        let types: Vec<_> = of_columns(&mut all.clone()).into_iter().chain(checks).collect();
        with_types(plan, &types)
    }

    /// The rows of `plan`, as they come.
    pub(super) async fn rows_of(&self, state: &SessionState, plan: &LogicalPlan) -> Result<SendableRecordBatchStream> {
        let physical = single_partition(self.physical_plan(state, plan).await?);
        let context = task_context(state, &physical);
        Ok(execute_stream(physical, context)?)
    }

    /// The values of `query`, one text a row, each once, and without NULL.
    pub(super) async fn texts_of(&self, state: &SessionState, query: Query) -> Result<Vec<String>> {
        let mut made = Made::default();
        let plan = self.planned(state, query, &mut made).await?;
        match &plan.schema().fields()[..] {
            [field] if !field.data_type().is_nested() => {}
            _ => return Err(Error::Plan("the values of an ENUM are one column of texts".to_owned())),
        }
        let mut rows = self.rows_of(state, &plan).await?;
        let (mut values, mut met) = (Vec::new(), HashSet::new());
        while let Some(batch) = rows.next().await {
            let texts =
                cast(batch?.column(0), &DataType::Utf8View).map_err(datafusion::error::DataFusionError::from)?;
            for text in texts.as_string_view().iter().flatten() {
                if met.insert(text.to_owned()) {
                    values.push(text.to_owned());
                }
            }
        }
        Ok(values)
    }

    /// Plans what `change` tells of its rows.
    async fn returning<'a>(
        &'a self,
        state: &SessionState,
        change: &Change,
        target: &Target<'_>,
        made: &mut Made<'a>,
    ) -> Result<Option<Returning>> {
        if change.returning.is_none() {
            return Ok(None);
        }
        let memory = self.engine.memory();
        let mut fields = target.columns.schema.fields().to_vec();
        if matches!(change.action, Action::Merge(_)) {
            fields.push(Arc::new(Field::new(MERGE_ACTION, DataType::Utf8View, true)));
        }
        let schema: SchemaRef = nullable(&Schema::new(fields));
        let writes = matches!(change.action, Action::Merge(_) | Action::Delete(_) | Action::Truncate);
        let writer = writes.then(|| RowsWriter::new(&schema, memory));
        let rows = Arc::new(PagedTable::new(schema, Arc::clone(memory)));
        let name = self.make(Arc::clone(&rows) as _, made)?;
        let Some(query) = change.returning(&target.columns, &name)? else { return Ok(None) };
        let plan = self.planned(state, query, made).await?;
        of_rows(&plan, "RETURNING")?;
        Ok(Some(Returning { plan, rows, writer }))
    }

    /// Makes the change, and gives what is told of it.
    async fn finish(
        &self,
        state: &SessionState,
        told: Told<'_>,
        count: u64,
        returning: Option<Returning>,
    ) -> Result<Outcome> {
        let Some(Returning { plan, rows, writer }) = returning else {
            told.publish().await?;
            return Ok(Outcome::Done(Some(count)));
        };
        let blocks = match writer {
            Some(writer) => writer.finish()?,
            None => told.new_blocks(),
        };
        *rows.current().write() = blocks;
        let physical = single_partition(self.physical_plan(state, &plan).await?);
        let out = PagedTable::new(nullable(&physical.schema()), Arc::clone(self.engine.memory()));
        let context = task_context(state, &physical);
        drain(execute_stream(out.sink(physical, false), context)?).await?;
        told.publish().await?;
        let scan = out.scan(state, None, &[], None).await?;
        let context = task_context(state, &scan);
        Ok(Outcome::Rows(times::in_zone(execute_stream(scan, context)?, state.config().options())))
    }

    async fn update<'a>(
        &'a self,
        state: &SessionState,
        change: &Change,
        target: &Target<'_>,
        returning: Option<Returning>,
        mut made: Made<'a>,
    ) -> Result<Outcome> {
        let assigned = change.assigned(&target.columns)?;
        let rows = self.numbered(target, &mut made)?;
        let query = change.query(&target.columns, &rows, false)?;
        let plan = self.planned(state, query, &mut made).await?;
        let plan = self.computed(state, target, plan, &[ROW], &mut made).await?;
        let mut changing = target.begin(target.changes_keys(&assigned));
        let count = self.replace(state, &plan, &mut changing).await?;
        self.finish(state, changing.told()?, count, returning).await
    }

    /// Has the rows of `plan` take the place of those whose numbers they begin with. One of those of a number counts.
    async fn replace(&self, state: &SessionState, plan: &LogicalPlan, changing: &mut Changing<'_>) -> Result<u64> {
        let mut rows = self.rows_of(state, plan).await?;
        let mut count = 0;
        while let Some(batch) = rows.next().await.transpose()? {
            let is_new = changing.take_away(numbers(&batch, 0)?)?;
            let batch = if is_new.true_count() < batch.num_rows() { some_rows(&batch, 0, &is_new)? } else { batch };
            changing.replace(numbers(&batch, 0)?, &batch.columns()[1..])?;
            count += batch.num_rows() as u64;
        }
        Ok(count)
    }

    async fn delete<'a>(
        &'a self,
        state: &SessionState,
        change: &Change,
        target: &Target<'_>,
        mut returning: Option<Returning>,
        mut made: Made<'a>,
    ) -> Result<Outcome> {
        let rows = self.numbered(target, &mut made)?;
        let query = change.query(&target.columns, &rows, returning.is_some())?;
        let plan = self.planned(state, query, &mut made).await?;
        let mut changing = target.begin(true);
        let mut rows = self.rows_of(state, &plan).await?;
        let mut count = 0;
        while let Some(batch) = rows.next().await.transpose()? {
            let is_new = changing.take_away(numbers(&batch, 0)?)?;
            count += is_new.true_count() as u64;
            if let Some(writer) = returning.as_mut().and_then(|returning| returning.writer.as_mut()) {
                writer.push(some_rows(&batch, 1, &is_new)?)?;
            }
        }
        self.finish(state, changing.told()?, count, returning).await
    }

    async fn insert<'a>(
        &'a self,
        state: &SessionState,
        change: &Change,
        target: &Target<'_>,
        returning: Option<Returning>,
        mut made: Made<'a>,
    ) -> Result<Outcome> {
        let columns = &target.columns;
        let outputs = match change.by_name() {
            Some(query) => Some(self.names_of(state, query, &mut made).await?),
            None => None,
        };
        let given = change.given(columns, outputs.as_deref())?;
        let conflicts = change.conflicts(columns, &given)?;
        let keys: Vec<Vec<usize>> =
            target.table.keys().map_or_else(Vec::new, |keys| keys.columns().map(|(key, _)| key.to_vec()).collect());
        let which = conflicts.as_ref().map(|conflicts| conflicts.keys(&keys, columns)).transpose()?;
        let mut statement = change.inserted(columns, &given)?;
        let (tables, plan) = views::bound(async {
            name_apart(&mut statement);
            in_full::write_out(state, &mut statement).await?;
            let inserted = self.plan_inserted(state, &mut statement).await?;
            let mut tables = self.compute_ctes(state, &mut statement, None).await?;
            tables.extend(inserted);
            Ok::<_, Error>((tables, ogee_sql::plan(state, statement).await?))
        })
        .await?;
        made.0.extend(tables);
        let LogicalPlan::Dml(dml) = plan else {
            return Err(Error::Internal("an INSERT that is planned as something else".to_owned()));
        };
        let plan = self.computed(state, target, Arc::unwrap_or_clone(dml.input), &[], &mut made).await?;
        // What meets others is planned before any row is looked at.
        let met = match (&conflicts, &which) {
            (Some(conflicts), Some(which)) if conflicts.update() => {
                let rows =
                    Arc::new(PagedTable::new(Arc::clone(&nullable(&columns.schema)), Arc::clone(self.engine.memory())));
                let met = self.make(Arc::clone(&rows) as _, &mut made)?;
                let numbered = self.numbered(target, &mut made)?;
                let key = &keys[which[0]];
                let query = change.met(conflicts, columns, key, &numbered, &met)?;
                let plan = self.planned(state, query, &mut made).await?;
                let plan = self.computed(state, target, plan, &[ROW], &mut made).await?;
                let writer = RowsWriter::new(&rows.rows_schema(), self.engine.memory());
                Some((rows, writer, plan))
            }
            _ => None,
        };
        let mut changing = target.begin(true);
        let mut rows = self.rows_of(state, &plan).await?;
        let mut met = met;
        let mut seen = SeenKeys::default();
        while let Some(mut batch) = rows.next().await.transpose()? {
            if let (Some(which), Some(keys)) = (&which, target.table.keys()) {
                let rows = first_columns(&batch, columns.len())?;
                let found = keys.conflicts(&rows, which, &mut seen)?;
                let of =
                    |wanted: Conflict| -> BooleanArray { found.iter().map(|found| Some(*found == wanted)).collect() };
                if let Some((_, writer, _)) = &mut met {
                    let with_table = of(Conflict::WithTable);
                    if with_table.true_count() > 0 {
                        writer.push(some_rows(&rows, 0, &with_table)?)?;
                    }
                }
                batch = some_rows(&batch, 0, &of(Conflict::None))?;
            }
            changing.add(batch.columns(), batch.num_rows())?;
        }
        drop(rows);
        let mut count = changing.count();
        if let Some((rows, writer, plan)) = met {
            let blocks = writer.finish()?;
            if !blocks.is_empty() {
                *rows.current().write() = blocks;
                count += self.replace(state, &plan, &mut changing).await?;
            }
        }
        self.finish(state, changing.told()?, count, returning).await
    }

    /// The names of the outputs of `query`.
    async fn names_of<'a>(&'a self, state: &SessionState, query: Query, made: &mut Made<'a>) -> Result<Vec<String>> {
        let plan = name_columns(self.planned(state, query, made).await?, &[])?;
        Ok(plan.schema().fields().iter().map(|field| field.name().clone()).collect())
    }

    /// The names of the columns of the source of a `MERGE`.
    async fn source_columns<'a>(
        &'a self,
        state: &SessionState,
        change: &Change,
        made: &mut Made<'a>,
    ) -> Result<Vec<String>> {
        let plan = self.planned(state, change.source()?, made).await?;
        Ok(plan.schema().fields().iter().map(|field| field.name().clone()).collect())
    }

    async fn merge<'a>(
        &'a self,
        state: &SessionState,
        change: &Change,
        merge: &Merge,
        target: &Target<'_>,
        mut returning: Option<Returning>,
        mut made: Made<'a>,
    ) -> Result<Outcome> {
        let columns = &target.columns;
        let source = self.source_columns(state, change, &mut made).await?;
        let numbered = self.numbered(target, &mut made)?;
        let both = self.planned(state, change.both(columns, &source, &numbered)?, &mut made).await?;
        // Clauses are planned before the rows are there, so that what is wrong with one is told first.
        let rows = Arc::new(PagedTable::new(nullable(both.schema().inner()), Arc::clone(self.engine.memory())));
        let name = self.make(Arc::clone(&rows) as _, &mut made)?;
        let mut plans = Vec::new();
        for (number, clause) in merge.clauses.iter().enumerate() {
            let query = change.of_clause(columns, &source, number, &name)?;
            let plan = self.planned(state, query, &mut made).await?;
            plans.push(match &clause.does {
                MergeDoes::Nothing | MergeDoes::Delete => plan,
                MergeDoes::Error(_) => {
                    with_types(plan, &[Some(Arc::new(Field::new("error", DataType::Utf8View, true)))])?
                }
                _ => self.computed(state, target, plan, &[ROW], &mut made).await?,
            });
        }
        let types: Vec<Option<FieldRef>> = rows.rows_schema().fields().iter().cloned().map(Some).collect();
        let both = single_partition(self.physical_plan(state, &with_types(both, &types)?).await?);
        let context = task_context(state, &both);
        drain(execute_stream(rows.sink(both, false), context)?).await?;
        let mut changing = target.begin(true);
        let mut count = 0;
        for (clause, plan) in merge.clauses.iter().zip(&plans) {
            if matches!(clause.does, MergeDoes::Nothing) {
                continue;
            }
            let mut rows = self.rows_of(state, plan).await?;
            while let Some(batch) = rows.next().await.transpose()? {
                if batch.num_rows() == 0 {
                    continue;
                }
                if matches!(clause.does, MergeDoes::Error(_)) {
                    let message = batch.column(0).as_string_view();
                    let said = if message.is_valid(0) { format!(": {}", message.value(0)) } else { String::new() };
                    return Err(Error::Execution(format!("the MERGE ends with ERROR, {}{said}", clause.shown())));
                }
                let inserts = clause.told() == "INSERT";
                if !inserts && changing.take_away(numbers(&batch, 0)?)?.true_count() < batch.num_rows() {
                    return Err(Error::Execution(format!(
                        "several rows of the source of the MERGE match one row of '{}'; leave one for each row",
                        target.name
                    )));
                }
                let of_table = &batch.columns()[1..];
                match clause.does {
                    MergeDoes::Delete => {}
                    _ if inserts => changing.add(of_table, batch.num_rows())?,
                    _ => changing.replace(numbers(&batch, 0)?, of_table)?,
                }
                count += batch.num_rows() as u64;
                if let Some(writer) = returning.as_mut().and_then(|returning| returning.writer.as_mut()) {
                    writer.push(with_action(&of_table[..columns.len()], columns, clause.told(), batch.num_rows())?)?;
                }
            }
        }
        self.finish(state, changing.told()?, count, returning).await
    }
}

impl<'a> Target<'a> {
    pub(super) fn begin(&'a self, keys: bool) -> Changing<'a> {
        Changing::begin(&self.name, self.table, Arc::clone(&self.blocks), Arc::clone(&self.foreign), keys)
    }

    /// Whether a key may change where these columns do.
    fn changes_keys(&self, columns: &[usize]) -> bool {
        let generated = |at: usize| self.columns.definition.is_generated(self.columns.name(at));
        let mut keys = self.table.keys().into_iter().flat_map(|keys| keys.columns());
        keys.any(|(key, _)| key.iter().any(|&at| columns.contains(&at) || generated(at)))
    }
}

/// `statement`, an UPDATE or a DELETE of a table of `columns`, with `rowid` as the numbers of its rows; `None` if it does not say that, or of a column.
fn with_row_numbers(statement: &ParsedStatement, columns: &Columns) -> Option<ParsedStatement> {
    let ParsedStatement::Statement(of) = statement else { return None };
    let is_one = matches!(&**of, SqlStatement::Update { .. } | SqlStatement::Delete { .. });
    if !is_one || columns.schema.fields().iter().any(|field| field.name() == meant_names::ROWID) {
        return None;
    }
    let mut numbered = of.clone();
    meant_names::in_change(&mut numbered, ROW).then_some(ParsedStatement::Statement(numbered))
}

/// Sees that `plan` computes each row by itself.
fn of_rows(plan: &LogicalPlan, what: &str) -> Result<()> {
    plan.apply(|node| match node {
        LogicalPlan::Projection(_) | LogicalPlan::TableScan(_) | LogicalPlan::SubqueryAlias(_) => {
            Ok(TreeNodeRecursion::Continue)
        }
        _ => datafusion::common::plan_err!(
            "{what} is of single rows; aggregates, windows, lists as rows and queries have no place in it"
        ),
    })?;
    Ok(())
}

/// Whether the type of column `at` of `plan` is what its schema says, also when the plan is analyzed: until then a CASE has the type of its first branch, and a date with an interval is a date.
fn is_certain(plan: &LogicalPlan, at: usize) -> bool {
    fn of_expr(expr: &Expr, input: &LogicalPlan) -> bool {
        match expr {
            Expr::Alias(alias) => of_expr(&alias.expr, input),
            Expr::Literal(..) | Expr::Cast(_) => true,
            Expr::Column(_) if matches!(input, LogicalPlan::TableScan(_)) => true,
            Expr::Column(column) => {
                input.schema().maybe_index_of_column(column).is_some_and(|at| is_certain(input, at))
            }
            _ => false,
        }
    }

    match plan {
        LogicalPlan::TableScan(_) | LogicalPlan::Values(_) => true,
        LogicalPlan::Projection(projection) => {
            projection.expr.get(at).is_some_and(|expr| of_expr(expr, &projection.input))
        }
        LogicalPlan::SubqueryAlias(alias) => is_certain(&alias.input, at),
        LogicalPlan::Filter(filter) => is_certain(&filter.input, at),
        LogicalPlan::Sort(sort) => is_certain(&sort.input, at),
        LogicalPlan::Limit(limit) => is_certain(&limit.input, at),
        _ => false,
    }
}

/// `plan` with the types of these for its first columns, where one is asked for. Text becomes JSON, a UUID or the like where that is asked for, which says what is none.
fn with_types(plan: LogicalPlan, types: &[Option<FieldRef>]) -> Result<LogicalPlan> {
    // What VALUES are cast to for a table may become something else yet: floats for decimals, where one of them is a float.
    let has_values = plan.exists(|node| Ok(matches!(node, LogicalPlan::Values(_))))?;
    let may_change = |of: &DataType| has_values && (of.is_nested() || of.is_decimal() || of.is_temporal());
    let other = |at: usize, field: &Field| {
        let is_other = |wanted: &&FieldRef| {
            wanted.data_type() != field.data_type()
                || !is_certain(&plan, at)
                || may_change(wanted.data_type())
                || has_mark(wanted) && !is_alike(wanted, field)
        };
        types.get(at).and_then(Option::as_ref).filter(is_other)
    };
    let others: Vec<Option<&FieldRef>> =
        plan.schema().fields().iter().enumerate().map(|(at, field)| other(at, field)).collect();
    if others.iter().all(Option::is_none) {
        return Ok(plan);
    }
    let columns: Vec<(Expr, Arc<Field>)> =
        plan.schema().iter().map(|field| (Expr::Column(Column::from(field)), Arc::clone(field.1))).collect();
    let typed = columns.into_iter().zip(others).map(|((column, field), other)| match other {
        Some(wanted) if has_mark(wanted) || has_mark(&field) || wanted.data_type().is_nested() => {
            Expr::Cast(Cast { expr: Box::new(column), field: Arc::clone(wanted) }).alias(field.name())
        }
        Some(wanted) => Expr::Cast(Cast::new(Box::new(column), wanted.data_type().clone())).alias(field.name()),
        None => column,
    });
    Ok(LogicalPlanBuilder::from(plan).project(typed)?.build()?)
}

/// Rows of the table, and what was done with them.
fn with_action(columns: &[ArrayRef], of: &Columns, action: &str, rows: usize) -> Result<RecordBatch> {
    let actions: StringViewArray = std::iter::repeat_n(Some(action), rows).collect();
    let mut fields = of.schema.fields().to_vec();
    fields.push(Arc::new(Field::new(MERGE_ACTION, DataType::Utf8View, true)));
    let schema = nullable(&Schema::new(fields));
    let columns = columns.iter().cloned().chain([Arc::new(actions) as ArrayRef]).collect();
    Ok(RecordBatch::try_new(schema, columns).map_err(datafusion::error::DataFusionError::from)?)
}
