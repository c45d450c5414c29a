//! Views: kept as the query that was written, and planned by whoever uses them.
//!
//! DataFusion keeps the plan of a view, which holds on to the tables that it was made of: one that was dropped would still be read, and one that was made again would
//! not. Here the catalog keeps the query ([`View`]). When a statement that names the view is planned, [`ViewCatalogs`] plans its query too, with the tables of that
//! moment, and the columns that they have.
//!
//! Outside of planning, for the information schema or to be dropped, a view whose tables are gone is as it was when it was made.
//!
//! Not here: what a statement means once its tables are known.

use std::{
    collections::{HashMap, HashSet},
    future::Future,
    sync::{Arc, OnceLock, Weak},
};

use async_trait::async_trait;
use datafusion::{
    arrow::datatypes::SchemaRef,
    catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, Session, TableProvider, view::ViewTable},
    common::{Column, plan_err},
    datasource::TableType,
    error::{DataFusionError, Result},
    execution::SessionState,
    logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder},
    optimizer::{Analyzer, analyzer::type_coercion::TypeCoercion},
    physical_plan::ExecutionPlan,
    sql::{
        parser::Statement as ParsedStatement,
        sqlparser::ast::{CreateView, Ident, ObjectName, Query, Statement},
    },
};
use ogee_files::{spelling::needs_folding, state_of, with_one_state};
use parking_lot::{Mutex, RwLock};

use crate::{
    common_types::CommonTypes,
    folded_tables::FoldedTable,
    in_full,
    names::normal_name,
    plan::plan,
    quotients::Division,
    spellings::{Spellings, heeded},
    statement::{Statement as Parsed, parse},
};

tokio::task_local! {
    /// The views whose queries are being planned, the innermost last; nothing outside of planning.
    static WITHIN: Vec<String>;
    /// The tables that planning has made of files and of views: whatever is planned several times looks at them once.
    static MADE: Mutex<HashMap<String, Arc<dyn TableProvider>>>;
}

/// Runs `planning`, in which views are what their queries say now.
pub async fn bound<F: Future>(planning: F) -> F::Output {
    MADE.scope(Mutex::default(), WITHIN.scope(Vec::new(), with_one_state(planning))).await
}

/// A view, as the catalog has it.
#[derive(Debug)]
pub struct View {
    query: Query,
    columns: Vec<Ident>,
    spellings: Spellings,
    /// As it was when it was made.
    made: ViewTable,
}

/// The name of the view that `statement` makes if there is none, which it makes from now on without asking.
pub fn unless_exists(statement: &mut ParsedStatement) -> Option<ObjectName> {
    let ParsedStatement::Statement(statement) = statement else { return None };
    let Statement::CreateView(CreateView { if_not_exists, name, .. }) = &mut **statement else { return None };
    std::mem::take(if_not_exists).then(|| name.clone())
}

/// Has the planner not look at the columns that `statement`, which makes a view, names: they may be fewer than those of its query.
pub fn forget_columns(statement: &mut ParsedStatement) {
    if let ParsedStatement::Statement(statement) = statement
        && let Statement::CreateView(CreateView { columns, .. }) = &mut **statement
    {
        columns.clear();
    }
}

/// What a statement that makes a view says of it.
pub struct ViewText {
    query: Query,
    columns: Vec<Ident>,
    spellings: Spellings,
}

impl ViewText {
    /// What `statement` says, if it makes a view.
    pub fn of(statement: &ParsedStatement, spellings: &Spellings) -> Option<Self> {
        let ParsedStatement::Statement(statement) = statement else { return None };
        let Statement::CreateView(CreateView { query, columns, .. }) = &**statement else { return None };
        let columns = columns.iter().map(|column| column.name.clone()).collect();
        Some(Self { query: (**query).clone(), columns, spellings: spellings.clone() })
    }

    /// The view, which is planned now for the first time.
    ///
    /// # Errors
    /// Those of planning.
    pub async fn make(self, state: &SessionState, definition: Option<String>) -> ogee_functions::Result<View> {
        let made = table(state, &self.query, &self.columns, &self.spellings, definition).await?;
        Ok(View { query: self.query, columns: self.columns, spellings: self.spellings, made })
    }
}

