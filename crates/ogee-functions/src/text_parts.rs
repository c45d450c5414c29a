//! Letters and parts of texts by their positions: `'hello'[2]`, `'hello'[2:3]`, which count from 1, or back from the end.
//!
//! `array_slice` and `array_extract` of texts are the same, and a slice of bytes counts bytes.
//!
//! Not here: elements and slices of lists, which are DataFusion's, or of unusual steps (`slices`); `substring`.

use std::sync::{Arc, LazyLock};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BinaryViewBuilder, StringViewBuilder},
        datatypes::{DataType, FieldRef},
    },
    common::{DFSchema, Result, plan_err},
    functions_nested::extract::{array_element_udf, array_slice_udf},
    logical_expr::{
        ColumnarValue, Documentation, Expr, ExprSchemable, GetFieldAccess, Literal, ReturnFieldArgs,
        ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        expr::ScalarFunction,
        planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr},
        simplify::{ExprSimplifyResult, SimplifyContext},
    },
};

use crate::{
    arguments::{Argument, taken, texts, wholes},
    blobs::is_blob,
    function::{Function, Shown},
    lists::{coerced, is_list},
    slices,
    times::Zone,
};

/// Plans access to texts.
#[derive(Debug)]
pub struct TextAccess;

impl ExprPlanner for TextAccess {
    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let Ok(data_type) = access.expr.get_type(schema) else { return Ok(PlannerResult::Original(access)) };
        if let GetFieldAccess::ListRange { start, stop, stride } = &access.field_access
            && is_list(&data_type)
            && **stride != 1_i64.lit()
        {
            let bounds = [start, stop, stride].map(|bound| bound.as_ref().clone());
            let args = std::iter::once(access.expr).chain(bounds).collect();
            return Ok(PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&SLICE), args))));
        }
        if !data_type.is_string() {
            return Ok(PlannerResult::Original(access));
        }
        let (from, to) = match access.field_access {
            GetFieldAccess::ListIndex { key } => (key.as_ref().clone(), None),
            GetFieldAccess::ListRange { start, stop, stride } => {
                if *stride != 1_i64.lit() {
                    return plan_err!("a slice of a text has no steps");
                }
                (start.as_ref().clone(), Some(stop.as_ref().clone()))
            }
            GetFieldAccess::NamedStructField { .. } => return Ok(PlannerResult::Original(access)),
        };
        let args = [access.expr, from].into_iter().chain(to).collect();
        Ok(PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&PART), args))))
    }
}

static SLICE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(functions().swap_remove(0)));

/// `array_slice` and `array_extract`, which take texts and slices of bytes beside lists.
pub fn functions() -> Vec<ScalarUDF> {
    let function = |list: Arc<ScalarUDF>| {
        ScalarUDF::new_from_impl(PartOrElements { list, signature: Signature::user_defined(Volatility::Immutable) })
    };
    vec![function(array_slice_udf()), function(array_element_udf())]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct PartOrElements {
    list: Arc<ScalarUDF>,
    signature: Signature,
}

impl PartOrElements {
    /// The function for arguments of such types, if they are no lists.
    fn function(&self, arg_types: &[DataType]) -> Option<&'static Arc<ScalarUDF>> {
        match arg_types {
            [text, _, _] if text.is_string() && self.list.name() == array_slice_udf().name() => Some(&PART),
            [blob, _, _] if is_blob(blob) && self.list.name() == array_slice_udf().name() => Some(&BYTES),
            [text, _] if text.is_string() && self.list.name() == array_element_udf().name() => Some(&PART),
            _ => None,
        }
    }
}

impl ScalarUDFImpl for PartOrElements {
    fn name(&self) -> &str {
        self.list.name()
    }

    fn aliases(&self) -> &[String] {
        self.list.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match (self.function(arg_types), arg_types) {
            (Some(function), _) => function.coerce_types(arg_types),
            (None, [text, _, _, _]) if text.is_string() => plan_err!("a slice of a text has no steps"),
            (None, _) => coerced(arg_types, &self.list),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.function(arg_types).unwrap_or(&self.list).return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        self.function(&types).unwrap_or(&self.list).return_field_from_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let types = args.iter().map(|arg| info.get_data_type(arg)).collect::<Result<Vec<_>>>()?;
        self.function(&types).unwrap_or(&self.list).simplify(args, info)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.list.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        if let [list, _, _, step] = &args.args[..]
            && is_list(&list.data_type())
            && let Some(steps) = slices::unusual(step)?
        {
            return slices::stepped(&args, &steps);
        }
        self.function(&types).unwrap_or(&self.list).invoke_with_args(args)
    }
}

static BYTES: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let takes =
        |given: &[DataType]| taken("array_slice", &[Argument::TextOrBytes, Argument::Whole, Argument::Whole], 0, given);
    Arc::new(Function::of("ogee_blob_part", takes, |_| Ok(DataType::BinaryView), byte_parts).registered())
});

