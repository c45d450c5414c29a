//! Deep expressions, cut into pieces that are planned by themselves.
//!
//! DataFusion asks for the type, the nullability and the name of each node of an expression, in most of its rules, and each time all of what is below is walked again. For a
//! chain of n operators that is n² steps for a rule, or n³ where nodes are functions, whose types come with their names. An analyzer rule before all others therefore puts
//! functions in the place of subexpressions of so many levels: a function's arguments are the columns that the piece reads, its type is found once, and
//! what it evaluates is planned once, over columns of the arguments' types. A piece may call others, so that no expression that rules see is deep.
//!
//! Only columns, and what gives values as columns do (subqueries, aggregates, outer columns, functions that are not immutable), are arguments: conditional evaluation
//! within a piece stays conditional.
//!
//! Not here: the deepest expression that is let in (`depth`).

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::{Arc, LazyLock, Weak},
};

use datafusion::{
    arrow::{
        array::{RecordBatch, RecordBatchOptions},
        datatypes::{DataType, Field, FieldRef, Schema},
    },
    common::{
        Column, DFSchema, Result, internal_datafusion_err,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    config::ConfigOptions,
    execution::{SessionState, context::ExecutionProps},
    logical_expr::{
        ColumnarValue, EmptyRelation, Expr, ExprSchemable, LogicalPlan, Operator, Projection, ReturnFieldArgs,
        ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        expr::{Placeholder, ScalarFunction},
        physical_planning_context::PhysicalPlanningContext,
        simplify::SimplifyContext,
        utils::merge_schema,
    },
    optimizer::{Analyzer, AnalyzerRule, simplify_expressions::ExprSimplifier},
    physical_expr::{PhysicalExpr, create_physical_expr},
};
use parking_lot::{Mutex, RwLock};

use crate::{
    checkpoint, kept_names,
    trees::{Nodes, Tree},
};

/// The rule, which pieces are planned without.
const NAME: &str = "deep_expressions";

/// Levels of a piece. Expressions of people have fewer.
const PIECE_LEVELS: usize = 48;

/// Stack that evaluating one piece takes at most, in a build without optimization, and how much more is taken at a time where less is left.
const PIECE_STACK_BYTES: usize = 1 << 20;
const STACK_GROWTH_BYTES: usize = 8 << 20;

/// Plans pieces as the session does.
#[derive(Clone, Default)]
pub struct Planner {
    session: Arc<std::sync::OnceLock<Weak<RwLock<SessionState>>>>,
}

impl Planner {
    /// Tells the rules of which session pieces are planned by, once.
    pub fn serve(&self, session: Weak<RwLock<SessionState>>) {
        self.session.set(session).expect("a planner serves one session");
    }

    /// `expr` over columns `a0`, `a1` and so on of `types`.
    fn plan(&self, expr: &Expr, types: Vec<DataType>) -> Result<Planned> {
        let session = self.session.get().and_then(Weak::upgrade);
        let session = session.ok_or_else(|| internal_datafusion_err!("the session has ended"))?;
        let (analyzer, config) = {
            let session = session.read();
            let rules = session.analyzer().rules.iter().filter(|rule| rule.name() != NAME).cloned().collect();
            (Analyzer::with_rules(rules), Arc::clone(session.config_options()))
        };
        let fields: Vec<Field> =
            types.iter().enumerate().map(|(at, data_type)| Field::new(name(at), data_type.clone(), true)).collect();
        let schema = Arc::new(DFSchema::from_unqualified_fields(fields.into(), HashMap::new())?);
        let input = LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema: Arc::clone(&schema) });
        let plan = LogicalPlan::Projection(Projection::try_new(vec![expr.clone().alias("piece")], Arc::new(input))?);
        let plan = analyzer.execute_and_check(plan, &config, |_, _| {})?;
        let expr = plan.expressions().swap_remove(0).unalias();
        let simplify = SimplifyContext::builder().with_schema(Arc::clone(&schema)).with_config_options(config).build();
        let expr = ExprSimplifier::new(simplify).simplify(expr)?;
        let expr = create_physical_expr(&expr, &schema, &ExecutionProps::new(), &PhysicalPlanningContext::default())?;
        let input = Arc::clone(schema.inner());
        let data_type = expr.data_type(&input)?;
        Ok(Planned { types, input, expr, data_type })
    }
}

