//! Visitors of statements, by way of a table of their functions.
//!
//! What sqlparser derives for those who visit is made anew for each type of visitor: thousands of functions, half a megabyte of code that is resident soon after it ran. Those of thirty
//! visitors were an eighth of the program. Here it is made for two, which pass on to any other.
//!
//! Not here: what a visitor is shown of a statement with parts of DataFusion's own (`syntax::visit`).

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
};

/// Shows `visitor` all of `node`.
pub(crate) fn visit<N: Visit, V: Visitor>(node: &N, visitor: &mut V) -> ControlFlow<V::Break> {
    reading::with(visitor, |any| node.visit(any))
}

/// Shows `visitor` all of `node`, which it may change.
pub(crate) fn visit_mut<N: VisitMut, V: VisitorMut>(node: &mut N, visitor: &mut V) -> ControlFlow<V::Break> {
    changing::with(visitor, |any| node.visit(any))
}

macro_rules! visitors {
    ($module:ident, $visitor:ident, $($method:ident: $of:ty),+ $(,)?) => {
        mod $module {
            use super::*;

            /// A visitor, whatever it ends with.
            trait Steps {
                $(fn $method(&mut self, node: $of) -> ControlFlow<()>;)+
            }

            /// A visitor, and what it ended with.
            struct Known<'a, V: $visitor> {
                visitor: &'a mut V,
                end: Option<V::Break>,
            }

            impl<V: $visitor> Steps for Known<'_, V> {
                $(fn $method(&mut self, node: $of) -> ControlFlow<()> {
                    self.visitor.$method(node).map_break(|end| self.end = Some(end))
                })+
            }

            pub(super) struct Any<'a>(&'a mut dyn Steps);

            impl $visitor for Any<'_> {
                type Break = ();

                $(fn $method(&mut self, node: $of) -> ControlFlow<()> {
                    self.0.$method(node)
                })+
            }

            pub(super) fn with<V: $visitor>(
                visitor: &mut V,
                visit: impl FnOnce(&mut Any<'_>) -> ControlFlow<()>,
            ) -> ControlFlow<V::Break> {
                let mut known = Known { visitor, end: None };
                let visited = visit(&mut Any(&mut known));
                debug_assert_eq!(visited.is_break(), known.end.is_some(), "it ends with something");
                known.end.map_or(ControlFlow::Continue(()), ControlFlow::Break)
            }
        }
    };
}

visitors!(
    reading,
    Visitor,
    pre_visit_query: &Query,
    post_visit_query: &Query,
    pre_visit_select: &Select,
    post_visit_select: &Select,
    pre_visit_relation: &ObjectName,
    post_visit_relation: &ObjectName,
    pre_visit_table_factor: &TableFactor,
    post_visit_table_factor: &TableFactor,
    pre_visit_expr: &Expr,
    post_visit_expr: &Expr,
    pre_visit_statement: &Statement,
    post_visit_statement: &Statement,
    pre_visit_value: &ValueWithSpan,
    post_visit_value: &ValueWithSpan,
);

visitors!(
    changing,
    VisitorMut,
    pre_visit_query: &mut Query,
    post_visit_query: &mut Query,
    pre_visit_select: &mut Select,
    post_visit_select: &mut Select,
    pre_visit_relation: &mut ObjectName,
    post_visit_relation: &mut ObjectName,
    pre_visit_table_factor: &mut TableFactor,
    post_visit_table_factor: &mut TableFactor,
    pre_visit_expr: &mut Expr,
    post_visit_expr: &mut Expr,
    pre_visit_statement: &mut Statement,
    post_visit_statement: &mut Statement,
    pre_visit_value: &mut ValueWithSpan,
    post_visit_value: &mut ValueWithSpan,
);
