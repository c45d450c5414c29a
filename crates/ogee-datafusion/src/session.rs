//! A session: DataFusion's, set up so that its plans become islands.
//!
//! Not here: settings of the engine, results as users see them (crate `ogee`).

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use datafusion::{
    arrow::{
        array::{ArrayRef, AsArray, Int64Array, ListBuilder, RecordBatch, RecordBatchOptions, StringViewBuilder},
        datatypes::{Field, Schema, SchemaRef, UInt64Type},
    },
    catalog::{CatalogProviderList, DynamicFileCatalog},
    common::{
        ScalarValue, TableReference,
        config::{ConfigNonZeroUsize, ConfigOptions, Dialect},
    },
    datasource::{TableType, ViewTable},
    execution::{
        SendableRecordBatchStream, SessionState, SessionStateBuilder, TaskContext,
        cache::cache_manager::CacheManagerConfig, disk_manager::DiskManagerBuilder, memory_pool::MemoryPool,
        runtime_env::RuntimeEnvBuilder,
    },
    logical_expr::{CreateMemoryTable, CreateView, DdlStatement, LogicalPlan},
    physical_optimizer::optimizer::PhysicalOptimizer,
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, coalesce_partitions::CoalescePartitionsExec, execute_stream,
        memory::MemoryStream, stream::RecordBatchStreamAdapter,
    },
    prelude::{SessionConfig, SessionContext},
    sql::{
        parser::Statement as ParsedStatement,
        planner::object_name_to_table_reference,
        sqlparser::ast::{ObjectType, Statement as SqlStatement},
    },
};
use futures::{StreamExt, TryStreamExt};
use ogee_files::{
    ArrowFormats, CaughtFormats, CheckedTables, CsvFormats, ExternalAccess, FileTables, JsonFormats,
    copy::{in_plain_types, within_limit},
    copy_target::staged,
    remote::{self, Secrets},
};
use ogee_functions::{
    Error, Result,
    json::JsonAccess,
    marks::{Casts, bits::BitStrings},
};
use ogee_planner::{
    join_order::{JoinOrder, ROWS_UNKNOWN, Samples, foresee},
    known_aggregates::KnownAggregates,
    order::{Checked, ClearOrderings, LimitsOnSorts, Requirements},
    projections::Projections,
    replanned,
    scan_filters::ScanFilters,
};
use ogee_sql::{
    Division, NullOrder, SetVariable, Statement, StatementContext,
    asked::Asked,
    calls, catalogs,
    changes::{Definition, within::has_changes},
    checkpoint, ctes, in_full, inserted,
    macros::{self, Macros},
    name_apart,
    named_types::{self, NamedTypes},
    options::Options,
    parse,
    prepared::{self, Prepared},
    rules,
    secrets::{self, OfSecret},
    spellings::{Spellings, heeded},
    system, times, told,
    views::{self, Binder, ViewCatalogs, ViewText, name_columns},
};
use parking_lot::Mutex;

use crate::{
    asker::Asker,
    ctes::condenses,
    describe,
    engine::Engine,
    explain::Explanation,
    island::{OgeeRule, expected_rows, is_one_island},
    listing::FunctionKind,
    planner,
    pool::{OgeePool, PoolFiles},
    sequences::Sequences,
    system::{Comments, Kept, System, TellsSettings},
    table::PagedTable,
    variables::Variables,
};

mod alter;
mod changes;
mod comments;
mod databases;
mod foreign;
mod functions;
mod indexes;
mod registered;
mod staging;
mod temporary;
mod transactions;
mod within;

pub use staging::Staging;
use transactions::Transactions;
pub(crate) use transactions::is_own;

/// Bytes of Parquet footers that listing may keep between statements; heap memory outside the pool.
const FOOTER_CACHE_BYTES: usize = 8 << 20;

/// Bytes that listing reads at the end of a Parquet file to find its footer there: most are shorter, and of a longer one the rest is read then.
/// DataFusion would copy half a megabyte of each file.
const FOOTER_BYTES: usize = 64 << 10;

/// DataFusion's name of the catalog of all tables.
const CATALOG: &str = "ogee";

/// Rows of a batch between DataFusion's operators.
const BATCH_ROWS: usize = 8192;

/// What a sort of DataFusion's keeps for merging its runs, where the limit is large.
const SORT_RESERVATION: usize = 10 << 20;

/// Rows of a row group that `COPY` writes: a morsel for those who read it, and what the writer holds at a time.
const ROW_GROUP_ROWS: usize = 122_880;

/// A catalog of tables and the statements over it.
pub struct Session {
    engine: Arc<Engine>,
    context: SessionContext,
    samples: Arc<Samples>,
    /// Common table expressions whose rows became tables so far: names for the next ones.
    computed: AtomicU64,
    prepared: Arc<Prepared>,
    macros: Arc<Macros>,
    /// Shared with the rules.
    division: Arc<Division>,
    options: Arc<Options>,
    access: Arc<ExternalAccess>,
    /// The catalogs themselves, whose views are not planned.
    catalogs: Arc<dyn CatalogProviderList>,
    transactions: Transactions,
    /// Databases in memory beside the first.
    attached: Arc<Mutex<BTreeSet<String>>>,
    sequences: Arc<Sequences>,
    secrets: Arc<Secrets>,
    variables: Arc<Variables>,
    types: Arc<Mutex<NamedTypes>>,
    comments: Arc<Mutex<Comments>>,
    /// Tables and views that go with their connection.
    temporary: Arc<Mutex<HashMap<TableReference, u64>>>,
    /// Where names are looked for behind the first schema.
    further_schemas: Mutex<Vec<String>>,
    /// Held while a statement looks at other tables for its keys of those.
    foreign_keys: Arc<tokio::sync::Mutex<()>>,
    tells_settings: Arc<OnceLock<TellsSettings>>,
    /// Functions that a program has given.
    functions: Mutex<BTreeMap<String, FunctionKind>>,
}

