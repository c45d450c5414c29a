//! Transactions: `BEGIN [READ ONLY]`, `COMMIT`, `ROLLBACK`.
//!
//! Blocks of tables never change, so what there was when a transaction began is a list of tables and of their blocks. It is kept, and put back by `ROLLBACK`; a transaction costs what it
//! changes, and nothing when it ends.
//!
//! 1. One connection of a database is in a transaction at a time. Until it ends, statements of other connections that change something are refused, so that nothing of theirs is lost when it is
//!    put back.
//! 2. Statements of other connections that only read see what the transaction has done so far: they read what is not committed.
//! 3. Behind an error nothing is done until the transaction ends, by `COMMIT` too, which puts back then.
//!
//! Not here: settings, values taken from sequences and prepared statements, which stay as they are.

use std::{collections::HashSet, sync::Arc};

use datafusion::{
    catalog::{CatalogProviderList, SchemaProvider, TableProvider},
    sql::{
        parser::Statement as ParsedStatement,
        sqlparser::ast::{Statement as SqlStatement, TransactionAccessMode, TransactionMode},
    },
};
use ogee_functions::{Error, Result};
use ogee_sql::changes::is_change;
use parking_lot::Mutex;

use super::{Outcome, Session};
use crate::{
    keys::KeptKeys,
    table::{Block, PagedTable},
};

/// Whether a statement has made the table of this name for itself.
pub(crate) fn is_own(name: &str) -> bool {
    ["ogee_appended_", "ogee_changed_", "ogee_cte_", "ogee_inserted_"].iter().any(|own| name.starts_with(own))
}

/// The transaction of a database, if one is open.
#[derive(Default)]
pub(super) struct Transactions(Mutex<Option<Open>>);

struct Open {
    connection: u64,
    /// A statement has failed.
    failed: bool,
    /// It was begun with `READ ONLY`.
    reads_only: bool,
    kept: Kept,
}

/// All tables as they were.
struct Kept(Vec<KeptSchema>);

struct KeptSchema {
    catalog: String,
    name: String,
    schema: Arc<dyn SchemaProvider>,
    tables: Vec<KeptTable>,
}

struct KeptTable {
    name: String,
    table: Arc<dyn TableProvider>,
    /// The blocks and keys of one of this crate.
    rows: Option<(Vec<Arc<Block>>, Option<KeptKeys>)>,
}

impl Kept {
    async fn all(catalogs: &Arc<dyn CatalogProviderList>) -> Result<Self> {
        let mut kept = Vec::new();
        for catalog_name in catalogs.catalog_names() {
            let Some(catalog) = catalogs.catalog(&catalog_name) else { continue };
            for name in catalog.schema_names() {
                let Some(schema) = catalog.schema(&name) else { continue };
                let mut tables = Vec::new();
                for name in schema.table_names().into_iter().filter(|name| !is_own(name)) {
                    let Some(table) = schema.table(&name).await? else { continue };
                    let rows = table.downcast_ref::<PagedTable>().map(|table| {
                        let keys = table.keys().map(|keys| keys.as_now());
                        (table.blocks().to_vec(), keys)
                    });
                    tables.push(KeptTable { name, table, rows });
                }
                kept.push(KeptSchema { catalog: catalog_name.clone(), name, schema, tables });
            }
        }
        Ok(Self(kept))
    }

    fn put_back(self, catalogs: &Arc<dyn CatalogProviderList>) -> Result<()> {
        let known: HashSet<(String, String)> =
            self.0.iter().map(|schema| (schema.catalog.clone(), schema.name.clone())).collect();
        for catalog_name in catalogs.catalog_names() {
            let Some(catalog) = catalogs.catalog(&catalog_name) else { continue };
            for name in catalog.schema_names() {
                if !known.contains(&(catalog_name.clone(), name.clone())) {
                    catalog.deregister_schema(&name, true)?;
                }
            }
        }
        for KeptSchema { catalog, name, schema, tables } in self.0 {
            let Some(catalog) = catalogs.catalog(&catalog) else { continue };
            if catalog.schema(&name).is_none() {
                catalog.register_schema(&name, Arc::clone(&schema))?;
            }
            for name in schema.table_names().into_iter().filter(|name| !is_own(name)) {
                schema.deregister_table(&name)?;
            }
            for KeptTable { name, table, rows } in tables {
                if let (Some(table), Some((blocks, keys))) = (table.downcast_ref::<PagedTable>(), rows) {
                    let publish = || *table.current().write() = blocks;
                    match (table.keys(), keys) {
                        (Some(keys), Some(kept)) => keys.put_back(kept, publish),
                        _ => publish(),
                    }
                }
                schema.register_table(name, table)?;
            }
        }
        Ok(())
    }
}

