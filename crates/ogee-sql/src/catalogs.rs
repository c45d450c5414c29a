//! Names of databases and schemas as DuckDB has them: `main.t`, `memory.main.t`, `y.main.t`.
//!
//! Tables without a schema are in one that DataFusion calls `public`, and the schemas of DuckDB's database `memory` are schemas here; a database that is attached is a schema, too. What is
//! written before names of tables, and of their columns, is put in those words.
//!
//! Not here: which schema a bare name is of.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ops::ControlFlow,
};

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::ast::{
        CommentObject, Expr, Ident, ObjectName, ObjectNamePart, Select, SelectItem, SelectItemQualifiedWildcardKind,
        Statement, TableAlias, TableFactor, Visitor, VisitorMut,
    },
};

use crate::{names::normal_name, syntax};

/// DuckDB's name of the schema of tables without one.
pub const MAIN: &str = "main";

/// DuckDB's name of the database in memory.
pub const DATABASE: &str = "memory";

/// What the schema of tables without one is called here.
pub const MAIN_SCHEMA: &str = "public";

/// A table that tells of the catalog, as DuckDB calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CatalogTable {
    /// `duckdb_tables()`
    Tables,
    /// `duckdb_columns()`
    Columns,
}

impl CatalogTable {
    fn of(factor: &TableFactor) -> Option<Self> {
        let TableFactor::Table { name, args: Some(args), .. } = factor else { return None };
        if !args.args.is_empty() {
            return None;
        }
        match name.to_string().to_ascii_lowercase().as_str() {
            "duckdb_tables" => Some(Self::Tables),
            "duckdb_columns" => Some(Self::Columns),
            _ => None,
        }
    }
}

/// Which of them `statement` reads.
pub fn catalog_tables(statement: &Parsed) -> HashSet<CatalogTable> {
    struct Found(HashSet<CatalogTable>);

    impl Visitor for Found {
        type Break = ();

        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            self.0.extend(CatalogTable::of(factor));
            ControlFlow::Continue(())
        }
    }

    let mut found = Found(HashSet::new());
    let looked = syntax::look(statement, &mut found);
    debug_assert!(looked.is_continue(), "the visitor never stops");
    found.0
}

/// Has `statement` read the tables `names` in the place of those.
pub fn read_catalog(statement: &mut Parsed, names: &HashMap<CatalogTable, String>) {
    struct Read<'a>(&'a HashMap<CatalogTable, String>);

    impl VisitorMut for Read<'_> {
        type Break = ();

        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            if let Some(read) = CatalogTable::of(factor).and_then(|table| self.0.get(&table))
                && let TableFactor::Table { name, args, alias, .. } = factor
            {
                let called = name.0.last().and_then(|part| part.as_ident()).cloned();
                *name = ObjectName::from(vec![Ident::with_quote('"', read)]);
                *args = None;
                if let (None, Some(called)) = (&alias, called) {
                    *alias = Some(TableAlias { explicit: true, name: called, columns: Vec::new(), at: None });
                }
            }
            ControlFlow::Continue(())
        }
    }

    if names.is_empty() {
        return;
    }
    let visited = syntax::visit(statement, &mut Read(names));
    debug_assert!(visited.is_continue(), "the visitor never stops");
}

/// The table or view that `statement` makes, and whether it is temporary; the planner is not told of that.
pub fn made(statement: &mut Parsed) -> Option<(ObjectName, bool)> {
    let Parsed::Statement(statement) = statement else { return None };
    match &mut **statement {
        Statement::CreateTable(create) => Some((create.name.clone(), std::mem::take(&mut create.temporary))),
        Statement::CreateView(create) => Some((create.name.clone(), std::mem::take(&mut create.temporary))),
        _ => None,
    }
}

/// Whether `statement` makes a table or view in the place of another.
pub fn replaces(statement: &Parsed) -> bool {
    let Parsed::Statement(statement) = statement else { return false };
    match &**statement {
        Statement::CreateTable(create) => create.or_replace,
        Statement::CreateView(create) => create.or_replace,
        _ => false,
    }
}

