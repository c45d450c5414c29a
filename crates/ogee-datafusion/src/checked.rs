//! Integer arithmetic that never wraps silently.
//!
//! DataFusion's `+`, `-`, `*` and unary `-` on integers wrap. An analyzer rule, after types are coerced, replaces them by functions that
//! report overflow, everywhere in the statement: in what becomes islands, in what stays DataFusion's, and before constants are
//! folded. The functions go by the operators' names, so that column names do not change.
//!
//! Not here: sums (see `checked_sum`), decimals and floats, which Arrow treats as SQL wants.

use std::sync::{Arc, LazyLock};

use datafusion::{
    arrow::{compute::kernels::numeric, datatypes::DataType},
    common::{
        DFSchema, Result, ScalarValue,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    config::ConfigOptions,
    logical_expr::{
        BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
        ScalarUDFImpl, Signature, Volatility, expr::ScalarFunction, expr_rewriter::NamePreserver, utils::merge_schema,
    },
    optimizer::AnalyzerRule,
    physical_expr_common::datum::apply,
};

/// Replaces wrapping integer arithmetic by arithmetic that reports overflow.
#[derive(Debug, Default)]
pub(crate) struct CheckedArithmetic;

impl AnalyzerRule for CheckedArithmetic {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(rewrite_plan).data()
    }

    fn name(&self) -> &str {
        "checked_arithmetic"
    }
}

fn rewrite_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        expr.transform_up(|expr| rewrite_expr(expr, &schema))
            .map(|rewritten| rewritten.update_data(|expr| name.restore(expr)))
    })
}

fn rewrite_expr(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let function = match op {
                Operator::Plus => &*ADD,
                Operator::Minus => &*SUBTRACT,
                Operator::Multiply => &*MULTIPLY,
                _ => return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
            };
            // Both sides were coerced to one type, except for dates and intervals, which wrap nowhere. Outer references have types
            // that this plan's schema does not know; their subquery is planned again with them resolved.
            let integer = matches!((left.get_type(schema), right.get_type(schema)),
                (Ok(l), Ok(r)) if l == r && l.is_integer());
            if !integer {
                return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            }
            call(function, vec![*left, *right])
        }
        Expr::Negative(inner) if matches!(&*inner, Expr::Literal(..)) => Transformed::no(Expr::Negative(inner)),
        Expr::Negative(inner) if inner.get_type(schema).is_ok_and(|t| t.is_signed_integer()) => {
            call(&NEGATE, vec![*inner])
        }
        other => Transformed::no(other),
    })
}

fn call(function: &Arc<ScalarUDF>, args: Vec<Expr>) -> Transformed<Expr> {
    Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), args)))
}

static ADD: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function("+", 2));
static SUBTRACT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function("-", 2));
static MULTIPLY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function("*", 2));
static NEGATE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function("-", 1));

fn function(operator: &'static str, args: usize) -> Arc<ScalarUDF> {
    let signature = Signature::any(args, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(CheckedFunction { operator, args, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedFunction {
    operator: &'static str,
    args: usize,
    signature: Signature,
}

impl ScalarUDFImpl for CheckedFunction {
    fn name(&self) -> &str {
        self.operator
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match args {
            [left, right] => format!("{left} {} {right}", self.operator),
            args => format!("(- {})", args[0]),
        })
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match args {
            [left, right] => format!("{} {} {}", left.schema_name(), self.operator, right.schema_name()),
            args => format!("(- {})", args[0].schema_name()),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match (self.operator, args.args.as_slice()) {
            ("+", [left, right]) => apply(left, right, numeric::add),
            ("-", [left, right]) => apply(left, right, numeric::sub),
            ("*", [left, right]) => apply(left, right, numeric::mul),
            (_, [ColumnarValue::Array(array)]) => Ok(ColumnarValue::Array(numeric::neg(array)?)),
            (_, [ColumnarValue::Scalar(scalar)]) => {
                let negated = numeric::neg(&scalar.to_array_of_size(1)?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&negated, 0)?))
            }
            _ => unreachable!("the signature fixes the number of arguments"),
        }
    }
}