impl std::fmt::Debug for Planner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Planner").finish_non_exhaustive()
    }
}

fn name(at: usize) -> String {
    format!("a{at}")
}

/// Cuts deep expressions.
#[derive(Debug)]
pub(crate) struct DeepExpressions {
    planner: Planner,
}

impl DeepExpressions {
    /// Of pieces that `planner` plans.
    pub(crate) fn new(planner: Planner) -> Self {
        Self { planner }
    }

    fn in_plan(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let mut any = false;
        plan.each_expression(|expr| {
            any |= is_deep(expr, PIECE_LEVELS);
            Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if !any {
            return Ok(Transformed::no(plan));
        }
        let mut schema = merge_schema(&plan.inputs());
        if let LogicalPlan::TableScan(scan) = &plan {
            schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
        }
        let cut = Cut { schema: &schema, planner: &self.planner };
        let rewritten = kept_names::map_expressions(plan, |expr| {
            if !is_deep(&expr, PIECE_LEVELS) {
                return Ok(Transformed::no(expr));
            }
            Ok(Transformed::yes(cut.cut(expr)?.0))
        })?;
        rewritten.map_data(LogicalPlan::recompute_schema)
    }
}

impl AnalyzerRule for DeepExpressions {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.nodes_up(|plan| self.in_plan(plan)).data()
    }

    fn name(&self) -> &str {
        NAME
    }
}

/// Whether `expr` has more than so many levels.
fn is_deep(expr: &Expr, levels: usize) -> bool {
    if levels == 0 {
        return true;
    }
    let mut deep = false;
    let visited = expr.apply_children(|child| {
        deep |= is_deep(child, levels - 1);
        Ok(if deep { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    visited.is_ok() && deep
}

/// What is known of a subexpression.
struct Seen {
    levels: usize,
    /// It can be in a piece.
    fits: bool,
}

struct Cut<'a> {
    schema: &'a DFSchema,
    planner: &'a Planner,
}

impl Cut<'_> {
    fn cut(&self, expr: Expr) -> Result<(Expr, Seen)> {
        checkpoint::check()?;
        // Lambdas have variables of their own.
        if matches!(expr, Expr::HigherOrderFunction(_)) {
            return Ok((expr, Seen { levels: 1, fits: true }));
        }
        let (mut levels, mut fits) = (0, true);
        let cut = expr.map_children(|child| {
            let (child, seen) = self.cut(child)?;
            levels = levels.max(seen.levels);
            fits &= seen.fits;
            Ok(Transformed::yes(child))
        });
        let expr = cut.data()?;
        if is_argument(&expr) {
            return Ok((expr, Seen { levels: 1, fits: true }));
        }
        levels += 1;
        fits &= !matches!(
            expr,
            Expr::GroupingSet(_) | Expr::Unnest(_) | Expr::Lambda(_) | Expr::LambdaVariable(_) | Expr::Placeholder(_)
        );
        // What rows are joined and files are pruned by stays in sight, unless it is nothing but a part of a deep expression.
        let enough = if is_predicate(&expr) { 2 * PIECE_LEVELS } else { PIECE_LEVELS };
        if !fits || levels < enough || matches!(expr, Expr::Alias(_)) {
            return Ok((expr, Seen { levels, fits }));
        }
        match self.piece(&expr)? {
            Some(piece) => Ok((piece, Seen { levels: 1, fits: true })),
            None => Ok((expr, Seen { levels, fits: false })),
        }
    }

    /// The call that stands for `expr`; `None` where it has no type, which the rules that follow will tell in its own words.
    fn piece(&self, expr: &Expr) -> Result<Option<Expr>> {
        let mut args: Vec<Expr> = Vec::new();
        let mut places: HashMap<Expr, usize> = HashMap::new();
        let inner = expr.clone().down(|expr| {
            if !is_argument(&expr) {
                return Ok(Transformed::no(expr));
            }
            let place = match places.get(&expr) {
                Some(place) => *place,
                None => {
                    let place = args.len();
                    // Each call of a volatile function is another value.
                    if !expr.is_volatile() {
                        places.insert(expr.clone(), place);
                    }
                    args.push(expr);
                    place
                }
            };
            let column = Expr::Column(Column::from_name(name(place)));
            Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
        });
        let inner = inner.data()?;
        let types: Result<Vec<DataType>> = args.iter().map(|arg| arg.get_type(self.schema)).collect();
        let Ok(types) = types else { return Ok(None) };
        let piece = Piece::new(inner, args.len(), self.planner.clone());
        if piece.planned(types).is_err() {
            checkpoint::check()?;
            return Ok(None);
        }
        let function = Arc::new(ScalarUDF::new_from_impl(piece));
        Ok(Some(Expr::ScalarFunction(ScalarFunction::new_udf(function, args))))
    }
}

fn is_predicate(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => {
            matches!(binary.op, Operator::And | Operator::Or) || binary.op.supports_propagation()
        }
        _ => false,
    }
}

/// What gives a value without failing, whoever asks for it.
fn is_argument(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_)
        | Expr::OuterReferenceColumn(..)
        | Expr::ScalarVariable(..)
        | Expr::ScalarSubquery(_)
        | Expr::Exists(_)
        | Expr::InSubquery(_)
        | Expr::SetComparison(_)
        | Expr::AggregateFunction(_)
        | Expr::WindowFunction(_)
        | Expr::HigherOrderFunction(_)
        | Expr::Placeholder(Placeholder { field: Some(_), .. }) => true,
        Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Immutable,
        _ => false,
    }
}

