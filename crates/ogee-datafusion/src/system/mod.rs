//! Tables that tell of the catalog, as schemas whose tables are made when they are looked up: `duckdb_tables()`, `information_schema.columns`, `pg_class`.
//!
//! Each is a few rows about the tables, functions and settings of that moment. Numbers of objects (`table_oid`) are places in lists of them, and hold for one statement.
//!
//! Not here: their names, and the queries that some of them are (`ogee_sql::system`).

mod columns;
mod objects;
mod others;
mod snapshot;

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::{Arc, OnceLock, Weak},
};

use async_trait::async_trait;
use datafusion::{
    arrow::array::RecordBatch,
    catalog::{CatalogProviderList, SchemaProvider, TableProvider},
    common::{TableReference, plan_err},
    error::{DataFusionError, Result},
    execution::SessionState,
};
use ogee_files::remote::Secrets;
use ogee_memory::BufferManager;
use ogee_sql::{
    macros::Macros,
    named_types::NamedTypes,
    prepared::Prepared,
    system::{INFORMATION, POSTGRES, SYSTEM, called, is_told, query_of, schema_of},
    views,
};
use parking_lot::{Mutex, RwLock};

use crate::{changing::RowsWriter, sequences::Sequences, table::PagedTable, variables::Variables};

pub(crate) use columns::{batch, texts};
pub(crate) use snapshot::columns_shown;

/// Comments by schema, table, and column where one is of a column.
pub(crate) type Comments = HashMap<(String, String, Option<String>), String>;

/// A setting, as `duckdb_settings()` tells of it.
pub struct SettingInfo {
    /// Its name.
    pub name: &'static str,
    /// What it is set to.
    pub value: String,
    /// What it is for.
    pub description: &'static str,
    /// The type of its values.
    pub input_type: &'static str,
    /// Its other names.
    pub aliases: &'static [&'static str],
}

/// Tells of settings.
pub type TellsSettings = Box<dyn Fn() -> Vec<SettingInfo> + Send + Sync>;

/// What a session keeps beside its tables.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) attached: Arc<Mutex<BTreeSet<String>>>,
    pub(crate) sequences: Arc<Sequences>,
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) variables: Arc<Variables>,
    pub(crate) types: Arc<Mutex<NamedTypes>>,
    pub(crate) comments: Arc<Mutex<Comments>>,
    /// Tables and views that go with their connection.
    pub(crate) temporary: Arc<Mutex<HashMap<TableReference, u64>>>,
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) macros: Arc<Macros>,
    pub(crate) settings: Arc<OnceLock<TellsSettings>>,
}

/// What the tables look at.
pub(crate) struct System {
    pub(crate) kept: Kept,
    memory: Arc<BufferManager>,
    session: Weak<RwLock<SessionState>>,
    /// The catalogs themselves, whose views are not planned.
    catalogs: Weak<dyn CatalogProviderList>,
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("System").finish_non_exhaustive()
    }
}

impl System {
    pub(crate) fn new(
        kept: Kept,
        memory: &Arc<BufferManager>,
        session: Weak<RwLock<SessionState>>,
        catalogs: &Arc<dyn CatalogProviderList>,
    ) -> Arc<Self> {
        Arc::new(Self { kept, memory: Arc::clone(memory), session, catalogs: Arc::downgrade(catalogs) })
    }

