//! Lists where DataFusion sees text, and text where it sees lists.
//!
//! * `length` of a list is how many elements it has, `concat` of lists a list. DataFusion writes lists as text first.
//! * `@>`, `<@` and `&&` of lists are `list_has_all` and `list_has_any` with their meaning here.
//! * `list || list` is NULL where either is, as other operators are. DataFusion takes NULL for an empty list, or for an element.
//! * Functions of text are refused for lists, structs and maps, which DataFusion would write as text ([`check_text`]).
//!
//! Not here: casts between text and lists (`list_casts`), comparisons with the elements of a list (`ogee_sql`, `quantified`).

use std::{
    collections::HashSet,
    sync::{Arc, LazyLock},
};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, Int64Array, make_array},
        buffer::NullBuffer,
        datatypes::{DataType, Field, FieldRef},
    },
    common::{DFSchema, Result, ScalarValue, plan_err, utils::list_ndims},
    functions::{string, unicode},
    functions_nested::concat::array_concat_udf,
    logical_expr::{
        ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility, binary_expr, cast as cast_expr,
        expr::ScalarFunction,
        planner::{ExprPlanner, PlannerResult, RawBinaryExpr},
        simplify::{ExprSimplifyResult, SimplifyContext},
        type_coercion::functions::fields_with_udf,
    },
    sql::sqlparser::ast::BinaryOperator,
};

use crate::{
    blobs::{both, is_blob},
    list_functions::Mended,
    type_names::sql_name,
};

/// The functions to register in a session.
pub fn functions() -> Vec<ScalarUDF> {
    let signature = || Signature::user_defined(Volatility::Immutable);
    vec![
        ScalarUDF::new_from_impl(Length { text: unicode::character_length(), signature: signature() }),
        ScalarUDF::new_from_impl(Contains {
            text: string::contains(),
            list: Mended::list_contains(),
            signature: signature(),
        }),
        ScalarUDF::new_from_impl(Concat { text: string::concat(), signature: signature() }),
    ]
}

/// Plans `||`, `@>`, `<@` and `&&` of lists.
#[derive(Debug)]
pub struct ListOperators;

impl ExprPlanner for ListOperators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{ArrowAt, AtArrow, PGOverlap, Plus, StringConcat};
        let mut expr = expr;
        // A sum is no list, and finding the type of one takes a walk through it.
        let is_sum = |side: &Expr| matches!(side, Expr::BinaryExpr(_));
        if expr.op == Plus && !is_sum(&expr.left) && !is_sum(&expr.right) {
            let is_list_of = |side: &Expr| side.get_type(schema).is_ok_and(|data_type| is_list(&data_type));
            if is_list_of(&expr.left) && is_list_of(&expr.right) {
                expr.op = StringConcat;
            }
        }
        if !matches!(expr.op, StringConcat | AtArrow | ArrowAt | PGOverlap) {
            return Ok(PlannerResult::Original(expr));
        }
        let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        if expr.op != StringConcat {
            let is_side = |side: &DataType| is_list(side) || side.is_null();
            if !is_side(&left) || !is_side(&right) || left.is_null() && right.is_null() {
                return Ok(PlannerResult::Original(expr));
            }
            let (function, sides) = match expr.op {
                AtArrow => (Mended::list_has_all(), vec![expr.left, expr.right]),
                ArrowAt => (Mended::list_has_all(), vec![expr.right, expr.left]),
                _ => (Mended::list_has_any(), vec![expr.left, expr.right]),
            };
            let call = Expr::ScalarFunction(ScalarFunction::new_udf(function, sides));
            return Ok(PlannerResult::Planned(call));
        }
        if is_blob(&left) && is_blob(&right) {
            return Ok(PlannerResult::Planned(both(expr.left, expr.right)));
        }
        let typed_null = |data_type: &DataType| ScalarValue::try_from(data_type).map(|null| Expr::Literal(null, None));
        match (list_ndims(&left), list_ndims(&right)) {
            // Values that are no texts are put together as such.
            (0, 0) if !(left.is_string() || right.is_string() || left.is_nested() || right.is_nested()) => {
                if left.is_null() || right.is_null() {
                    return Ok(PlannerResult::Planned(Expr::Literal(ScalarValue::Utf8View(None), None)));
                }
                let [left, right] = [expr.left, expr.right].map(|side| cast_expr(side, DataType::Utf8View));
                Ok(PlannerResult::Planned(binary_expr(left, Operator::StringConcat, right)))
            }
            (0, 0) => Ok(PlannerResult::Original(expr)),
            (_, 0) if right.is_null() => Ok(PlannerResult::Planned(typed_null(&left)?)),
            (0, _) if left.is_null() => Ok(PlannerResult::Planned(typed_null(&right)?)),
            (l, r) if l == r => {
                let call = ScalarFunction::new_udf(Arc::clone(&BOTH_LISTS), vec![expr.left, expr.right]);
                Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
            }
            _ => Ok(PlannerResult::Original(expr)),
        }
    }
}

