//! Casts that count in names; parentheses and queries, too.
//!
//! DataFusion names an expression without its casts, so that `sum(i)` and `sum(CAST(i AS DOUBLE))` are two columns of one name, and it refuses the plan.
//! Where a statement was refused for that (see `names`), each cast in its text stands in a function that does nothing but name the type. An analyzer rule
//! takes the functions out of the plan again; the names stay, as aliases. The same function stands around what has parentheses and around queries, which names leave out as well.
//!
//! Not here: the text of statements.

use std::sync::{Arc, LazyLock};

use datafusion::{
    arrow::datatypes::{DataType, FieldRef},
    common::{
        Result,
        tree_node::{Transformed, TransformedResult},
    },
    config::ConfigOptions,
    logical_expr::{
        ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility,
    },
    optimizer::AnalyzerRule,
};

use crate::{
    kept_names,
    trees::{Nodes, Tree},
};

/// The function around a cast, `ogee_cast('type', CAST(x AS type))`, and around what else is to count in names.
pub(crate) const NAMED_CAST: &str = "ogee_cast";

/// The function [`NAMED_CAST`].
pub(crate) fn named_cast() -> ScalarUDF {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::new_from_impl(NamedCast { signature: Signature::any(2, Volatility::Immutable) }))
    });
    FUNCTION.as_ref().clone()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NamedCast {
    signature: Signature,
}

impl ScalarUDFImpl for NamedCast {
    fn name(&self) -> &str {
        NAMED_CAST
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[1].clone())
    }

    /// With what it says of values beyond their type.
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::clone(&args.arg_fields[1]))
    }

    /// Constants are evaluated while a statement is planned.
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args[1].clone())
    }
}

/// Takes the functions around casts away.
#[derive(Debug, Default)]
pub(crate) struct NamedCasts;

impl AnalyzerRule for NamedCasts {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.nodes_up_where(|node| kept_names::has_any(node, is_named_cast), rewrite_plan).data()
    }

    fn name(&self) -> &str {
        "named_casts"
    }
}

fn rewrite_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    kept_names::map_expressions_where(plan, is_named_cast, |expr| expr.up(unwrapped))
}

fn is_named_cast(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == NAMED_CAST)
}

fn unwrapped(expr: Expr) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::ScalarFunction(mut call) if call.func.name() == NAMED_CAST => Transformed::yes(call.args.swap_remove(1)),
        other => Transformed::no(other),
    })
}
