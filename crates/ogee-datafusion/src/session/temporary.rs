//! Temporary tables and views, which go with the connection that made them.
//!
//! They are in the schemas of all others, where other connections see them, too.
//!
//! Not here: how tables are made.

use datafusion::{
    common::TableReference,
    execution::SessionState,
    sql::{parser::Statement as ParsedStatement, planner::object_name_to_table_reference},
};
use ogee_functions::Result;
use ogee_sql::catalogs;

use super::Session;

/// A table or view that a statement makes.
pub(super) struct Made {
    name: TableReference,
    is_temporary: bool,
}

impl Session {
    /// What `statement` makes, unless there is one already that it leaves alone.
    pub(super) fn made(&self, state: &SessionState, statement: &mut ParsedStatement) -> Result<Option<Made>> {
        let Some((name, is_temporary)) = catalogs::made(statement) else { return Ok(None) };
        let reference = object_name_to_table_reference(name, true)?;
        let replaces = catalogs::replaces(statement);
        if !replaces && self.table_exists(&reference)? {
            return Ok(None);
        }
        let options = &state.config_options().catalog;
        let resolved = reference.resolve(&options.default_catalog, &options.default_schema);
        let name = TableReference::full(resolved.catalog, resolved.schema, resolved.table);
        Ok(Some(Made { name, is_temporary }))
    }

    /// `made` is there, and lasts as long as `connection` if it is temporary.
    pub(super) fn lasts(&self, made: Made, connection: u64) {
        let mut temporary = self.temporary.lock();
        match made.is_temporary {
            true => temporary.insert(made.name, connection),
            false => temporary.remove(&made.name),
        };
    }

    /// Whether the table of this full name goes with a connection.
    pub(crate) fn is_temporary(&self, name: &TableReference) -> bool {
        self.temporary.lock().contains_key(name)
    }

    /// Drops what `connection` has made to last as long as it.
    pub(super) fn drop_temporary(&self, connection: u64) {
        let mut temporary = self.temporary.lock();
        temporary.retain(|name, of| {
            if *of == connection {
                // It may have been dropped before.
                let _ = self.context.deregister_table(name.clone());
            }
            *of != connection
        });
    }
}
