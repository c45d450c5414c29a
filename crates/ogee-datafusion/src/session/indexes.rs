//! `CREATE INDEX`, `DROP INDEX`.
//!
//! An index that is `UNIQUE` is a key of its table, as one that the table was made with. Any other is a name that stands in the catalog: which blocks a statement reads is seen from what
//! the blocks hold, and nothing is looked up by value.
//!
//! Indexes are of the definition of their table, and go with it.
//!
//! Not here: keys (`crate::keys`).

use std::sync::Arc;

use datafusion::{
    catalog::TableProvider,
    common::{Constraint, Constraints, TableReference},
    execution::SessionState,
    sql::{
        parser::Statement as ParsedStatement,
        planner::object_name_to_table_reference,
        sqlparser::ast::{CreateIndex, Expr, ObjectName, ObjectType, Statement as SqlStatement},
    },
};
use ogee_functions::{Error, Result};
use ogee_sql::{
    catalogs::last_name,
    changes::{Columns, IndexText, alters, quoted},
};

use super::{Outcome, Session, alter::Anew, changes::Made};
use crate::table::PagedTable;

impl Session {
    /// Runs `statement` if it makes or drops an index.
    pub(super) async fn index(&self, state: &SessionState, statement: &ParsedStatement) -> Result<Option<Outcome>> {
        let ParsedStatement::Statement(statement) = statement else { return Ok(None) };
        match &**statement {
            SqlStatement::CreateIndex(create) => self.create_index(state, create).await?,
            SqlStatement::Drop { object_type: ObjectType::Index, if_exists, names, .. } => {
                for name in names {
                    self.drop_index(state, name, *if_exists).await?;
                }
            }
            _ => return Ok(None),
        }
        Ok(Some(Outcome::Done(None)))
    }

    async fn create_index(&self, state: &SessionState, create: &CreateIndex) -> Result<()> {
        let CreateIndex { name, table_name, columns: of, unique, if_not_exists, .. } = create;
        let Some(name) = name.as_ref().and_then(|name| name.0.last()).and_then(|part| part.as_ident()) else {
            return Err(Error::Plan("an index has a name: CREATE INDEX name ON ..".to_owned()));
        };
        let name = last_name(name);
        let reference = object_name_to_table_reference(table_name.clone(), true)?;
        if !self.table_exists(&reference)? {
            return Err(Error::Plan(format!("table '{table_name}' does not exist")));
        }
        let provider = state.schema_for_ref(reference.clone())?.table(reference.table()).await?;
        let table = provider.as_ref().and_then(|provider| provider.downcast_ref::<PagedTable>());
        let Some(table) = table else {
            return Err(Error::Plan(format!("'{table_name}' is no table in memory, and has no indexes")));
        };
        if self.index_named(state, &reference, &name).await?.is_some() {
            return match if_not_exists {
                true => Ok(()),
                false => Err(Error::Plan(format!("there is an index '{name}' already"))),
            };
        }
        let columns = Columns { schema: table.rows_schema(), definition: table.definition().clone() };
        let mut keys = Some(Vec::new());
        let mut texts = Vec::new();
        for column in of {
            let mut expr = &column.column.expr;
            while let Expr::Nested(inner) = expr {
                expr = inner;
            }
            if let Expr::Identifier(name) = expr {
                let missing = || Error::Plan(format!("table '{reference}' has no column {name}"));
                let at = columns.find(name).ok_or_else(missing)?;
                keys.iter_mut().for_each(|keys| keys.push(at));
                texts.push(Expr::Identifier(name.clone()));
                continue;
            }
            keys = None;
            let mut made = Made::default();
            let rows = self.make_rows(table, &mut made)?;
            let values = alters::values(&rows, vec![("value".to_owned(), expr.clone())])?;
            self.planned(state, values, &mut made).await?;
            texts.push(expr.clone());
        }
        let mut definition = columns.definition.clone();
        definition.add_index(IndexText { name, is_unique: *unique, of: texts });
        let altered = match (*unique, keys) {
            (false, _) => table.said(Arc::clone(&columns.schema), definition, table.defaults().to_vec())?,
            (true, Some(key)) => {
                let mut constraints: Vec<Constraint> = table.declared_keys().iter().cloned().collect();
                constraints.push(Constraint::Unique(key));
                let anew = Anew::with_constraints(table, &columns, definition, constraints);
                self.anew(state, &reference, table, anew).await?
            }
            (true, None) => {
                let instead = "make a generated column of it, and the index of that";
                return Err(Error::Unsupported(format!("a UNIQUE INDEX of an expression is not supported; {instead}")));
            }
        };
        self.replace_table(&reference, table, altered).await
    }