/// The table of a common table expression, known by name while its statement is planned.
struct Computed<'a> {
    context: &'a SessionContext,
    name: String,
}

impl Drop for Computed<'_> {
    fn drop(&mut self) {
        // Nobody else knows the name.
        drop(self.context.deregister_table(self.name.as_str()));
    }
}

/// What a statement gives.
pub enum Outcome {
    /// Rows, as they come.
    Rows(SendableRecordBatchStream),
    /// Nothing but an effect, on so many rows where that is known.
    Done(Option<u64>),
}

impl Session {
    /// A session without tables.
    ///
    /// # Errors
    /// [`Error::Internal`] if DataFusion refuses its configuration.
    pub fn new(engine: Arc<Engine>) -> Result<Self> {
        let memory = engine.memory();
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(OgeePool::new(Arc::clone(memory), engine.release())) as Arc<dyn MemoryPool>)
            .with_disk_manager_builder(
                DiskManagerBuilder::default().with_temp_file_factory(Arc::new(PoolFiles::new(Arc::clone(memory)))),
            )
            // Which files a directory has is asked anew for every statement.
            .with_cache_manager(
                CacheManagerConfig::default()
                    .with_metadata_cache_limit(FOOTER_CACHE_BYTES)
                    .with_list_files_cache_limit(0),
            )
            .build_arc()?;

        let mut physical_rules = PhysicalOptimizer::new().rules;
        // Filters that are made while a statement runs are for DataFusion's own scans.
        physical_rules.retain(|rule| rule.name() != "FilterPushdown(Post)");
        let footers = runtime.cache_manager.get_file_metadata_cache();
        let samples = Arc::new(Samples::new(Arc::clone(memory), Arc::clone(engine.shared_settings()), footers));
        for rule in physical_rules.iter_mut().filter(|rule| rule.name() == "join_selection") {
            *rule = Arc::new(JoinOrder::new(Arc::clone(&samples)));
        }
        for rule in physical_rules.iter_mut().filter(|rule| rule.name().starts_with("FilterPushdown")) {
            *rule = Arc::new(ScanFilters::new(Arc::clone(rule)));
        }
        for rule in physical_rules.iter_mut().filter(|rule| rule.name() == "ProjectionPushdown") {
            *rule = Arc::new(Projections::new(Arc::clone(rule)));
        }
        for rule in physical_rules.iter_mut().filter(|rule| rule.name() == "aggregate_statistics") {
            *rule = Arc::new(KnownAggregates::new(Arc::clone(rule)));
        }
        for rule in physical_rules.iter_mut().filter(|rule| rule.name() == "EnsureRequirements") {
            *rule = Arc::new(Requirements::new(Arc::clone(rule)));
        }
        for rule in physical_rules.iter_mut().filter(|rule| rule.name() == "SanityCheckPlan") {
            *rule = Arc::new(Checked::new(Arc::clone(rule)));
        }
        physical_rules.insert(0, Arc::new(LimitsOnSorts));
        physical_rules.insert(0, Arc::new(ClearOrderings));
        physical_rules.push(Arc::new(OgeeRule::new(Arc::clone(&engine), Arc::clone(&samples))));

