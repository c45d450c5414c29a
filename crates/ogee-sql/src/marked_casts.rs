//! Casts to marked text and from it, and of lists, structs and maps, put in the place of DataFusion's, which know text without marks: JSON, `UUID`, `BIT` and `ENUM`.
//!
//! What chooses among marked text, or puts it into lists and structs, is marked as what it gives; so are the outputs of aggregates and windows that give a value of their
//! argument, and what `unnest` makes of a list of marked text, of which DataFusion keeps the type alone. A text that is compared with a UUID or with bits is one. What a statement writes into a column of a table is cast to what that has, whatever the planner made of it before.
//!
//! States of aggregates stand beside states of the same aggregate only, in unions and in columns of tables: their types may be the same where they mean something else.
//!
//! Not here: what the casts do (`ogee_functions::marks`), and the order of an `ENUM` (`enum_order`).

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, Field, FieldRef, Fields},
    common::{
        Column, DFSchema, Result, plan_err,
        tree_node::{Transformed, TransformedResult},
    },
    config::ConfigOptions,
    logical_expr::{
        Distinct, DmlStatement, Expr, ExprSchemable, Join, LogicalPlan, Projection, RecursiveQuery, Union, Unnest,
        WriteOp,
        expr::{Cast, TryCast},
    },
    optimizer::AnalyzerRule,
};
use ogee_functions::{
    exported::{is_same_state, is_state},
    floats::is_comparison,
    lists,
    marks::{CHOOSING_AGGREGATES, Casts, Mark, has_mark, is_alike, is_same},
    type_names::sql_name_of,
};

use crate::{
    enum_order::with_marks_below,
    kept_names, lambda_types,
    recursive_types::{reading, rows_read},
    set_operations::is_set_operation,
    subqueries::with_outer_types,
    times::zone_rule::input_schema,
    trees::{Nodes, Tree},
};

/// See the module.
#[derive(Debug)]
pub(crate) struct MarkedCasts {
    casts: Casts,
}

/// How deep marks go from query to subquery and out of it again, at most.
const OUTER_ROUNDS_MAX: usize = 16;

/// What each column of a set operation's `inputs` becomes where one has marked text; `None` where none has.
fn wanted_of(inputs: &[Arc<LogicalPlan>]) -> Vec<Option<Field>> {
    let columns = inputs.first().map_or(0, |first| first.schema().fields().len());
    let wanted = (0..columns).map(|at| {
        let fields: Vec<_> = inputs.iter().filter_map(|input| input.schema().fields().get(at)).collect();
        let marked = |mark: Mark| fields.iter().find(|field| Mark::of(field) == Some(mark)).copied();
        let first = [Mark::Json, Mark::Uuid, Mark::Bit].into_iter().find_map(marked);
        let text = || Field::new("", DataType::Utf8View, true);
        match (first, marked(Mark::Enum)) {
            (Some(first), _) => Some(first.as_ref().clone()),
            (_, Some(first)) if fields.iter().any(|field| !is_same(field, first) && !field.data_type().is_null()) => {
                Some(text())
            }
            (_, Some(first)) => Some(first.as_ref().clone()),
            _ => fields.iter().find(|field| has_mark(field)).map(|field| field.as_ref().clone()),
        }
    });
    wanted.collect()
}

/// Whether a column of `input` is something else than is `wanted`.
fn is_other(input: &LogicalPlan, wanted: &[Option<Field>]) -> bool {
    let mut fields = input.schema().fields().iter().zip(wanted);
    fields.any(|(field, wanted)| wanted.as_ref().is_some_and(|wanted| !is_alike(field, wanted)))
}

/// Whether the expressions of `plan` are conditions, and no outputs whose names count.
pub(crate) fn is_condition(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(_) | LogicalPlan::Filter(_))
}

impl MarkedCasts {
    pub(crate) fn new(casts: Casts) -> Self {
        Self { casts }
    }

