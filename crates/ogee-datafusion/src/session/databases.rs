//! Where names are looked for: `USE`, `SET schema`, databases in memory that are attached.
//!
//! A database that is attached is a schema of its name beside the others, so that `y.t` is a table of it and `y.t.a` a column. `main` is the schema that tables have without one, and `memory`
//! the database of it: both are written out before a statement is planned (`ogee_sql::catalogs`).
//!
//! Not here: databases in files, which there are not yet.

use datafusion::{
    catalog::{CatalogProvider, MemorySchemaProvider},
    execution::SessionState,
    sql::{
        parser::{ResetStatement, Statement as ParsedStatement},
        sqlparser::ast::{Expr, ObjectType, SchemaName, Set, Statement as SqlStatement, Use, Value},
    },
};
use ogee_functions::{Error, Result};
use ogee_sql::{
    catalogs::{DATABASE, MAIN, MAIN_SCHEMA, last_name},
    system::is_system,
};
use std::{collections::BTreeSet, sync::Arc};

use super::{Outcome, Session};

impl Session {
    /// The databases that are attached.
    pub fn attached(&self) -> BTreeSet<String> {
        self.attached.lock().clone()
    }

    /// Runs `statement` if it says where names are looked for.
    pub(super) fn place(
        &self,
        state: &SessionState,
        statement: &ParsedStatement,
        connection: u64,
    ) -> Result<Option<Outcome>> {
        if let ParsedStatement::Reset(ResetStatement::Variable(variable)) = statement
            && ["schema", "search_path"].contains(&variable.to_string().to_ascii_lowercase().as_str())
        {
            self.look_in(state, MAIN)?;
            return Ok(Some(Outcome::Done(None)));
        }
        let ParsedStatement::Statement(statement) = statement else { return Ok(None) };
        match &**statement {
            SqlStatement::Use(Use::Object(name) | Use::Schema(name) | Use::Database(name)) => {
                let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(last_name).collect();
                let wanted: Vec<&str> = parts.iter().map(String::as_str).collect();
                let place = match wanted.as_slice() {
                    [place] | [DATABASE, place] | [place, MAIN] => *place,
                    _ => return Err(no_place(&name.to_string())),
                };
                self.look_in(state, place)?;
            }
            SqlStatement::Use(_) => return Err(unsupported("such a USE", "use USE schema")),
            SqlStatement::Set(Set::SingleAssignment { variable, values, .. }) => {
                let name = variable.to_string().to_ascii_lowercase();
                if name != "schema" && name != "search_path" {
                    return Ok(None);
                }
                let text = |value: &Expr| match value {
                    Expr::Value(value) => match &value.value {
                        Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
                        other => other.to_string(),
                    },
                    other => other.to_string(),
                };
                let places: Vec<String> = values
                    .iter()
                    .map(text)
                    .flat_map(|text| {
                        text.split(',').map(|place| place.trim().trim_matches('"').to_owned()).collect::<Vec<_>>()
                    })
                    .filter(|place| !place.is_empty())
                    .collect();
                let place_of = |place: &str| {
                    let place = place.strip_prefix("memory.").unwrap_or(place);
                    place.strip_suffix(".main").unwrap_or(place).to_owned()
                };
                let places: Vec<String> = places.iter().map(|place| place_of(place)).collect();
                let (first, further) = match places.as_slice() {
                    [] => (MAIN, &[][..]),
                    [first, further @ ..] => (first.as_str(), further),
                };
                if name == "schema" && !further.is_empty() {
                    return Err(Error::Plan("schema is one; several are set as search_path".to_owned()));
                }
                let catalog = self.catalog(state)?;
                let in_catalog = |place: &String| if place == MAIN { MAIN_SCHEMA.to_owned() } else { place.clone() };
                let further: Vec<String> = further.iter().map(in_catalog).collect();
                if let Some(missing) = further.iter().find(|place| catalog.schema(place).is_none()) {
                    return Err(no_place(missing));
                }
                self.look_in(state, first)?;
                *self.further_schemas.lock() = further;
            }
            SqlStatement::AttachDuckDBDatabase {
                if_not_exists, database_path, database_alias, attach_options, ..
            } => {
                if !attach_options.is_empty() {
                    return Err(unsupported("an option of ATTACH", "use ATTACH ':memory:' AS name"));
                }
                let path = &database_path.value;
                if path != ":memory:" && !path.is_empty() {
                    let instead = "use ATTACH ':memory:' AS name, and COPY to and from files";
                    return Err(unsupported(&format!("ATTACH of the database file '{path}'"), instead));
                }
                if self.is_in_transaction(connection) {
                    return Err(unsupported("ATTACH within a transaction", "use it before BEGIN"));
                }
                let name = database_alias.as_ref().map_or_else(|| DATABASE.to_owned(), last_name);
                let catalog = self.catalog(state)?;
                if catalog.schema(&name).is_some() || [DATABASE, MAIN].contains(&name.as_str()) {
                    if *if_not_exists {
                        return Ok(Some(Outcome::Done(None)));
                    }
                    return Err(Error::Plan(format!(
                        "there is a database or schema '{name}' already; choose another name"
                    )));
                }
                catalog.register_schema(&name, Arc::new(MemorySchemaProvider::new()))?;
                self.attached.lock().insert(name);
            }
            SqlStatement::DetachDuckDBDatabase { if_exists, database_alias, .. } => {
                let name = last_name(database_alias);
                if !self.attached.lock().contains(&name) {
                    if *if_exists {
                        return Ok(Some(Outcome::Done(None)));
                    }
                    return Err(Error::Plan(format!("there is no attached database '{name}'")));
                }
                if state.config_options().catalog.default_schema == name {
                    return Err(Error::Plan(format!("'{name}' is in use; use USE main before DETACH")));
                }
                if self.is_in_transaction(connection) {
                    return Err(unsupported("DETACH within a transaction", "use it behind COMMIT"));
                }
                self.catalog(state)?.deregister_schema(&name, true)?;
                self.attached.lock().remove(&name);
            }
            SqlStatement::Drop { object_type: ObjectType::Schema, if_exists, names, cascade, .. } => {
                let catalog = self.catalog(state)?;
                for name in names {
                    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(last_name).collect();
                    let wanted: Vec<&str> = parts.iter().map(String::as_str).collect();
                    let ([place] | [DATABASE, place]) = wanted.as_slice() else {
                        return Err(no_place(&name.to_string()));
                    };
                    if is_system(place) {
                        return Err(Error::Plan(format!("'{place}' is a schema of the system, and stays")));
                    }
                    if [MAIN, MAIN_SCHEMA].contains(place) || self.attached.lock().contains(*place) {
                        let instead = "drop its tables, or DETACH a database";
                        return Err(Error::Plan(format!(
                            "'{place}' is the schema of a database, and stays; {instead}"
                        )));
                    }
                    let Some(schema) = catalog.schema(place) else {
                        if *if_exists {
                            continue;
                        }
                        return Err(no_place(place));
                    };
                    if !cascade && let Some(table) = schema.table_names().first() {
                        return Err(Error::Plan(format!(
                            "schema '{place}' is not empty, it has '{table}'; use DROP SCHEMA {place} CASCADE"
                        )));
                    }
                    if state.config_options().catalog.default_schema == *place {
                        return Err(Error::Plan(format!("'{place}' is in use; use USE main before DROP SCHEMA")));
                    }
                    catalog.deregister_schema(place, true)?;
                }
            }
            SqlStatement::CreateSchema { schema_name, if_not_exists, .. } => {
                let name = match schema_name {
                    SchemaName::Simple(name) | SchemaName::NamedAuthorization(name, _) => name,
                    SchemaName::UnnamedAuthorization(_) => return Ok(None),
                };
                let last = name.0.last().and_then(|part| part.as_ident()).map(last_name).unwrap_or_default();
                if last != MAIN && !is_system(&last) {
                    return Ok(None);
                }
                if !if_not_exists {
                    return Err(Error::Plan(format!("there is a schema '{last}' already")));
                }
            }
            SqlStatement::AttachDatabase { .. } => {
                return Err(unsupported("such an ATTACH", "use ATTACH ':memory:' AS name"));
            }
            _ => return Ok(None),
        }
        Ok(Some(Outcome::Done(None)))
    }

