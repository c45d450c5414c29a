//! `ALTER TABLE`: another name, other columns, other things said of them.
//!
//! What is said of a table is kept beside its rows, so that names, defaults and `NOT NULL` change without them. Where the rows change they are written anew, by a query over the old ones, and a
//! new table takes the place of the old one when all of them are there: an error in the middle leaves the old one.
//!
//! Views are kept as text. One that reads what has another name now says so when it is used.
//!
//! Not here: rows (`changes`).

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{Field, Schema, SchemaRef},
    catalog::TableProvider,
    common::{Constraint, Constraints, TableReference},
    datasource::TableType,
    execution::SessionState,
    logical_expr::{Expr as PlannedExpr, LogicalPlan},
    sql::{
        parser::Statement as ParsedStatement,
        planner::object_name_to_table_reference,
        sqlparser::ast::{
            AlterColumnOperation, AlterTable, AlterTableOperation, AlterTableType, ColumnDef, ColumnOption, Expr,
            Ident, IndexColumn, ObjectName, RenameTableNameKind, Statement as SqlStatement, TableConstraint,
        },
    },
};
use futures::StreamExt;
use ogee_functions::{Error, Result};
use ogee_sql::changes::{
    Columns, Definition, alters, field_of,
    fields::{self, FieldChange},
    quoted,
};

use super::{
    Outcome, Session,
    changes::{Made, Target},
};
use crate::{changing::Changing, table::PagedTable};

/// What a table becomes whose rows are written anew.
pub(super) struct Anew {
    pub(super) schema: SchemaRef,
    pub(super) definition: Definition,
    pub(super) constraints: Constraints,
    pub(super) defaults: Vec<(String, PlannedExpr)>,
    /// The values of its columns that are given, over the old ones.
    pub(super) values: Vec<(String, Expr)>,
}

impl Session {
    /// Runs `statement` if it alters a table or a view.
    pub(super) async fn alter(&self, state: &SessionState, statement: &ParsedStatement) -> Result<Option<Outcome>> {
        let ParsedStatement::Statement(statement) = statement else { return Ok(None) };
        let SqlStatement::AlterTable(alter) = &**statement else { return Ok(None) };
        let AlterTable { name, if_exists, only, operations, location, on_cluster, table_type, .. } = alter;
        if *only || location.is_some() || on_cluster.is_some() {
            return Err(unsupported("ONLY, LOCATION or ON CLUSTER of ALTER TABLE", "leave it out"));
        }
        let is_view = match table_type {
            None => false,
            // The parser's word for `ALTER VIEW` with a change that it knows of tables.
            Some(AlterTableType::External) => true,
            Some(_) => return Err(unsupported("such an ALTER", "use ALTER TABLE or ALTER VIEW")),
        };
        let [operation] = operations.as_slice() else {
            return Err(unsupported("ALTER TABLE with several changes", "use an ALTER TABLE for each"));
        };
        let reference = object_name_to_table_reference(name.clone(), true)?;
        if !self.table_exists(&reference)? {
            if *if_exists {
                return Ok(Some(Outcome::Done(None)));
            }
            return Err(Error::Plan(format!("table '{name}' does not exist")));
        }
        let kind = state.schema_for_ref(reference.clone())?.table_type(reference.table()).await?;
        if is_view && kind != Some(TableType::View) {
            return Err(Error::Plan(format!("'{name}' is a table; use ALTER TABLE")));
        }
        if let AlterTableOperation::RenameTable { table_name } = operation {
            let (RenameTableNameKind::As(new) | RenameTableNameKind::To(new)) = table_name;
            self.must_not_be_referred_to(state, &reference, "names it", &[]).await?;
            self.rename(state, &reference, new).await?;
            return Ok(Some(Outcome::Done(None)));
        }
        if kind == Some(TableType::View) {
            return Err(Error::Plan(format!("'{name}' is a view; make it anew with CREATE OR REPLACE VIEW")));
        }
        let provider = state.schema_for_ref(reference.clone())?.table(reference.table()).await?;
        let Some(provider) = provider else { return Err(Error::Plan(format!("table '{name}' does not exist"))) };
        let Some(table) = provider.downcast_ref::<PagedTable>() else {
            return Err(unsupported(
                &format!("ALTER of '{name}', which is no table in memory,"),
                "use CREATE TABLE .. AS",
            ));
        };
        if let Some(altered) = self.altered(state, &reference, table, operation).await? {
            self.replace_table(&reference, table, altered).await?;
        }
        Ok(Some(Outcome::Done(None)))
    }