    /// The schemas of the tables, by their names.
    pub(crate) fn schemas(self: &Arc<Self>) -> [(&'static str, Arc<dyn SchemaProvider>); 3] {
        [SYSTEM, INFORMATION, POSTGRES].map(|name| {
            let schema: Arc<dyn SchemaProvider> = Arc::new(SystemSchema { name, system: Arc::clone(self) });
            (name, schema)
        })
    }

    fn state(&self) -> Result<SessionState> {
        match self.session.upgrade() {
            Some(session) => Ok(session.read().clone()),
            None => plan_err!("the session has ended"),
        }
    }

    async fn rows(&self, name: &str) -> Result<RecordBatch> {
        let state = self.state()?;
        match called(name) {
            ("duckdb_tables", _) => objects::tables(&self.snapshot(&state, false).await?),
            ("duckdb_columns", _) => objects::columns(&self.snapshot(&state, true).await?),
            ("duckdb_views", _) => objects::views(&self.snapshot(&state, true).await?),
            ("duckdb_constraints", _) => objects::constraints_told(&self.snapshot(&state, false).await?),
            ("duckdb_schemas", _) => objects::schemas(&self.snapshot(&state, false).await?),
            ("duckdb_databases", _) => objects::databases(&self.snapshot(&state, false).await?),
            ("duckdb_indexes", _) => objects::indexes(&self.snapshot(&state, false).await?),
            ("duckdb_sequences", _) => objects::sequences(&self.snapshot(&state, false).await?, &self.kept.sequences),
            ("duckdb_functions", _) => others::functions(&state, &self.kept.macros),
            ("duckdb_types", _) => others::types(&self.kept.types.lock()),
            ("duckdb_settings", _) => others::settings(self.kept.settings.get()),
            ("duckdb_secrets", _) => others::secrets(&self.kept.secrets),
            ("which_secret", Some(place)) => others::which_secret(&self.kept.secrets, place),
            ("duckdb_memory", _) => others::memory(&self.memory),
            ("duckdb_variables", _) => others::variables(&self.kept.variables),
            ("duckdb_prepared_statements", _) => others::prepared(&*self.kept.prepared.lock().await),
            ("pragma_version", _) => others::version(),
            ("pragma_database_list", _) => others::database_list(&self.snapshot(&state, false).await?),
            ("pragma_database_size", _) => others::database_size(&self.snapshot(&state, false).await?, &self.memory),
            ("pragma_show_databases", _) => others::show_databases(&self.snapshot(&state, false).await?),
            ("pragma_show_schemas", _) => others::show_schemas(&state, &self.snapshot(&state, false).await?),
            ("pragma_show_tables_expanded", _) => objects::expanded(&self.snapshot(&state, true).await?),
            ("pragma_show_tables", place) => objects::names(&state, &self.snapshot(&state, false).await?, place),
            ("pragma_table_info", Some(table)) => snapshot::info(&self.table_of(&state, table).await?),
            ("pragma_show", Some(table)) => snapshot::shown(&self.table_of(&state, table).await?),
            (other, _) => plan_err!("there is no function {other}()"),
        }
    }

    /// The table that `text` names.
    async fn table_of(&self, state: &SessionState, text: &str) -> Result<Arc<dyn TableProvider>> {
        let attached = self.kept.attached.lock().clone();
        let Some(name) = ogee_sql::catalogs::reference(text, &attached) else {
            return plan_err!("'{text}' is no name of a table");
        };
        let mut schema = state.schema_for_ref(name.clone())?;
        if !schema.table_exist(name.table())
            && let TableReference::Bare { table } = &name
            && let Some(of_system) = schema_of(table)
        {
            schema = state.schema_for_ref(TableReference::partial(of_system, table.as_ref()))?;
        }
        match schema.table_exist(name.table()) {
            true => match schema.table(name.table()).await? {
                Some(table) => Ok(table),
                None => plan_err!("table '{text}' does not exist"),
            },
            false => plan_err!("table '{text}' does not exist"),
        }
    }
}

/// One of the schemas.
#[derive(Debug)]
struct SystemSchema {
    name: &'static str,
    system: Arc<System>,
}

#[async_trait]
impl SchemaProvider for SystemSchema {
    /// None, so that nobody takes them for those of the user.
    fn table_names(&self) -> Vec<String> {
        Vec::new()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(query) = query_of(self.name, name) {
            let state = self.system.state()?;
            return Ok(Some(Arc::new(views::of_text(&state, query).await?)));
        }
        if self.name != SYSTEM || !is_told(name) {
            return Ok(None);
        }
        let batch = self.system.rows(name).await?;
        let memory = &self.system.memory;
        let schema = batch.schema();
        let mut writer = RowsWriter::new(&schema, memory);
        writer.push(batch)?;
        Ok(Some(Arc::new(PagedTable::of_blocks(schema, Arc::clone(memory), writer.finish()?))))
    }

    fn table_exist(&self, name: &str) -> bool {
        query_of(self.name, name).is_some() || self.name == SYSTEM && is_told(name)
    }

    fn register_table(&self, name: String, _table: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        Err(DataFusionError::Plan(format!("schema {} is of the system, and takes no '{name}'", self.name)))
    }
}