        let pieces = rules::PiecePlanner::default();
        let macros = Arc::new(Macros::default());
        let division = Arc::new(Division::default());
        let (options, access) = (Arc::new(Options::default()), Arc::new(ExternalAccess::default()));
        let asked = Asked(Arc::new(Asker(Arc::clone(&samples))));
        let state = SessionStateBuilder::new()
            .with_config(
                config()
                    .with_extension(Arc::clone(&macros))
                    .with_extension(Arc::new(asked))
                    .with_extension(Arc::clone(&division))
                    .with_extension(Arc::clone(&options))
                    .with_extension(Arc::clone(&access)),
            )
            .with_runtime_env(runtime)
            .with_expr_planners(rules::expr_planners(JsonAccess::new(memory), BitStrings::new(memory), &division))
            .with_type_planner(rules::type_planner())
            .with_default_features()
            .with_analyzer_rules(rules::analyzer_rules(pieces.clone(), Casts::new(memory), &division))
            .with_optimizer_rules(rules::optimizer_rules())
            .with_query_planner(Arc::new(planner::Planner))
            .with_relation_planners(rules::relation_planners())
            .with_physical_optimizer_rules(physical_rules)
            .build();
        let own_catalogs = Arc::clone(state.catalog_list());
        let files = Arc::new(FileTables::new(engine.memory()));
        let catalogs = Arc::new(DynamicFileCatalog::new(Arc::clone(state.catalog_list()), Arc::clone(&files) as _));
        let binder = Arc::new(Binder::default());
        let catalogs = Arc::new(ViewCatalogs::new(catalogs, Arc::clone(&binder), |table| table.is::<PagedTable>()));
        let mut state = SessionStateBuilder::from(state).with_catalog_list(catalogs).build();
        state.register_file_format(Arc::new(CsvFormats::new(engine.memory())), true)?;
        state.register_file_format(Arc::new(JsonFormats::new(engine.memory())), true)?;
        state.register_file_format(Arc::new(ArrowFormats(Arc::clone(engine.memory()))), true)?;
        if let Some(parquet) = state.get_file_format_factory("parquet") {
            state.register_file_format(
                Arc::new(CaughtFormats { formats: parquet, memory: Arc::clone(engine.memory()) }),
                true,
            )?;
        }
        for tables in state.table_factories_mut().values_mut() {
            *tables = Arc::new(CheckedTables { tables: Arc::clone(tables), memory: Arc::clone(engine.memory()) });
        }
        let context = SessionContext::new_with_state(state);
        let kept = Kept { macros: Arc::clone(&macros), ..Kept::default() };
        let secrets = Arc::clone(&kept.secrets);
        remote::register(&context.runtime_env(), engine.memory(), &secrets)?;
        files.serve(context.state_weak_ref());
        pieces.serve(context.state_weak_ref());
        binder.serve(context.state_weak_ref());
        ogee_functions::register(&context, engine.memory())?;
        times::keep_instants(&context);
        rules::register_markers(&context);
        let (sequences, variables) = (Arc::clone(&kept.sequences), Arc::clone(&kept.variables));
        let (attached, types, comments) =
            (Arc::clone(&kept.attached), Arc::clone(&kept.types), Arc::clone(&kept.comments));
        let (temporary, prepared) = (Arc::clone(&kept.temporary), Arc::clone(&kept.prepared));
        let tells_settings = Arc::clone(&kept.settings);
        for function in crate::sequences::functions(&sequences) {
            context.register_udf(function);
        }
        context.register_udf(crate::variables::function(&variables));
        let system = System::new(kept, engine.memory(), context.state_weak_ref(), &own_catalogs);
        let catalog = own_catalogs.catalog(CATALOG);
        for (name, schema) in system.schemas() {
            if let Some(catalog) = &catalog {
                catalog.register_schema(name, schema)?;
            }
        }
        Ok(Self {
            engine,
            context,
            samples,
            computed: AtomicU64::new(0),
            prepared,
            macros,
            division,
            options,
            access,
            catalogs: own_catalogs,
            transactions: Transactions::default(),
            attached,
            sequences,
            secrets,
            variables,
            types,
            comments,
            temporary,
            further_schemas: Mutex::default(),
            foreign_keys: Arc::default(),
            tells_settings,
            functions: Mutex::default(),
        })
    }

    /// DataFusion's session, e.g. to register tables and functions in it.
    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// The value of a variable, if there is one of that name.
    pub fn variable(&self, name: &str) -> Option<ScalarValue> {
        self.variables.value(name)
    }

    /// What the session runs on.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// `message`, that of an error of the statement `sql`, with the place that it is about, and a name that is near to one that is not there.
    pub fn with_place(&self, message: &str, sql: &str) -> String {
        told::told(message, sql, || {
            let catalogs = self.catalogs.catalog_names().into_iter().filter_map(|name| self.catalogs.catalog(&name));
            let schemas = catalogs.flat_map(|catalog| {
                catalog.schema_names().into_iter().filter_map(|name| catalog.schema(&name)).collect::<Vec<_>>()
            });
            schemas.flat_map(|schema| schema.table_names()).filter(|name| !is_own(name)).collect()
        })
    }

    /// How whole numbers are divided.
    pub fn division(&self) -> &Division {
        &self.division
    }

    /// Settings that change what statements mean.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Whether statements may read and write files.
    pub fn access(&self) -> &ExternalAccess {
        &self.access
    }

    /// Who tells of settings, once.
    pub fn set_tells_settings(&self, tells: TellsSettings) {
        // There is one handle of a session, which is asked for it once.
        let _ = self.tells_settings.set(tells);
    }

    /// Where NULLs come in an order that says nothing of them.
    pub fn null_order(&self) -> NullOrder {
        NullOrder::of(&self.context.state_ref().read().config_options().sql_parser)
    }

    /// Has NULLs come so in statements that are planned from now on.
    pub fn set_null_order(&self, order: NullOrder) {
        order.set_in(&mut self.context.state_ref().write().config_mut().options_mut().sql_parser);
    }

    /// Plans and starts `statement`; islands report to `context`. Call within the engine's runtime, on a thread of [`Engine::run_statement`].
    ///
    /// # Errors
    /// Those of planning, and of running where the outcome is not rows.
    pub async fn run(&self, mut statement: Statement, context: &Arc<StatementContext>) -> Result<Outcome> {
        let mut state = self.context.state();
        state.config_mut().set_extension(Arc::clone(context));
        fit_to_limit(state.config_mut().options_mut(), self.engine.memory().limit());
        if self.macros.apply(&statement.0)? {
            return Ok(Outcome::Done(None));
        }
        if let Some(outcome) = self.transact(&statement.0, context.connection()).await? {
            return Ok(outcome);
        }
        if has_changes(&statement.0) {
            return self.run_changes_within(statement, context).await;
        }
        if let Some(outcome) = self.place(&state, &statement.0, context.connection())? {
            return Ok(outcome);
        }
        if let Some(outcome) = self.of_sequence(&statement.0)? {
            return Ok(outcome);
        }
        if self.of_secret(&statement.0)? {
            return Ok(Outcome::Done(None));
        }
        if describe::is_done(&statement.0) {
            return Ok(Outcome::Done(None));
        }
        self.options.apply(&mut statement.0);
        if matches!(&statement.0, ParsedStatement::CopyTo(_) | ParsedStatement::CreateExternalTable(_)) {
            self.access.check()?;
        }
        let mut setting = SetVariable::of(&statement.0);
        if let Some(query) = setting.as_mut().and_then(|setting| setting.value.take()) {
            statement.0 = ParsedStatement::Statement(Box::new(SqlStatement::Query(Box::new(query))));
        } else if let Some(setting) = setting.take() {
            self.variables.remove(&setting.name);
            return Ok(Outcome::Done(None));
        }
        if let Some(query) = named_types::values_query(&statement.0)? {
            let values = self.texts_of(&state, query).await?;
            named_types::set_values(&mut statement.0, values);
        }
        {
            let mut types = self.types.lock();
            if named_types::change(&statement.0, &mut types)? {
                return Ok(Outcome::Done(None));
            }
            named_types::write_out(&mut statement.0, &types);
        }
        self.write_out_places(&state, &mut statement.0);
        let made = self.made(&state, &mut statement.0)?;
        name_apart(&mut statement.0);
        if let Some(name) = views::unless_exists(&mut statement.0)
            && self.table_exists(&object_name_to_table_reference(name, true)?)?
        {
            return Ok(Outcome::Done(None));
        }
        let mut spellings = std::mem::take(&mut statement.1);
        match self.prepared_change(&statement.0).await? {
            Some(Some((filled, named))) => (statement.0, spellings) = (filled, named),
            Some(None) => return Ok(Outcome::Done(None)),
            None => {}
        }
        let definition = Definition::take(&mut statement.0)?;
        self.type_generated(&state, &mut statement.0, &definition).await?;
        let view = ViewText::of(&statement.0, &spellings);
        views::forget_columns(&mut statement.0);
        let preparing = match prepared::Use::of(&statement.0) {
            Some(prepared::Use::Prepare(name)) => Some((name, statement.0.clone())),
            _ => None,
        };
        let mut explanation = Explanation::of(&statement.0, state.config().options());
        if matches!(&statement.0, ParsedStatement::Explain(explain) if explain.options.analyze) {
            context.analyze();
        }
        macros::write_out(&state, &mut statement.0)?;
        calls::check(&statement.0, &state)?;
        if let Some(rows) = self.shown(&state, &statement.0).await? {
            return Ok(Outcome::Rows(rows));
        }
        if let Some(outcome) = self.change(&state, &statement.0).await? {
            return Ok(outcome);
        }
        if let Some(outcome) = self.alter(&state, &statement.0).await? {
            return Ok(outcome);
        }
        if let Some(outcome) = self.comment(&state, &statement.0).await? {
            return Ok(outcome);
        }
        if let Some(outcome) = self.index(&state, &statement.0).await? {
            return Ok(outcome);
        }
        self.check_dropped(&state, &statement.0).await?;
        let mut changed = Vec::new();
        if let ParsedStatement::Explain(explain) = &mut statement.0
            && let Some((query, tables)) = self.explained(&state, &explain.statement, explain.options.analyze).await?
        {
            *explain.statement = ParsedStatement::Statement(Box::new(SqlStatement::Query(Box::new(query))));
            changed.extend(tables);
        }
        let (tables, plan) = views::bound(async {
            heeded(&spellings, in_full::write_out(&state, &mut statement.0)).await?;
            spellings.fold_new(&mut statement.0);
            let inserted = self.plan_inserted(&state, &mut statement.0).await?;
            let mut tables = self.compute_ctes(&state, &mut statement.0, explanation.as_mut()).await?;
            tables.extend(inserted);
            let of_nulls = prepared::of_nulls(&statement.0);
            let plan = match (ogee_sql::plan(&state, statement.0).await, of_nulls) {
                // Parameters stand where plans have none, or are of types that only their values tell.
                (Err(refused), Some(of_nulls)) => ogee_sql::plan(&state, of_nulls).await.map_err(|_| refused)?,
                (plan, _) => plan?,
            };
            Ok::<_, Error>((tables, plan))
        })
        .await?;
        checkpoint::check()?;
        let outcome = match (plan, view) {
            (LogicalPlan::Ddl(DdlStatement::CreateView(create)), Some(view)) => {
                self.create_view(&state, create, view).await?
            }
            (LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)), _) => {
                self.create_table(&state, create, definition, &spellings).await?
            }
            (LogicalPlan::DescribeTable(described), _) => {
                let schema = Arc::new(described.schema.as_ref().clone());
                Outcome::Rows(describe::columns(&spellings.shown(&schema), None)?)
            }
            (plan, _) => match preparing {
                Some((name, written)) => {
                    self.prepared.lock().await.insert(name, (written, spellings.clone()));
                    Outcome::Done(None)
                }
                None => self.run_plan(state, spellings.in_copy(plan)?).await?,
            },
        };
        let outcome = match outcome {
            Outcome::Rows(rows) if setting.is_some() => {
                let schema = rows.schema();
                let batches = drain(rows).await?;
                let value = match batches.iter().find(|batch| batch.num_rows() > 0) {
                    Some(batch) => ScalarValue::try_from_array(batch.column(0), 0)?,
                    None => ScalarValue::try_from(schema.field(0).data_type())?,
                };
                if let Some(setting) = setting {
                    self.variables.set(setting.name, schema.field(0), value);
                }
                Outcome::Done(None)
            }
            Outcome::Rows(rows) => Outcome::Rows(shown(rows, &spellings)),
            done => done,
        };
        // What was planned keeps its rows.
        drop((tables, changed));
        if let Some(made) = made {
            self.lasts(made, context.connection());
        }
        Ok(match (outcome, explanation) {
            (Outcome::Rows(rows), Some(explanation)) => Outcome::Rows(explanation.before(rows)),
            (outcome, _) => outcome,
        })
    }

    /// Writes the schemas of tables in `statement` where they are not those in which names are looked for first.
    fn write_out_places(&self, state: &SessionState, statement: &mut ParsedStatement) {
        let further = self.further_schemas.lock().clone();
        let has = |schema: &str, name: &str| {
            let reference = TableReference::partial(schema, name);
            state.schema_for_ref(reference).is_ok_and(|schema| schema.table_exist(name))
        };
        let place = |name: &str| {
            let own = system::schema_of(name);
            if (further.is_empty() && own.is_none()) || has(&state.config_options().catalog.default_schema, name) {
                return None;
            }
            let found = further.iter().find(|schema| has(schema, name)).cloned();
            found.or_else(|| own.map(str::to_owned))
        };
        catalogs::write_out(statement, &self.attached(), &place);
    }

    /// Runs `statement` if it makes or drops a sequence.
    fn of_sequence(&self, statement: &ParsedStatement) -> Result<Option<Outcome>> {
        let ParsedStatement::Statement(statement) = statement else { return Ok(None) };
        match &**statement {
            SqlStatement::CreateSequence { temporary, if_not_exists, name, sequence_options, .. } => {
                self.sequences.create(name, sequence_options, *if_not_exists, *temporary)?;
            }
            SqlStatement::Drop { object_type: ObjectType::Sequence, if_exists, names, .. } => {
                for name in names {
                    self.sequences.remove(name, *if_exists)?;
                }
            }
            _ => return Ok(None),
        }
        Ok(Some(Outcome::Done(None)))
    }

    /// Whether `statement` makes or drops a secret, which is done.
    fn of_secret(&self, statement: &ParsedStatement) -> Result<bool> {
        let ParsedStatement::Statement(statement) = statement else { return Ok(false) };
        match secrets::of(statement)? {
            Some(OfSecret::Create(secret)) => self.secrets.create(secret)?,
            Some(OfSecret::Drop { name, if_exists }) => self.secrets.remove(&name, if_exists)?,
            None => return Ok(false),
        }
        Ok(true)
    }

    /// What `SHOW` or `DESCRIBE` of a table shows; `None` where `statement` is something else.
    async fn shown(
        &self,
        state: &SessionState,
        statement: &ParsedStatement,
    ) -> Result<Option<SendableRecordBatchStream>> {
        let table = match describe::Shown::of(statement)? {
            Some(describe::Shown::Columns(table)) => table,
            Some(describe::Shown::Settings(name)) => {
                return Ok(Some(describe::settings(state, name.as_deref())?));
            }
            None => return Ok(None),
        };
        if !self.table_exists(&table)? {
            // `SHOW` of one name may be of a setting.
            if let ParsedStatement::Statement(statement) = statement
                && let SqlStatement::ShowVariable { variable } = &**statement
            {
                let name = variable.iter().map(|part| part.value.as_str()).collect::<Vec<_>>().join(".");
                return Ok(Some(describe::settings(state, Some(&name))?));
            }
            return Ok(None);
        }
        let provider = state.schema_for_ref(table.clone())?.table(table.table()).await?;
        let Some(provider) = provider else { return Ok(None) };
        let is_table = provider.table_type() == TableType::Base;
        Ok(Some(describe::columns(&provider.schema(), is_table.then_some(&provider))?))
    }

    /// Runs the common table expressions that are read more than once, and has `statement` read their rows. Those of one that is to be explained are
    /// shown by `explanation`, and run only if it says how that went.
    async fn compute_ctes(
        &self,
        state: &SessionState,
        statement: &mut ParsedStatement,
        mut explanation: Option<&mut Explanation>,
    ) -> Result<Vec<Computed<'_>>> {
        let mut computed = Vec::new();
        if matches!(statement, ParsedStatement::Explain(_)) && explanation.is_none() {
            return Ok(computed);
        }
        let Some(query) = ctes::query_with(statement) else { return Ok(computed) };
        for index in 0..query.with.as_ref().map_or(0, |with| with.cte_tables.len()) {
            if !ctes::is_shared(query, index) {
                continue;
            }
            let Some(body) = ctes::body(query, index) else { continue };
            // What is wrong with it is told where it is used.
            let Ok(plan) = ogee_sql::plan(state, body).await else { continue };
            let mut names = std::collections::HashSet::new();
            let worthwhile = ctes::is_worthwhile(&plan) || ctes::is_volatile(&plan) || ctes::is_large(&plan);
            if !worthwhile && !ctes::is_read_whole(query, index)
                || !plan.schema().fields().iter().all(|field| names.insert(field.name().as_str()))
            {
                continue;
            }
            let part = ctes::wanted(query, index)
                .zip(ctes::body(query, index))
                .and_then(|(wanted, body)| ctes::part(query, index, body, wanted));
            let plan = match part {
                // What is wrong with a condition is told where it is.
                Some(part) => ogee_sql::plan(state, part).await.unwrap_or(plan),
                None => plan,
            };
            let physical = self.physical_plan(state, &plan).await?;
            if !worthwhile && !condenses(&physical) {
                continue;
            }
            let physical = single_partition(physical);
            let schema = nullable(&physical.schema());
            let Some(shown) = ctes::name(query, index) else { continue };
            let planned_rows = match &explanation {
                Some(explanation) if !explanation.analyzes() => {
                    Some(expected_rows(&physical).map_or(ROWS_UNKNOWN, |rows| rows as f64))
                }
                _ => None,
            };
            let table = PagedTable::of_cte(schema, Arc::clone(self.engine.memory()), shown.clone(), planned_rows);
            if planned_rows.is_none() {
                let context = task_context(state, &physical);
                drain(execute_stream(table.sink(Arc::clone(&physical), false), context)?).await?;
            }
            if let Some(explanation) = &mut explanation {
                explanation.show(&shown, &physical);
            }
            let name = format!("ogee_cte_{}", self.computed.fetch_add(1, Ordering::Relaxed));
            self.context.register_table(name.as_str(), Arc::new(table))?;
            ctes::read_from(query, index, &name);
            computed.push(Computed { context: &self.context, name });
        }
        Ok(computed)
    }

    /// Plans the query of an `INSERT` by itself where it has to be, and has the statement read what that gives.
    async fn plan_inserted(
        &self,
        state: &SessionState,
        statement: &mut ParsedStatement,
    ) -> Result<Option<Computed<'_>>> {
        let Some(query) = inserted::query_apart(statement) else { return Ok(None) };
        let source = ParsedStatement::Statement(Box::new(SqlStatement::Query(query.clone())));
        let planned = name_columns(ogee_sql::plan(state, source).await?, &[])?;
        let name = format!("ogee_inserted_{}", self.computed.fetch_add(1, Ordering::Relaxed));
        let all = parse(&format!("SELECT * FROM {name}"))?.pop().map(|statement| statement.0);
        let Some(ParsedStatement::Statement(all)) = all else { return Ok(None) };
        let SqlStatement::Query(all) = *all else { return Ok(None) };
        *query = all;
        self.context.register_table(name.as_str(), Arc::new(ViewTable::new(planned, None)))?;
        Ok(Some(Computed { context: &self.context, name }))
    }

    async fn run_plan(&self, state: SessionState, plan: LogicalPlan) -> Result<Outcome> {
        match plan {
            LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => {
                self.create_table(&state, create, Definition::default(), &Spellings::default()).await
            }
            LogicalPlan::Ddl(_) => {
                let frame = self.context.execute_logical_plan(plan).await?;
                drain(self.start(&state, frame.logical_plan()).await?).await?;
                Ok(Outcome::Done(None))
            }
            LogicalPlan::Statement(statement) => {
                let plan = LogicalPlan::Statement(times::with_known_zone(statement)?);
                let frame = self.context.execute_logical_plan(plan).await?;
                times::keep_instants(&self.context);
                let plan = frame.logical_plan();
                // SET and the like leave an empty plan, EXECUTE the statement that was prepared.
                if let LogicalPlan::EmptyRelation(_) = plan {
                    return Ok(Outcome::Done(None));
                }
                Ok(Outcome::Rows(self.start(&state, plan).await?))
            }
            LogicalPlan::Dml(_) | LogicalPlan::Copy(_) => {
                let limit = self.engine.memory().limit();
                let (plan, target) = staged(in_plain_types(plan)?)?;
                let plan = within_limit(plan, &state.config().options().execution.parquet, ROW_GROUP_ROWS, limit);
                let mut state = state;
                let runtime = self.context.runtime_env();
                if let Some(target) = &target {
                    target.check(&runtime).await?;
                    target.set_in(state.config_mut().options_mut());
                }
                let drained = async { drain(self.start(&state, &plan).await?).await };
                let rows = affected(&match (drained.await, &target) {
                    (Err(error), Some(target)) => return Err(target.told(error)),
                    (rows, _) => rows?,
                });
                let Some(target) = target else { return Ok(Outcome::Done(rows)) };
                let lists_files = target.lists_files;
                let files = target.place(&runtime).await?;
                Ok(if lists_files { Outcome::Rows(written(rows, files)?) } else { Outcome::Done(rows) })
            }
            plan => Ok(Outcome::Rows(self.start(&state, &plan).await?)),
        }
    }

    async fn physical_plan(&self, state: &SessionState, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
        physical_plan(&self.samples, state, plan).await
    }

    async fn start(&self, state: &SessionState, plan: &LogicalPlan) -> Result<SendableRecordBatchStream> {
        let physical = self.physical_plan(state, plan).await?;
        let context = task_context(state, &physical);
        Ok(times::in_zone(execute_stream(physical, context)?, state.config().options()))
    }

    /// `CREATE TABLE`, empty or `AS` a query: the rows become pages of the pool, and the table is there when all of them are.
    /// The columns of a declared table are called as `spellings` have them.
    async fn create_table(
        &self,
        state: &SessionState,
        create: CreateMemoryTable,
        mut definition: Definition,
        spellings: &Spellings,
    ) -> Result<Outcome> {
        let CreateMemoryTable { name, input, if_not_exists, or_replace, constraints, column_defaults, temporary: _ } =
            create;
        let exists = self.table_exists(&name)?;
        if exists && if_not_exists {
            return Ok(Outcome::Done(None));
        }
        if exists && !or_replace {
            return Err(Error::Plan(format!(
                "table '{name}' exists already; use CREATE OR REPLACE TABLE to replace it"
            )));
        }
        self.must_be(state, &name, exists, TableType::Base).await?;
        if exists {
            self.must_not_be_referred_to(state, &name, "needs its rows", &[]).await?;
        }
        let input = match &*input {
            LogicalPlan::EmptyRelation(_) => input,
            _ => Arc::new(name_columns(Arc::unwrap_or_clone(input), &[])?),
        };
        let mut names = std::collections::HashSet::new();
        if let Some(field) = input.schema().fields().iter().find(|field| !names.insert(field.name().as_str())) {
            return Err(Error::Plan(format!(
                "column '{}' appears twice in table '{name}'; name the columns with AS",
                field.name()
            )));
        }
        // The types are known only now: coercion may change those of the statement as it was written.
        let physical = single_partition(self.physical_plan(state, &input).await?);
        // Columns take NULL unless they were declared not to; that a query cannot give NULL is no declaration.
        let schema = match &*input {
            LogicalPlan::EmptyRelation(_) => Arc::clone(input.schema().inner()),
            _ => nullable(&physical.schema()),
        };
        self.check_definition(state, &definition, &schema).await?;
        self.resolve_foreign(state, &name, &mut definition, &schema, &constraints).await?;
        let table = PagedTable::new(spellings.of_table(&schema), Arc::clone(self.engine.memory()));
        let table = table.with_keys(&constraints, column_defaults)?.with_definition(definition);
        let context = task_context(state, &physical);
        let rows = affected(&drain(execute_stream(table.sink(physical, false), context)?).await?);
        if exists {
            self.context.deregister_table(name.clone())?;
        }
        self.context.register_table(name, Arc::new(table))?;
        Ok(Outcome::Done(rows))
    }

    /// `CREATE VIEW`: what is kept is its query.
    async fn create_view(&self, state: &SessionState, create: CreateView, text: ViewText) -> Result<Outcome> {
        let CreateView { name, input: _, or_replace, definition, temporary: _ } = create;
        let exists = self.table_exists(&name)?;
        if exists && !or_replace {
            return Err(Error::Plan(format!("'{name}' exists already; use CREATE OR REPLACE VIEW to replace it")));
        }
        self.must_be(state, &name, exists, TableType::View).await?;
        let view = views::bound(text.make(state, definition)).await?;
        if exists {
            self.context.deregister_table(name.clone())?;
        }
        self.context.register_table(name, Arc::new(view))?;
        Ok(Outcome::Done(None))
    }

    /// A table is not replaced by a view, nor a view by a table.
    async fn must_be(&self, state: &SessionState, name: &TableReference, exists: bool, kind: TableType) -> Result<()> {
        if !exists {
            return Ok(());
        }
        let found = state.schema_for_ref(name.clone())?.table_type(name.table()).await?;
        match (found, kind) {
            (Some(TableType::View), TableType::Base) => {
                Err(Error::Plan(format!("'{name}' is a view; use DROP VIEW before a table takes its name")))
            }
            (Some(TableType::Base), TableType::View) => {
                Err(Error::Plan(format!("'{name}' is a table; use DROP TABLE before a view takes its name")))
            }
            _ => Ok(()),
        }
    }

    fn table_exists(&self, name: &TableReference) -> Result<bool> {
        // Asked of the catalog itself: a file of that name is no obstacle.
        let table = name.table().to_owned();
        Ok(self.context.state().schema_for_ref(name.clone())?.table_exist(&table))
    }
}

