//! Which tables refer to which, by `FOREIGN KEY`, and what may not be done with a table that others refer to.
//!
//! Not here: rows (`crate::foreign`).

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, SchemaRef},
    catalog::TableProvider,
    common::{Constraint, Constraints, TableReference},
    execution::SessionState,
    sql::{
        parser::Statement as ParsedStatement,
        planner::object_name_to_table_reference,
        sqlparser::ast::{ObjectType, Statement as SqlStatement},
    },
};
use ogee_functions::{Error, Result};
use ogee_sql::{
    catalogs::MAIN_SCHEMA,
    changes::{Definition, ForeignKey},
};

use super::Session;
use crate::{
    foreign::{Child, Foreign, Parent},
    table::PagedTable,
};

/// The columns of the keys that `constraints` name.
fn keys_of(constraints: &Constraints) -> impl Iterator<Item = (&[usize], bool)> {
    constraints.iter().map(|key| match key {
        Constraint::PrimaryKey(of) => (of.as_slice(), true),
        Constraint::Unique(of) => (of.as_slice(), false),
    })
}

impl Session {
    /// The schema and name of a table.
    fn place_of(&self, state: &SessionState, reference: &TableReference) -> (String, String) {
        let options = &state.config_options().catalog;
        let resolved = reference.clone().resolve(&options.default_catalog, &options.default_schema);
        (resolved.schema.to_string(), resolved.table.to_string())
    }

    /// Sees that each key of another table that `definition` names is one of a table of the same schema, and puts its columns in the order of that.
    pub(super) async fn resolve_foreign(
        &self,
        state: &SessionState,
        name: &TableReference,
        definition: &mut Definition,
        schema: &SchemaRef,
        constraints: &Constraints,
    ) -> Result<()> {
        if definition.foreign_keys().is_empty() {
            return Ok(());
        }
        let (place, own) = self.place_of(state, name);
        let mut keys = std::mem::take(definition.foreign_keys_mut());
        for key in &mut keys {
            if !key.schema.is_empty() && key.schema != place {
                let instead = "make it in the schema of the other table";
                return Err(Error::Unsupported(format!(
                    "a FOREIGN KEY of a table of another schema is not supported; {instead}"
                )));
            }
            key.schema = place.clone();
            let other = if key.table == own { None } else { Some(self.referenced(state, key).await?) };
            let (fields, others) = match &other {
                None => (Arc::clone(schema), constraints.clone()),
                Some(provider) => match provider.downcast_ref::<PagedTable>() {
                    Some(table) => (table.rows_schema(), table.declared_keys().clone()),
                    None => return Err(Error::Plan(format!("'{}' is no table that has keys", key.table))),
                },
            };
            let names =
                |of: &[usize]| -> Vec<String> { of.iter().map(|&at| fields.field(at).name().clone()).collect() };
            if key.referenced.is_empty() {
                let primary = keys_of(&others).find(|(_, primary)| *primary);
                let missing = || Error::Plan(format!("table '{}' has no PRIMARY KEY; name the columns", key.table));
                key.referenced = names(primary.ok_or_else(missing)?.0);
            }
            if key.referenced.len() != key.columns.len() {
                return Err(Error::Plan(format!(
                    "a FOREIGN KEY of {} columns refers to {} of table '{}'",
                    key.columns.len(),
                    key.referenced.len(),
                    key.table
                )));
            }
            for (column, referenced) in key.columns.iter().zip(&key.referenced) {
                let missing =
                    |table: &str, column: &str| Error::Plan(format!("table '{table}' has no column '{column}'"));
                let (_, from) = schema.fields().find(column).ok_or_else(|| missing(&own, column))?;
                let (_, to) = fields.fields().find(referenced).ok_or_else(|| missing(&key.table, referenced))?;
                let types: [&DataType; 2] = [from.data_type(), to.data_type()];
                if types[0] != types[1] {
                    return Err(Error::Plan(format!(
                        "column '{column}' and the column '{referenced}' of table '{}' that it refers to have other types",
                        key.table
                    )));
                }
            }
            let same = |of: &Vec<String>| {
                of.len() == key.referenced.len() && of.iter().all(|name| key.referenced.contains(name))
            };
            let Some(order) = keys_of(&others).map(|(of, _)| names(of)).find(same) else {
                return Err(Error::Plan(format!(
                    "({}) of table '{}' is no PRIMARY KEY or UNIQUE, and a FOREIGN KEY refers to one",
                    key.referenced.join(", "),
                    key.table
                )));
            };
            let at = |name: &String| key.referenced.iter().position(|other| other == name).unwrap_or_default();
            key.columns = order.iter().map(|name| key.columns[at(name)].clone()).collect();
            key.referenced = order;
        }
        *definition.foreign_keys_mut() = keys;
        Ok(())
    }

    async fn referenced(&self, state: &SessionState, key: &ForeignKey) -> Result<Arc<dyn TableProvider>> {
        let schema = state.schema_for_ref(TableReference::partial(key.schema.as_str(), key.table.as_str()))?;
        let found = if schema.table_exist(&key.table) { schema.table(&key.table).await? } else { None };
        found.ok_or_else(|| Error::Plan(format!("table '{}' does not exist", key.table)))
    }

