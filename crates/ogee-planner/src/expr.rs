//! Expressions: DataFusion's physical expressions as the engine's.
//!
//! Columns, constants, comparisons of a column with a constant of its type, patterns, and what connects them in a predicate become native
//! expressions. Any other is kept whole and evaluated as it is on a batch of just the columns it reads, so that `CASE` and other conditional
//! evaluation behaves as DataFusion's.
//!
//! Not here: rewriting or simplifying expressions, which DataFusion's optimizer has done.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, RecordBatch, RecordBatchOptions},
        compute::cast,
        datatypes::{DataType, Field, Schema, SchemaRef},
    },
    common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    error::Result,
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr, ScalarFunctionExpr,
        expressions::{BinaryExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr},
        split_conjunction,
    },
    physical_expr_common::physical_expr::is_volatile,
};
use ogee_exec::{
    CompareOp, DecimalArithmetic, DecimalOp, ExecError, Expr, ForeignExpr, Growth, Like, PART_BYTES, value_bytes,
};
use ogee_functions::{
    decimals,
    error::{to_datafusion, to_exec},
    floats::in_one_form,
    growing,
};
use ogee_vector::{normalize_array, normalize_type};

/// `expr` over rows of `input` (declared types), as the engine evaluates it for its value.
pub fn translate(expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> Result<Expr> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        return Ok(Expr::Column(column.index()));
    }
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return Ok(Expr::Literal(constant(literal)?));
    }
    if let Some(compare) = comparison(expr, input)? {
        return Ok(compare);
    }
    if let Some(arithmetic) = decimal(expr, input)? {
        return Ok(arithmetic);
    }
    if let Some(like) = like(expr, input)? {
        return Ok(like);
    }
    foreign(expr, input)
}