    async fn drop_index(&self, state: &SessionState, name: &ObjectName, if_exists: bool) -> Result<()> {
        let mut parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(last_name).collect();
        let name = parts.pop().unwrap_or_default();
        let place = match parts.as_slice() {
            [] => TableReference::bare(name.as_str()),
            parts => TableReference::partial(Self::schema_of_key(&parts.join(".")).to_owned(), name.as_str()),
        };
        let Some((reference, provider)) = self.index_named(state, &place, &name).await? else {
            return match if_exists {
                true => Ok(()),
                false => Err(Error::Plan(format!("there is no index '{name}'"))),
            };
        };
        let Some(table) = provider.downcast_ref::<PagedTable>() else { return Ok(()) };
        let columns = Columns { schema: table.rows_schema(), definition: table.definition().clone() };
        let index = columns.definition.indexes().iter().find(|index| index.name == name);
        let key = index.filter(|index| index.is_unique).and_then(IndexText::columns);
        let key: Option<Vec<usize>> = key.and_then(|key| key.iter().map(|name| columns.find(&quoted(name))).collect());
        let mut definition = columns.definition.clone();
        definition.drop_index(&name);
        let altered = match key {
            None => table.said(Arc::clone(&columns.schema), definition, table.defaults().to_vec())?,
            Some(key) => {
                let mut constraints: Vec<Constraint> = table.declared_keys().iter().cloned().collect();
                let of = |constraint: &Constraint| matches!(constraint, Constraint::Unique(of) if *of == key);
                if let Some(at) = constraints.iter().rposition(of) {
                    constraints.remove(at);
                }
                let anew = Anew::with_constraints(table, &columns, definition, constraints);
                self.anew(state, &reference, table, anew).await?
            }
        };
        self.replace_table(&reference, table, altered).await
    }

    /// The table of the schema of `place` that has the index `name`.
    async fn index_named(
        &self,
        state: &SessionState,
        place: &TableReference,
        name: &str,
    ) -> Result<Option<(TableReference, Arc<dyn TableProvider>)>> {
        let options = &state.config_options().catalog;
        let resolved = place.clone().resolve(&options.default_catalog, &options.default_schema);
        let catalog = self.catalogs.catalog(&resolved.catalog);
        let Some(schema) = catalog.and_then(|catalog| catalog.schema(&resolved.schema)) else { return Ok(None) };
        for table in schema.table_names() {
            let Some(provider) = schema.table(&table).await? else { continue };
            let of = provider.downcast_ref::<PagedTable>().map(|table| table.definition().indexes().to_vec());
            if of.unwrap_or_default().iter().any(|index| index.name == name) {
                return Ok(Some((TableReference::partial(resolved.schema.to_string(), table), provider)));
            }
        }
        Ok(None)
    }
}

impl Anew {
    /// The same table with other keys.
    fn with_constraints(
        table: &PagedTable,
        columns: &Columns,
        definition: ogee_sql::changes::Definition,
        constraints: Vec<Constraint>,
    ) -> Self {
        let given = columns.given().into_iter();
        Self {
            schema: Arc::clone(&columns.schema),
            definition,
            constraints: Constraints::new_unverified(constraints),
            defaults: table.defaults().to_vec(),
            values: given.map(|name| (name.to_owned(), Expr::Identifier(quoted(name)))).collect(),
        }
    }
}
