//! `DISTINCT` in aggregates that do not look at it: `corr(DISTINCT x, y)`, `quantile_disc(DISTINCT x, 0.5)`, `bit_xor(DISTINCT x) OVER (..)` and their kin.
//!
//! DataFusion's aggregates, and those of `functions`, take all rows where they know nothing of `DISTINCT`. An analyzer rule has them see each row of arguments once ([`Once`]).
//! A float is the same as in a group: NaN equals NaN, and `-0.0` equals `0.0`.
//!
//! Aggregates of one argument keep their name and the word, by which the engine has its own for them. The others are the engine's under their own name only with all rows,
//! so they get another.
//!
//! Not here: aggregates that honour `DISTINCT` (`count`, `sum`, `median`, `array_agg`, ..) and those that repeated values change nothing for (`min`, `arg_max`, `bool_or`, ..).

use std::{collections::HashSet, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BinaryArray, UInt32Array},
        compute::take,
        datatypes::{DataType, Field, FieldRef},
        row::{RowConverter, SortField},
    },
    common::{
        Result, ScalarValue,
        tree_node::{Transformed, TransformedResult},
        utils::SingleRowListArrayBuilder,
    },
    config::ConfigOptions,
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Expr, GroupsAccumulator, LogicalPlan, ReversedUDAF, Signature,
        WindowFunctionDefinition,
        expr::{AggregateFunctionParams, WindowFunctionParams},
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
    optimizer::AnalyzerRule,
};
use ogee_functions::ordered_mode::ORDERED_MODE;
use ogee_vector::canonical_floats;

use crate::{
    kept_names,
    trees::{Nodes, Tree},
};

/// What the names of aggregates begin with that got another.
pub(crate) const PREFIX: &str = "distinct_";

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct DistinctArguments;

impl AnalyzerRule for DistinctArguments {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.nodes_up_where(
            |node| matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)),
            |node| kept_names::map_expressions(node, |expr| expr.up(|part| Ok(in_call(part)))),
        )
        .data()
    }

    fn name(&self) -> &str {
        "distinct_arguments"
    }
}

/// `expr`, if it is a call with `DISTINCT`, of an aggregate that sees each row of arguments once.
fn in_call(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::AggregateFunction(mut call) if call.params.distinct => {
            let Some(function) = once(&call.func) else { return Transformed::no(Expr::AggregateFunction(call)) };
            call.params.distinct = function.keeps_word;
            call.func = Arc::new(AggregateUDF::new_from_impl(function));
            Transformed::yes(Expr::AggregateFunction(call))
        }
        Expr::WindowFunction(mut call) if call.params.distinct => {
            let WindowFunctionDefinition::AggregateUDF(function) = &call.fun else {
                return Transformed::no(Expr::WindowFunction(call));
            };
            let Some(function) = once(function) else { return Transformed::no(Expr::WindowFunction(call)) };
            call.params.distinct = function.keeps_word;
            call.fun = WindowFunctionDefinition::AggregateUDF(Arc::new(AggregateUDF::new_from_impl(function)));
            Transformed::yes(Expr::WindowFunction(call))
        }
        other => Transformed::no(other),
    }
}

/// The same as `inner` of rows that differ; `None` where it is right as it is.
fn once(inner: &Arc<AggregateUDF>) -> Option<Once> {
    if inner.inner().is::<Once>() {
        return None;
    }
    let name = inner.name();
    let keeps_word = match name {
        "bit_xor" | "histogram" | "mode" | "var" | "var_samp" | "var_pop" | "stddev" | "stddev_samp" | "stddev_pop" => {
            true
        }
        "corr"
        | "covar_samp"
        | "covar_pop"
        | "quantile_disc"
        | "percentile_cont"
        | "ogee_max_n"
        | "ogee_min_n"
        | "ogee_arg_max_n"
        | "ogee_arg_min_n"
        | "ogee_arg_max_nulls_last_n"
        | "ogee_arg_min_nulls_last_n"
        | "ogee_histogram"
        | "histogram_exact"
        | "lttb"
        | "decimal_average"
        | "nth_value"
        | "approx_percentile_cont"
        | "approx_percentile_cont_with_weight"
        | "approx_median"
        | ORDERED_MODE => false,
        name if name.starts_with("regr_") => false,
        _ => return None,
    };
    let name = if keeps_word { name.to_owned() } else { format!("{PREFIX}{name}") };
    Some(Once { inner: Arc::clone(inner), name, keeps_word })
}

/// An aggregate of rows of arguments that differ.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Once {
    inner: Arc<AggregateUDF>,
    name: String,
    /// Calls say `DISTINCT` still. One that does not, any more, has been given rows that differ.
    keeps_word: bool,
}

impl Once {
    fn is_plain(&self, is_distinct: bool) -> bool {
        self.keeps_word && !is_distinct
    }

    /// `params`, as they were written.
    fn written(&self, params: &AggregateFunctionParams) -> AggregateFunctionParams {
        AggregateFunctionParams { distinct: params.distinct || !self.keeps_word, ..params.clone() }
    }

