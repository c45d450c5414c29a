//! What a call over a window says of the rows of its frame that a plan has no place for.
//!
//! Bounds that are computed for each row (`ROWS BETWEEN n PRECEDING AND ..`), the order in which an aggregate takes the rows (`list(x ORDER BY y) OVER w`), and, beside one of these, which rows it takes.
//! As an exclusion ([`Exclusion`]), each is a call of a function of ours among the keys of the window's partitions, which divides nothing and is taken out again by whoever runs the window ([`FramedRows::of`]).
//!
//! Not here: how frames are found (`ogee-planner`).

use std::sync::{Arc, LazyLock};

use datafusion::{
    arrow::{compute::SortOptions, datatypes::DataType},
    common::{Result, ScalarValue, not_impl_err, plan_err},
    logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility},
    physical_expr::{PhysicalExpr, ScalarFunctionExpr, expressions::Literal},
};

use crate::{exclusions::Exclusion, ordered_windows::order_of};

/// What is said of the bounds ([`Bounds::text`]), the distance and the moved key of each, and the key of the order.
pub const BOUNDS: &str = "ogee_frame_bounds";
/// What is said of the keys (`ordered_windows::order_text`), and these.
pub const ORDER: &str = "ogee_frame_order";
/// That values count once, in the order of rows.
pub const DISTINCT: &str = "ogee_frame_distinct";
/// The condition of the rows.
pub const FILTER: &str = "ogee_frame_filter";

/// What a frame is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Units {
    /// Rows.
    Rows,
    /// Rows with equal keys.
    Groups,
    /// Differences of keys.
    Range,
}

/// Where a frame begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// With its partition.
    Unbounded,
    /// At the current row, or its peers.
    Current,
    /// Before it.
    Preceding,
    /// Behind it.
    Following,
}

/// One bound of a frame.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Where it is.
    pub side: Side,
    /// How far.
    pub distance: Arc<dyn PhysicalExpr>,
    /// The key of the order that far away, where keys are compared.
    pub moved: Arc<dyn PhysicalExpr>,
}

/// Bounds that are computed.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// In what they are counted.
    pub units: Units,
    /// The first.
    pub start: Bound,
    /// The last.
    pub end: Bound,
    /// The key of the order, where keys are compared.
    pub key: Arc<dyn PhysicalExpr>,
}

impl Bounds {
    /// What the text says of bounds.
    pub fn text(units: Units, start: Side, end: Side) -> String {
        let units = match units {
            Units::Rows => 'r',
            Units::Groups => 'g',
            Units::Range => 'v',
        };
        let side = |side| match side {
            Side::Unbounded => 'u',
            Side::Current => 'c',
            Side::Preceding => 'p',
            Side::Following => 'f',
        };
        [units, side(start), side(end)].into_iter().collect()
    }

    fn of(args: &[Arc<dyn PhysicalExpr>]) -> Option<Self> {
        let [text, from, moved_from, to, moved_to, key] = args else { return None };
        let mut letters = text_of(text)?.chars();
        let units = match letters.next()? {
            'r' => Units::Rows,
            'g' => Units::Groups,
            'v' => Units::Range,
            _ => return None,
        };
        let mut bound = |distance: &Arc<dyn PhysicalExpr>, moved: &Arc<dyn PhysicalExpr>| {
            let side = match letters.next()? {
                'u' => Side::Unbounded,
                'c' => Side::Current,
                'p' => Side::Preceding,
                'f' => Side::Following,
                _ => return None,
            };
            Some(Bound { side, distance: Arc::clone(distance), moved: Arc::clone(moved) })
        };
        Some(Self { units, start: bound(from, moved_from)?, end: bound(to, moved_to)?, key: Arc::clone(key) })
    }
}

/// The order in which rows of a frame are taken.
#[derive(Clone, Debug)]
pub struct Order {
    /// Of each key.
    pub options: Vec<SortOptions>,
    /// The keys.
    pub keys: Vec<Arc<dyn PhysicalExpr>>,
}