/// `query` as a table, with the names `columns` if there are any.
async fn table(
    state: &SessionState,
    query: &Query,
    columns: &[Ident],
    spellings: &Spellings,
    definition: Option<String>,
) -> Result<ViewTable> {
    let mut statement = ParsedStatement::Statement(Box::new(Statement::Query(Box::new(query.clone()))));
    let written = heeded(spellings, in_full::write_out(state, &mut statement)).await;
    written.map_err(|error| DataFusionError::External(Box::new(error)))?;
    let mut spellings = spellings.clone();
    spellings.fold_new(&mut statement);
    let planned = plan(state, statement).await.map_err(|error| DataFusionError::External(Box::new(error)))?;
    let planned = spellings.of_names(name_columns(spellings.in_plan(planned)?, columns)?)?;
    // Without it, the types that a set operation has are not those that it says.
    let division = state.config().get_extension::<Division>().unwrap_or_default();
    let rules = Analyzer::with_rules(vec![Arc::new(CommonTypes(division)), Arc::new(TypeCoercion::new())]);
    let planned = rules.execute_and_check(planned, state.config_options(), |_, _| {})?;
    Ok(ViewTable::new(planned, definition))
}

/// The table of the rows of the query `text`, which is planned now.
///
/// # Errors
/// Those of planning.
pub async fn of_text(state: &SessionState, text: &str) -> Result<ViewTable> {
    let parsed = parse(text).map_err(|error| DataFusionError::External(Box::new(error)))?.pop();
    if let Some(Parsed(ParsedStatement::Statement(statement), spellings)) = parsed
        && let Statement::Query(query) = *statement
    {
        return table(state, &query, &[], &spellings, None).await;
    }
    plan_err!("'{text}' is no query")
}

/// Whether the query of a view is being planned.
pub fn is_planning_view() -> bool {
    WITHIN.try_with(|within| !within.is_empty()).unwrap_or(false)
}

