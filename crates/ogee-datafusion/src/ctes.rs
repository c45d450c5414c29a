//! Common table expressions that a query reads more than once: computed once.
//!
//! DataFusion plans each use of a `WITH` query as a copy. One that groups, sorts out duplicates, ranks or rolls dice is worth keeping: it is run
//! first, its rows become pages of the pool, and the query reads them as a table. Others are cheaper to run again, since each use
//! pushes its own conditions into them.
//!
//! Not here: running them (`session`); recursive ones; those within subqueries.

use std::ops::ControlFlow;

use datafusion::{
    common::tree_node::TreeNodeRecursion,
    logical_expr::LogicalPlan,
    sql::{
        parser::Statement as Parsed,
        sqlparser::ast::{Ident, ObjectName, Query, Statement, Visit, Visitor, With},
    },
};

use crate::session::parse;

/// The query of a statement that reads rows by common table expressions.
pub(crate) fn query_with(statement: &mut Parsed) -> Option<&mut Query> {
    let Parsed::Statement(statement) = statement else { return None };
    let Statement::Query(query) = statement.as_mut() else { return None };
    query.with.as_ref().is_some_and(|with| !with.recursive).then_some(query)
}

/// Whether more than one place reads common table expression `index` of `query`.
pub(crate) fn is_shared(query: &Query, index: usize) -> bool {
    let Some(cte) = query.with.as_ref().and_then(|with| with.cte_tables.get(index)) else { return false };
    let mut uses = Uses { name: normalized(&cte.alias.name), reads: 0 };
    query.visit(&mut uses).is_continue() && uses.reads > 1
}

/// Counts who reads a name.
struct Uses {
    name: String,
    reads: usize,
}

fn normalized(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

impl Visitor for Uses {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        if let [part] = &relation.0[..]
            && part.as_ident().is_some_and(|ident| normalized(ident) == self.name)
        {
            self.reads += 1;
        }
        ControlFlow::Continue(())
    }
}

/// Common table expression `index` of `query` as a statement of its own.
pub(crate) fn body(query: &Query, index: usize) -> Option<Parsed> {
    let with = query.with.as_ref()?;
    let mut body = (*with.cte_tables.get(index)?.query).clone();
    let mut before = with.cte_tables[..index].to_vec();
    match &mut body.with {
        Some(own) if own.recursive => return None,
        Some(own) => {
            before.append(&mut own.cte_tables);
            own.cte_tables = before;
        }
        own if !before.is_empty() => *own = Some(With { cte_tables: before, ..with.clone() }),
        _ => {}
    }
    Some(Parsed::Statement(Box::new(Statement::Query(Box::new(body)))))
}

/// Whether computing the rows of `plan` twice would cost more than keeping them, or give others.
pub(crate) fn is_worthwhile(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let visited = plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) | LogicalPlan::Window(_))
            || node.expressions().iter().any(datafusion::logical_expr::Expr::is_volatile);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    visited.is_ok() && found
}

/// Has common table expression `index` of `query` read the rows of `table`, a name without quotes in it.
pub(crate) fn read_from(query: &mut Query, index: usize, table: &str) {
    let mut statements = parse(&format!("SELECT * FROM \"{table}\"")).expect("a statement in plain SQL");
    let Some(Parsed::Statement(statement)) = statements.pop().map(|statement| statement.0) else {
        unreachable!("parsed from the text above");
    };
    let Statement::Query(all) = *statement else { unreachable!("parsed from the text above") };
    if let Some(with) = &mut query.with {
        with.cte_tables[index].query = all;
    }
}