    /// Gives a table or view another name.
    async fn rename(&self, state: &SessionState, reference: &TableReference, new: &ObjectName) -> Result<()> {
        let [part] = new.0.as_slice() else {
            return Err(Error::Plan(format!("'{new}' is more than a name; a table stays in its schema")));
        };
        let new = part.as_ident().map(|name| name.to_string()).unwrap_or_default();
        let schema = state.schema_for_ref(reference.clone())?;
        let new = TableReference::from(new.as_str()).table().to_owned();
        if schema.table_exist(&new) {
            return Err(Error::Plan(format!("'{new}' exists already; choose another name")));
        }
        let Some(found) = schema.deregister_table(reference.table())? else {
            return Err(Error::Plan(format!("table '{reference}' does not exist")));
        };
        let renamed: Arc<dyn TableProvider> = match found.downcast_ref::<PagedTable>() {
            Some(table) => {
                let mut definition = table.definition().clone();
                definition.rename_table(&new);
                Arc::new(table.said(table.rows_schema(), definition, table.defaults().to_vec())?)
            }
            None => found,
        };
        schema.register_table(new, renamed)?;
        Ok(())
    }

    /// What `table` becomes by `operation`, if anything changes.
    async fn altered(
        &self,
        state: &SessionState,
        reference: &TableReference,
        table: &PagedTable,
        operation: &AlterTableOperation,
    ) -> Result<Option<PagedTable>> {
        use AlterTableOperation as O;
        let columns = Columns { schema: table.rows_schema(), definition: table.definition().clone() };
        let find = |name: &Ident| {
            columns.find(name).ok_or_else(|| Error::Plan(format!("table '{reference}' has no column {name}")))
        };
        match operation {
            O::RenameColumn { old_column_name, new_column_name }
                if let Some((column, path)) = field_of(old_column_name) =>
            {
                let change = FieldChange::Rename(alters::name_of(new_column_name));
                self.with_field(state, reference, table, &columns, (find(&column)?, &path), &change).await
            }
            O::AddColumn { if_not_exists, column_def, .. } if let Some((column, path)) = field_of(&column_def.name) => {
                let mut default = None;
                for option in &column_def.options {
                    match &option.option {
                        ColumnOption::Null => {}
                        ColumnOption::Default(value) => default = Some(value.clone()),
                        other => return Err(unsupported(&format!("{other} of a field"), "say it of the column")),
                    }
                }
                let null = alters::cast(alters::null(), &column_def.data_type);
                let value = alters::cast(default.unwrap_or_else(alters::null), &column_def.data_type).to_string();
                let field = self.field_of(state, "field", &null).await?.with_nullable(true);
                let change = FieldChange::Add { field, value, unless_exists: *if_not_exists };
                self.with_field(state, reference, table, &columns, (find(&column)?, &path), &change).await
            }
            O::DropColumn { column_names, if_exists, .. }
                if let [name] = column_names.as_slice()
                    && let Some((column, path)) = field_of(name) =>
            {
                let change = FieldChange::Drop(*if_exists);
                self.with_field(state, reference, table, &columns, (find(&column)?, &path), &change).await
            }
            O::RenameColumn { old_column_name, new_column_name } => {
                let (at, new) = (find(old_column_name)?, alters::name_of(new_column_name));
                self.must_not_be_foreign(state, reference, table, columns.name(at)).await?;
                if columns.find(&quoted(&new)).is_some_and(|other| other != at) {
                    return Err(Error::Plan(format!("table '{reference}' has a column '{new}' already")));
                }
                let old = columns.name(at).to_owned();
                let mut definition = columns.definition.clone();
                definition.rename_column(&old, &new);
                let renamed = |name: &str| if name == old { new.clone() } else { name.to_owned() };
                let defaults = table.defaults().iter().map(|(name, default)| (renamed(name), default.clone()));
                let fields =
                    columns.schema.fields().iter().map(|field| field.as_ref().clone().with_name(renamed(field.name())));
                let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
                Ok(Some(table.said(schema, definition, defaults.collect())?))
            }
            O::AddColumn { if_not_exists, column_def, column_position, .. } => {
                if column_position.is_some() {
                    return Err(unsupported("FIRST or AFTER of a new column", "leave it out: it is the last one"));
                }
                if columns.find(&column_def.name).is_some() {
                    if *if_not_exists {
                        return Ok(None);
                    }
                    return Err(Error::Plan(format!("table '{reference}' has a column {} already", column_def.name)));
                }
                let anew = self.with_column(state, table, &columns, column_def).await?;
                self.anew(state, reference, table, anew).await.map(Some)
            }
            O::DropColumn { column_names, if_exists, drop_behavior, .. } => {
                // What depends on a column is told, and has to be dropped before.
                let _ = drop_behavior;
                let [name] = column_names.as_slice() else {
                    return Err(unsupported("DROP COLUMN of several columns", "use an ALTER TABLE for each"));
                };
                if *if_exists && columns.find(name).is_none() {
                    return Ok(None);
                }
                let at = find(name)?;
                self.must_not_be_foreign(state, reference, table, columns.name(at)).await?;
                must_not_be_indexed(&columns, at)?;
                let anew = without_column(reference, table, &columns, at)?;
                self.anew(state, reference, table, anew).await.map(Some)
            }
            O::AlterColumn { column_name, op } => {
                let at = find(column_name)?;
                self.altered_column(state, reference, table, &columns, at, op).await
            }
            O::AddConstraint { constraint, not_valid } => {
                if *not_valid {
                    return Err(unsupported("NOT VALID", "leave it out: keys are looked at when they are added"));
                }
                let anew = with_key(reference, table, &columns, constraint)?;
                self.anew(state, reference, table, anew).await.map(Some)
            }
            other => Err(unsupported(
                &format!("ALTER TABLE {other}"),
                "use RENAME, ADD COLUMN, DROP COLUMN, ALTER COLUMN or ADD PRIMARY KEY, or make the table anew with CREATE OR REPLACE TABLE",
            )),
        }
    }

