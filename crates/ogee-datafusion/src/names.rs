//! Names for columns that are selected twice: `SELECT a, a` has columns `a` and `a_1`.
//!
//! DataFusion refuses to plan two outputs of one name. Aliases given in the text of the statement, before it is planned, make them two.
//!
//! Not here: columns of one name from different tables, which DataFusion tells apart.

use std::collections::HashSet;

use datafusion::sql::{
    parser::{CopyToSource, Statement as Parsed},
    sqlparser::ast::{Expr, Ident, Query, Select, SelectItem, SetExpr, Statement, TableFactor},
};

/// Gives aliases to the outputs of `statement` that would have the same name.
pub(crate) fn name_apart(statement: &mut Parsed) {
    match statement {
        Parsed::Statement(statement) => in_statement(statement),
        Parsed::Explain(explain) => name_apart(&mut explain.statement),
        Parsed::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &mut copy.source {
                in_query(query);
            }
        }
        Parsed::CreateExternalTable(_) | Parsed::Reset(_) => {}
    }
}

fn in_statement(statement: &mut Statement) {
    match statement {
        Statement::Query(query) => in_query(query),
        Statement::Insert(insert) => insert.source.iter_mut().for_each(|query| in_query(query)),
        Statement::CreateTable(create) => create.query.iter_mut().for_each(|query| in_query(query)),
        Statement::CreateView(create) => in_query(&mut create.query),
        Statement::Explain { statement, .. } => in_statement(statement),
        Statement::Prepare { statement, .. } => in_statement(statement),
        _ => {}
    }
}

fn in_query(query: &mut Query) {
    if let Some(with) = &mut query.with {
        with.cte_tables.iter_mut().for_each(|cte| in_query(&mut cte.query));
    }
    in_set(&mut query.body);
}

fn in_set(set: &mut SetExpr) {
    match set {
        SetExpr::Select(select) => in_select(select),
        SetExpr::Query(query) => in_query(query),
        SetExpr::SetOperation { left, right, .. } => {
            in_set(left);
            in_set(right);
        }
        _ => {}
    }
}

fn in_select(select: &mut Select) {
    for table in &mut select.from {
        in_table(&mut table.relation);
        table.joins.iter_mut().for_each(|join| in_table(&mut join.relation));
    }
    let mut names: HashSet<String> = select.projection.iter().map(output_name).collect();
    if names.len() == select.projection.len() {
        return;
    }
    let mut seen = HashSet::new();
    for item in &mut select.projection {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        let name = expr.to_string();
        if seen.insert(name) {
            continue;
        }
        let base = base_name(expr);
        let alias = (1..).map(|n| format!("{base}_{n}")).find(|alias| !names.contains(alias));
        let alias = alias.expect("a name among infinitely many");
        names.insert(alias.clone());
        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', alias) };
    }
}

fn in_table(table: &mut TableFactor) {
    match table {
        TableFactor::Derived { subquery, .. } => in_query(subquery),
        TableFactor::NestedJoin { table_with_joins, .. } => {
            in_table(&mut table_with_joins.relation);
            table_with_joins.joins.iter_mut().for_each(|join| in_table(&mut join.relation));
        }
        _ => {}
    }
}

/// What tells an output from others.
fn output_name(item: &SelectItem) -> String {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => alias.value.clone(),
        other => other.to_string(),
    }
}

fn base_name(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(name) => name.value.clone(),
        Expr::CompoundIdentifier(names) => names.last().map_or_else(String::new, |name| name.value.clone()),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::parse;

    #[test]
    fn repeated_outputs_get_names_of_their_own() {
        for (sql, named) in [
            ("SELECT a, b FROM t", "SELECT a, b FROM t"),
            ("SELECT a, t.a, a AS c, a FROM t", "SELECT a, t.a, a AS c, a AS \"a_1\" FROM t"),
            ("SELECT NULL, NULL, NULL_1 FROM t", "SELECT NULL, NULL AS \"NULL_2\", NULL_1 FROM t"),
            ("SELECT * FROM (SELECT 1, 1) WHERE true", "SELECT * FROM (SELECT 1, 1 AS \"1_1\") WHERE true"),
            ("INSERT INTO t SELECT 1, 1", "INSERT INTO t SELECT 1, 1 AS \"1_1\""),
            ("EXPLAIN SELECT 1, 1", "EXPLAIN SELECT 1, 1 AS \"1_1\""),
        ] {
            let mut statement = parse(sql).unwrap().pop().unwrap().0;
            name_apart(&mut statement);
            assert_eq!(statement.to_string(), named, "{sql}");
        }
    }
}