    fn rewrite_plan(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let plan = match plan {
            LogicalPlan::Dml(dml) if matches!(dml.op, WriteOp::Insert(_) | WriteOp::Update) => {
                return self.written(dml);
            }
            LogicalPlan::Union(union) => return self.united(union),
            LogicalPlan::Join(join) if is_set_operation(&join) => match self.intersected(join)? {
                joined if joined.transformed => return Ok(joined),
                joined => joined.data,
            },
            LogicalPlan::Unnest(unnest) => return self.unnested(unnest),
            LogicalPlan::RecursiveQuery(query) => return self.recursive(query),
            plan => plan,
        };
        if !may_concern(&plan) {
            return self.outputs(plan);
        }
        let of_conditions = is_condition(&plan).then(|| self.casts.of_conditions());
        let casts = of_conditions.as_ref().unwrap_or(&self.casts);
        let schema = input_schema(&plan)?;
        let rewritten = kept_names::map_expressions(plan, |expr| match lambda_types::has_any(&expr)? {
            true => self.with_lambdas(expr, casts, &schema),
            false => self.in_expression(expr, casts, &schema),
        })?;
        if !rewritten.transformed {
            return rewritten.transform_data(|plan| self.outputs(plan));
        }
        rewritten.map_data(LogicalPlan::recompute_schema)?.transform_data(|plan| self.outputs(plan))
    }

    /// `plan` with its casts and marks; `is_marked`: whether outputs of one of its nodes have been marked.
    fn marked(&self, plan: LogicalPlan, is_marked: &mut bool) -> Result<LogicalPlan> {
        plan.nodes_up(|plan| {
            // What is above was planned for columns without marks.
            let plan = if *is_marked { with_marks_below(plan)? } else { plan };
            let before = Arc::clone(plan.schema());
            let rewritten = self.rewrite_plan(plan)?;
            *is_marked |= rewritten.transformed && *rewritten.data.schema() != before;
            Ok(rewritten)
        })
        .data()
    }

    /// `expr`, of a node above `schema`, with its casts done as `casts` does, and marks where it has marked text.
    fn in_expression(&self, expr: Expr, casts: &Casts, schema: &DFSchema) -> Result<Transformed<Expr>> {
        expr.up(|expr| {
            let (of, to, tries) = match &expr {
                Expr::Cast(Cast { expr, field }) => (expr, field, false),
                Expr::TryCast(TryCast { expr, field }) => (expr, field, true),
                Expr::Case(_) | Expr::ScalarFunction(_) | Expr::HigherOrderFunction(_) => {
                    return Ok(match casts.kept(&expr, schema)? {
                        Some(kept) => Transformed::yes(kept),
                        None => Transformed::no(expr),
                    });
                }
                Expr::ScalarSubquery(_) => return self.of_query(expr, schema),
                _ => return self.beside(expr, schema),
            };
            let Ok((_, from)) = of.to_field(schema) else { return Ok(Transformed::no(expr)) };
            Ok(match casts.cast(of, &from, to, tries)? {
                Some(cast) => Transformed::yes(cast),
                None => Transformed::no(expr),
            })
        })
    }

    /// The same of an expression with lambdas. Those were planned for the fields that lists had, and what is given to one may be what another makes.
    fn with_lambdas(&self, expr: Expr, casts: &Casts, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let mut told = Transformed::no(expr);
        for _ in 0..lambda_types::ROUNDS_MAX {
            let before = told.data.clone();
            let begun = lambda_types::with_first_parameters(told.data, schema)?;
            told.data = lambda_types::with_parameters(self.in_expression(begun, casts, schema)?.data, schema)?;
            if told.data == before {
                break;
            }
            told.transformed = true;
        }
        Ok(told)
    }

