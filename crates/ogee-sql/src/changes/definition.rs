//! What the definition of a table says of its columns and rows, as it was written.
//!
//! Values of columns that a statement leaves out, columns that are computed of others, and conditions that rows have to meet. All are expressions of the statement that made the table, and are
//! planned with each statement that adds rows, as outputs of a query of those rows.
//!
//! Not here: types, `NOT NULL` and keys.

use std::collections::{HashMap, HashSet};

use datafusion::{
    arrow::datatypes::DataType as ArrowType,
    sql::{
        parser::Statement as Parsed,
        sqlparser::{
            ast::{
                CastKind, CheckConstraint, ColumnOption, CreateTable, DataType, Expr, GeneratedAs, Ident, Query,
                SelectItem, SetExpr, Statement, TableConstraint, TableFactor,
            },
            parser::Parser,
        },
    },
};
use ogee_functions::{Error, Result, type_names::sql_name};

use super::{
    Columns, parts,
    queries::{alone, column, for_each_name, has_query, named, quoted, select, shorten, table, template, unparsed},
    updates::null,
};
use crate::{
    dialect::OgeeDialect,
    names::normal_name,
    syntax::{created::UNTYPED, in_type},
};

/// The name of the output that says whether the `CHECK` of that number holds.
fn check_name(number: usize) -> String {
    format!("ogee_check_{number}")
}

/// What a definition says of one column.
#[derive(Clone, Debug, Default)]
pub struct ColumnText {
    /// Its value where a statement has none.
    pub default: Option<Expr>,
    /// Its value, if it is computed of others.
    pub generated: Option<Expr>,
}

/// What is said of a table.
#[derive(Clone, Debug, Default)]
pub struct Definition {
    /// The name of the table that columns may have before them.
    name: String,
    columns: HashMap<String, ColumnText>,
    checks: Vec<Expr>,
}

impl Definition {
    /// What `statement` says, if it makes a table. What the planner has no words for is taken out of it.
    ///
    /// # Errors
    /// An expression that a definition cannot have.
    pub fn take(statement: &mut Parsed) -> Result<Self> {
        let mut definition = Self::default();
        let Parsed::Statement(statement) = statement else { return Ok(definition) };
        if let Statement::Prepare { statement, .. } = &**statement
            && let made = Self::take(&mut Parsed::Statement(statement.clone()))?
            && made.is_computed()
        {
            let instead = "use CREATE TABLE without PREPARE";
            return Err(Error::Unsupported(format!(
                "a prepared table with CHECK or generated columns is not supported; {instead}"
            )));
        }
        let Statement::CreateTable(CreateTable { name, columns, constraints, .. }) = &mut **statement else {
            return Ok(definition);
        };
        definition.name = parts(name).pop().unwrap_or_default();
        for column in columns {
            let mut text = ColumnText::default();
            for option in &mut column.options {
                match &mut option.option {
                    ColumnOption::Default(default) => text.default = Some(default.clone()),
                    ColumnOption::Check(CheckConstraint { expr, .. }) => definition.checks.push((**expr).clone()),
                    ColumnOption::Generated { generation_expr: Some(value), generated_as, .. } => {
                        debug_assert!(!matches!(generated_as, GeneratedAs::ByDefault), "refused before");
                        text.generated = Some(value.clone());
                    }
                    _ => {}
                }
            }
            if text.default.is_some() && text.generated.is_some() {
                return Err(Error::Plan(format!("column '{}' is generated, and has no DEFAULT", column.name)));
            }
            column
                .options
                .retain(|option| !matches!(option.option, ColumnOption::Check(_) | ColumnOption::Generated { .. }));
            if text.default.is_some() || text.generated.is_some() {
                definition.columns.insert(normal_name(&column.name), text);
            }
        }
        constraints.retain(|constraint| {
            if let TableConstraint::Check(CheckConstraint { expr, .. }) = constraint {
                definition.checks.push((**expr).clone());
            }
            !matches!(constraint, TableConstraint::Check(_))
        });
        let texts = definition.columns.values().flat_map(|text| text.generated.iter().chain(&text.default));
        if let Some(expr) = texts.chain(&definition.checks).find(|expr| has_query(*expr)) {
            let instead = "it may use columns of its row, constants and functions";
            return Err(Error::Unsupported(format!(
                "a query in the definition of a table ({expr}) is not supported; {instead}"
            )));
        }
        let table = name.clone();
        let alias = quoted(&definition.name);
        for expr in
            definition.columns.values_mut().flat_map(|text| text.generated.as_mut()).chain(&mut definition.checks)
        {
            shorten(expr, &table, &alias);
        }
        Ok(definition)
    }

    /// The columns of `statement`, which makes a table, that have no type.
    pub fn untyped(statement: &Parsed) -> Vec<Ident> {
        let Parsed::Statement(statement) = statement else { return Vec::new() };
        let Statement::CreateTable(CreateTable { columns, .. }) = &**statement else { return Vec::new() };
        let untyped = columns.iter().filter(|column| is_untyped(&column.data_type));
        untyped.map(|column| column.name.clone()).collect()
    }