    async fn altered_column(
        &self,
        state: &SessionState,
        reference: &TableReference,
        table: &PagedTable,
        columns: &Columns,
        at: usize,
        operation: &AlterColumnOperation,
    ) -> Result<Option<PagedTable>> {
        use AlterColumnOperation as O;
        let name = columns.name(at).to_owned();
        let with_null = |nullable: bool| -> SchemaRef {
            let fields = columns.schema.fields().iter().enumerate();
            let fields = fields.map(|(other, field)| match other == at {
                true => field.as_ref().clone().with_nullable(nullable),
                false => field.as_ref().clone(),
            });
            Arc::new(Schema::new(fields.collect::<Vec<_>>()))
        };
        let definition = columns.definition.clone();
        match operation {
            O::SetNotNull => {
                let mut made = Made::default();
                let rows = self.make_rows(table, &mut made)?;
                let plan = self.planned(state, alters::with_null(&rows, &name)?, &mut made).await?;
                let mut rows = self.rows_of(state, &plan).await?;
                while let Some(batch) = rows.next().await.transpose()? {
                    if batch.num_rows() > 0 {
                        return Err(Error::Execution(format!(
                            "column '{name}' of table '{reference}' has a row with NULL"
                        )));
                    }
                }
                Ok(Some(table.said(with_null(false), definition, table.defaults().to_vec())?))
            }
            O::DropNotNull => {
                let mut keys = table.declared_keys().iter();
                if keys.any(|key| matches!(key, Constraint::PrimaryKey(of) if of.contains(&at))) {
                    return Err(Error::Plan(format!("column '{name}' is of the PRIMARY KEY, which has no NULL")));
                }
                Ok(Some(table.said(with_null(true), definition, table.defaults().to_vec())?))
            }
            O::SetDefault { value } => {
                if definition.is_generated(&name) {
                    return Err(Error::Plan(format!("column '{name}' is generated, and has no DEFAULT")));
                }
                let planned = self.planned_default(state, value).await?;
                let mut definition = definition;
                definition.set_default(&name, Some(value.clone()));
                let mut defaults = table.defaults().to_vec();
                defaults.retain(|(other, _)| *other != name);
                defaults.push((name, planned));
                Ok(Some(table.said(Arc::clone(&columns.schema), definition, defaults)?))
            }
            O::DropDefault => {
                let mut definition = definition;
                definition.set_default(&name, None);
                let mut defaults = table.defaults().to_vec();
                defaults.retain(|(other, _)| *other != name);
                Ok(Some(table.said(Arc::clone(&columns.schema), definition, defaults)?))
            }
            O::SetDataType { data_type, using, .. } => {
                self.must_not_be_foreign(state, reference, table, &name).await?;
                must_not_be_indexed(columns, at)?;
                if definition.is_generated(&name) {
                    return Err(unsupported("another type for a generated column", "drop it, or make the table anew"));
                }
                let value = using.clone().unwrap_or_else(|| Expr::Identifier(quoted(&name)));
                let value = alters::cast(value, data_type);
                let typed = self.field_of(state, &name, &alters::cast(alters::null(), data_type)).await?;
                let fields = columns.schema.fields().iter().enumerate();
                let fields = fields.map(|(other, field)| match other == at {
                    true => typed.clone().with_nullable(field.is_nullable()),
                    false => field.as_ref().clone(),
                });
                let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
                let given = columns.given().into_iter();
                let values = given.map(|other| {
                    let value = if other == name { value.clone() } else { Expr::Identifier(quoted(other)) };
                    (other.to_owned(), value)
                });
                let anew = Anew {
                    schema,
                    constraints: table.declared_keys().clone(),
                    defaults: table.defaults().to_vec(),
                    values: values.collect(),
                    definition,
                };
                self.anew(state, reference, table, anew).await.map(Some)
            }
            O::AddGenerated { .. } => {
                Err(unsupported("an identity of a column", "use SET DEFAULT nextval('a sequence')"))
            }
        }
    }

