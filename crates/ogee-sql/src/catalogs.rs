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

use datafusion::common::TableReference;
use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::ast::{
        CommentObject, Expr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem,
        SelectItemQualifiedWildcardKind, Statement, VisitorMut,
    },
};

use crate::{names::normal_name, syntax};

/// DuckDB's name of the schema of tables without one.
pub const MAIN: &str = "main";

/// DuckDB's name of the database in memory.
pub const DATABASE: &str = "memory";

/// DuckDB's name of the database of what tells of the catalog.
pub const SYSTEM_DATABASE: &str = "system";

/// What the schema of tables without one is called here.
pub const MAIN_SCHEMA: &str = "public";

/// The table that `text` names, as the catalog has it; `attached` are the databases beside the first.
pub fn reference(text: &str, attached: &BTreeSet<String>) -> Option<TableReference> {
    let parsed = TableReference::parse_str(text);
    let (catalog, schema, table) = match parsed {
        TableReference::Bare { table } => (None, None, table),
        TableReference::Partial { schema, table } => (None, Some(schema), table),
        TableReference::Full { catalog, schema, table } => (Some(catalog), Some(schema), table),
    };
    let schema = match (catalog.as_deref(), schema.as_deref()) {
        (None, None) => return Some(TableReference::bare(table)),
        (None, Some(MAIN | DATABASE)) | (Some(DATABASE), Some(MAIN)) => MAIN_SCHEMA,
        (Some(database), Some(MAIN)) if attached.contains(database) => database,
        (None | Some(DATABASE | SYSTEM_DATABASE), Some(schema)) => schema,
        _ => return None,
    };
    Some(TableReference::partial(schema, table))
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

/// Puts the names of tables in `statement` in the words of the catalog, in which databases are `attached`. `place`: the schema of the table that a name alone is of, where that is
/// none of the schema in which names are looked for first.
pub fn write_out(statement: &mut Parsed, attached: &BTreeSet<String>, place: &dyn Fn(&str) -> Option<String>) {
    let mut names = Names { attached, place, queries: HashSet::new(), written: HashMap::new() };
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
    place: &'a dyn Fn(&str) -> Option<String>,
    /// Names of `WITH` queries, which are no tables, and of what is made.
    queries: HashSet<String>,
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
            [DATABASE | SYSTEM_DATABASE, _, _] => parts[1].clone(),
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

    /// The name of a table that is made: where there is none, no other stands for it.
    fn in_new(&mut self, name: &mut ObjectName) {
        if let [ObjectNamePart::Identifier(alone)] = name.0.as_slice() {
            self.queries.insert(normal_name(alone));
        }
        self.in_name(name);
    }

    /// The name of a table that there is.
    fn in_relation(&mut self, name: &mut ObjectName) {
        if let [ObjectNamePart::Identifier(alone)] = name.0.as_slice()
            && let normal = normal_name(alone)
            && !self.queries.contains(&normal)
            && let Some(schema) = (self.place)(&normal)
        {
            let parts = [Ident::with_quote('"', schema), alone.clone()];
            name.0 = parts.into_iter().map(ObjectNamePart::Identifier).collect();
            return;
        }
        self.in_name(name);
    }
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let named = query.with.iter().flat_map(|with| &with.cte_tables);
        self.queries.extend(named.map(|cte| normal_name(&cte.alias.name)));
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<()> {
        self.in_relation(name);
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        // The names that the visitor is not shown.
        match statement {
            Statement::Drop { object_type, names, .. }
                if !matches!(object_type, datafusion::sql::sqlparser::ast::ObjectType::Schema) =>
            {
                names.iter_mut().for_each(|name| self.in_relation(name));
            }
            Statement::CreateView(create) => self.in_new(&mut create.name),
            Statement::CreateTable(create) => self.in_new(&mut create.name),
            Statement::AlterTable(alter) => self.in_relation(&mut alter.name),
            Statement::Truncate(truncate) => {
                truncate.table_names.iter_mut().for_each(|table| self.in_relation(&mut table.name))
            }
            Statement::ExplainTable { table_name, .. } => self.in_relation(table_name),
            Statement::Comment { object_name, object_type, .. } if *object_type != CommentObject::Column => {
                self.in_relation(object_name);
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