    /// `query`, a scalar subquery, with the mark that its column has: DataFusion's expression for its value knows the type alone.
    fn of_query(&self, query: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let Ok((_, field)) = query.to_field(schema) else { return Ok(Transformed::no(query)) };
        if Mark::of(&field).is_none() {
            return Ok(Transformed::no(query));
        }
        let plain = Arc::new(Field::new(field.name(), field.data_type().clone(), field.is_nullable()));
        Ok(match self.casts.cast(&query, &plain, &field, false)? {
            Some(marked) => Transformed::yes(marked),
            None => Transformed::no(query),
        })
    }

    /// `expr` with UUIDs and bits made of the texts that stand beside such in a comparison.
    fn beside(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let mark = |expr: &Expr| may_be_marked(expr).then(|| expr.to_field(schema).ok()).flatten();
        let cast_all = |sides: &mut [&mut Expr]| -> Result<bool> {
            let marked = sides.iter().filter_map(|side| mark(side).map(|(_, field)| field));
            let to = marked.into_iter().find(|field| matches!(Mark::of(field), Some(Mark::Uuid | Mark::Bit)));
            let Some(to) = to else { return Ok(false) };
            let mut any = false;
            for side in sides {
                let Ok((_, from)) = side.to_field(schema) else { continue };
                if Mark::of(&from).is_none()
                    && from.data_type().is_string()
                    && let Some(cast) = self.casts.cast(side, &from, &to, false)?
                {
                    **side = cast;
                    any = true;
                }
            }
            Ok(any)
        };
        let done = |expr: Expr, any: bool| if any { Transformed::yes(expr) } else { Transformed::no(expr) };
        Ok(match expr {
            Expr::BinaryExpr(mut binary) if is_comparison(binary.op) => {
                let any = cast_all(&mut [&mut *binary.left, &mut *binary.right])?;
                done(Expr::BinaryExpr(binary), any)
            }
            Expr::Between(mut between) => {
                let any = cast_all(&mut [&mut *between.expr, &mut *between.low, &mut *between.high])?;
                done(Expr::Between(between), any)
            }
            Expr::InList(mut list) => {
                let mut sides: Vec<&mut Expr> = std::iter::once(&mut *list.expr).chain(&mut list.list).collect();
                let any = cast_all(&mut sides)?;
                done(Expr::InList(list), any)
            }
            other => Transformed::no(other),
        })
    }

    /// `plan`, an aggregation or windows, with marks for those of its outputs that are values of a marked argument.
    fn outputs(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let exprs = match &plan {
            LogicalPlan::Aggregate(aggregate) => &aggregate.aggr_expr,
            LogicalPlan::Window(window) => &window.window_expr,
            _ => return Ok(Transformed::no(plan)),
        };
        let first = plan.schema().fields().len() - exprs.len();
        let schema = input_schema(&plan)?;
        let mut marked = Vec::new();
        for (at, expr) in exprs.iter().enumerate() {
            let given = plan.schema().field(first + at);
            let Some(to) = given_by(expr, &schema) else { continue };
            if has_mark(&to) && !is_alike(given, &to) {
                marked.push((first + at, to));
            }
        }
        self.marked_above(plan, &marked)
    }

    /// What comes of `unnest`, marked as the elements of its lists are.
    fn unnested(&self, unnest: Unnest) -> Result<Transformed<LogicalPlan>> {
        let mut marked = Vec::new();
        for (at, field) in unnest.schema.fields().iter().enumerate() {
            let Some(&from) = unnest.dependency_indices.get(at) else { continue };
            let lists = unnest.list_type_columns.iter().filter(|(list, _)| *list == from);
            let Some((_, list)) = lists.into_iter().find(|(_, list)| list.output_column.name == *field.name()) else {
                continue;
            };
            let mut element = Some(&unnest.input.schema().fields()[from]);
            for _ in 0..list.depth {
                element = element.and_then(|list| lists::element(list.data_type()));
            }
            if let Some(to) = element.filter(|to| has_mark(to) && !is_alike(field, to)) {
                marked.push((at, Arc::clone(to)));
            }
        }
        self.marked_above(LogicalPlan::Unnest(unnest), &marked)
    }