/// The bytes from one position to another.
fn byte_parts(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let (blobs, from, to) = (args[0].as_binary_view(), wholes(&args[1])?, wholes(&args[2])?);
    let mut parts = BinaryViewBuilder::with_capacity(blobs.len());
    for ((blob, from), to) in blobs.iter().zip(&from).zip(&to) {
        let part = |blob: &'_ [u8], from: i64, to: i64| {
            let length = blob.len() as i64;
            let counted = |position: i64| if position < 0 { length.saturating_add(position) + 1 } else { position };
            let (begin, end) = (counted(from).clamp(1, length + 1) - 1, counted(to).clamp(0, length));
            begin as usize..(end.max(begin)) as usize
        };
        match (blob, from, to) {
            (Some(blob), Some(from), Some(to)) => parts.append_value(&blob[part(blob, from, to)]),
            _ => parts.append_null(),
        }
    }
    Ok(Arc::new(parts.finish()))
}

static PART: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let takes = |given: &[DataType]| taken("[]", &[Argument::Text, Argument::Whole, Argument::Whole], 1, given);
    Arc::new(Function::of("ogee_text_part", takes, |_| Ok(DataType::Utf8View), parts).shown(Shown::Index).registered())
});

/// The letter at a position, or those from one to another.
fn parts(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let (values, from) = (texts(&args[0])?, wholes(&args[1])?);
    let to = args.get(2).map(wholes).transpose()?;
    let mut parts = StringViewBuilder::with_capacity(values.len());
    for (row, (text, from)) in values.iter().zip(&from).enumerate() {
        let to = match &to {
            Some(to) => to.is_valid(row).then(|| to.value(row)),
            None => from,
        };
        let (Some(text), Some(from), Some(to)) = (text, from, to) else {
            parts.append_null();
            continue;
        };
        // A position before the first letter is that of no letter, and where a slice begins that of the first.
        let is_letter = args.len() == 2;
        parts.append_value(part(text, from, to, is_letter));
    }
    Ok(Arc::new(parts.finish()))
}

/// The letters of `text` from the one at position `from` to the one at `to`.
fn part(text: &str, from: i64, to: i64, is_letter: bool) -> &str {
    let from_end = |position: i64| position < 0;
    let length = if from_end(from) || from_end(to) { text.chars().count() as i64 } else { 0 };
    let counted = |position: i64| if from_end(position) { length.saturating_add(position) + 1 } else { position };
    let (from, to) = (counted(from), counted(to));
    if is_letter && from < 1 {
        return "";
    }
    let from = from.max(1);
    if to < from {
        return "";
    }
    let begin = byte_of(text, from - 1);
    let end = begin + byte_of(&text[begin..], to - from + 1);
    &text[begin..end]
}

/// Where in `text` the letter behind `letters` others begins.
fn byte_of(text: &str, letters: i64) -> usize {
    let letters = usize::try_from(letters).unwrap_or(usize::MAX);
    if letters >= text.len() {
        return text.len();
    }
    if text.is_ascii() {
        return letters;
    }
    text.char_indices().nth(letters).map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_of_duckdb() {
        for (from, to, expected) in [
            (0, 2, "he"),
            (-9, 2, "he"),
            (3, 2, ""),
            (2, 99, "ello"),
            (-3, -2, "ll"),
            (1, -2, "hell"),
            (0, 0, ""),
            (i64::MIN, i64::MAX, "hello"),
        ] {
            assert_eq!(part("hello", from, to, false), expected, "{from} {to}");
        }
        for (at, expected) in [(2, "ö"), (-1, "ü"), (0, ""), (9, ""), (-9, ""), (i64::MAX, ""), (i64::MIN, "")] {
            assert_eq!(part("äöü", at, at, true), expected, "{at}");
        }
    }
}
