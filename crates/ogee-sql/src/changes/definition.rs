//! What the definition of a table says of its columns and rows, as it was written.
//!
//! Values of columns that a statement leaves out, columns that are computed of others, and conditions that rows have to meet. All are expressions of the statement that made the table, and are
//! planned with each statement that adds rows, as outputs of a query of those rows.
//!
//! Not here: types, `NOT NULL` and keys.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

use datafusion::{
    arrow::datatypes::DataType as ArrowType,
    sql::{
        parser::Statement as Parsed,
        sqlparser::{
            ast::{
                CastKind, CheckConstraint, ColumnOption, CreateTable, DataType, Expr, ForeignKeyConstraint,
                GeneratedAs, Ident, Query, ReferentialAction, SelectItem, SetExpr, Statement, TableConstraint,
                TableFactor, VisitorMut,
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
    visitors,
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

/// An index of a table.
#[derive(Clone, Debug)]
pub struct IndexText {
    /// Its name.
    pub name: String,
    /// Whether rows have the columns' values once.
    pub is_unique: bool,
    /// What it is of: columns of the table, and what is computed of them.
    pub of: Vec<Expr>,
}

impl IndexText {
    /// What it is of, as SQL.
    pub fn shown(&self) -> Vec<String> {
        self.of.iter().map(shown_expression).collect()
    }

    /// The names of its columns, if it is of columns alone.
    pub fn columns(&self) -> Option<Vec<String>> {
        let name = |expr: &Expr| match expr {
            Expr::Identifier(name) => Some(normal_name(name)),
            _ => None,
        };
        self.of.iter().map(name).collect()
    }
}

/// Columns whose values are those of a key of another table, or of the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    /// The columns.
    pub columns: Vec<String>,
    /// The schema of the other table, as the catalog has it.
    pub schema: String,
    /// The other table.
    pub table: String,
    /// The columns of its key.
    pub referenced: Vec<String>,
}

impl ForeignKey {
    /// The other table, as SQL.
    pub fn shown_table(&self) -> String {
        match self.schema.as_str() {
            crate::catalogs::MAIN_SCHEMA => quoted(&self.table).to_string().trim_matches('"').to_owned(),
            schema => format!("{schema}.{}", self.table),
        }
    }
}

/// What `constraint` says of `columns`.
///
/// # Errors
/// Something would be done with them when rows of the other table go.
fn foreign_key(constraint: &ForeignKeyConstraint, columns: Vec<String>) -> Result<ForeignKey> {
    let ForeignKeyConstraint {
        foreign_table, referred_columns, on_delete, on_update, match_kind, characteristics, ..
    } = constraint;
    let refuses =
        |action: &ReferentialAction| matches!(action, ReferentialAction::Restrict | ReferentialAction::NoAction);
    if let Some(action) = on_delete.iter().chain(on_update).find(|action| !refuses(action)) {
        let instead = "leave it out: what others refer to does not go";
        return Err(Error::Unsupported(format!("{action} of a FOREIGN KEY is not supported; {instead}")));
    }
    if match_kind.is_some() || characteristics.is_some() {
        return Err(Error::Unsupported(
            "MATCH or DEFERRABLE of a FOREIGN KEY is not supported; leave it out".to_owned(),
        ));
    }
    let mut named = parts(foreign_table);
    let table = named.pop().unwrap_or_default();
    let schema = match named.join(".").as_str() {
        "" => String::new(),
        "main" | "memory" | "memory.main" => crate::catalogs::MAIN_SCHEMA.to_owned(),
        other => other.strip_prefix("memory.").unwrap_or(other).to_owned(),
    };
    Ok(ForeignKey { columns, schema, table, referenced: referred_columns.iter().map(normal_name).collect() })
}

/// `expr` as DuckDB shows it: with brackets around each operation.
pub fn shown_expression(expr: &Expr) -> String {
    struct Brackets;

    impl VisitorMut for Brackets {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            let inner = match expr {
                Expr::Nested(inner) => std::mem::replace(&mut **inner, null()),
                Expr::BinaryOp { .. }
                | Expr::IsNull(_)
                | Expr::IsNotNull(_)
                | Expr::Between { .. }
                | Expr::InList { .. } => {
                    let operation = std::mem::replace(expr, null());
                    *expr = Expr::Nested(Box::new(operation));
                    return ControlFlow::Continue(());
                }
                _ => return ControlFlow::Continue(()),
            };
            // What is within has its own.
            *expr = inner;
            ControlFlow::Continue(())
        }
    }

    let mut shown = expr.clone();
    let visited = visitors::visit_mut(&mut shown, &mut Brackets);
    debug_assert!(visited.is_continue(), "the visitor never stops");
    shown.to_string()
}

/// Whether a name like this word is in quotes where it stands for a table or column.
pub fn is_keyword(name: &str) -> bool {
    use datafusion::sql::sqlparser::keywords::{ALL_KEYWORDS, ALL_KEYWORDS_INDEX, Keyword};
    const OTHERS: [Keyword; 24] = [
        Keyword::ALL,
        Keyword::AND,
        Keyword::ANY,
        Keyword::ARRAY,
        Keyword::AS,
        Keyword::ASC,
        Keyword::CASE,
        Keyword::CAST,
        Keyword::CHECK,
        Keyword::COLUMN,
        Keyword::CONSTRAINT,
        Keyword::CREATE,
        Keyword::DEFAULT,
        Keyword::DESC,
        Keyword::DISTINCT,
        Keyword::ELSE,
        Keyword::FOREIGN,
        Keyword::IN,
        Keyword::NOT,
        Keyword::NULL,
        Keyword::OR,
        Keyword::PRIMARY,
        Keyword::TABLE,
        Keyword::UNIQUE,
    ];
    let found = ALL_KEYWORDS.binary_search(&name.to_ascii_uppercase().as_str()).ok();
    let Some(keyword) = found.map(|at| ALL_KEYWORDS_INDEX[at]) else { return false };
    OTHERS.contains(&keyword)
        || datafusion::sql::sqlparser::keywords::RESERVED_FOR_COLUMN_ALIAS.contains(&keyword)
        || datafusion::sql::sqlparser::keywords::RESERVED_FOR_TABLE_ALIAS.contains(&keyword)
}

/// What is said of a table.
#[derive(Clone, Debug, Default)]
pub struct Definition {
    /// The name of the table that columns may have before them.
    name: String,
    columns: HashMap<String, ColumnText>,
    checks: Vec<Expr>,
    indexes: Vec<IndexText>,
    foreign_keys: Vec<ForeignKey>,
}

impl Definition {
    /// Its indexes.
    pub fn indexes(&self) -> &[IndexText] {
        &self.indexes
    }

    /// There is one more index from now on.
    pub fn add_index(&mut self, index: IndexText) {
        self.indexes.push(index);
    }

    /// There is no index of this name from now on.
    pub fn drop_index(&mut self, name: &str) {
        self.indexes.retain(|index| index.name != name);
    }

    /// An index that is of column `name`, if there is one.
    pub fn index_of(&self, name: &str) -> Option<&IndexText> {
        self.indexes.iter().find(|index| index.of.iter().any(|of| uses(of, &self.name, name)))
    }

    /// Its keys of other tables.
    pub fn foreign_keys(&self) -> &[ForeignKey] {
        &self.foreign_keys
    }

    /// The same, to be changed.
    pub fn foreign_keys_mut(&mut self) -> &mut Vec<ForeignKey> {
        &mut self.foreign_keys
    }

    /// Whether `check` looks at column `name`.
    pub fn check_uses(&self, check: &Expr, name: &str) -> bool {
        uses(check, &self.name, name)
    }

    /// What `statement` says, if it makes a table. What the planner has no words for is taken out of it.
    ///
    /// # Errors
    /// An expression that a definition cannot have.
    pub fn take(statement: &mut Parsed) -> Result<Self> {
        let mut definition = Self::default();
        let Parsed::Statement(statement) = statement else { return Ok(definition) };
        if let Statement::Prepare { statement, .. } = &**statement
            && let made = Self::take(&mut Parsed::Statement(statement.clone()))?
            && (made.is_computed() || !made.foreign_keys.is_empty())
        {
            let instead = "use CREATE TABLE without PREPARE";
            return Err(Error::Unsupported(format!(
                "a prepared table with CHECK, FOREIGN KEY or generated columns is not supported; {instead}"
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
                    ColumnOption::ForeignKey(key) => {
                        definition.foreign_keys.push(foreign_key(key, vec![normal_name(&column.name)])?);
                    }
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
            column.options.retain(|option| {
                !matches!(
                    option.option,
                    ColumnOption::Check(_) | ColumnOption::Generated { .. } | ColumnOption::ForeignKey(_)
                )
            });
            if text.default.is_some() || text.generated.is_some() {
                definition.columns.insert(normal_name(&column.name), text);
            }
        }
        let mut foreign = Vec::new();
        constraints.retain(|constraint| {
            if let TableConstraint::Check(CheckConstraint { expr, .. }) = constraint {
                definition.checks.push((**expr).clone());
            }
            if let TableConstraint::ForeignKey(key) = constraint {
                foreign.push(key.clone());
            }
            !matches!(constraint, TableConstraint::Check(_) | TableConstraint::ForeignKey(_))
        });
        for key in &foreign {
            let columns = key.columns.iter().map(normal_name).collect();
            definition.foreign_keys.push(foreign_key(key, columns)?);
        }
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
        self.foreign_keys.iter_mut().filter(|key| key.table == old).for_each(|key| key.table = name.to_owned());
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
        for name in self.foreign_keys.iter_mut().flat_map(|key| key.columns.iter_mut()).filter(|name| *name == old) {
            *name = new.to_owned();
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
        let indexes = self.indexes.iter_mut().flat_map(|index| index.of.iter_mut());
        for expr in texts.chain(&mut self.checks).chain(indexes) {
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
