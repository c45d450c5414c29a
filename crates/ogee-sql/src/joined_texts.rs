//! `string_agg`s of different orders beside one another.
//!
//! DataFusion asks for rows in the order of a `string_agg`, which spares its sorting them, and refuses two orders at once. Those of other orders than the first ask for none: what puts
//! the texts of a group together sorts them where they come in another order.
//!
//! Not here: how the engine joins texts (`ogee-exec`, `aggregate/holistic`).

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, FieldRef},
    common::{
        Result,
        tree_node::{Transformed, TransformedResult},
    },
    config::ConfigOptions,
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Expr, GroupsAccumulator, LogicalPlan, Signature,
        SortExpr,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
    optimizer::AnalyzerRule,
};

use crate::{
    kept_names,
    trees::{Nodes, Tree},
};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct TextOrders;

impl AnalyzerRule for TextOrders {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.nodes_up_where(
            |node| matches!(node, LogicalPlan::Aggregate(_)),
            |node| {
                let mut first = None;
                kept_names::map_expressions(node, |expr| expr.up(|part| Ok(in_call(part, &mut first))))
            },
        )
        .data()
    }

    fn name(&self) -> &str {
        "text_orders"
    }
}

/// `expr`, if it is a call of `string_agg` in another order than the `first` one of its grouping, as one that asks for no order.
fn in_call(expr: Expr, first: &mut Option<Vec<SortExpr>>) -> Transformed<Expr> {
    match expr {
        Expr::AggregateFunction(mut call)
            if call.func.name() == "string_agg"
                && !call.params.order_by.is_empty()
                && !call.func.inner().is::<StringAgg>() =>
        {
            let order = &call.params.order_by;
            if first.get_or_insert_with(|| order.clone()) == order {
                return Transformed::no(Expr::AggregateFunction(call));
            }
            call.func = Arc::new(AggregateUDF::new_from_impl(StringAgg(call.func)));
            Transformed::yes(Expr::AggregateFunction(call))
        }
        other => Transformed::no(other),
    }
}

/// The same without a wish for an order.
#[derive(Debug, PartialEq, Eq, Hash)]
struct StringAgg(Arc<AggregateUDF>);

impl AggregateUDFImpl for StringAgg {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.0.return_type(arg_types)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.0.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.0.accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.0.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.0.create_groups_accumulator(args)
    }

    /// An order is of use to it, and not needed.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Beneficial
    }

    fn with_beneficial_ordering(self: Arc<Self>, _beneficial: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }
}
