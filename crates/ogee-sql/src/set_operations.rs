//! `INTERSECT` and `EXCEPT`: with `ALL`, rows as often as they are there.
//!
//! DataFusion plans them as the semi and anti join of their distinct forms without the duplicates sorted out, so that one row on the right keeps, or
//! takes away, all of its copies on the left. An analyzer rule numbers the copies of each row on both sides and makes the number one more
//! key: the n-th copy on the left then meets the n-th on the right, if there is one.
//!
//! Their rows, with `ALL` and without, are of the common type of both sides ([`in_common_types`]): DataFusion gives them the types of the left one.
//!
//! Not here: unions, whose types DataFusion finds.

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::DataType,
    common::{
        Column, NullEquality, Result,
        tree_node::{Transformed, TransformedResult},
    },
    config::ConfigOptions,
    functions::core::expr_fn::r#struct,
    logical_expr::{
        Distinct, Expr, ExprFunctionExt, ExprSchemable, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Projection,
        cast, type_coercion::binary::type_union_coercion,
    },
    optimizer::AnalyzerRule,
};
use ogee_functions::{common::Beside, ranks::row_number};

use crate::{
    mixed_types::{common_beside, types_below},
    trees::Nodes,
};

/// Columns of a row by which its copies are numbered one by one. Those of wider rows are fields of one key: DataFusion looks at all orders of the keys of a window
/// (`window_equivalence_properties`), which takes seconds from some hundred on.
const KEYS_MAX: usize = 32;

/// Makes set operations with `ALL` count.
#[derive(Debug, Default)]
pub(crate) struct CountCopies;

impl AnalyzerRule for CountCopies {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.nodes_up_where(|node| matches!(node, LogicalPlan::Join(join) if is_set_operation(join)), rewrite).data()
    }

    fn name(&self) -> &str {
        "count_copies"
    }
}

/// Before any optimization only set operations make joins of this kind.
pub(crate) fn is_set_operation(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && join.on.len() == join.left.schema().fields().len()
}

/// `join`, a set operation, with rows of the types that a union of its sides would have.
pub(crate) fn in_common_types(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    // Unions on a side have the types of their first inputs as yet.
    let of_column = |plan: &LogicalPlan, column: usize| {
        let first = plan.schema().field(column).data_type().clone();
        let types = types_below(plan, column).into_iter();
        types.reduce(|common, of| common_type(&common, &of).unwrap_or(common)).unwrap_or(first)
    };
    let types = |plan: &LogicalPlan| {
        let columns = 0..plan.schema().fields().len();
        columns.map(|column| of_column(plan, column)).collect()
    };
    let (left, right): (Vec<DataType>, Vec<DataType>) = (types(&join.left), types(&join.right));
    // Keys of the left side are texts already where those of the right become such, and would be compared as numbers.
    let casts = |common: &DataType, left: &DataType, right: &DataType| {
        common != left || common.is_string() && !right.is_string() && !right.is_null()
    };
    let common =
        |(left, right): (&DataType, &DataType)| common_type(left, right).filter(|common| casts(common, left, right));
    let common: Vec<Option<DataType>> = left.iter().zip(&right).map(common).collect();
    if common.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let cast_columns = |plan: &Arc<LogicalPlan>| -> Result<LogicalPlan> {
        let columns = plan.schema().iter().zip(&common).map(|((relation, field), common)| {
            let column = Expr::Column((relation, field).into());
            match common {
                Some(common) => cast(column, common.clone()).alias_qualified(relation.cloned(), field.name()),
                None => column,
            }
        });
        Ok(LogicalPlan::Projection(Projection::try_new(columns.collect(), Arc::clone(plan))?))
    };
    let left = match &*join.left {
        LogicalPlan::Distinct(Distinct::All(input)) => {
            LogicalPlan::Distinct(Distinct::All(Arc::new(cast_columns(input)?)))
        }
        _ => cast_columns(&join.left)?,
    };
    for ((_, key), common) in join.on.iter_mut().zip(&common) {
        if let Some(common) = common {
            *key = cast(std::mem::take(key), common.clone());
        }
    }
    let joined = Join::try_new(
        Arc::new(left),
        join.right,
        join.on,
        None,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    Ok(Transformed::yes(LogicalPlan::Join(joined)))
}

/// The type of rows of a column of both types.
fn common_type(left: &DataType, right: &DataType) -> Option<DataType> {
    if left.is_string() && right.is_string() {
        return None;
    }
    if Beside::Rows.is_known_here([left, right]) {
        return Beside::Rows.common_type([left, right]);
    }
    let floats = |of: &DataType, beside: &DataType| common_beside(of, &[beside]).unwrap_or_else(|| of.clone());
    type_union_coercion(&floats(left, right), &floats(right, left))
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
    if !is_set_operation(&join) || matches!(*join.left, LogicalPlan::Distinct(_)) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let schema = Arc::clone(join.left.schema());
    let (left, right) = (join.on.iter().map(|(left, _)| left.clone()), join.on.iter().map(|(_, right)| right.clone()));
    let (left, copy_left) = numbered(&join.left, left.collect(), "ogee_copy_left")?;
    let (right, copy_right) = numbered(&join.right, right.collect(), "ogee_copy_right")?;
    join.on.push((copy_left, copy_right));
    let joined = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        join.on,
        None,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let kept = Projection::new_from_schema(Arc::new(LogicalPlan::Join(joined)), schema);
    Ok(Transformed::yes(LogicalPlan::Projection(kept)))
}

/// What the copies of `row`, of `plan`, are numbered by.
fn keys(plan: &LogicalPlan, row: Vec<Expr>) -> Result<Vec<Expr>> {
    if row.len() <= KEYS_MAX {
        return Ok(row);
    }
    let (mut keys, mut fields) = (Vec::new(), Vec::new());
    for column in row {
        // Those within a struct do not compare.
        match column.get_type(plan.schema())? {
            DataType::Interval(_) => keys.push(column),
            _ => fields.push(column),
        }
    }
    if !fields.is_empty() {
        keys.push(r#struct(fields));
    }
    Ok(keys)
}

/// `plan` with one more column `name`: which copy of its row a row is.
fn numbered(plan: &LogicalPlan, row: Vec<Expr>, name: &str) -> Result<(LogicalPlan, Expr)> {
    let number = row_number().partition_by(keys(plan, row)?).build()?;
    let column = Expr::Column(Column::from_name(number.schema_name().to_string()));
    let columns = plan.schema().columns().into_iter().map(Expr::Column);
    let numbered = LogicalPlanBuilder::from(plan.clone()).window([number])?;
    let plan = numbered.project(columns.chain([column.alias(name)]))?.build()?;
    Ok((plan, Expr::Column(Column::from_name(name))))
}
