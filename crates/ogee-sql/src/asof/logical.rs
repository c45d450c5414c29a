//! `ASOF` joins among DataFusion's logical nodes.

use std::{cmp::Ordering, collections::HashSet, fmt, sync::Arc};

use datafusion::{
    arrow::datatypes::DataType,
    common::{
        DFSchema, DFSchemaRef, JoinType, Result, plan_err,
        tree_node::{Transformed, TransformedResult},
    },
    config::ConfigOptions,
    logical_expr::{
        BinaryExpr, Expr, Extension, Filter, LogicalPlan, Operator, ScalarUDF, TypeSignature,
        UserDefinedLogicalNodeCore, build_join_schema,
        utils::{conjunction, find_valid_equijoin_key_pair, split_conjunction_owned},
        when,
    },
    optimizer::{AnalyzerRule, ApplyOrder, OptimizerConfig, OptimizerRule},
};

use crate::{markers, trees::Nodes};

/// The function around the condition of an `ASOF` join.
pub(super) const MARK: &str = "ogee_asof";

/// The function [`MARK`], which plans have only until [`AsofJoins`] has seen them.
pub(crate) fn marker() -> ScalarUDF {
    let takes = TypeSignature::Exact(vec![DataType::Boolean]);
    markers::condition(MARK, takes, "nothing but the whole condition of a join")
}

/// Makes nodes of joins whose conditions are marked.
#[derive(Debug, Default)]
pub(crate) struct AsofJoins;

impl AnalyzerRule for AsofJoins {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.nodes_up_where(is_marked, rewrite).data()
    }

    fn name(&self) -> &str {
        "asof_joins"
    }
}

fn is_marked(plan: &LogicalPlan) -> bool {
    let is_mark = |filter: &Expr| matches!(filter, Expr::ScalarFunction(call) if call.func.name() == MARK);
    matches!(plan, LogicalPlan::Join(join) if join.filter.as_ref().is_some_and(is_mark))
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(join) = plan else { return Ok(Transformed::no(plan)) };
    let condition = match &join.filter {
        Some(Expr::ScalarFunction(call)) if call.func.name() == MARK => call.args[0].clone(),
        _ => return Ok(Transformed::no(LogicalPlan::Join(join))),
    };
    let (left, right) = (Arc::unwrap_or_clone(join.left), Arc::unwrap_or_clone(join.right));
    let node = AsofJoin::of(left, right, join.join_type, condition)?;
    Ok(Transformed::yes(LogicalPlan::Extension(Extension { node: Arc::new(node) })))
}

/// An `ASOF` join.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AsofJoin {
    left: LogicalPlan,
    right: LogicalPlan,
    /// Which rows of the sides are kept that have no mate.
    pub join_type: JoinType,
    /// What must be equal: over the left side, over the right.
    pub on: Vec<(Expr, Expr)>,
    /// What the last row is found by: over the left side, over the right.
    pub by: (Expr, Expr),
    /// How that of the left side compares with that of the right.
    pub op: Operator,
    /// The columns of both sides.
    pub schema: DFSchemaRef,
}

impl AsofJoin {
    fn of(left: LogicalPlan, right: LogicalPlan, join_type: JoinType, condition: Expr) -> Result<Self> {
        use JoinType::{Full, Inner, Left, LeftAnti, LeftSemi, Right};
        if !matches!(join_type, Inner | Left | Right | Full | LeftSemi | LeftAnti) {
            return plan_err!("ASOF JOIN cannot be {join_type}");
        }
        let (mut on, mut bys) = (Vec::new(), Vec::new());
        let (mut of_left, mut of_right) = (Vec::new(), Vec::new());
        for part in split_conjunction_owned(condition) {
            let shown = part.to_string();
            let compared = match &part {
                Expr::BinaryExpr(BinaryExpr { left: a, op, right: b }) => {
                    let pair = find_valid_equijoin_key_pair(a, b, left.schema(), right.schema())?;
                    pair.map(|pair| (if pair.0 == **a { Some(*op) } else { op.swap() }, pair))
                }
                _ => None,
            };
            match compared {
                Some((Some(Operator::Eq), pair)) => on.push(pair),
                Some((Some(op @ (Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)), pair)) => {
                    bys.push((pair, op));
                }
                // What is asked of one side alone is asked before the last row is looked for.
                _ if part.is_volatile() => return plan_err!("ASOF JOIN cannot join by {shown}"),
                _ if reads_only(&part, right.schema()) => of_right.push(part),
                _ if reads_only(&part, left.schema()) || part.column_refs().is_empty() => of_left.push(part),
                _ => {
                    return plan_err!(
                        "ASOF JOIN joins by equalities, one inequality and conditions on one side, not by {shown}"
                    );
                }
            }
        }
        if bys.len() != 1 {
            return plan_err!("ASOF JOIN needs one inequality, such as a.t >= b.t, and has {}", bys.len());
        }
        let ((mut by_left, mut by_right), op) = bys.swap_remove(0);
        // A row in which it is NULL meets none.
        for (by, conditions) in [(&mut by_left, of_left), (&mut by_right, of_right)] {
            if let Some(condition) = conjunction(conditions) {
                *by = when(condition, by.clone()).end()?;
            }
        }
        let by = (by_left, by_right);
        let schema = Arc::new(build_join_schema(left.schema(), right.schema(), &join_type)?);
        Ok(Self { left, right, join_type, on, by, op, schema })
    }