/// The physical plan of `plan`, while somebody looks at the samples that it will ask for.
pub(crate) async fn physical_plan(
    samples: &Arc<Samples>,
    state: &SessionState,
    plan: &LogicalPlan,
) -> Result<Arc<dyn ExecutionPlan>> {
    let foreseen = foresee(samples, plan);
    let physical = replanned::create(state, plan).await;
    foreseen.end().await;
    checkpoint::check()?;
    Ok(physical?)
}

/// Batches, and buffers whose size nobody accounts for, in proportion to the limit. What the user has set stays.
fn fit_to_limit(options: &mut ConfigOptions, limit: usize) {
    let execution = &mut options.execution;
    if execution.batch_size.get() == BATCH_ROWS {
        // 8192 rows from 1 GiB on, 1024 below 128 MiB.
        let rows = (limit >> 17).clamp(1024, BATCH_ROWS).next_power_of_two();
        execution.batch_size = ConfigNonZeroUsize::try_new(rows).expect("between the bounds above");
    }
    if execution.sort_spill_reservation_bytes == SORT_RESERVATION {
        execution.sort_spill_reservation_bytes = SORT_RESERVATION.min(limit / 64);
    }
    // Otherwise every column of a file that is written has buffers in several tasks.
    execution.parquet.allow_single_file_parallelism &= limit >= 1 << 30;
}