    /// The query of the value of column `name`, which is computed of the other columns of `statement`, for a row without values.
    ///
    /// # Errors
    /// It is not computed, or of columns that have no type.
    pub fn typed(&self, statement: &Parsed, name: &Ident) -> Result<Query> {
        let Parsed::Statement(statement) = statement else { return Err(unparsed()) };
        let Statement::CreateTable(CreateTable { columns, .. }) = &**statement else { return Err(unparsed()) };
        let generated = self.columns.get(&normal_name(name)).and_then(|text| text.generated.clone());
        let generated = generated.ok_or_else(|| Error::Plan(format!("column {name} has no type")))?;
        let typed = columns.iter().filter(|column| !is_untyped(&column.data_type));
        let items = typed.map(|column| {
            let (kind, data_type) = (CastKind::Cast, column.data_type.clone());
            let null = Expr::Cast { kind, expr: Box::new(null()), data_type, array: false, format: None };
            SelectItem::ExprWithAlias { expr: null, alias: column.name.clone() }
        });
        let values = select(None, items.collect(), Vec::new(), None)?;
        let mut query = template(&format!("SELECT 1 FROM (SELECT 1) AS {}", quoted(&self.name)))?;
        if let SetExpr::Select(select) = &mut *query.body {
            select.projection = vec![SelectItem::UnnamedExpr(generated)];
            if let Some(TableFactor::Derived { subquery, .. }) = select.from.first_mut().map(|from| &mut from.relation)
            {
                **subquery = values;
            }
        }
        Ok(query)
    }

    /// Gives column `name` of `statement` a type.
    ///
    /// # Errors
    /// It has no name in SQL.
    pub fn set_type(statement: &mut Parsed, name: &Ident, data_type: &ArrowType) -> Result<()> {
        let written = sql_type(data_type).ok_or_else(|| Error::Plan(format!("column {name} has no type; write it")))?;
        let Parsed::Statement(statement) = statement else { return Ok(()) };
        let Statement::CreateTable(CreateTable { columns, .. }) = &mut **statement else { return Ok(()) };
        columns.iter_mut().filter(|column| column.name == *name).for_each(|column| column.data_type = written.clone());
        Ok(())
    }

    /// Whether rows have to be computed or looked at.
    pub fn is_computed(&self) -> bool {
        !self.checks.is_empty() || self.columns.values().any(|text| text.generated.is_some())
    }

    /// How many conditions rows have to meet.
    pub fn checks(&self) -> &[Expr] {
        &self.checks
    }

    /// Whether column `name` is computed of others.
    pub fn is_generated(&self, name: &str) -> bool {
        self.columns.get(name).is_some_and(|text| text.generated.is_some())
    }

    /// What is said of column `name`.
    pub fn column(&self, name: &str) -> Option<&ColumnText> {
        self.columns.get(name)
    }

    /// The value of column `name` where a statement has none.
    pub fn default_of(&self, name: &str) -> Expr {
        self.columns.get(name).and_then(|text| text.default.clone()).unwrap_or_else(null)
    }

    /// Sets the value of column `name` where a statement has none.
    pub fn set_default(&mut self, name: &str, default: Option<Expr>) {
        self.columns.entry(name.to_owned()).or_default().default = default;
    }

    /// The table has another name from now on.
    pub fn rename_table(&mut self, name: &str) {
        let old = std::mem::replace(&mut self.name, name.to_owned());
        self.for_each_name(|names| {
            if let [table, _, ..] = names.as_mut_slice()
                && normal_name(table) == old
            {
                *table = quoted(name);
            }
        });
    }

    /// Column `old` has another name from now on.
    pub fn rename_column(&mut self, old: &str, new: &str) {
        if let Some(text) = self.columns.remove(old) {
            self.columns.insert(new.to_owned(), text);
        }
        let table = self.name.clone();
        self.for_each_name(|names| {
            let at = usize::from(names.len() > 1 && normal_name(&names[0]) == table);
            if let Some(name) = names.get_mut(at)
                && is_same(name, old)
            {
                *name = shown(new);
            }
        });
    }

    /// Nothing is said of column `name` any more.
    pub fn drop_column(&mut self, name: &str) {
        self.columns.remove(name);
        let table = self.name.clone();
        self.checks.retain(|check| !uses(check, &table, name));
    }

    /// What is computed of column `name`, if anything is.
    pub fn computed_of(&self, name: &str) -> Option<&str> {
        let generated = |text: &ColumnText| text.generated.as_ref().is_some_and(|expr| uses(expr, &self.name, name));
        self.columns.iter().find(|(_, text)| generated(text)).map(|(column, _)| column.as_str())
    }

    /// A condition that looks at column `name` and at another one, if there is one.
    pub fn check_beside(&self, name: &str, columns: &Columns) -> Option<&Expr> {
        let others = |check: &Expr| {
            (0..columns.len()).map(|at| columns.name(at)).any(|other| other != name && uses(check, &self.name, other))
        };
        self.checks.iter().find(|check| uses(check, &self.name, name) && others(check))
    }