    /// `table` with a field changed: of the column at a place, by the names on the way to it.
    async fn with_field(
        &self,
        state: &SessionState,
        reference: &TableReference,
        table: &PagedTable,
        columns: &Columns,
        (at, path): (usize, &[String]),
        change: &FieldChange,
    ) -> Result<Option<PagedTable>> {
        let name = columns.name(at).to_owned();
        self.must_not_be_foreign(state, reference, table, &name).await?;
        must_not_be_indexed(columns, at)?;
        if columns.definition.is_generated(&name) {
            return Err(unsupported("another field of a generated column", "drop it, or make the table anew"));
        }
        let field = columns.schema.field(at);
        let Some((field, value)) = fields::changed(field, &quoted(&name).to_string(), path, change)? else {
            return Ok(None);
        };
        let value = fields::parsed(&value)?;
        let mut all = columns.schema.fields().to_vec();
        let before = std::mem::replace(&mut all[at], Arc::new(field));
        let mut definition = columns.definition.clone();
        let mut defaults = table.defaults().to_vec();
        if defaults.iter().any(|(other, _)| *other == name) {
            let default = columns.definition.default_of(&name);
            let changed = fields::changed(&before, &format!("({default})"), path, change)?;
            if let Some((_, default)) = changed {
                let default = fields::parsed(&default)?;
                let planned = self.planned_default(state, &default).await?;
                definition.set_default(&name, Some(default));
                defaults.retain(|(other, _)| *other != name);
                defaults.push((name.clone(), planned));
            }
        }
        let given = columns.given().into_iter();
        let values = given.map(|other| {
            let value = if other == name { value.clone() } else { Expr::Identifier(quoted(other)) };
            (other.to_owned(), value)
        });
        let anew = Anew {
            schema: Arc::new(Schema::new(all)),
            definition,
            constraints: table.declared_keys().clone(),
            defaults,
            values: values.collect(),
        };
        self.anew(state, reference, table, anew).await.map(Some)
    }