/// What the nodes of `plan` run in. The names of all functions are copied only for those who may look one up, such as the information schema:
/// some hundreds of strings, half a millisecond in a process that has just started.
pub(crate) fn task_context(state: &SessionState, plan: &Arc<dyn ExecutionPlan>) -> Arc<TaskContext> {
    if !is_one_island(plan) {
        return state.task_ctx();
    }
    let (id, config, runtime) = (state.session_id().to_owned(), state.config().clone(), state.runtime_env());
    Arc::new(TaskContext::new(
        None,
        id,
        config,
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        Arc::clone(runtime),
    ))
}

fn nullable(schema: &Schema) -> SchemaRef {
    let fields: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn single_partition(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.output_partitioning().partition_count() {
        1 => plan,
        _ => Arc::new(CoalescePartitionsExec::new(plan)),
    }
}

/// `rows` with columns that are called as `spellings` has them.
fn shown(rows: SendableRecordBatchStream, spellings: &Spellings) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let shown = spellings.shown(&schema);
    if Arc::ptr_eq(&schema, &shown) {
        return rows;
    }
    let named = Arc::clone(&shown);
    let rows = rows.map(move |batch| {
        let batch = batch?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = batch.columns().to_vec();
        Ok(RecordBatch::try_new_with_options(Arc::clone(&named), columns, &options)?)
    });
    Box::pin(RecordBatchStreamAdapter::new(shown, rows))
}