    /// The tables of the schema of `reference` that refer to it, and how.
    async fn referring(
        &self,
        state: &SessionState,
        reference: &TableReference,
    ) -> Result<Vec<(String, Arc<dyn TableProvider>, ForeignKey)>> {
        let (place, own) = self.place_of(state, reference);
        let catalog = self.catalogs.catalog(&state.config_options().catalog.default_catalog);
        let Some(schema) = catalog.and_then(|catalog| catalog.schema(&place)) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for name in schema.table_names() {
            let Some(provider) = schema.table(&name).await? else { continue };
            let Some(table) = provider.downcast_ref::<PagedTable>() else { continue };
            for key in table.definition().foreign_keys().iter().filter(|key| key.table == own) {
                found.push((name.clone(), Arc::clone(&provider), key.clone()));
            }
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(found)
    }

    /// What `table` has to do with others.
    pub(super) async fn foreign(
        &self,
        state: &SessionState,
        reference: &TableReference,
        table: &PagedTable,
    ) -> Result<Arc<Foreign>> {
        let own = self.place_of(state, reference).1;
        let mut foreign = Foreign { one_at_a_time: Arc::clone(&self.foreign_keys), ..Foreign::default() };
        let schema = table.rows_schema();
        let at = |schema: &SchemaRef, name: &String| schema.fields().find(name).map(|(at, _)| at);
        let internal = || Error::Internal("a FOREIGN KEY of columns that there are not".to_owned());
        let number = |of: &PagedTable, names: &[String]| -> Result<usize> {
            let fields = of.rows_schema();
            let wanted: Option<Vec<usize>> = names.iter().map(|name| at(&fields, name)).collect();
            let found = of.keys().and_then(|keys| keys.columns().position(|(key, _)| Some(key) == wanted.as_deref()));
            found.ok_or_else(internal)
        };
        for key in table.definition().foreign_keys() {
            let is_same = key.table == own;
            let other = if is_same { None } else { Some(self.referenced(state, key).await?) };
            let other = other.as_ref().and_then(|other| other.downcast_ref::<PagedTable>());
            let parent = if is_same { table } else { other.ok_or_else(internal)? };
            let columns: Option<Vec<usize>> = key.columns.iter().map(|name| at(&schema, name)).collect();
            foreign.parents.push(Parent {
                columns: columns.ok_or_else(internal)?,
                names: key.columns.clone(),
                name: key.table.clone(),
                key: number(parent, &key.referenced)?,
                keys: Arc::clone(parent.keys().ok_or_else(internal)?),
                is_same,
            });
        }
        if table.keys().is_some() {
            for (name, provider, key) in self.referring(state, reference).await? {
                let Some(child) = provider.downcast_ref::<PagedTable>() else { continue };
                let fields = child.rows_schema();
                let columns: Option<Vec<usize>> = key.columns.iter().map(|name| at(&fields, name)).collect();
                foreign.children.push(Child {
                    columns: columns.ok_or_else(internal)?,
                    is_same: name == own,
                    key: number(table, &key.referenced)?,
                    table: Arc::clone(&provider),
                    name,
                });
            }
        }
        Ok(Arc::new(foreign))
    }

    /// # Errors
    /// Another table refers to the one of this name, and `what` would be done with that.
    pub(super) async fn must_not_be_referred_to(
        &self,
        state: &SessionState,
        reference: &TableReference,
        what: &str,
        but: &[String],
    ) -> Result<()> {
        let own = self.place_of(state, reference).1;
        let referring = self.referring(state, reference).await?;
        match referring.iter().find(|(name, ..)| *name != own && !but.contains(name)) {
            None => Ok(()),
            Some((name, ..)) => Err(Error::Plan(format!(
                "table '{name}' refers to table '{own}' by a FOREIGN KEY, which {what}; drop '{name}' before"
            ))),
        }
    }

    /// # Errors
    /// A `FOREIGN KEY` of the table, or one that refers to it, is of column `column`.
    pub(super) async fn must_not_be_foreign(
        &self,
        state: &SessionState,
        reference: &TableReference,
        table: &PagedTable,
        column: &str,
    ) -> Result<()> {
        let own = table.definition().foreign_keys().iter().any(|key| key.columns.iter().any(|name| name == column));
        let referring = self.referring(state, reference).await?;
        if own || referring.iter().any(|(_, _, key)| key.referenced.iter().any(|name| name == column)) {
            return Err(Error::Plan(format!(
                "column '{column}' is of a FOREIGN KEY, and stays as it is; drop the table that has it before"
            )));
        }
        Ok(())
    }

    /// # Errors
    /// `statement` drops a table that another refers to.
    pub(super) async fn check_dropped(&self, state: &SessionState, statement: &ParsedStatement) -> Result<()> {
        let ParsedStatement::Statement(statement) = statement else { return Ok(()) };
        let SqlStatement::Drop { object_type: ObjectType::Table, names, .. } = &**statement else { return Ok(()) };
        let mut gone = Vec::new();
        for name in names {
            let reference = object_name_to_table_reference(name.clone(), true)?;
            if !self.table_exists(&reference)? {
                continue;
            }
            self.must_not_be_referred_to(state, &reference, "needs its rows", &gone).await?;
            gone.push(reference.table().to_owned());
        }
        Ok(())
    }

    /// The schema that a key of another table is written with, as the catalog has it.
    pub(super) fn schema_of_key(written: &str) -> &str {
        match written {
            "main" | "memory" | "memory.main" => MAIN_SCHEMA,
            other => other.strip_prefix("memory.").unwrap_or(other),
        }
    }
}