static BOTH_LISTS: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(BothLists { signature }))
});

/// The types in which `function` takes arguments of such types.
pub fn coerced(arg_types: &[DataType], function: &ScalarUDF) -> Result<Vec<DataType>> {
    let fields: Vec<FieldRef> =
        arg_types.iter().map(|data_type| Arc::new(Field::new("", data_type.clone(), true))).collect();
    Ok(fields_with_udf(&fields, function)?.iter().map(|field| field.data_type().clone()).collect())
}

/// Whether values of the type are lists, whatever their form.
pub fn is_list(data_type: &DataType) -> bool {
    element(data_type).is_some()
}

/// The field of the elements of lists of the type, whatever their form; none if values of it are no lists.
pub fn element(data_type: &DataType) -> Option<&FieldRef> {
    match data_type {
        DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => Some(of),
        _ => None,
    }
}

/// An error if `call` is of a function of text whose arguments are nested: what they look like as text is nobody's concern.
pub fn check_text(call: &ScalarFunction, schema: &DFSchema) -> Result<()> {
    static OF_TEXT: LazyLock<HashSet<String>> = LazyLock::new(|| {
        let all = string::functions().into_iter().chain(unicode::functions());
        // These take lists as well.
        let names = all.map(|function| function.name().to_owned());
        names.filter(|name| !["character_length", "concat", "contains"].contains(&name.as_str())).collect()
    });
    if !OF_TEXT.contains(call.func.name()) {
        return Ok(());
    }
    for arg in &call.args {
        if let Ok(data_type) = arg.get_type(schema)
            && data_type.is_nested()
        {
            return plan_err!(
                "{} takes text, not values of type {}; cast the argument",
                call.func.name(),
                sql_name(&data_type)
            );
        }
    }
    Ok(())
}

/// The characters of a text, or the elements of a list.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Length {
    text: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for Length {
    fn name(&self) -> &str {
        self.text.name()
    }

    fn aliases(&self) -> &[String] {
        self.text.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [list] if is_list(list) => Ok(arg_types.to_vec()),
            [text] if text.is_string() || text.is_null() => coerced(arg_types, &self.text),
            [DataType::Dictionary(_, values)] if values.is_string() => coerced(arg_types, &self.text),
            [other] => {
                plan_err!("length takes text or lists, not values of type {}; cast the argument", sql_name(other))
            }
            _ => plan_err!("length takes one argument, not {}", arg_types.len()),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [list] if is_list(list) => Ok(DataType::Int64),
            _ => self.text.return_type(arg_types),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if !is_list(&args.args[0].data_type()) {
            return self.text.invoke_with_args(args);
        }
        let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let lists = args.args[0].to_array(if is_scalar { 1 } else { args.number_rows })?;
        let lengths: Vec<i64> = match lists.data_type() {
            DataType::List(_) => lists.as_list::<i32>().offsets().lengths().map(|length| length as i64).collect(),
            DataType::LargeList(_) => lists.as_list::<i64>().offsets().lengths().map(|length| length as i64).collect(),
            _ => vec![i64::from(lists.as_fixed_size_list().value_length()); lists.len()],
        };
        let lengths: ArrayRef = Arc::new(Int64Array::new(lengths.into(), lists.nulls().cloned()));
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&lengths, 0)?),
            false => ColumnarValue::Array(lengths),
        })
    }
}

/// Texts one after the other, or lists; what is NULL adds nothing.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Concat {
    text: Arc<ScalarUDF>,
    signature: Signature,
}