/// How many rows a copy wrote, and into which files.
fn written(rows: Option<u64>, files: Vec<String>) -> Result<SendableRecordBatchStream> {
    let mut lists = ListBuilder::new(StringViewBuilder::new());
    files.iter().for_each(|file| lists.values().append_value(file));
    lists.append(true);
    let count = Int64Array::from(vec![rows.and_then(|rows| i64::try_from(rows).ok())]);
    let columns: [(&str, ArrayRef); 2] = [("Count", Arc::new(count)), ("Files", Arc::new(lists.finish()))];
    let batch = RecordBatch::try_from_iter(columns).map_err(datafusion::error::DataFusionError::from)?;
    let schema = batch.schema();
    Ok(Box::pin(MemoryStream::try_new(vec![batch], schema, None)?))
}

async fn drain(rows: SendableRecordBatchStream) -> Result<Vec<RecordBatch>> {
    Ok(rows.try_collect().await?)
}

/// The number in the one row of one column that DataFusion's writers give.
fn affected(batches: &[RecordBatch]) -> Option<u64> {
    let batch = batches.iter().find(|batch| batch.num_rows() == 1)?;
    batch.columns().first()?.as_primitive_opt::<UInt64Type>().map(|counts| counts.value(0))
}

/// A stream that ends with the error of this crate.
pub fn rows(stream: SendableRecordBatchStream) -> impl futures::Stream<Item = Result<RecordBatch>> + Send {
    stream.map_err(Error::from)
}