    /// `plan` with the columns at these places marked above it.
    fn marked_above(&self, plan: LogicalPlan, marked: &[(usize, FieldRef)]) -> Result<Transformed<LogicalPlan>> {
        if marked.is_empty() {
            return Ok(Transformed::no(plan));
        }
        let mut columns = Vec::with_capacity(plan.schema().fields().len());
        for (at, (qualifier, field)) in plan.schema().iter().enumerate() {
            let column = Expr::Column(Column::from((qualifier, field)));
            let to = marked.iter().find(|(marked, _)| *marked == at);
            let cast = match to {
                Some((_, to)) => self.casts.cast(&column, field, to, false)?,
                None => None,
            };
            columns.push(cast.map_or(column, |cast| cast.alias_qualified(qualifier.cloned(), field.name())));
        }
        Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?)))
    }

    /// `union` with marked text in all rows of a column that has some: what stands beside it is cast. Beside values of an `ENUM` that are of another they are texts.
    fn united(&self, union: Union) -> Result<Transformed<LogicalPlan>> {
        for at in 0..union.schema.fields().len() {
            let mut fields = union.inputs.iter().filter_map(|input| source(input, at));
            if let Some(state) = fields.clone().find(|field| is_state(field)) {
                fields.try_for_each(|field| check_state(&field, &state))?;
            }
        }
        let wanted = wanted_of(&union.inputs);
        if !union.inputs.iter().any(|input| is_other(input, &wanted)) {
            return Ok(Transformed::no(LogicalPlan::Union(union)));
        }
        let inputs = union.inputs.iter().map(|input| Ok(Arc::new(self.with_columns_as(input, &wanted)?)));
        Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs.collect::<Result<_>>()?)?)))
    }

    /// `join`, a set operation, with marked text in both sides' rows where those of their union would have it.
    fn intersected(&self, join: Join) -> Result<Transformed<LogicalPlan>> {
        let wanted = wanted_of(&[Arc::clone(&join.left), Arc::clone(&join.right)]);
        let side = |side: &Arc<LogicalPlan>| -> Result<Arc<LogicalPlan>> {
            Ok(match &**side {
                side_plan if !is_other(side_plan, &wanted) => Arc::clone(side),
                // Rows that are told apart stay so.
                LogicalPlan::Distinct(Distinct::All(input)) => {
                    let input = Arc::new(self.with_columns_as(input, &wanted)?);
                    Arc::new(LogicalPlan::Distinct(Distinct::All(input)))
                }
                _ => Arc::new(self.with_columns_as(side, &wanted)?),
            })
        };
        let (left, right) = (side(&join.left)?, side(&join.right)?);
        if Arc::ptr_eq(&left, &join.left) && Arc::ptr_eq(&right, &join.right) {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        }
        let Join { on, join_type, join_constraint, null_equality, null_aware, .. } = join;
        let joined = Join::try_new(left, right, on, None, join_type, join_constraint, null_equality, null_aware)?;
        Ok(Transformed::yes(LogicalPlan::Join(joined)))
    }

    /// `input` with its columns cast to what is `wanted`.
    fn with_columns_as(&self, input: &Arc<LogicalPlan>, wanted: &[Option<Field>]) -> Result<LogicalPlan> {
        let mut exprs = Vec::with_capacity(wanted.len());
        for ((qualifier, from), to) in input.schema().iter().zip(wanted) {
            let column = Expr::Column(Column::from((qualifier, from)));
            let cast = match to {
                Some(to) if !is_alike(from, to) => self.casts.cast(&column, from, to, false)?,
                _ => None,
            };
            exprs.push(cast.map_or(column, |cast| cast.alias_qualified(qualifier.cloned(), from.name())));
        }
        Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::clone(input))?))
    }

    /// `query` whose term reads rows marked as the first ones are since they were planned, and finds rows of the same marks.
    fn recursive(&self, mut query: RecursiveQuery) -> Result<Transformed<LogicalPlan>> {
        let first = Arc::clone(query.static_term.schema());
        let mut changed = false;
        let is_unlike = |fields: &Fields| {
            let mut both = fields.iter().zip(first.fields());
            both.any(|(field, first)| has_mark(first) && !is_alike(field, first))
        };
        if let Some(read) = rows_read(&query.name, &query.recursive_term)?
            && is_unlike(read.fields())
        {
            let term = reading(&query.name, &first, Arc::unwrap_or_clone(query.recursive_term))?;
            query.recursive_term = Arc::new(term.nodes_up(|node| self.rewrite_plan(with_marks_below(node)?)).data()?);
            changed = true;
        }
        if is_unlike(query.recursive_term.schema().fields()) {
            let mut columns = Vec::with_capacity(first.fields().len());
            for ((qualifier, from), to) in query.recursive_term.schema().iter().zip(first.fields()) {
                let column = Expr::Column(Column::from((qualifier, from)));
                let cast = match has_mark(to) && !is_alike(from, to) {
                    true => self.casts.cast(&column, from, to, false)?,
                    false => None,
                };
                columns.push(cast.map_or(column, |cast| cast.alias_qualified(qualifier.cloned(), from.name())));
            }
            let term = Projection::try_new(columns, query.recursive_term)?;
            query.recursive_term = Arc::new(LogicalPlan::Projection(term));
            changed = true;
        }
        if is_unlike(query.schema.fields()) {
            let fields = query.schema.iter().zip(first.fields()).map(|((qualifier, known), first)| {
                let marked = first.as_ref().clone().with_name(known.name()).with_nullable(known.is_nullable());
                (qualifier.cloned(), if has_mark(first) { Arc::new(marked) } else { Arc::clone(known) })
            });
            let metadata = query.schema.metadata().clone();
            query.schema = Arc::new(DFSchema::new_with_metadata(fields.collect(), metadata)?);
            changed = true;
        }
        let query = LogicalPlan::RecursiveQuery(query);
        Ok(if changed { Transformed::yes(query) } else { Transformed::no(query) })
    }

    /// `dml` with what it writes cast where its table has marked text.
    fn written(&self, dml: DmlStatement) -> Result<Transformed<LogicalPlan>> {
        let table = dml.target.schema();
        let written = dml.input.schema();
        for (at, to) in table.fields().iter().enumerate().filter(|(_, to)| is_state(to)) {
            if let Some(from) = source(&dml.input, at) {
                check_state(&from, to)?;
            }
        }
        if written.fields().len() != table.fields().len() || !table.fields().iter().any(|field| has_mark(field)) {
            return Ok(Transformed::no(LogicalPlan::Dml(dml)));
        }
        let mut any = false;
        let mut exprs = Vec::with_capacity(table.fields().len());
        for ((qualifier, from), to) in written.iter().zip(table.fields()) {
            let is_known = from.data_type() == to.data_type() && is_alike(from, to);
            let column = Expr::Column(Column::from((qualifier, from)));
            exprs.push(match self.casts.cast(&column, from, to, false)?.filter(|_| !is_known) {
                Some(cast) => {
                    any = true;
                    cast.alias(from.name())
                }
                None => column,
            });
        }
        if !any {
            return Ok(Transformed::no(LogicalPlan::Dml(dml)));
        }
        let input = LogicalPlan::Projection(Projection::try_new(exprs, Arc::clone(&dml.input))?);
        Ok(Transformed::yes(LogicalPlan::Dml(DmlStatement { input: Arc::new(input), ..dml })))
    }
}