    /// Whether a row of the left side comes out, or not, whatever other rows there are.
    fn rows_of_left(&self) -> bool {
        matches!(self.join_type, JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti)
    }
}

impl PartialOrd for AsofJoin {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for AsofJoin {
    fn name(&self) -> &str {
        "AsofJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    /// The pairs, one side after the other.
    fn expressions(&self) -> Vec<Expr> {
        self.on.iter().chain([&self.by]).flat_map(|(left, right)| [left.clone(), right.clone()]).collect()
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let on: Vec<_> = self.on.iter().map(|(left, right)| format!("{left} = {right}")).collect();
        let (left, right) = &self.by;
        write!(f, "AsofJoin: {}, on=[{}], by={left} {} {right}", self.join_type, on.join(", "), self.op)
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let mut exprs = exprs.into_iter();
        let mut pairs: Vec<(Expr, Expr)> = std::iter::from_fn(|| Some((exprs.next()?, exprs.next()?))).collect();
        let by = pairs.pop().expect("as many expressions as there were");
        let [left, right]: [LogicalPlan; 2] = inputs.try_into().expect("two inputs, as there were");
        let schema = Arc::new(build_join_schema(left.schema(), right.schema(), &self.join_type)?);
        Ok(Self { left, right, join_type: self.join_type, on: pairs, by, op: self.op, schema })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let width = self.left.schema().fields().len();
        let (left, right): (Vec<usize>, Vec<usize>) = output_columns.iter().partition(|&&column| column < width);
        Some(vec![left, right.into_iter().map(|column| column - width).collect()])
    }
}

/// A rule of the optimizer.
type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// `rules`, and [`LeftFilters`] where filters are above nothing but joins: before all, and when filters have been moved.
pub(crate) fn with_left_filters(rules: Vec<Rule>) -> Vec<Rule> {
    let mut all: Vec<Rule> = vec![Arc::new(LeftFilters)];
    for rule in rules {
        let moves_filters = rule.name() == "push_down_filter";
        all.push(rule);
        if moves_filters {
            all.push(Arc::new(LeftFilters));
        }
    }
    all
}

/// Moves conditions on the left side of an `ASOF` join below it.
#[derive(Debug, Default)]
struct LeftFilters;

impl OptimizerRule for LeftFilters {
    fn name(&self) -> &str {
        "asof_left_filters"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = &plan else { return Ok(Transformed::no(plan)) };
        let LogicalPlan::Extension(extension) = &*filter.input else { return Ok(Transformed::no(plan)) };
        let Some(join) = extension.node.as_any().downcast_ref::<AsofJoin>().filter(|join| join.rows_of_left()) else {
            return Ok(Transformed::no(plan));
        };
        let (below, above): (Vec<Expr>, Vec<Expr>) = split_conjunction_owned(filter.predicate.clone())
            .into_iter()
            .partition(|part| !part.is_volatile() && reads_only(part, join.left.schema()));
        let Some(below) = conjunction(below) else { return Ok(Transformed::no(plan)) };
        let left = LogicalPlan::Filter(Filter::try_new(below, Arc::new(join.left.clone()))?);
        let node = Arc::new(AsofJoin { left, ..join.clone() });
        let joined = LogicalPlan::Extension(Extension { node });
        Ok(Transformed::yes(match conjunction(above) {
            Some(above) => LogicalPlan::Filter(Filter::try_new(above, Arc::new(joined))?),
            None => joined,
        }))
    }
}

/// Whether `expr` reads columns, and all of them are of `schema`.
fn reads_only(expr: &Expr, schema: &DFSchema) -> bool {
    let columns = expr.column_refs();
    !columns.is_empty() && columns.iter().all(|column| schema.has_column(column))
}
