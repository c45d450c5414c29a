//! Select lists of hundreds of outputs.
//!
//! DataFusion's planner looks for outputs of one name among those of a `SELECT` by comparing each with each (`push_projection_dedupl` in datafusion-sql, for the sake of
//! `UNNEST`), and once more for each output of an aggregation: 5,000 columns take six seconds, sums of them thirty. It does neither for those of `DISTINCT ON`. So the lists of a statement
//! that has long ones, or reads a table with many columns, get a `DISTINCT ON` of a mark; in the plan they are projections again.
//!
//! A statement that cannot be planned so is planned as it was written.
//!
//! Not here: what the planner compares in expressions.

use std::{collections::HashSet, ops::ControlFlow};

use datafusion::{
    common::{
        ScalarValue, plan_err,
        tree_node::{Transformed, TransformedResult, TreeNodeRecursion},
    },
    error::Result,
    execution::SessionState,
    logical_expr::{Distinct, DistinctOn, Expr, LogicalPlan, LogicalPlanBuilder, Projection},
    sql::{
        parser::Statement as Parsed,
        sqlparser::ast::{
            Distinct as WrittenDistinct, Expr as Written, OrderByExpr, OrderByKind, OrderByOptions, Query, Select,
            SelectItem, SetExpr, Statement, Value, Visitor, VisitorMut,
        },
    },
};

use crate::{
    syntax,
    trees::{Nodes, Tree},
};

/// What all rows would have in common that a marked list is distinct on.
const MARK: &str = "\u{1}list";
/// The same where the list itself is `DISTINCT`.
const MARK_DISTINCT: &str = "\u{1}distinct list";

/// Outputs from which on a list is long: below, comparing them takes less than planning the rest.
const LONG: usize = 200;
/// Lists of a statement that has a long one are marked from so many outputs on, and where a star may stand for many.
const SOME: usize = 50;

/// The plan of `statement`.
///
/// # Errors
/// Those of DataFusion's planner.
pub(crate) async fn plan(state: &SessionState, statement: Parsed) -> Result<LogicalPlan> {
    if let Some(marked) = marked(state, &statement).await
        && let Ok(plan) = state.statement_to_plan(marked).await
        && let Ok(plan) = without_marks(plan)
    {
        return Ok(plan);
    }
    state.statement_to_plan(statement).await
}

/// `statement` with marks, if it has long lists, or may.
async fn marked(state: &SessionState, statement: &Parsed) -> Option<Parsed> {
    if makes_view(statement) {
        return None;
    }
    let mut lists = Lists { any_star: false, longest: 0 };
    let looked = syntax::look(statement, &mut lists);
    debug_assert!(looked.is_continue(), "the visitor never stops");
    if lists.longest < LONG && !(lists.any_star && reads_wide_table(state, statement).await) {
        return None;
    }
    let mut marked = statement.clone();
    let visited = syntax::visit(&mut marked, &mut Marks { seen: HashSet::new() });
    debug_assert!(visited.is_continue(), "the visitor never stops");
    Some(marked)
}

/// A view keeps the text of its query.
fn makes_view(statement: &Parsed) -> bool {
    match statement {
        Parsed::Statement(statement) => matches!(**statement, Statement::CreateView(_)),
        Parsed::Explain(explain) => makes_view(&explain.statement),
        _ => false,
    }
}

async fn reads_wide_table(state: &SessionState, statement: &Parsed) -> bool {
    for table in state.resolve_table_references(statement).unwrap_or_default() {
        let name = table.table().to_owned();
        let Ok(schema) = state.schema_for_ref(table) else { continue };
        // What is wrong with it is told when the whole is planned.
        if let Ok(Some(table)) = schema.table(&name).await
            && table.schema().fields().len() >= LONG
        {
            return true;
        }
    }
    false
}

/// Looks how long the lists are.
struct Lists {
    any_star: bool,
    longest: usize,
}

impl Visitor for Lists {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        self.any_star |= has_star(select);
        self.longest = self.longest.max(select.projection.len());
        ControlFlow::Continue(())
    }
}