/// Parallelism is the engine's affair: one partition, no repartitioning; no order is promised by sources; nothing is pushed into scans
/// while a statement runs, since the engine's scans do not look there.
fn config() -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_target_partitions(1)
        // The schema of that name is of this crate (`system`).
        .with_information_schema(false)
        .with_default_catalog_and_schema(CATALOG, "public")
        .with_batch_size(BATCH_ROWS);
    let options = config.options_mut();
    options.execution.time_zone = Some("UTC".to_owned());
    options.sql_parser.parse_float_as_decimal = true;
    // Rows of a query in FROM come in its order where nothing above has another; sorts that nobody wants go with the physical plan.
    options.sql_parser.enable_subquery_sort_elimination = false;
    // It loses the names of fields that are keys of joins, as in `ON t.s.a + 1 = u.b`.
    options.optimizer.enable_leaf_expression_pushdown = false;
    NullOrder::default().set_in(&mut options.sql_parser);
    options.sql_parser.dialect = Dialect::Generic;
    options.explain.physical_plan_only = true;
    options.execution.sort_spill_reservation_bytes = SORT_RESERVATION;
    options.execution.objectstore_writer_buffer_size = 2 << 20;
    options.execution.parquet.max_row_group_size = ROW_GROUP_ROWS;
    options.execution.collect_statistics = true;
    options.execution.parquet.schema_force_view_types = true;
    options.execution.parquet.pushdown_filters = false;
    options.execution.parquet.metadata_size_hint = Some(FOOTER_BYTES);
    options.execution.listing_table_ignore_subdirectory = false;
    options.optimizer.enable_round_robin_repartition = false;
    options.optimizer.repartition_aggregations = false;
    options.optimizer.repartition_joins = false;
    options.optimizer.repartition_windows = false;
    options.optimizer.repartition_sorts = false;
    options.optimizer.repartition_file_scans = false;
    options.optimizer.enable_sort_pushdown = false;
    options.optimizer.enable_dynamic_filter_pushdown = false;
    options.optimizer.enable_topk_dynamic_filter_pushdown = false;
    options.optimizer.enable_join_dynamic_filter_pushdown = false;
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    config
}
