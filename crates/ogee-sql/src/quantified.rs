//! Comparisons with the elements of a list: `x = ANY(list)`, `x <> ALL(list)` and their kin, with NULL as SQL has it.
//!
//! DataFusion looks at the least and the greatest element, and takes a NULL among them for an element that does not compare. Here an element that is NULL leaves open what
//! the others do not decide; a list that is NULL has no elements, as in DuckDB. Lists that are written out become `IN (...)`, which filters of files know.
//!
//! A subquery whose one row is a list is such a list, too (`QueriesOfLists`).
//!
//! Not here: `ANY` and `ALL` of other subqueries.

use std::{cmp::Ordering, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, UInt32Array},
        compute::{
            cast,
            kernels::cmp::{eq, gt, gt_eq, lt, lt_eq, neq},
            take,
        },
        datatypes::{DataType, Field, Float32Type, Float64Type},
    },
    common::{
        DFSchema, Result, ScalarValue, internal_err, plan_err,
        tree_node::{Transformed, TransformedResult},
    },
    config::ConfigOptions,
    logical_expr::{
        ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility, binary::comparison_coercion, lit, utils::merge_schema,
    },
    optimizer::AnalyzerRule,
    sql::sqlparser::ast::{BinaryOperator, Expr as Parsed, Value},
};
use ogee_functions::{lists::element, times::intervals::interval_lengths};

use crate::{
    kept_names,
    mixed_types::common_beside,
    names::call,
    nested_order::comparator,
    trees::{Nodes, Tree},
};

/// The function that comparisons become: the operator and the quantifier as text, the value, the list.
pub(crate) const QUANTIFIED: &str = "ogee_quantified";

/// What `left op ANY(right)`, or `ALL` if `all`, is in other words; `None` for a subquery, and for operators of text.
pub(crate) fn in_other_words(left: &Parsed, op: &BinaryOperator, right: &Parsed, all: bool) -> Option<Parsed> {
    let sign = match op {
        BinaryOperator::Eq => "=",
        BinaryOperator::NotEq => "<>",
        BinaryOperator::Lt => "<",
        BinaryOperator::LtEq => "<=",
        BinaryOperator::Gt => ">",
        BinaryOperator::GtEq => ">=",
        _ => return None,
    };
    match right {
        Parsed::Subquery(_) => None,
        Parsed::Nested(inner) => in_other_words(left, op, inner, all),
        Parsed::Array(list) if !list.elem.is_empty() && matches!((sign, all), ("=", false) | ("<>", true)) => {
            Some(Parsed::InList { expr: Box::new(left.clone()), list: list.elem.clone(), negated: all })
        }
        right => {
            let quantifier = if all { "ALL" } else { "ANY" };
            let how = Parsed::value(Value::SingleQuotedString(format!("{sign} {quantifier}")));
            Some(call(QUANTIFIED, vec![how, left.clone(), right.clone()]))
        }
    }
}

/// The function to register in a session.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Quantified { signature: Signature::user_defined(Volatility::Immutable) })
}

/// Takes the list of a subquery for a list: `x = ANY((SELECT l ..))`.
#[derive(Debug, Default)]
pub(crate) struct QueriesOfLists;

impl AnalyzerRule for QueriesOfLists {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let compares = |node: &LogicalPlan| kept_names::has_any(node, |expr| matches!(expr, Expr::SetComparison(_)));
        plan.nodes_up_where(compares, |plan| {
            let schema = merge_schema(&plan.inputs());
            plan.with_expressions(|expr| expr.up(|expr| Ok(of_list(expr, &schema))))
        })
        .data()
    }

    fn name(&self) -> &str {
        "queries_of_lists"
    }
}

