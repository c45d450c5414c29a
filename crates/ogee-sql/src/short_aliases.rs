//! Aliases with fewer names than there are columns, or more: `FROM t AS x(a)`, where the other columns keep their names, `WITH t(a, b, c) AS (SELECT 1, 2)`.
//!
//! DataFusion refuses both, and says how many columns and names there are. Then aliases of so many names are marked, and the names of the other columns asked for.
//!
//! Not here: queries in `FROM` and `WITH` whose columns the text tells (`syntax`).

use std::ops::ControlFlow;

use datafusion::{
    error::DataFusionError,
    sql::{
        parser::Statement as Parsed,
        sqlparser::ast::{
            Ident, Query, Select, SelectItem, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins, VisitorMut,
            WildcardAdditionalOptions,
        },
    },
};
use ogee_functions::Result;

use crate::{asked::Answers, syntax};

/// The last name of an alias whose other names are to be asked for.
const OTHERS: &str = "ogee_other_names";

/// How many columns and how many names there are, if that is why `error` refuses an alias.
pub(crate) fn told_of(error: &DataFusionError) -> Option<(usize, usize)> {
    let DataFusionError::Plan(message) = error.find_root() else { return None };
    let rest = message.strip_prefix("Source table contains ")?;
    let (columns, rest) = rest.split_once(" columns but only ")?;
    let (names, rest) = rest.split_once(' ')?;
    rest.starts_with("names given as column alias").then_some(())?;
    Some((columns.parse().ok()?, names.parse().ok()?))
}

/// Marks the aliases of `names` names in `statement`, or leaves those out that are more than `columns`; false if there are none.
pub(crate) fn mark(statement: &mut Parsed, columns: usize, names: usize) -> bool {
    struct Aliases {
        columns: usize,
        names: usize,
        found: bool,
    }

    impl Aliases {
        /// Whether `alias` is one.
        fn is_one(&mut self, alias: &TableAlias) -> bool {
            let is_one = alias.columns.len() == self.names && !is_marked(alias);
            self.found |= is_one;
            is_one
        }
    }

    impl VisitorMut for Aliases {
        type Break = ();

        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
                if self.names > self.columns && self.is_one(&cte.alias) {
                    cte.alias.columns.truncate(self.columns);
                }
            }
            ControlFlow::Continue(())
        }

        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            // A table function may be given more names than it has columns.
            if let TableFactor::Table { alias: Some(alias), args: Some(_), .. } = factor
                && self.names > self.columns
                && self.is_one(alias)
            {
                alias.columns.truncate(self.columns);
            }
            if let TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } =
                factor
                && self.names < self.columns
                && self.is_one(alias)
            {
                let name = Ident::new(OTHERS);
                alias.columns.push(TableAliasColumnDef { name, data_type: None });
            }
            ControlFlow::Continue(())
        }
    }

    let mut aliases = Aliases { columns, names, found: false };
    // It never stops.
    let _ = syntax::visit(statement, &mut aliases);
    aliases.found
}

fn is_marked(alias: &TableAlias) -> bool {
    alias.columns.last().is_some_and(|column| column.name.value == OTHERS)
}

/// The alias of `factor`, if that is marked.
fn marked(factor: &TableFactor) -> Option<&TableAlias> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            is_marked(alias).then_some(alias)
        }
        _ => None,
    }
}

/// Whether an alias of what is selected from is marked.
pub(crate) fn is_in(select: &Select) -> bool {
    select.from.iter().flat_map(syntax::factors).any(|factor| marked(factor).is_some())
}

/// Gives the marked aliases of `select` the names of all columns.
///
/// # Errors
/// Those of planning what is selected from.
pub(crate) async fn write_out(select: &mut Select, answers: &Answers<'_>) -> Result<()> {
    for factor in select.from.iter_mut().flat_map(syntax::factors_mut) {
        if marked(factor).is_none() {
            continue;
        }
        let mut whole = factor.clone();
        if let TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. } = &mut whole
            && let Some(alias) = alias
        {
            alias.columns.clear();
        }
        let star = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
        let all = answers.columns(star, &[TableWithJoins { relation: whole, joins: Vec::new() }]).await?;
        if let TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } = factor
        {
            alias.columns.pop();
            let others = all.into_iter().skip(alias.columns.len());
            let name = |name| TableAliasColumnDef { name: Ident::with_quote('"', name), data_type: None };
            alias.columns.extend(others.map(|column| name(column.name)));
        }
    }
    Ok(())
}