    /// `table` with one more column.
    async fn with_column(
        &self,
        state: &SessionState,
        table: &PagedTable,
        columns: &Columns,
        column: &ColumnDef,
    ) -> Result<Anew> {
        let name = alters::name_of(&column.name);
        let (mut default, mut nullable) = (None, true);
        let mut constraints: Vec<Constraint> = table.declared_keys().iter().cloned().collect();
        for option in &column.options {
            match &option.option {
                ColumnOption::Null => {}
                ColumnOption::Unique(_) => constraints.push(Constraint::Unique(vec![columns.len()])),
                ColumnOption::NotNull => nullable = false,
                ColumnOption::Default(value) => default = Some(value.clone()),
                other => {
                    let what = format!("ADD COLUMN with {other}");
                    return Err(unsupported(
                        &what,
                        "add the column without it, or make the table anew with CREATE OR REPLACE TABLE",
                    ));
                }
            }
        }
        let value = alters::cast(default.clone().unwrap_or_else(alters::null), &column.data_type);
        let field = self.field_of(state, &name, &alters::cast(alters::null(), &column.data_type)).await?;
        let mut fields = columns.schema.fields().to_vec();
        fields.push(Arc::new(field.with_nullable(nullable)));
        let mut definition = columns.definition.clone();
        let mut defaults = table.defaults().to_vec();
        if let Some(default) = default {
            defaults.push((name.clone(), self.planned_default(state, &default).await?));
            definition.set_default(&name, Some(default));
        }
        let given = columns.given().into_iter().map(|name| (name.to_owned(), Expr::Identifier(quoted(name))));
        let values = given.chain([(name, value)]).collect();
        Ok(Anew {
            schema: Arc::new(Schema::new(fields)),
            definition,
            constraints: Constraints::new_unverified(constraints),
            defaults,
            values,
        })
    }

    /// The value of a column that a statement leaves out.
    async fn planned_default(&self, state: &SessionState, default: &Expr) -> Result<PlannedExpr> {
        let mut made = Made::default();
        match self.planned(state, alters::value(default.clone())?, &mut made).await? {
            LogicalPlan::Projection(mut projection) if projection.expr.len() == 1 => {
                Ok(projection.expr.swap_remove(0).unalias())
            }
            _ => Err(unsupported(&format!("DEFAULT {default}"), "it may have constants and functions of these")),
        }
    }

    /// The field of a column `name` of values such as `value`: what an `ENUM` or JSON is, the field says beside the type.
    async fn field_of(&self, state: &SessionState, name: &str, value: &Expr) -> Result<Field> {
        let mut made = Made::default();
        let plan = self.planned(state, alters::value(value.clone())?, &mut made).await?;
        Ok(plan.schema().field(0).as_ref().clone().with_name(name))
    }

    /// The table that `anew` says, with its rows.
    pub(super) async fn anew(
        &self,
        state: &SessionState,
        reference: &TableReference,
        table: &PagedTable,
        anew: Anew,
    ) -> Result<PagedTable> {
        let Anew { schema, definition, constraints, defaults, values } = anew;
        self.check_definition(state, &definition, &schema).await?;
        let new = PagedTable::new(Arc::clone(&schema), Arc::clone(table.memory()));
        let new = new.with_keys(&constraints, defaults)?.with_definition(definition.clone());
        let mut made = Made::default();
        let rows = self.make_rows(table, &mut made)?;
        let plan = self.planned(state, alters::values(&rows, values)?, &mut made).await?;
        let name = reference.table().to_owned();
        let columns = Columns { schema, definition };
        // Rows that were there meet what is asked of them.
        let target = Target { name, table: &new, columns, blocks: new.blocks(), foreign: Arc::default() };
        let plan = self.computed(state, &target, plan, &[], &mut made).await?;
        let mut changing: Changing<'_> = target.begin(true);
        let mut rows = self.rows_of(state, &plan).await?;
        while let Some(batch) = rows.next().await.transpose()? {
            changing.add(batch.columns(), batch.num_rows())?;
        }
        drop(rows);
        changing.told()?.publish().await?;
        drop(target);
        Ok(new)
    }

    /// The rows of `table`, by name.
    pub(super) fn make_rows<'a>(&'a self, table: &PagedTable, made: &mut Made<'a>) -> Result<String> {
        let rows = PagedTable::of_blocks(table.rows_schema(), Arc::clone(table.memory()), table.blocks().to_vec());
        self.make(Arc::new(rows), made)
    }

    /// Puts `new` in the place of `old`.
    pub(super) async fn replace_table(
        &self,
        reference: &TableReference,
        old: &PagedTable,
        new: PagedTable,
    ) -> Result<()> {
        drop(old.blocks());
        self.context.deregister_table(reference.clone())?;
        self.context.register_table(reference.clone(), Arc::new(new))?;
        Ok(())
    }
}