/// The field of column `at` of `plan`, before the planner cast it.
fn source(plan: &LogicalPlan, at: usize) -> Option<FieldRef> {
    let known = plan.schema().fields().get(at)?;
    let LogicalPlan::Projection(projection) = plan else { return Some(Arc::clone(known)) };
    let mut expr = projection.expr.get(at)?;
    loop {
        expr = match expr {
            Expr::Alias(alias) => &alias.expr,
            Expr::Cast(cast) => &cast.expr,
            Expr::Column(column) => {
                let below = projection.input.schema().index_of_column(column).ok()?;
                return source(&projection.input, below);
            }
            expr => return Some(expr.to_field(projection.input.schema()).ok()?.1),
        };
    }
}

/// # Errors
/// If a value of `from` is no state as those of `state`, nor NULL.
fn check_state(from: &Field, state: &Field) -> Result<()> {
    if from.data_type().is_null() || is_same_state(from, state) {
        return Ok(());
    }
    match is_state(from) {
        true => plan_err!("a state of one aggregate does not stand among those of another"),
        false => plan_err!("values of type {} are no states of aggregates", sql_name_of(from)),
    }
}

/// The field of what `expr`, an aggregate or a function over a window, gives, if that is a value of its first argument or a list of such.
pub(crate) fn given_by(expr: &Expr, schema: &DFSchema) -> Option<FieldRef> {
    let expr = expr.clone().unalias();
    let (name, args) = match &expr {
        Expr::AggregateFunction(call) => (call.func.name(), &call.params.args),
        Expr::WindowFunction(call) => (call.fun.name(), &call.params.args),
        _ => return None,
    };
    if !matches!(name, "array_agg" | "histogram") && !CHOOSING_AGGREGATES.contains(&name) {
        return None;
    }
    let (_, of) = args.first()?.to_field(schema).ok()?;
    Some(match name {
        "array_agg" => {
            let element = of.as_ref().clone().with_name(Field::LIST_FIELD_DEFAULT_NAME).with_nullable(true);
            Arc::new(Field::new("", DataType::List(Arc::new(element)), true))
        }
        "histogram" => {
            let key = of.as_ref().clone().with_name("key").with_nullable(false);
            let entries = Fields::from(vec![key, Field::new("value", DataType::UInt64, true)]);
            let entries = Field::new("entries", DataType::Struct(entries), false);
            Arc::new(Field::new("", DataType::Map(Arc::new(entries), false), true))
        }
        _ => of,
    })
}