    /// The zone in which instants are shown.
    pub fn zone(&self) -> Option<String> {
        self.context.state_ref().read().config_options().execution.time_zone.as_ref().map(ToString::to_string)
    }

    /// The schema in which names are looked for first.
    pub fn schema(&self) -> String {
        let state = self.context.state_ref();
        let schema = state.read().config_options().catalog.default_schema.clone();
        if schema == MAIN_SCHEMA { MAIN.to_owned() } else { schema }
    }

    /// The schemas in which names are looked for; nothing where it is the first alone, of those without a schema.
    pub fn search_path(&self) -> String {
        let shown = |place: &String| if place == MAIN_SCHEMA { MAIN.to_owned() } else { place.clone() };
        let (first, further) = (self.schema(), self.further_schemas.lock().clone());
        if first == MAIN && further.is_empty() {
            return String::new();
        }
        std::iter::once(first).chain(further.iter().map(shown)).collect::<Vec<_>>().join(",")
    }

    /// Names without a schema are looked for in `place` from now on.
    fn look_in(&self, state: &SessionState, place: &str) -> Result<()> {
        let place = if place == MAIN || place == DATABASE { MAIN_SCHEMA } else { place };
        if self.catalog(state)?.schema(place).is_none() {
            return Err(no_place(place));
        }
        self.context.state_ref().write().config_mut().options_mut().catalog.default_schema = place.to_owned();
        self.further_schemas.lock().clear();
        Ok(())
    }

    fn catalog(&self, state: &SessionState) -> Result<Arc<dyn CatalogProvider>> {
        let name = &state.config_options().catalog.default_catalog;
        self.catalogs.catalog(name).ok_or_else(|| Error::Internal(format!("no catalog '{name}'")))
    }
}

fn no_place(name: &str) -> Error {
    Error::Plan(format!("there is no schema or database '{name}'"))
}

fn unsupported(what: &str, instead: &str) -> Error {
    Error::Unsupported(format!("{what} is not supported; {instead}"))
}