fn has_star(select: &Select) -> bool {
    let is_star = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    select.projection.iter().any(is_star)
}

/// Marks lists.
struct Marks {
    /// `SELECT`s that are marked, or stay as they are.
    seen: HashSet<*const Select>,
}

impl Marks {
    /// The mark that `select` gets, if it gets one.
    fn mark(select: &mut Select) -> Option<Written> {
        if select.projection.len() < SOME && !has_star(select) {
            return None;
        }
        let text = match select.distinct {
            None | Some(WrittenDistinct::All) => MARK,
            Some(WrittenDistinct::Distinct) => MARK_DISTINCT,
            Some(WrittenDistinct::On(_)) => return None,
        };
        let mark = Written::value(Value::SingleQuotedString(text.to_owned()));
        select.distinct = Some(WrittenDistinct::On(vec![mark.clone()]));
        Some(mark)
    }
}

impl VisitorMut for Marks {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let SetExpr::Select(select) = &mut *query.body else { return ControlFlow::Continue(()) };
        let Some(order) = &mut query.order_by else { return ControlFlow::Continue(()) };
        self.seen.insert(std::ptr::from_ref(&**select));
        // The order of distinct rows is that of their outputs alone.
        let is_distinct = matches!(select.distinct, Some(WrittenDistinct::Distinct));
        if let OrderByKind::Expressions(keys) = &mut order.kind
            && !is_distinct
            && let Some(mark) = Self::mark(select)
        {
            let options = OrderByOptions { asc: None, nulls_first: None };
            keys.insert(0, OrderByExpr { expr: mark, options, with_fill: None });
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if !self.seen.contains(&std::ptr::from_ref(select)) {
            Self::mark(select);
        }
        ControlFlow::Continue(())
    }
}

/// `plan` of a marked statement, with projections in the place of marks.
///
/// # Errors
/// A list that is not what DataFusion makes of it without a mark.
fn without_marks(plan: LogicalPlan) -> Result<LogicalPlan> {
    // What depends on what is not told by a `DISTINCT ON`.
    let mut depends = false;
    let plan = plan.nodes_up(|node| {
        let node = match node {
            LogicalPlan::Distinct(Distinct::On(on)) => match is_marked(&on) {
                Some(is_distinct) => {
                    depends |= !on.input.schema().functional_dependencies().is_empty();
                    return projected(on, is_distinct).map(Transformed::yes);
                }
                None => LogicalPlan::Distinct(Distinct::On(on)),
            },
            node => node,
        };
        if depends { node.recompute_schema().map(Transformed::yes) } else { Ok(Transformed::no(node)) }
    });
    plan.data()
}

/// Whether the list itself is `DISTINCT`; `None` if `on` is no mark.
fn is_marked(on: &DistinctOn) -> Option<bool> {
    match &on.on_expr[..] {
        [Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _)] => match text.as_str() {
            MARK => Some(false),
            MARK_DISTINCT => Some(true),
            _ => None,
        },
        _ => None,
    }
}

fn projected(on: DistinctOn, is_distinct: bool) -> Result<LogicalPlan> {
    let DistinctOn { select_expr, sort_expr, input, schema, .. } = on;
    let mut names = HashSet::with_capacity(select_expr.len());
    for expr in &select_expr {
        let mut unnests = false;
        expr.each(|expr| {
            unnests |= matches!(expr, Expr::Unnest(_));
            Ok(if unnests { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if unnests || !names.insert(expr.schema_name().to_string()) {
            return plan_err!("this list is none of a projection alone");
        }
    }
    let projection = match input.schema().functional_dependencies().is_empty() {
        // Looking 5,000 columns up takes a fifth of a second.
        true => Projection::try_new_with_schema(select_expr, input, schema)?,
        false => Projection::try_new(select_expr, input)?,
    };
    let mut plan = LogicalPlanBuilder::from(LogicalPlan::Projection(projection));
    if is_distinct {
        plan = plan.distinct()?;
    }
    let order: Vec<_> = sort_expr.into_iter().flatten().skip(1).collect();
    if !order.is_empty() {
        plan = plan.sort(order)?;
    }
    plan.build()
}