/// Whether `expr` may be marked text. Cheaper than its field, which comparisons need not be asked for at each of thousands.
fn may_be_marked(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::ScalarSubquery(_) | Expr::LambdaVariable(_) => true,
        Expr::Cast(cast) => Mark::of(&cast.field).is_some(),
        Expr::TryCast(cast) => Mark::of(&cast.field).is_some(),
        Expr::ScalarFunction(_) | Expr::HigherOrderFunction(_) | Expr::AggregateFunction(_) | Expr::Case(_) => true,
        Expr::Alias(alias) => may_be_marked(&alias.expr),
        _ => false,
    }
}

/// Whether `plan` casts, chooses or compares anything. Most nodes of a statement with many tables do not, and have wide schemas.
fn may_concern(plan: &LogicalPlan) -> bool {
    let is_one = |expr: &Expr| match expr {
        Expr::Cast(_)
        | Expr::TryCast(_)
        | Expr::Case(_)
        | Expr::ScalarFunction(_)
        | Expr::HigherOrderFunction(_)
        | Expr::ScalarSubquery(_)
        | Expr::Between(_)
        | Expr::InList(_) => true,
        Expr::BinaryExpr(binary) => is_comparison(binary.op),
        _ => false,
    };
    kept_names::has_any(plan, is_one)
}

impl AnalyzerRule for MarkedCasts {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut is_marked = false;
        let mut plan = self.marked(plan, &mut is_marked)?;
        // What is marked now may be a column that a subquery knows without its mark, of which what it gives may be marked in turn.
        for _ in 0..OUTER_ROUNDS_MAX {
            if !is_marked {
                break;
            }
            let told = with_outer_types(plan)?;
            plan = told.data;
            if !told.transformed {
                break;
            }
            plan = self.marked(plan, &mut is_marked)?;
        }
        Ok(plan)
    }

    fn name(&self) -> &str {
        "marked_casts"
    }
}