impl Session {
    /// Runs `statement` of `connection` if it begins or ends a transaction; sees that any other may run now.
    pub(super) async fn transact(&self, statement: &ParsedStatement, connection: u64) -> Result<Option<Outcome>> {
        let no_other = |statement: &str| Error::Plan(format!("{statement} without a transaction; use BEGIN before"));
        let parsed = match statement {
            ParsedStatement::Statement(parsed) => Some(&**parsed),
            _ => None,
        };
        match parsed {
            Some(SqlStatement::StartTransaction { modes, .. }) => {
                self.may_run(statement, connection)?;
                let kept = Kept::all(&self.catalogs).await?;
                let mut open = self.transactions.0.lock();
                match &*open {
                    Some(open) if open.connection == connection => {
                        Err(Error::Plan("BEGIN within a transaction; use COMMIT or ROLLBACK before".to_owned()))
                    }
                    Some(_) => Err(elsewhere()),
                    None => {
                        let reads_only = modes.contains(&TransactionMode::AccessMode(TransactionAccessMode::ReadOnly));
                        *open = Some(Open { connection, failed: false, reads_only, kept });
                        Ok(Some(Outcome::Done(None)))
                    }
                }
            }
            Some(SqlStatement::Commit { .. }) => {
                let mut open = self.transactions.0.lock();
                let ended = open.take_if(|open| open.connection == connection).ok_or_else(|| no_other("COMMIT"))?;
                if ended.failed {
                    ended.kept.put_back(&self.catalogs)?;
                }
                Ok(Some(Outcome::Done(None)))
            }
            Some(SqlStatement::Rollback { .. }) => {
                let mut open = self.transactions.0.lock();
                let ended = open.take_if(|open| open.connection == connection).ok_or_else(|| no_other("ROLLBACK"))?;
                ended.kept.put_back(&self.catalogs)?;
                Ok(Some(Outcome::Done(None)))
            }
            _ => {
                self.may_run(statement, connection)?;
                Ok(None)
            }
        }
    }

    /// Whether `statement` of `connection` may run now.
    fn may_run(&self, statement: &ParsedStatement, connection: u64) -> Result<()> {
        match &*self.transactions.0.lock() {
            Some(open) if open.connection == connection && open.failed => Err(Error::Plan(
                "a statement of the transaction has failed, and nothing is done until its end; use ROLLBACK".to_owned(),
            )),
            Some(open) if open.connection == connection && open.reads_only && writes(statement) => Err(Error::Plan(
                "the transaction is READ ONLY, and the statement may change something; use COMMIT before".to_owned(),
            )),
            Some(open) if open.connection != connection && writes(statement) => Err(elsewhere()),
            _ => Ok(()),
        }
    }

    /// Whether a program may change something of the catalog now, by `connection` and not by a statement.
    pub(super) fn may_change(&self, connection: u64) -> Result<()> {
        match &*self.transactions.0.lock() {
            Some(open) if open.connection != connection => Err(elsewhere()),
            _ => Ok(()),
        }
    }

    /// A statement of `connection` has ended with an error.
    pub fn failed(&self, connection: u64) {
        if let Some(open) = &mut *self.transactions.0.lock()
            && open.connection == connection
        {
            open.failed = true;
        }
    }

    /// `connection` is gone: its transaction is put back, and its temporary tables go.
    pub fn left(&self, connection: u64) {
        let open = self.transactions.0.lock().take_if(|open| open.connection == connection);
        if let Some(Open { kept, .. }) = open {
            // Catalogs in memory refuse none of it, and nobody is there to be told.
            let _ = kept.put_back(&self.catalogs);
        }
        self.drop_temporary(connection);
    }

    /// Puts back what the transaction of `connection` has done, if one is open.
    pub(super) fn put_back(&self, connection: u64) {
        let open = self.transactions.0.lock().take_if(|open| open.connection == connection);
        if let Some(Open { kept, .. }) = open {
            // Catalogs in memory refuse none of it.
            let _ = kept.put_back(&self.catalogs);
        }
    }

    /// Whether `connection` is in a transaction.
    pub(super) fn is_in_transaction(&self, connection: u64) -> bool {
        self.transactions.0.lock().as_ref().is_some_and(|open| open.connection == connection)
    }
}

fn elsewhere() -> Error {
    Error::Plan(
        "another connection is in a transaction, and changes have to wait for its COMMIT or ROLLBACK; run the statement again then"
            .to_owned(),
    )
}

/// Whether `statement` may change something of the catalog.
fn writes(statement: &ParsedStatement) -> bool {
    match statement {
        ParsedStatement::Statement(parsed) => {
            let reads = matches!(
                &**parsed,
                SqlStatement::Query(_)
                    | SqlStatement::Set(_)
                    | SqlStatement::ShowVariable { .. }
                    | SqlStatement::ShowTables { .. }
                    | SqlStatement::ShowColumns { .. }
                    | SqlStatement::ShowFunctions { .. }
                    | SqlStatement::ExplainTable { .. }
                    | SqlStatement::Prepare { .. }
                    | SqlStatement::Deallocate { .. }
                    | SqlStatement::Pragma { .. }
            );
            !reads || is_change(statement)
        }
        ParsedStatement::Explain(explain) => explain.options.analyze && writes(&explain.statement),
        ParsedStatement::CopyTo(_) | ParsedStatement::Reset(_) => false,
        ParsedStatement::CreateExternalTable(_) => true,
    }
}