/// A piece over arguments of some types.
#[derive(Debug)]
struct Planned {
    types: Vec<DataType>,
    input: Arc<Schema>,
    expr: Arc<dyn PhysicalExpr>,
    data_type: DataType,
}

/// A subexpression, as a function of what it reads.
#[derive(Debug)]
struct Piece {
    name: String,
    expr: Expr,
    hash: u64,
    signature: Signature,
    planner: Planner,
    /// Types of columns may change while the plan around is coerced.
    planned: Mutex<Vec<Arc<Planned>>>,
}

impl Piece {
    fn new(expr: Expr, args: usize, planner: Planner) -> Self {
        // The same for the same piece, and told apart in names.
        static HASH: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        let hash = HASH.hash_one(&expr);
        let signature = match args {
            0 => Signature::nullary(Volatility::Immutable),
            args => Signature::any(args, Volatility::Immutable),
        };
        Self { name: format!("piece_{hash:016x}"), expr, hash, signature, planner, planned: Mutex::default() }
    }

    fn planned(&self, types: Vec<DataType>) -> Result<Arc<Planned>> {
        if let Some(planned) = self.planned.lock().iter().find(|planned| planned.types == types) {
            return Ok(Arc::clone(planned));
        }
        let planned = Arc::new(self.planner.plan(&self.expr, types)?);
        self.planned.lock().push(Arc::clone(&planned));
        Ok(planned)
    }
}

impl PartialEq for Piece {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.expr == other.expr
    }
}

impl Eq for Piece {}

impl Hash for Piece {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

impl ScalarUDFImpl for Piece {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.planned(arg_types.to_vec())?.data_type.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Arc::new(Field::new(&self.name, self.planned(types)?.data_type.clone(), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let planned = self.planned(args.args.iter().map(ColumnarValue::data_type).collect())?;
        let scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        // Of constants one row is enough.
        let rows = if scalar { 1 } else { args.number_rows };
        let columns = args.args.into_iter().map(|arg| arg.into_array(rows)).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&planned.input), columns, &options)?;
        let value = stacker::maybe_grow(PIECE_STACK_BYTES, STACK_GROWTH_BYTES, || planned.expr.evaluate(&batch))?;
        match value {
            ColumnarValue::Array(array) if scalar => {
                Ok(ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&array, 0)?))
            }
            value => Ok(value),
        }
    }
}
