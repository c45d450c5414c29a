//! `string_agg` that asks for no order of its input: DataFusion's sorts the values of each group itself, and yet asks for rows in its order. Two of different
//! orders over one grouping are then refused, and rows are sorted for nothing where there is one.
//!
//! Not here: how the engine joins texts (`ogee-exec`, `aggregate/holistic`).

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, FieldRef},
    common::Result,
    functions_aggregate::string_agg::string_agg_udaf,
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, Signature,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
};

/// To register in a session, instead of DataFusion's.
pub(crate) fn function() -> AggregateUDF {
    AggregateUDF::new_from_impl(StringAgg(string_agg_udaf()))
}

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
