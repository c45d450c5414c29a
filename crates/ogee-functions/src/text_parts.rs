//! Letters and parts of texts by their positions: `'hello'[2]`, `'hello'[2:3]`, which count from 1, or back from the end.
//!
//! Not here: elements and slices of lists, which are DataFusion's; `substring`.

use std::sync::{Arc, LazyLock};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, StringViewBuilder},
        datatypes::DataType,
    },
    common::{DFSchema, Result, plan_err},
    logical_expr::{
        Expr, ExprSchemable, GetFieldAccess, Literal, ScalarUDF,
        expr::ScalarFunction,
        planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr},
    },
};

use crate::{
    arguments::{Argument, taken, texts, wholes},
    function::{Function, Shown},
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
        if !access.expr.get_type(schema).is_ok_and(|data_type| data_type.is_string()) {
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
