//! What a window says of the rows of its frames that plans have no place for, as keys of its partitions (`ogee_functions::framed_rows`): distances that are computed for each row, the order of an aggregate's
//! arguments, and beside these its condition.
//!
//! Not here: distances that are the same for all rows (`frames`), orders of functions that are no aggregates (`ordered_windows`), and exclusions, which are found among the tokens (`exclusions`).

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DuplicateTreatment, Expr, Function, FunctionArgumentClause, FunctionArguments,
    OrderByExpr, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowSpec, WindowType,
};
use ogee_functions::{
    framed_rows::{BOUNDS, Bounds, DISTINCT, FILTER, ORDER, Side, Units, is_mark},
    ordered_windows::{Ordered, order_text},
};

use super::{frames, null, ordered_windows, text};
use crate::names::{call, normal_name};

/// Aggregates that are the same in any order.
const UNORDERED: &[&str] = &[
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "count_if",
    "countif",
    "covar_pop",
    "covar_samp",
    "entropy",
    "kurtosis",
    "mad",
    "max",
    "mean",
    "median",
    "min",
    "product",
    "skewness",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "var_pop",
    "var_samp",
    "variance",
];

/// Aggregates whose values an order of rows decides.
const ORDERED: &[&str] = &[
    "any_value",
    "arbitrary",
    "arg_max",
    "arg_min",
    "argmax",
    "argmin",
    "array_agg",
    "group_concat",
    "histogram",
    "list",
    "listagg",
    "max_by",
    "min_by",
    "string_agg",
];

/// Puts what a call over a window says among the keys of the window.
pub(super) fn in_function(function: &mut Function) {
    let Some(WindowType::WindowSpec(spec)) = &mut function.over else { return };
    let [name] = &function.name.0[..] else { return };
    let Some(name) = name.as_ident().map(normal_name) else { return };
    let mut marks: Vec<Expr> = bounds(spec).into_iter().collect();
    let is_framed = |spec: &WindowSpec, marks: &[Expr]| !marks.is_empty() || spec.partition_by.iter().any(is_said);
    if let FunctionArguments::List(list) = &mut function.args {
        let is_order = |clause: &FunctionArgumentClause| matches!(clause, FunctionArgumentClause::OrderBy(_));
        let at = list.clauses.iter().position(is_order);
        let chooses = matches!(Ordered::of(&name), Some(Ordered::First | Ordered::Last | Ordered::Nth));
        if let Some(at) = at
            && (ORDERED.contains(&&*name) || UNORDERED.contains(&&*name) || chooses && is_framed(spec, &marks))
            && let FunctionArgumentClause::OrderBy(order) = list.clauses.remove(at)
            && !UNORDERED.contains(&&*name)
        {
            marks.push(order_of(order));
            if list.duplicate_treatment.take_if(|of| *of == DuplicateTreatment::Distinct).is_some() {
                marks.push(call(DISTINCT, Vec::new()));
            }
        }
    }
    if is_framed(spec, &marks)
        && Ordered::of(&name).is_none()
        && let Some(condition) = function.filter.take()
    {
        marks.push(call(FILTER, vec![*condition]));
    }
    spec.partition_by.extend(marks);
}

/// Whether `key` of a window's partitions says something of its frames.
fn is_said(key: &Expr) -> bool {
    matches!(key, Expr::Function(call) if is_mark(&call.name.to_string()))
}

fn order_of(order: Vec<OrderByExpr>) -> Expr {
    let options: Vec<_> = order.iter().map(ordered_windows::options).collect();
    let args = std::iter::once(text(&order_text(&options))).chain(order.into_iter().map(|key| key.expr)).collect();
    call(ORDER, args)
}

/// The bounds of the frame of `spec`, if they are computed; it has no frame then.
fn bounds(spec: &mut WindowSpec) -> Option<Expr> {
    let frame = spec.window_frame.as_ref()?;
    let current = WindowFrameBound::CurrentRow;
    let end = frame.end_bound.as_ref().unwrap_or(&current);
    let is_backward = frame.units == WindowFrameUnits::Range && frames::is_backward(&frame.start_bound, end);
    if !is_backward && !is_computed(&frame.start_bound) && !is_computed(end) {
        return None;
    }
    let (start_side, end_side) = (side(&frame.start_bound), side(end));
    let is_wrong = match (start_side, end_side) {
        (Side::Current, Side::Preceding) | (Side::Following, Side::Preceding | Side::Current) => true,
        // These begin at the end, or end at the beginning.
        (Side::Unbounded, _) if matches!(frame.start_bound, WindowFrameBound::Following(_)) => true,
        (_, Side::Unbounded) if matches!(end, WindowFrameBound::Preceding(_)) => true,
        _ => false,
    };
    if is_wrong {
        return None;
    }
    let key = spec.order_by.first();
    if frame.units == WindowFrameUnits::Range && spec.order_by.len() != 1 {
        return None;
    }
    let units = match frame.units {
        WindowFrameUnits::Rows => Units::Rows,
        WindowFrameUnits::Groups => Units::Groups,
        WindowFrameUnits::Range => Units::Range,
    };
    let mut args = vec![text(&Bounds::text(units, start_side, end_side))];
    for bound in [&frame.start_bound, end] {
        let distance = match bound {
            WindowFrameBound::Preceding(Some(distance)) | WindowFrameBound::Following(Some(distance)) => distance,
            _ => {
                args.extend([*null(), *null()]);
                continue;
            }
        };
        let distance = Expr::Nested(distance.clone());
        match key.filter(|_| units == Units::Range) {
            Some(key) => {
                let descends = key.options.asc == Some(false);
                let is_less = (side(bound) == Side::Preceding) != descends;
                let op = if is_less { BinaryOperator::Minus } else { BinaryOperator::Plus };
                let left = Box::new(Expr::Nested(Box::new(key.expr.clone())));
                args.extend([*null(), Expr::BinaryOp { left, op, right: Box::new(distance) }]);
            }
            None => args.extend([bigint(distance), *null()]),
        }
    }
    args.push(match key {
        Some(key) if units == Units::Range => key.expr.clone(),
        _ => *null(),
    });
    spec.window_frame = None::<WindowFrame>;
    Some(call(BOUNDS, args))
}

fn bigint(expr: Expr) -> Expr {
    let data_type = DataType::BigInt(None);
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

fn side(bound: &WindowFrameBound) -> Side {
    match bound {
        WindowFrameBound::CurrentRow => Side::Current,
        WindowFrameBound::Preceding(None) | WindowFrameBound::Following(None) => Side::Unbounded,
        WindowFrameBound::Preceding(Some(_)) => Side::Preceding,
        WindowFrameBound::Following(Some(_)) => Side::Following,
    }
}

/// Whether the distance of `bound` is not just a constant that is written.
fn is_computed(bound: &WindowFrameBound) -> bool {
    let (WindowFrameBound::Preceding(Some(distance)) | WindowFrameBound::Following(Some(distance))) = bound else {
        return false;
    };
    !frames::is_plain(distance)
}