/// A name, as it is compared.
pub fn last_name(name: &Ident) -> String {
    normal_name(name)
}

/// Puts the names of tables in `statement` in the words of the catalog, in which databases are `attached`.
pub fn write_out(statement: &mut Parsed, attached: &BTreeSet<String>) {
    let mut names = Names { attached, written: HashMap::new() };
    let visited = syntax::visit(statement, &mut names);
    debug_assert!(visited.is_continue(), "the visitor never stops");
    if names.written.is_empty() {
        return;
    }
    let visited = syntax::visit(statement, &mut Columns { written: names.written });
    debug_assert!(visited.is_continue(), "the visitor never stops");
}

struct Names<'a> {
    attached: &'a BTreeSet<String>,
    /// What was written for tables, and what stands for it.
    written: HashMap<Vec<String>, Vec<Ident>>,
}

impl Names<'_> {
    fn in_name(&mut self, name: &mut ObjectName) {
        let parts: Option<Vec<Ident>> = name.0.iter().map(|part| part.as_ident().cloned()).collect();
        let Some(parts) = parts else { return };
        let normal: Vec<String> = parts.iter().map(normal_name).collect();
        let normal_parts: Vec<&str> = normal.iter().map(String::as_str).collect();
        let schema = match normal_parts.as_slice() {
            [MAIN, _] | [DATABASE, _] | [DATABASE | "ogee", MAIN, _] => Ident::new(MAIN_SCHEMA),
            [DATABASE, _, _] => parts[1].clone(),
            [database, MAIN, _] if self.attached.contains(*database) => parts[0].clone(),
            _ => return,
        };
        if self.attached.contains(normal_parts[0]) && normal_parts.len() == 2 {
            return;
        }
        let Some(table) = parts.last() else { return };
        let short = vec![schema, table.clone()];
        name.0 = short.iter().cloned().map(ObjectNamePart::Identifier).collect();
        self.written.insert(normal, short);
    }
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<()> {
        self.in_name(name);
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        // The names that the visitor is not shown.
        match statement {
            Statement::Drop { object_type, names, .. }
                if !matches!(object_type, datafusion::sql::sqlparser::ast::ObjectType::Schema) =>
            {
                names.iter_mut().for_each(|name| self.in_name(name));
            }
            Statement::CreateView(create) => self.in_name(&mut create.name),
            Statement::CreateTable(create) => self.in_name(&mut create.name),
            Statement::AlterTable(alter) => self.in_name(&mut alter.name),
            Statement::Truncate(truncate) => {
                truncate.table_names.iter_mut().for_each(|table| self.in_name(&mut table.name))
            }
            Statement::ExplainTable { table_name, .. } => self.in_name(table_name),
            Statement::Comment { object_name, object_type, .. } if *object_type != CommentObject::Column => {
                self.in_name(object_name);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Writes before columns what stands before their tables.
struct Columns {
    written: HashMap<Vec<String>, Vec<Ident>>,
}

impl Columns {
    /// What stands for the first of `names`, and how many of them.
    fn short(&self, names: &[Ident]) -> Option<(usize, Vec<Ident>)> {
        let normal: Vec<String> = names.iter().map(normal_name).collect();
        let (long, short) = self.written.iter().find(|(long, _)| normal.starts_with(long))?;
        Some((long.len(), short.clone()))
    }
}

impl VisitorMut for Columns {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(names) = expr
            && let Some((count, short)) = self.short(&names[..names.len() - 1])
        {
            names.splice(..count, short);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item else {
                continue;
            };
            let parts: Vec<Ident> = name.0.iter().filter_map(|part| part.as_ident()).cloned().collect();
            if let Some((count, short)) = self.short(&parts)
                && count == parts.len()
            {
                name.0 = short.into_iter().map(ObjectNamePart::Identifier).collect();
            }
        }
        ControlFlow::Continue(())
    }
}