/// All that is said of the rows of a frame.
#[derive(Clone, Debug, Default)]
pub struct FramedRows {
    /// Which rows around the current one are left out.
    pub exclusion: Option<Exclusion>,
    /// Bounds in place of those of the plan.
    pub bounds: Option<Bounds>,
    /// In which order rows are taken.
    pub order: Option<Order>,
    /// Whether equal values are taken once.
    pub is_distinct: bool,
    /// Which rows are taken.
    pub filter: Option<Arc<dyn PhysicalExpr>>,
}

impl FramedRows {
    /// What a window with the keys `partition_by` says, and the keys that divide its rows.
    pub fn of(partition_by: &[Arc<dyn PhysicalExpr>]) -> (Self, Vec<Arc<dyn PhysicalExpr>>) {
        let mut found = Self::default();
        let keys = partition_by.iter().filter(|key| !found.take(key)).cloned().collect();
        (found, keys)
    }

    /// Whether `key` said something.
    fn take(&mut self, key: &Arc<dyn PhysicalExpr>) -> bool {
        let Some(call) = key.downcast_ref::<ScalarFunctionExpr>() else { return false };
        let args = call.args();
        match call.name() {
            BOUNDS => self.bounds = Bounds::of(args),
            ORDER => {
                self.order = args
                    .split_first()
                    .and_then(|(text, keys)| Some(Order { options: order_of(text_of(text)?), keys: keys.to_vec() }));
            }
            DISTINCT => self.is_distinct = true,
            FILTER => self.filter = args.first().cloned(),
            name => match Exclusion::named(name) {
                Some(exclusion) => self.exclusion = Some(exclusion),
                None => return false,
            },
        }
        true
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.exclusion.is_none() && self.bounds.is_none() && self.order.is_none() && self.filter.is_none()
    }

    /// What is evaluated of rows.
    pub fn expressions(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        let mut all = Vec::new();
        if let Some(Bounds { start, end, key, .. }) = &self.bounds {
            all.extend([&start.distance, &start.moved, &end.distance, &end.moved, key].map(Arc::clone));
        }
        all.extend(self.order.iter().flat_map(|order| &order.keys).cloned());
        all.extend(self.filter.clone());
        all
    }

    /// Whether one of the keys `partition_by` of a window says something.
    pub fn is_among(partition_by: &[Expr]) -> bool {
        let is_one = |key: &Expr| matches!(key, Expr::ScalarFunction(call) if is_mark(call.name()));
        partition_by.iter().any(is_one)
    }
}

/// Whether the function `name` says something of the rows of a frame.
pub fn is_mark(name: &str) -> bool {
    matches!(name, BOUNDS | ORDER | DISTINCT | FILTER) || Exclusion::named(name).is_some()
}

fn text_of(expr: &Arc<dyn PhysicalExpr>) -> Option<&str> {
    match expr.downcast_ref::<Literal>()?.value() {
        ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => Some(text),
        _ => None,
    }
}

/// The functions of all that may be said.
pub fn functions() -> Vec<ScalarUDF> {
    static FUNCTIONS: LazyLock<Vec<ScalarUDF>> = LazyLock::new(|| {
        // Volatile: a constant would be evaluated while the statement is planned.
        let function = |name, what, signature: fn(Volatility) -> Signature| {
            ScalarUDF::new_from_impl(Marker { name, what, signature: signature(Volatility::Volatile) })
        };
        let exclusions =
            Exclusion::ALL.map(|exclusion| function(exclusion.function_name(), exclusion.text(), Signature::nullary));
        let others = [
            function(BOUNDS, "bounds that are computed", Signature::variadic_any),
            function(ORDER, "ORDER BY among the arguments", Signature::variadic_any),
            function(DISTINCT, "DISTINCT", Signature::nullary),
            function(FILTER, "FILTER", Signature::variadic_any),
        ];
        exclusions.into_iter().chain(others).collect()
    });
    FUNCTIONS.clone()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Marker {
    name: &'static str,
    what: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for Marker {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match (self.name, arg_types) {
            (FILTER, [condition]) if *condition != DataType::Boolean => {
                plan_err!("FILTER takes a condition, not {condition}")
            }
            _ => Ok(DataType::Boolean),
        }
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        not_impl_err!("{} of the frame of this window function", self.what)
    }
}