/// Arithmetic of decimals whose exact result has the type that was planned; `None` for anything else.
fn decimal(expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> Result<Option<Expr>> {
    let binary = expr.downcast_ref::<BinaryExpr>().map(|binary| (binary.left(), *binary.op(), binary.right()));
    let Some((left, op, right)) = binary.or_else(|| decimals::operator(expr)) else { return Ok(None) };
    let op = match op {
        Operator::Plus => DecimalOp::Add,
        Operator::Minus => DecimalOp::Subtract,
        Operator::Multiply => DecimalOp::Multiply,
        _ => return Ok(None),
    };
    let type_of = |expr: &Arc<dyn PhysicalExpr>| expr.data_type(input);
    let types = (type_of(left)?, type_of(right)?, type_of(expr)?);
    let is_decimal = |data_type: &DataType| matches!(data_type, DataType::Decimal128(..));
    if !is_decimal(&types.0) || !is_decimal(&types.1) || !is_decimal(&types.2) {
        return Ok(None);
    }
    let sides = (translate(left, input)?, translate(right, input)?);
    let arithmetic = DecimalArithmetic::new(op, (sides.0, &types.0), (sides.1, &types.1), &types.2);
    Ok(arithmetic.map(|arithmetic| Expr::Decimal(Box::new(arithmetic))))
}

/// `LIKE` with a constant pattern that the engine has a kernel for; `None` for anything else.
fn like(expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> Result<Option<Expr>> {
    let Some(like) = expr.downcast_ref::<LikeExpr>().filter(|like| !like.case_insensitive()) else { return Ok(None) };
    let pattern = like.pattern().downcast_ref::<Literal>().and_then(|literal| literal.value().try_as_str().flatten());
    let (Some(pattern), DataType::Utf8View) = (pattern, normalize_type(&like.expr().data_type(input)?)) else {
        return Ok(None);
    };
    let like = Like::new(translate(like.expr(), input)?, pattern, like.negated());
    Ok(like.map(|like| Expr::Like(Box::new(like))))
}

/// `expr` over rows of `input` as a predicate: rows for which it is not true do not matter, so that conjuncts may narrow one another.
pub fn translate_predicate(expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> Result<Expr> {
    let mut parts =
        split_conjunction(expr).into_iter().map(|part| translate_part(part, input)).collect::<Result<Vec<_>>>()?;
    Ok(match parts.len() {
        1 => parts.swap_remove(0),
        _ => {
            // Kernels first: they are cheap and leave fewer rows to the others. The sort is stable.
            parts.sort_by_key(|part| !matches!(part, Expr::Compare { .. }));
            Expr::And(parts)
        }
    })
}

/// A part of a predicate. Of a disjunction, in which the engine has kernels for some, or something can fail, the parts are told apart: what can fail is then evaluated for rows
/// that are not in yet. `CASE WHEN id <> 0 THEN 10 / id > 1 END` in a filter is a disjunction to DataFusion.
fn translate_part(expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> Result<Expr> {
    let mut alternatives = Vec::new();
    split_disjunction(expr, &mut alternatives);
    if alternatives.len() < 2 {
        return translate(expr, input);
    }
    let mut parts =
        alternatives.into_iter().map(|part| translate_predicate(part, input)).collect::<Result<Vec<_>>>()?;
    let is_foreign = |part: &Expr| matches!(part, Expr::Foreign(_));
    if parts.iter().all(is_foreign) && !can_fail(expr) {
        return translate(expr, input);
    }
    parts.sort_by_key(|part| (part.can_fail(), is_foreign(part)));
    Ok(Expr::Or(parts))
}

fn split_disjunction<'a>(expr: &'a Arc<dyn PhysicalExpr>, parts: &mut Vec<&'a Arc<dyn PhysicalExpr>>) {
    match expr.downcast_ref::<BinaryExpr>().filter(|binary| *binary.op() == Operator::Or) {
        Some(binary) => {
            split_disjunction(binary.left(), parts);
            split_disjunction(binary.right(), parts);
        }
        None => parts.push(expr),
    }
}

fn constant(literal: &Literal) -> Result<ArrayRef> {
    let array = literal.value().to_array_of_size(1)?;
    normalize_array(&array).map_err(to_datafusion)
}

/// A comparison of a column with a constant of the same type, either way round; `None` for anything else.
fn comparison(expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> Result<Option<Expr>> {
    let Some(binary) = expr.downcast_ref::<BinaryExpr>() else { return Ok(None) };
    let op = match binary.op() {
        Operator::Eq => CompareOp::Eq,
        Operator::NotEq => CompareOp::NotEq,
        Operator::Lt => CompareOp::Lt,
        Operator::LtEq => CompareOp::LtEq,
        Operator::Gt => CompareOp::Gt,
        Operator::GtEq => CompareOp::GtEq,
        _ => return Ok(None),
    };
    let (left, right) = (binary.left(), binary.right());
    let (column, literal, op) = match (
        left.downcast_ref::<Column>(),
        left.downcast_ref::<Literal>(),
        right.downcast_ref::<Column>(),
        right.downcast_ref::<Literal>(),
    ) {
        (Some(column), _, _, Some(literal)) => (column, literal, op),
        (_, Some(literal), Some(column), _) => (column, literal, flip(op)),
        _ => return Ok(None),
    };
    let Some(field) = input.fields().get(column.index()) else { return Ok(None) };
    let data_type = normalize_type(field.data_type());
    if literal.value().is_null() || normalize_type(&literal.value().data_type()) != data_type || !has_kernel(&data_type)
    {
        return Ok(None);
    }
    Ok(Some(Expr::Compare { op, column: column.index(), literal: constant(literal)? }))
}

fn flip(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Eq => CompareOp::Eq,
        CompareOp::NotEq => CompareOp::NotEq,
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::LtEq => CompareOp::GtEq,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::GtEq => CompareOp::LtEq,
    }
}

fn has_kernel(data_type: &DataType) -> bool {
    data_type.is_primitive() || matches!(data_type, DataType::Boolean | DataType::Utf8View | DataType::BinaryView)
}

fn foreign(expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> Result<Expr> {
    let mut columns = Vec::new();
    expr.apply(|node| {
        if let Some(column) = node.downcast_ref::<Column>() {
            columns.push(column.index());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    columns.sort_unstable();
    columns.dedup();
    let reindexed = Arc::clone(expr)
        .transform_up(|node| {
            let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
            let index = columns.binary_search(&column.index()).expect("collected above from the same expression");
            Ok(Transformed::yes(Arc::new(Column::new(column.name(), index)) as Arc<dyn PhysicalExpr>))
        })
        .data()?;
    // Nullability is not checked again per batch: what DataFusion inferred from it is already in the plan.
    let fields: Vec<Field> = columns.iter().map(|&index| input.field(index).clone().with_nullable(true)).collect();
    let declared = fields
        .iter()
        .map(|field| (normalize_type(field.data_type()) != *field.data_type()).then(|| field.data_type().clone()))
        .collect();
    let (is_volatile, can_fail) = (is_volatile(expr), can_fail(expr));
    let schema = Arc::new(Schema::new(fields));
    let growth = Bound::of(&reindexed, &schema)?;
    let expr = in_one_form(reindexed, &schema)?;
    Ok(Expr::Foreign(Arc::new(Foreign { expr, columns, declared, schema, is_volatile, can_fail, growth })))
}

/// What an expression makes on the way to its values, at most, by the size of what it reads: text and lists are put together of others, and constants are
/// written out for each row.
#[derive(Debug, Default)]
struct Bound {
    /// Bytes of constants, for each row.
    constants: usize,
    /// How often columns of no fixed size are read.
    reads: Vec<usize>,
    /// There are functions that say themselves how large their values are.
    looks_ahead: bool,
}

/// Bytes of a constant that it does no harm to have once for each row of a chunk.
const SMALL_CONSTANT_BYTES: usize = 1 << 10;

impl Bound {
    /// Of `expr`, over columns of `input`.
    fn of(expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> Result<Self> {
        let mut bound = Self { reads: vec![0; input.fields().len()], ..Self::default() };
        let mut makes = false;
        bound.visit(expr, input, &mut makes)?;
        if !makes {
            bound.reads.fill(0);
        }
        Ok(bound)
    }

    /// Counts what `expr` reads; whether it, or a part of it, is a text or list that is not there yet, to `makes`.
    fn visit(&mut self, expr: &Arc<dyn PhysicalExpr>, input: &Schema, makes: &mut bool) -> Result<()> {
        if let Some(column) = expr.downcast_ref::<Column>() {
            self.reads[column.index()] += usize::from(is_of_any_size(input.field(column.index()).data_type()));
            return Ok(());
        }
        *makes |= is_of_any_size(&expr.data_type(input)?);
        let call = expr.downcast_ref::<ScalarFunctionExpr>();
        self.looks_ahead |= call.is_some_and(|call| growing::looks_ahead(call.fun()));
        // These have kernels for constants.
        let compares = expr.downcast_ref::<LikeExpr>().is_some()
            || expr.downcast_ref::<InListExpr>().is_some()
            || expr.downcast_ref::<BinaryExpr>().is_some_and(|binary| binary.op().supports_propagation());
        for child in expr.children() {
            let bytes = match child.downcast_ref::<Literal>() {
                Some(literal) => literal.value().size(),
                None => {
                    self.visit(child, input, makes)?;
                    child.downcast_ref().and_then(growing::constant_bytes).unwrap_or(0)
                }
            };
            if bytes > SMALL_CONSTANT_BYTES && !compares {
                self.constants = self.constants.saturating_add(bytes);
            }
        }
        Ok(())
    }

    fn may_grow(&self) -> bool {
        self.looks_ahead || self.constants > 0 || self.reads.iter().any(|&reads| reads > 0)
    }

    /// Bytes for `rows` rows of `columns`.
    fn bytes(&self, columns: &[ArrayRef], rows: usize) -> usize {
        let read = |(&reads, column): (&usize, &ArrayRef)| if reads > 0 { reads * value_bytes(column) } else { 0 };
        // Of one row they are not written out, and what is computed says itself what it takes.
        let constants = if rows > 1 { self.constants.saturating_mul(rows) } else { 0 };
        self.reads.iter().zip(columns).map(read).sum::<usize>().saturating_add(constants)
    }
}

fn is_of_any_size(data_type: &DataType) -> bool {
    data_type.primitive_width().is_none() && !matches!(data_type, DataType::Boolean | DataType::Null)
}

/// Whether some values may make `expr` fail. Comparisons, lists and what connects them take every value; of all else nothing is known.
fn can_fail(expr: &Arc<dyn PhysicalExpr>) -> bool {
    // What propagates bounds compares.
    let takes_all = expr
        .downcast_ref::<BinaryExpr>()
        .is_some_and(|binary| binary.op().supports_propagation() || binary.op().is_logic_operator())
        || expr.downcast_ref::<Column>().is_some()
        || expr.downcast_ref::<Literal>().is_some()
        || expr.downcast_ref::<InListExpr>().is_some()
        || expr.downcast_ref::<LikeExpr>().is_some()
        || expr.downcast_ref::<NotExpr>().is_some()
        || expr.downcast_ref::<IsNullExpr>().is_some()
        || expr.downcast_ref::<IsNotNullExpr>().is_some();
    !takes_all || expr.children().into_iter().any(can_fail)
}

/// A physical expression evaluated on the columns that it reads, in the types that it was planned for.
#[derive(Debug)]
struct Foreign {
    expr: Arc<dyn PhysicalExpr>,
    columns: Vec<usize>,
    /// Type that the expression was planned for where it is not the normalized one.
    declared: Vec<Option<DataType>>,
    schema: SchemaRef,
    is_volatile: bool,
    can_fail: bool,
    growth: Bound,
}

impl ForeignExpr for Foreign {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn is_volatile(&self) -> bool {
        self.is_volatile
    }

    fn can_fail(&self) -> bool {
        self.can_fail
    }

    fn may_grow(&self) -> bool {
        self.growth.may_grow()
    }

    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef, ExecError> {
        if Growth::current() == Growth::InParts {
            let bytes = self.growth.bytes(columns, rows);
            if bytes > PART_BYTES {
                return Err(ExecError::Grown { bytes });
            }
        }
        let columns = columns
            .iter()
            .zip(&self.declared)
            .map(|(column, declared)| match declared {
                Some(declared) if declared != column.data_type() => Ok(cast(column, declared)?),
                _ => Ok(Arc::clone(column)),
            })
            .collect::<Result<Vec<_>, ExecError>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        self.expr.evaluate(&batch).and_then(|value| value.into_array(rows)).map_err(to_exec)
    }
}
