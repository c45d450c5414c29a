//! Common table expressions within others of their name: `WITH t AS (..), u AS (WITH t AS (..) SELECT * FROM t) ..`, and those that nobody reads.
//!
//! The inner one hides the outer one. DataFusion takes one name once, so the inner gets another where a statement was refused for that, and is called by its own where it is read. One that is not read is
//! left out where a statement was refused for what it reads itself.
//!
//! Not here: one name twice in a `WITH`, which is an error.

use std::{collections::HashSet, ops::ControlFlow};

use datafusion::{
    error::DataFusionError,
    sql::{
        parser::Statement as Parsed,
        sqlparser::ast::{Ident, ObjectName, Query, TableAlias, TableFactor, Visitor, VisitorMut},
    },
};

use crate::{names::normal_name, syntax, visitors};

/// Whether `error` is that a name is given twice.
pub(crate) fn is_twice(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::Plan(message) if message.starts_with("WITH query name"))
}

/// Gives expressions within others of their name another; false if there are none.
pub(crate) fn tell_apart(statement: &mut Parsed) -> bool {
    struct Apart {
        /// The names around the place, each query's together.
        around: Vec<Vec<String>>,
        made: usize,
    }

    impl VisitorMut for Apart {
        type Break = ();

        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            let mut names = Vec::new();
            let count = query.with.as_ref().map_or(0, |with| with.cte_tables.len());
            for at in 0..count {
                let Some(with) = &mut query.with else { break };
                let cte = &mut with.cte_tables[at];
                let name = normal_name(&cte.alias.name);
                if self.around.iter().flatten().any(|known| *known == name) {
                    self.made += 1;
                    let new = format!("{name}_{}", self.made + 1);
                    cte.alias.name = Ident::with_quote('"', new.clone());
                    let mut renaming = Renaming { name: &name, new: &new, hidden: 0 };
                    let first = if with.recursive { at } else { at + 1 };
                    // None of these stops.
                    for later in &mut with.cte_tables[first..] {
                        let _ = visitors::visit_mut(&mut later.query, &mut renaming);
                    }
                    let with = query.with.take();
                    let _ = visitors::visit_mut(query, &mut renaming);
                    query.with = with;
                    names.push(new);
                } else {
                    names.push(name);
                }
            }
            self.around.push(names);
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
            self.around.pop();
            ControlFlow::Continue(())
        }
    }

    let mut apart = Apart { around: Vec::new(), made: 0 };
    // It never stops.
    let _ = syntax::visit(statement, &mut apart);
    apart.made > 0
}

/// Whether `error` is that a table is missing.
pub(crate) fn misses_table(error: &DataFusionError) -> bool {
    let message = error.to_string();
    message.contains("table '") && message.contains("' not found")
}

/// Leaves out expressions that nobody reads; false if there are none.
pub(crate) fn drop_unread(statement: &mut Parsed) -> bool {
    struct Read {
        names: HashSet<String>,
    }

    impl Visitor for Read {
        type Break = ();

        fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
            if let [part] = &relation.0[..] {
                self.names.extend(part.as_ident().map(normal_name));
            }
            ControlFlow::Continue(())
        }
    }

    struct Unread {
        names: HashSet<String>,
        dropped: bool,
    }

    impl VisitorMut for Unread {
        type Break = ();

        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            let Some(with) = &mut query.with else { return ControlFlow::Continue(()) };
            let all = with.cte_tables.len();
            with.cte_tables.retain(|cte| self.names.contains(&normal_name(&cte.alias.name)));
            self.dropped |= with.cte_tables.len() < all;
            if with.cte_tables.is_empty() {
                query.with = None;
            }
            ControlFlow::Continue(())
        }
    }

    let mut dropped = false;
    loop {
        let mut read = Read { names: HashSet::new() };
        // None of these stops.
        let _ = syntax::look(statement, &mut read);
        let mut unread = Unread { names: read.names, dropped: false };
        let _ = syntax::visit(statement, &mut unread);
        if !unread.dropped {
            return dropped;
        }
        dropped = true;
    }
}

/// Has what reads `name` read `new`, but where another of the name hides it.
struct Renaming<'a> {
    name: &'a str,
    new: &'a str,
    /// Queries around the place that have one of the name themselves.
    hidden: usize,
}

impl Renaming<'_> {
    fn hides(&self, query: &Query) -> bool {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        ctes.into_iter().any(|cte| normal_name(&cte.alias.name) == self.name)
    }
}

impl VisitorMut for Renaming<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.hidden += usize::from(self.hides(query));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.hidden -= usize::from(self.hides(query));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, args: None, .. } = factor
            && self.hidden == 0
            && let [part] = &name.0[..]
            && let Some(written) = part.as_ident().cloned()
            && normal_name(&written) == self.name
        {
            *name = ObjectName::from(vec![Ident::with_quote('"', self.new)]);
            if alias.is_none() {
                *alias = Some(TableAlias { explicit: true, name: written, columns: Vec::new(), at: None });
            }
        }
        ControlFlow::Continue(())
    }
}