impl Concat {
    /// The function for arguments of such types.
    fn function(&self, arg_types: &[DataType]) -> Arc<ScalarUDF> {
        if arg_types.iter().any(is_list) { Mended::list_concat() } else { Arc::clone(&self.text) }
    }
}

impl ScalarUDFImpl for Concat {
    fn name(&self) -> &str {
        self.text.name()
    }

    fn aliases(&self) -> &[String] {
        self.text.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let lists = arg_types.iter().filter(|arg| is_list(arg)).count();
        if lists > 0 && arg_types.iter().any(|arg| !is_list(arg) && !arg.is_null()) {
            return plan_err!("concat takes text, or lists, not both; cast the arguments");
        }
        if arg_types.iter().any(|arg| arg.is_nested() && !is_list(arg)) {
            return plan_err!("concat takes text, or lists; cast the arguments");
        }
        let Some(list) = arg_types.iter().find(|arg| is_list(arg)) else { return coerced(arg_types, &self.text) };
        check_elements(arg_types)?;
        // The function of lists takes no bare NULL.
        let typed: Vec<DataType> =
            arg_types.iter().map(|arg| if arg.is_null() { list.clone() } else { arg.clone() }).collect();
        coerced(&typed, array_concat_udf().as_ref())
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.function(arg_types).return_type(arg_types)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let is_text = args.iter().all(|arg| info.get_data_type(arg).is_ok_and(|data_type| !data_type.is_nested()));
        if is_text { self.text.simplify(args, info) } else { Ok(ExprSimplifyResult::Original(args)) }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arg_types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        self.function(&arg_types).invoke_with_args(args)
    }
}

/// Whether a text has another within it, or a list a value among its elements.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Contains {
    text: Arc<ScalarUDF>,
    list: Arc<ScalarUDF>,
    signature: Signature,
}

impl Contains {
    /// The function for arguments of such types.
    fn function(&self, arg_types: &[DataType]) -> &Arc<ScalarUDF> {
        if arg_types.first().is_some_and(is_list) { &self.list } else { &self.text }
    }
}

impl ScalarUDFImpl for Contains {
    fn name(&self) -> &str {
        self.text.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [list, _] if is_list(list) => self.list.coerce_types(arg_types),
            _ => coerced(arg_types, &self.text),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let types = args.iter().map(|arg| info.get_data_type(arg)).collect::<Result<Vec<_>>>()?;
        self.function(&types).simplify(args, info)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        self.function(&types).invoke_with_args(args)
    }
}

/// Two lists as one, NULL where one of them is.
#[derive(Debug, PartialEq, Eq, Hash)]
struct BothLists {
    signature: Signature,
}

impl ScalarUDFImpl for BothLists {
    fn name(&self) -> &str {
        "||"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        check_elements(arg_types)?;
        Mended::list_concat().coerce_types(arg_types)
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Mended::list_concat().return_type(arg_types)
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("{} || {}", args[0], args[1]))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("{} || {}", args[0].schema_name(), args[1].schema_name()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let all_scalars = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let sides = ColumnarValue::values_to_arrays(&args.args)?;
        let rows = sides[0].len();
        let nulls = NullBuffer::union(sides[0].nulls(), sides[1].nulls());
        let joined = array_concat_udf().invoke_with_args(args)?.into_array(rows)?;
        let joined = match nulls {
            Some(nulls) => make_array(joined.to_data().into_builder().nulls(Some(nulls)).build()?),
            None => joined,
        };
        Ok(match all_scalars {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&joined, 0)?),
            false => ColumnarValue::Array(joined),
        })
    }
}

/// An error where elements of lists have no type in common but text.
fn check_elements(arg_types: &[DataType]) -> Result<()> {
    let elements = arg_types.iter().filter_map(|arg| element(arg)).map(|of| of.data_type());
    let of_kind = |wanted: fn(&DataType) -> bool| elements.clone().find(|of| wanted(of));
    match (of_kind(DataType::is_string), of_kind(|of| !of.is_string() && !of.is_null())) {
        (Some(text), Some(other)) => plan_err!("lists of {text} and of {other} cannot be joined; cast one of them"),
        _ => Ok(()),
    }
}
