//! `EXPLAIN` of statements whose common table expressions are computed once: these are shown before the query that reads their rows.
//!
//! Not here: how a plan is shown (DataFusion), which are computed (`ogee_sql::ctes`, `ctes`).

use std::{fmt::Write, sync::Arc};

use datafusion::{
    arrow::array::{RecordBatch, StringArray},
    common::format::ExplainFormat,
    config::ConfigOptions,
    execution::SendableRecordBatchStream,
    physical_plan::{ExecutionPlan, display::DisplayableExecutionPlan, stream::RecordBatchStreamAdapter},
    sql::parser::Statement,
};
use futures::{StreamExt, stream};

/// What is shown of common table expressions.
pub(crate) struct Explanation {
    analyzes: bool,
    verbose: bool,
    is_tree: bool,
    shows_statistics: bool,
    /// What it is of, and the plan.
    plans: Vec<[String; 2]>,
}

impl Explanation {
    /// What `statement` asks for, if it is an `EXPLAIN` for people to read.
    pub(crate) fn of(statement: &Statement, config: &ConfigOptions) -> Option<Self> {
        let Statement::Explain(explain) = statement else { return None };
        let (asked, default) = (&explain.options, &config.explain);
        let format = asked.format.as_ref().unwrap_or(&default.format);
        matches!(format, ExplainFormat::Indent | ExplainFormat::Tree).then(|| Self {
            analyzes: asked.analyze,
            verbose: asked.verbose,
            is_tree: matches!(format, ExplainFormat::Tree),
            shows_statistics: asked.show_statistics.unwrap_or(default.show_statistics),
            plans: Vec::new(),
        })
    }

    /// Whether what is explained is run.
    pub(crate) fn analyzes(&self) -> bool {
        self.analyzes
    }

    /// Shows `plan`, that of common table expression `name`.
    pub(crate) fn show(&mut self, name: &str, plan: &Arc<dyn ExecutionPlan>) {
        let plan = match self.analyzes {
            true => DisplayableExecutionPlan::with_metrics(plan.as_ref()),
            false => DisplayableExecutionPlan::new(plan.as_ref()),
        }
        .set_show_statistics(self.shows_statistics);
        let text = if self.is_tree { plan.tree_render().to_string() } else { plan.indent(self.verbose).to_string() };
        let mut shown = format!("With {name}, computed once:\n");
        for line in text.lines() {
            writeln!(shown, "  {line}").expect("strings take all");
        }
        self.plans.push([format!("with {name}"), shown]);
    }

    /// What was shown, and then `rows`, which are DataFusion's of the query.
    pub(crate) fn before(self, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        if self.plans.is_empty() {
            return rows;
        }
        let schema = rows.schema();
        let column = |column: usize| {
            Arc::new(StringArray::from_iter_values(self.plans.iter().map(|plan| &plan[column]))) as Arc<_>
        };
        let plans = RecordBatch::try_new(Arc::clone(&schema), vec![column(0), column(1)]);
        let plans = stream::once(async { Ok(plans?) });
        Box::pin(RecordBatchStreamAdapter::new(schema, plans.chain(rows)))
    }
}
