//! The plans of samples: a part of the rows, or a number of them.
//!
//! ```text
//! 10%                       filter: place < 0.1
//! 10% (reservoir)           filter: which row by place <= rows * 0.1, rounded
//! 5 ROWS                    limit: the first 5 by place
//! ```
//!
//! The place of a row is a random number. With a seed it is told by that and by the number of the row in its table, so that the sample is the same each time, for all numbers of
//! threads and memory limits.
//!
//! Not here: the text (`syntax::samples`).

use datafusion::{
    arrow::datatypes::DataType,
    common::{
        Column, Result, plan_err,
        tree_node::{Transformed, TransformedResult},
    },
    config::ConfigOptions,
    functions::math::random,
    functions_aggregate::count::count_udaf,
    logical_expr::{
        Expr, ExprFunctionExt, Filter, LogicalPlan, LogicalPlanBuilder, ScalarUDF, TypeSignature,
        WindowFunctionDefinition, cast,
        expr::{ScalarFunction, WindowFunction},
        lit,
        utils::{conjunction, split_conjunction_owned},
    },
    optimizer::AnalyzerRule,
};
use ogee_functions::{randoms, ranks::row_number};

use crate::{markers, trees::Nodes};

/// Stands among the conditions of a query for a sample of all its tables, before the others are looked at.
pub(crate) const MARK: &str = "ogee_sample";

/// The place of a row while it is looked at.
const PLACE: &str = "ogee_place";

/// How much of the rows is wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Amount {
    /// Each row with this chance, in percent.
    Chance(f64),
    /// This share of the rows, in percent.
    Share(f64),
    Rows(u64),
}

/// A sample, the same each time if it has a seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) amount: Amount,
    pub(crate) seed: Option<u64>,
}

impl Sample {
    /// What [`MARK`] says of it.
    pub(crate) fn words(self) -> [String; 3] {
        let (kind, amount) = match self.amount {
            Amount::Chance(percent) => ("chance", percent.to_string()),
            Amount::Share(percent) => ("share", percent.to_string()),
            Amount::Rows(rows) => ("rows", rows.to_string()),
        };
        [kind.to_owned(), amount, self.seed.map(|seed| seed.to_string()).unwrap_or_default()]
    }

    /// The sample of these words.
    pub(crate) fn of_words([kind, amount, seed]: [&str; 3]) -> Option<Self> {
        let amount = match kind {
            "chance" => Amount::Chance(amount.parse().ok()?),
            "share" => Amount::Share(amount.parse().ok()?),
            "rows" => Amount::Rows(amount.parse().ok()?),
            _ => return None,
        };
        let seed = if seed.is_empty() { None } else { Some(seed.parse().ok()?) };
        Some(Self { amount, seed })
    }

    /// Those of the rows of `plan` that are in the sample.
    pub(crate) fn of(self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
        let rows = LogicalPlanBuilder::from(plan);
        let (rows, place) = match self.seed {
            None => (rows, random().call(Vec::new())),
            Some(seed) => {
                let number = row_number();
                let column = column(&number);
                (rows.window([number])?, randoms::place().call(vec![cast(column, DataType::UInt64), lit(seed)]))
            }
        };
        match self.amount {
            Amount::Chance(percent) => rows.filter(place.lt(lit(percent / 100.0)))?,
            Amount::Rows(count) => {
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                rows.sort([place.sort(true, true)])?.limit(0, Some(count))?
            }
            Amount::Share(percent) => {
                let rows = rows.project(columns.iter().cloned().chain([place.alias(PLACE)]))?;
                let by_place = Expr::Column(Column::from_name(PLACE)).sort(true, true);
                let nth = row_number().order_by(vec![by_place]).build()?;
                let count = WindowFunctionDefinition::AggregateUDF(count_udaf());
                let count = Expr::from(WindowFunction::new(count, vec![lit(1_i64)]));
                let [at, all] = [&nth, &count].map(|call| cast(column(call), DataType::Float64));
                rows.window([nth])?.window([count])?.filter(at.lt_eq(all * lit(percent / 100.0) + lit(0.5)))?
            }
        }
        .project(columns)?
        .build()
    }
}

fn column(call: &Expr) -> Expr {
    Expr::Column(Column::from_name(call.schema_name().to_string()))
}

/// [`MARK`] as a function.
pub(crate) fn marker() -> ScalarUDF {
    markers::condition(MARK, TypeSignature::Any(3), "a sample of a query's tables")
}

/// Has rows sampled where a condition says so. See the module.
#[derive(Debug, Default)]
pub(crate) struct Samples;

impl AnalyzerRule for Samples {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let with_samples = |plan| match plan {
            LogicalPlan::Filter(Filter { predicate, input, .. }) if is_marked(&predicate) => {
                let mut conditions = split_conjunction_owned(predicate);
                let Some(sample) = sample(&conditions.remove(0)) else {
                    return plan_err!("a sample is not understood");
                };
                let rows = LogicalPlanBuilder::from(sample.of(input.as_ref().clone())?);
                let rows = match conjunction(conditions) {
                    Some(rest) => rows.filter(rest)?,
                    None => rows,
                };
                Ok(Transformed::yes(rows.build()?))
            }
            plan => Ok(Transformed::no(plan)),
        };
        plan.nodes_up_where(
            |node| matches!(node, LogicalPlan::Filter(filter) if is_marked(&filter.predicate)),
            with_samples,
        )
        .data()
    }

    fn name(&self) -> &str {
        "samples"
    }
}

/// Whether the first of the conditions is a sample.
fn is_marked(predicate: &Expr) -> bool {
    match predicate {
        Expr::BinaryExpr(binary) => is_marked(&binary.left),
        Expr::ScalarFunction(call) => call.name() == MARK,
        _ => false,
    }
}

fn sample(condition: &Expr) -> Option<Sample> {
    let Expr::ScalarFunction(ScalarFunction { args, .. }) = condition else { return None };
    let word = |at: usize| match args.get(at)? {
        Expr::Literal(text, _) => text.try_as_str().flatten(),
        _ => None,
    };
    Sample::of_words([word(0)?, word(1)?, word(2)?])
}