    fn written_in_window(&self, params: &WindowFunctionParams) -> WindowFunctionParams {
        WindowFunctionParams { distinct: params.distinct || !self.keeps_word, ..params.clone() }
    }
}

impl AggregateUDFImpl for Once {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.schema_name(&self.written(params))
    }

    fn human_display(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.human_display(&self.written(params))
    }

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.inner.window_function_schema_name(&self.written_in_window(params))
    }

    fn display_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.display_name(&self.written(params))
    }

    fn window_function_display_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.inner.window_function_display_name(&self.written_in_window(params))
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(arg_fields)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    /// The rows, as bytes.
    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if self.is_plain(args.is_distinct) {
            return self.inner.state_fields(args);
        }
        let item = Arc::new(Field::new_list_field(DataType::Binary, true));
        Ok(vec![Arc::new(Field::new("rows", DataType::List(item), true))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if self.is_plain(args.is_distinct) {
            return self.inner.accumulator(args);
        }
        let mut types: Vec<_> = args.expr_fields.iter().map(|field| field.data_type().clone()).collect();
        // What values are ordered by is handed over only to a function that it matters to. It is made of the arguments, so rows are the same with it.
        if !self.inner.order_sensitivity().is_insensitive() {
            for by in args.order_bys {
                types.push(by.expr.data_type(args.schema)?);
            }
        }
        let inner = self.inner.accumulator(AccumulatorArgs { is_distinct: false, ..args })?;
        Ok(Box::new(NewRows { inner, types, converter: None, seen: HashSet::new(), bytes: 0 }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.is_plain(args.is_distinct) && self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn with_beneficial_ordering(self: Arc<Self>, beneficial: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let Some(inner) = self.inner.as_ref().clone().with_beneficial_ordering(beneficial)? else { return Ok(None) };
        let (name, keeps_word) = (self.name.clone(), self.keeps_word);
        Ok(Some(Arc::new(Self { inner: Arc::new(inner), name, keeps_word })))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.inner.reverse_udf() {
            ReversedUDAF::Identical => ReversedUDAF::Identical,
            _ => ReversedUDAF::NotSupported,
        }
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(data_type)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.inner.supports_within_group_clause()
    }
}

/// Hands rows over that were not there before.
#[derive(Debug)]
struct NewRows {
    inner: Box<dyn Accumulator>,
    types: Vec<DataType>,
    /// Made of the first rows: a key that values are ordered by twice is handed over once.
    converter: Option<RowConverter>,
    seen: HashSet<Box<[u8]>>,
    /// Of the rows, beyond the table itself.
    bytes: usize,
}

impl NewRows {
    /// What makes bytes of rows of these types.
    fn converter(&mut self, types: Vec<DataType>) -> Result<&mut RowConverter> {
        let converter = match self.converter.take() {
            Some(converter) => converter,
            None => RowConverter::new(types.into_iter().map(SortField::new).collect())?,
        };
        Ok(self.converter.insert(converter))
    }

    /// Whether the row was not there before.
    fn add(&mut self, row: &[u8]) -> bool {
        let is_new = !self.seen.contains(row);
        if is_new {
            self.seen.insert(row.into());
            self.bytes += row.len();
        }
        is_new
    }
}

impl Accumulator for NewRows {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let canonical: Vec<ArrayRef> = values.iter().map(canonical_floats).collect();
        let types = canonical.iter().map(|array| array.data_type().clone()).collect();
        let rows = self.converter(types)?.convert_columns(&canonical)?;
        let new = rows.iter().enumerate().filter(|(_, row)| self.add(row.as_ref()));
        let new: Vec<u32> = new.map(|(at, _)| at as u32).collect();
        match new.len() {
            0 => Ok(()),
            len if len == rows.num_rows() => self.inner.update_batch(values),
            _ => {
                let new = UInt32Array::from(new);
                let values = values.iter().map(|array| Ok(take(array, &new, None)?)).collect::<Result<Vec<_>>>()?;
                self.inner.update_batch(&values)
            }
        }
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        let converter = self.converter.as_ref().map_or(0, RowConverter::size);
        let table = self.seen.capacity() * (size_of::<Box<[u8]>>() + 1);
        size_of_val(self) + self.inner.size() + converter + table + self.bytes
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let rows = BinaryArray::from_iter_values(self.seen.iter());
        Ok(vec![SingleRowListArrayBuilder::new(Arc::new(rows)).build_list_scalar()])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for rows in states[0].as_list::<i32>().iter().flatten() {
            let rows = rows.as_binary::<i32>();
            let new: Vec<&[u8]> = rows.iter().flatten().filter(|row| self.add(row)).collect();
            if new.is_empty() {
                continue;
            }
            let types = self.types.clone();
            let converter = self.converter(types)?;
            let parser = converter.parser();
            let values = converter.convert_rows(new.into_iter().map(|row| parser.parse(row)))?;
            self.inner.update_batch(&values)?;
        }
        Ok(())
    }
}