/// `plan` with the names `columns` for its first columns, and one name for no two of them: `x` and `x_1`.
pub fn name_columns(plan: LogicalPlan, columns: &[Ident]) -> Result<LogicalPlan> {
    let fields = plan.schema().fields();
    if columns.len() > fields.len() {
        return plan_err!("{} columns are named, and the query has {}", columns.len(), fields.len());
    }
    let mut taken = HashSet::new();
    let mut named = Vec::with_capacity(fields.len());
    for (at, field) in fields.iter().enumerate() {
        let name = columns.get(at).map_or_else(|| field.name().clone(), normal_name);
        let mut numbered = std::iter::once(name.clone()).chain((1..).map(|n| format!("{name}_{n}")));
        if let Some(name) = numbered.find(|name| taken.insert(name.clone())) {
            named.push(name);
        }
    }
    if named.iter().zip(fields).all(|(name, field)| name == field.name()) {
        return Ok(plan);
    }
    let columns: Vec<Expr> = plan.schema().iter().map(|field| Expr::Column(Column::from(field))).collect();
    let columns = columns.into_iter().zip(named).map(|(column, name)| column.alias(name));
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

#[async_trait]
impl TableProvider for View {
    fn schema(&self) -> SchemaRef {
        self.made.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.made.get_table_definition()
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.made.scan(state, projection, filters, limit).await
    }
}

/// The session whose tables the queries of views are planned with.
#[derive(Debug, Default)]
pub struct Binder {
    session: OnceLock<Weak<RwLock<SessionState>>>,
}

impl Binder {
    /// Tells the binder which session it serves, once.
    pub fn serve(&self, session: Weak<RwLock<SessionState>>) {
        self.session.set(session).expect("a binder serves one session");
    }

    /// What `view` is now, if it is anything.
    async fn bind(&self, name: String, view: &View) -> Result<Option<Arc<dyn TableProvider>>> {
        let (mut within, planning) = match WITHIN.try_with(Clone::clone) {
            Ok(within) => (within, true),
            Err(_) => (Vec::new(), false),
        };
        if within.contains(&name) {
            return plan_err!("view '{name}' reads itself; make it anew with CREATE OR REPLACE VIEW");
        }
        let Some(session) = self.session.get().and_then(Weak::upgrade) else { return Ok(None) };
        let state = state_of(&session);
        within.push(name);
        let definition = view.made.definition().cloned();
        match WITHIN.scope(within, table(&state, &view.query, &view.columns, &view.spellings, definition)).await {
            Ok(bound) => Ok(Some(Arc::new(bound))),
            Err(error) if planning => Err(error),
            Err(_) => Ok(None),
        }
    }
}

/// Whether a table calls its columns by small letters of itself.
pub type IsFolded = fn(&dyn TableProvider) -> bool;

/// Catalogs whose views are planned when they are asked for, and whose tables call their columns by small letters.
#[derive(Debug)]
pub struct ViewCatalogs {
    inner: Arc<dyn CatalogProviderList>,
    binder: Arc<Binder>,
    is_folded: IsFolded,
}

impl ViewCatalogs {
    /// The catalogs of `inner`; tables for which `is_folded` says no are wrapped where their columns have other letters.
    pub fn new(inner: Arc<dyn CatalogProviderList>, binder: Arc<Binder>, is_folded: IsFolded) -> Self {
        Self { inner, binder, is_folded }
    }
}

impl CatalogProviderList for ViewCatalogs {
    fn register_catalog(&self, name: String, catalog: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        self.inner.register_catalog(name, catalog)
    }

    fn catalog_names(&self) -> Vec<String> {
        self.inner.catalog_names()
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let inner = self.inner.catalog(name)?;
        let (binder, is_folded) = (Arc::clone(&self.binder), self.is_folded);
        Some(Arc::new(ViewCatalog { inner, binder, is_folded, name: name.to_owned() }))
    }
}

#[derive(Debug)]
struct ViewCatalog {
    inner: Arc<dyn CatalogProvider>,
    binder: Arc<Binder>,
    is_folded: IsFolded,
    name: String,
}

impl CatalogProvider for ViewCatalog {
    fn schema_names(&self) -> Vec<String> {
        self.inner.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let inner = self.inner.schema(name)?;
        let (binder, is_folded) = (Arc::clone(&self.binder), self.is_folded);
        Some(Arc::new(ViewSchema { inner, binder, is_folded, name: format!("{}.{name}", self.name) }))
    }

    fn register_schema(&self, name: &str, schema: Arc<dyn SchemaProvider>) -> Result<Option<Arc<dyn SchemaProvider>>> {
        self.inner.register_schema(name, schema)
    }

    fn deregister_schema(&self, name: &str, cascade: bool) -> Result<Option<Arc<dyn SchemaProvider>>> {
        self.inner.deregister_schema(name, cascade)
    }
}

#[derive(Debug)]
struct ViewSchema {
    inner: Arc<dyn SchemaProvider>,
    binder: Arc<Binder>,
    is_folded: IsFolded,
    name: String,
}

#[async_trait]
impl SchemaProvider for ViewSchema {
    fn owner_name(&self) -> Option<&str> {
        self.inner.owner_name()
    }

    fn table_names(&self) -> Vec<String> {
        self.inner.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let full_name = format!("{}.{name}", self.name);
        if let Ok(Some(made)) = MADE.try_with(|made| made.lock().get(&full_name).cloned()) {
            return Ok(Some(made));
        }
        let Some(mut found) = self.inner.table(name).await? else { return Ok(None) };
        let mut is_made = !self.inner.table_exist(name);
        if let Some(view) = found.downcast_ref::<View>()
            && let Some(bound) = self.binder.bind(full_name.clone(), view).await?
        {
            (found, is_made) = (bound, true);
        }
        if !(self.is_folded)(found.as_ref()) && found.get_logical_plan().is_none() && needs_folding(&found.schema()) {
            found = Arc::new(FoldedTable::new(found));
        }
        if is_made {
            // Nobody keeps them outside of planning.
            let _ = MADE.try_with(|made| made.lock().insert(full_name, Arc::clone(&found)));
        }
        Ok(Some(found))
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        self.inner.table_type(name).await
    }

    fn register_table(&self, name: String, table: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        self.inner.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.inner.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.inner.table_exist(name)
    }
}