fn of_list(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::SetComparison(comparison) = &expr else { return Transformed::no(expr) };
    let [column] = comparison.subquery.subquery.schema().fields().as_ref() else { return Transformed::no(expr) };
    let is_value = comparison.expr.get_type(schema).is_ok_and(|data_type| !data_type.is_nested());
    if !is_value || !matches!(column.data_type(), DataType::List(_) | DataType::LargeList(_)) {
        return Transformed::no(expr);
    }
    let how = lit(format!("{} {}", comparison.op, comparison.quantifier));
    let list = Expr::ScalarSubquery(comparison.subquery.clone());
    Transformed::yes(function().call(vec![how, (*comparison.expr).clone(), list]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Quantified {
    signature: Signature,
}

impl ScalarUDFImpl for Quantified {
    fn name(&self) -> &str {
        QUANTIFIED
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let [how, value, list] = arg_types else { return plan_err!("ANY and ALL take a value and a list") };
        let element = match (element(list), list) {
            (Some(of), _) => of.data_type(),
            (None, DataType::Null) => &DataType::Null,
            (None, other) => return plan_err!("ANY and ALL take a list or a subquery, not a value of type {other}"),
        };
        let floats = |of: &DataType, beside: &DataType| common_beside(of, &[beside]).unwrap_or_else(|| of.clone());
        let Some(both) = comparison_coercion(&floats(value, element), &floats(element, value)) else {
            return plan_err!("values of type {value} and elements of type {element} cannot be compared");
        };
        let list = DataType::List(Arc::new(Field::new_list_field(both.clone(), true)));
        Ok(vec![how.clone(), both, list])
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("{} {}({})", args[1], how(&args[0]), args[2]))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("{} {}({})", args[1].schema_name(), how(&args[0]), args[2].schema_name()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let all_scalars = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let ColumnarValue::Scalar(how) = &args.args[0] else { return internal_err!("an operator for each row") };
        let Some((sign, quantifier)) = how.try_as_str().flatten().and_then(|how| how.split_once(' ')) else {
            return internal_err!("{how} is no operator");
        };
        let arrays = ColumnarValue::values_to_arrays(&args.args[1..])?;
        let found: ArrayRef = Arc::new(quantified(sign, quantifier == "ALL", &arrays[0], arrays[1].as_list::<i32>())?);
        Ok(match all_scalars {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?),
            false => ColumnarValue::Array(found),
        })
    }
}

fn how(expr: &Expr) -> &str {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten().unwrap_or_default(),
        _ => "",
    }
}

fn quantified(sign: &str, all: bool, values: &ArrayRef, lists: &ListArray) -> Result<BooleanArray> {
    let offsets = lists.value_offsets();
    let (first, last) = (offsets[0] as usize, offsets[lists.len()] as usize);
    let elements = lists.values().slice(first, last - first);
    // The row of each element.
    let mut rows = Vec::with_capacity(elements.len());
    for (row, ends) in offsets.windows(2).enumerate() {
        rows.resize(rows.len() + (ends[1] - ends[0]) as usize, row as u32);
    }
    let values = take(values, &UInt32Array::from(rows), None)?;
    let compared = compare(sign, &positive_zeros(values), &positive_zeros(elements))?;
    // What decides: one that is true of any, one that is false of all.
    let results = offsets.windows(2).enumerate().map(|(row, ends)| {
        if lists.is_null(row) {
            return Some(all);
        }
        let mut open = false;
        for element in ends[0] as usize - first..ends[1] as usize - first {
            if compared.is_null(element) {
                open = true;
            } else if compared.value(element) != all {
                return Some(!all);
            }
        }
        (!open).then_some(all)
    });
    Ok(results.collect())
}

/// Floats with one zero: Arrow orders the negative one before the other.
fn positive_zeros(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float64 => Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(|v| v + 0.0)) as _,
        DataType::Float32 => Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(|v| v + 0.0)) as _,
        _ => array,
    }
}

fn compare(sign: &str, left: &ArrayRef, right: &ArrayRef) -> Result<BooleanArray> {
    if left.data_type().is_null() || right.data_type().is_null() {
        return Ok(BooleanArray::new_null(left.len()));
    }
    let right = if left.data_type() == right.data_type() { Arc::clone(right) } else { cast(right, left.data_type())? };
    if matches!(left.data_type(), DataType::Interval(_)) {
        return compare(sign, &interval_lengths(left)?, &interval_lengths(&right)?);
    }
    if left.data_type().is_nested() {
        let order = comparator(left, &right)?;
        let rows = (0..left.len()).map(|row| {
            let order = (left.is_valid(row) && right.is_valid(row)).then(|| order(row, row))?;
            Some(match sign {
                "=" => order == Ordering::Equal,
                "<>" => order != Ordering::Equal,
                "<" => order == Ordering::Less,
                "<=" => order != Ordering::Greater,
                ">" => order == Ordering::Greater,
                _ => order != Ordering::Less,
            })
        });
        return Ok(rows.collect());
    }
    Ok(match sign {
        "=" => eq(left, &right)?,
        "<>" => neq(left, &right)?,
        "<" => lt(left, &right)?,
        "<=" => lt_eq(left, &right)?,
        ">" => gt(left, &right)?,
        _ => gt_eq(left, &right)?,
    })
}