    fn for_each_name(&mut self, mut each: impl FnMut(&mut Vec<Ident>)) {
        let texts = self.columns.values_mut().flat_map(|text| text.generated.iter_mut());
        for expr in texts.chain(&mut self.checks) {
            for_each_name(expr, |name, _| match name {
                Expr::Identifier(ident) => {
                    let mut names = vec![ident.clone()];
                    each(&mut names);
                    *ident = names.swap_remove(0);
                }
                Expr::CompoundIdentifier(names) => each(names),
                _ => {}
            });
        }
    }

    /// The query of all `columns` of rows that are the table `rows`, of which those that are given are known, `before` other outputs of it, and then whether each condition holds.
    ///
    /// # Errors
    /// Columns that are computed of themselves.
    pub fn computed(&self, columns: &Columns, rows: &str, before: &[&str]) -> Result<Query> {
        let alias = quoted(&self.name);
        let mut items: Vec<SelectItem> = before.iter().map(|name| named(column(&alias, name), name)).collect();
        for at in 0..columns.len() {
            let name = columns.name(at);
            items.push(named(self.value(columns, name, &alias, &mut Vec::new())?, name));
        }
        for (number, check) in self.checks.iter().enumerate() {
            let check = self.written_out(columns, check.clone(), &alias, &mut Vec::new())?;
            items.push(named(check, &check_name(number)));
        }
        select(None, items, vec![alone(table(rows, &alias)?)], None)
    }

    /// The value of column `name` of a row.
    fn value(&self, columns: &Columns, name: &str, alias: &Ident, within: &mut Vec<String>) -> Result<Expr> {
        let Some(generated) = self.columns.get(name).and_then(|text| text.generated.clone()) else {
            return Ok(column(alias, name));
        };
        if within.iter().any(|outer| outer == name) {
            return Err(Error::Plan(format!("column '{name}' is computed of itself")));
        }
        within.push(name.to_owned());
        let value = self.written_out(columns, generated, alias, within)?;
        within.pop();
        Ok(value)
    }

    /// `expr`, in which what is computed is written out.
    fn written_out(&self, columns: &Columns, mut expr: Expr, alias: &Ident, within: &mut Vec<String>) -> Result<Expr> {
        let generated: HashSet<&str> =
            self.columns.iter().filter(|(_, text)| text.generated.is_some()).map(|(name, _)| name.as_str()).collect();
        let mut failed = None;
        for_each_name(&mut expr, |name, _| {
            let ident = match &*name {
                Expr::Identifier(ident) => ident,
                Expr::CompoundIdentifier(names) if names.len() == 2 && normal_name(&names[0]) == self.name => &names[1],
                _ => return,
            };
            let Some(at) = columns.find(ident) else { return };
            let known = columns.name(at);
            if !generated.contains(known) {
                *name = column(alias, known);
                return;
            }
            match self.value(columns, known, alias, within) {
                Ok(value) => *name = as_type(value, columns, at),
                Err(error) => failed = Some(error),
            }
        });
        failed.map_or(Ok(expr), Err)
    }
}

/// `value` as column `at` has it.
fn as_type(value: Expr, columns: &Columns, at: usize) -> Expr {
    let value = Expr::Nested(Box::new(value));
    match sql_type(columns.schema.field(at).data_type()) {
        Some(data_type) => {
            Expr::Cast { kind: CastKind::Cast, expr: Box::new(value), data_type, array: false, format: None }
        }
        None => value,
    }
}

/// Whether a column of this type has none.
fn is_untyped(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Custom(name, arguments) if arguments.is_empty() && name.to_string() == UNTYPED)
}

/// How a type is written.
fn sql_type(data_type: &ArrowType) -> Option<DataType> {
    let mut parser = Parser::new(&OgeeDialect).try_with_sql(&sql_name(data_type)).ok()?;
    let mut written = parser.parse_data_type().ok()?;
    in_type(&mut written);
    Some(written)
}

/// `name` as people write it.
fn shown(name: &str) -> Ident {
    let is_plain = name.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit())
        && !name.starts_with(|c: char| c.is_ascii_digit());
    if is_plain { Ident::new(name) } else { quoted(name) }
}

fn is_same(written: &Ident, name: &str) -> bool {
    normal_name(written) == name || written.value.eq_ignore_ascii_case(name)
}

/// Whether `expr` names column `name`.
fn uses(expr: &Expr, table: &str, name: &str) -> bool {
    let mut found = false;
    for_each_name(&mut expr.clone(), |expr, _| {
        found |= match expr {
            Expr::Identifier(ident) => is_same(ident, name),
            Expr::CompoundIdentifier(names) => {
                let at = usize::from(names.len() > 1 && normal_name(&names[0]) == table);
                names.get(at).is_some_and(|ident| is_same(ident, name))
            }
            _ => false,
        };
    });
    found
}