/// # Errors
/// An index is of column `at`.
fn must_not_be_indexed(columns: &Columns, at: usize) -> Result<()> {
    match columns.definition.index_of(columns.name(at)) {
        None => Ok(()),
        Some(index) => Err(Error::Plan(format!(
            "index '{}' is of column '{}'; use DROP INDEX before",
            index.name,
            columns.name(at)
        ))),
    }
}

/// `table` without column `at`.
fn without_column(reference: &TableReference, table: &PagedTable, columns: &Columns, at: usize) -> Result<Anew> {
    let name = columns.name(at).to_owned();
    if columns.len() == 1 {
        return Err(Error::Plan(format!("'{name}' is the only column of table '{reference}'; use DROP TABLE")));
    }
    if let Some(computed) = columns.definition.computed_of(&name) {
        return Err(Error::Plan(format!(
            "column '{computed}' of table '{reference}' is computed of '{name}'; drop it first"
        )));
    }
    if let Some(check) = columns.definition.check_beside(&name, columns) {
        return Err(Error::Plan(format!(
            "CHECK ({check}) of table '{reference}' looks at '{name}' and at another column"
        )));
    }
    let moved = |of: &Vec<usize>| -> Option<Vec<usize>> {
        (!of.contains(&at)).then(|| of.iter().map(|&column| column - usize::from(column > at)).collect())
    };
    let mut constraints = Vec::new();
    for key in table.declared_keys().iter() {
        let kept = match key {
            Constraint::PrimaryKey(of) => moved(of).map(Constraint::PrimaryKey),
            Constraint::Unique(of) => moved(of).map(Constraint::Unique),
        };
        constraints.push(kept.ok_or_else(|| {
            Error::Plan(format!(
                "column '{name}' of table '{reference}' is of a PRIMARY KEY or UNIQUE, which would be lost"
            ))
        })?);
    }
    let mut definition = columns.definition.clone();
    definition.drop_column(&name);
    let mut fields = columns.schema.fields().to_vec();
    fields.remove(at);
    let mut defaults = table.defaults().to_vec();
    defaults.retain(|(other, _)| *other != name);
    let given = columns.given().into_iter().filter(|other| *other != name);
    let values = given.map(|name| (name.to_owned(), Expr::Identifier(quoted(name)))).collect();
    let constraints = Constraints::new_unverified(constraints);
    Ok(Anew { schema: Arc::new(Schema::new(fields)), definition, constraints, defaults, values })
}

/// `table` with one more key.
fn with_key(
    reference: &TableReference,
    table: &PagedTable,
    columns: &Columns,
    constraint: &TableConstraint,
) -> Result<Anew> {
    let (key, primary) = match constraint {
        TableConstraint::PrimaryKey(key) => (&key.columns, true),
        TableConstraint::Unique(key) => (&key.columns, false),
        other => {
            return Err(unsupported(
                &format!("ALTER TABLE ADD {other}"),
                "make the table anew with CREATE OR REPLACE TABLE",
            ));
        }
    };
    let mut constraints: Vec<Constraint> = table.declared_keys().iter().cloned().collect();
    if primary && constraints.iter().any(|key| matches!(key, Constraint::PrimaryKey(_))) {
        return Err(Error::Plan(format!("table '{reference}' has a PRIMARY KEY already")));
    }
    let column = |column: &IndexColumn| match &column.column.expr {
        Expr::Identifier(name) => {
            columns.find(name).ok_or_else(|| Error::Plan(format!("table '{reference}' has no column {name}")))
        }
        other => Err(unsupported(&format!("a key of {other}"), "name columns")),
    };
    let key = key.iter().map(column).collect::<Result<Vec<_>>>()?;
    constraints.push(if primary { Constraint::PrimaryKey(key) } else { Constraint::Unique(key) });
    let given = columns.given().into_iter();
    let values = given.map(|name| (name.to_owned(), Expr::Identifier(quoted(name)))).collect();
    Ok(Anew {
        schema: Arc::clone(&columns.schema),
        definition: columns.definition.clone(),
        constraints: Constraints::new_unverified(constraints),
        defaults: table.defaults().to_vec(),
        values,
    })
}

fn unsupported(what: &str, instead: &str) -> Error {
    Error::Unsupported(format!("{what} is not supported; {instead}"))
}
