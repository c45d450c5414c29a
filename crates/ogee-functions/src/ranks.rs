//! `row_number`, `rank`, `dense_rank` and `ntile` as BIGINT.
//!
//! DataFusion's have no sign: `-rank()` is refused, and what a rank is compared or united with becomes a decimal of 20 digits.
//!
//! Not here: how they are computed, which is the engine's (`ogee_exec::window`).

use std::{ops::Range, sync::Arc};

use datafusion::{
    arrow::{
        array::ArrayRef,
        compute::{SortOptions, cast},
        datatypes::{DataType, FieldRef},
    },
    common::{Result, ScalarValue},
    functions_window::{ntile::ntile_udwf, rank, row_number::row_number_udwf},
    logical_expr::{
        Documentation, Expr, LimitEffect, PartitionEvaluator, Signature, WindowFunctionDefinition, WindowUDF,
        WindowUDFImpl,
        expr::WindowFunction,
        function::{ExpressionArgs, PartitionEvaluatorArgs, WindowFunctionSimplification, WindowUDFFieldArgs},
    },
    physical_expr::PhysicalExpr,
};

/// The functions to register in a session, instead of those of the same names.
pub fn functions() -> impl Iterator<Item = WindowUDF> {
    [row_number_udwf(), rank::rank_udwf(), rank::dense_rank_udwf(), ntile_udwf()]
        .into_iter()
        .map(|function| WindowUDF::from(Signed { function }))
}

/// `row_number()` as statements have it, for what the planner numbers.
pub fn row_number() -> Expr {
    let function = Arc::new(WindowUDF::from(Signed { function: row_number_udwf() }));
    Expr::from(WindowFunction::new(WindowFunctionDefinition::WindowUDF(function), Vec::new()))
}

/// A window function of DataFusion that counts, with a sign.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Signed {
    function: Arc<WindowUDF>,
}

impl WindowUDFImpl for Signed {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.function.coerce_types(arg_types)
    }

    fn expressions(&self, args: ExpressionArgs) -> Vec<Arc<dyn PhysicalExpr>> {
        self.function.inner().expressions(args)
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(SignedEvaluator(self.function.inner().partition_evaluator(args)?)))
    }

    fn simplify(&self) -> Option<WindowFunctionSimplification> {
        self.function.inner().simplify()
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let field = self.function.field(args)?;
        Ok(Arc::new(field.as_ref().clone().with_data_type(DataType::Int64)))
    }

    fn sort_options(&self) -> Option<SortOptions> {
        self.function.sort_options()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.function.inner().limit_effect(args)
    }
}

#[derive(Debug)]
struct SignedEvaluator(Box<dyn PartitionEvaluator>);

impl PartitionEvaluator for SignedEvaluator {
    fn get_range(&self, idx: usize, n_rows: usize) -> Result<Range<usize>> {
        self.0.get_range(idx, n_rows)
    }

    fn is_causal(&self) -> bool {
        self.0.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], num_rows: usize) -> Result<ArrayRef> {
        Ok(cast(&self.0.evaluate_all(values, num_rows)?, &DataType::Int64)?)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        self.0.evaluate(values, range)?.cast_to(&DataType::Int64)
    }

    fn evaluate_all_with_rank(&self, num_rows: usize, ranks: &[Range<usize>]) -> Result<ArrayRef> {
        Ok(cast(&self.0.evaluate_all_with_rank(num_rows, ranks)?, &DataType::Int64)?)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.0.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.0.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.0.include_rank()
    }
}
