//! `EXCLUDE` of a window's frame, which a plan carries as a key of the window's partitions.
//!
//! Plans have no place for it. So the text of a statement gets a call of a function of ours among the keys of the partition, a constant that divides nothing, and whoever runs the window takes it out again
//! ([`Exclusion::of`]). The function itself cannot be evaluated: a plan that did not know it would give the values of whole frames.
//!
//! Not here: what is left of a frame (`ogee-planner`).

use std::sync::{Arc, LazyLock};

use datafusion::{
    arrow::datatypes::DataType,
    common::{Result, not_impl_err},
    logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility},
    physical_expr::{PhysicalExpr, ScalarFunctionExpr},
};

/// What begins the names of the functions.
const PREFIX: &str = "ogee_exclude_";

/// Which rows around the current one a frame is without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exclusion {
    /// `EXCLUDE CURRENT ROW`.
    CurrentRow,
    /// `EXCLUDE GROUP`: the current row and its peers.
    Group,
    /// `EXCLUDE TIES`: its peers, not itself.
    Ties,
}

impl Exclusion {
    /// All that there are.
    pub const ALL: [Self; 3] = [Self::CurrentRow, Self::Group, Self::Ties];

    /// The name of its function.
    pub fn function_name(self) -> &'static str {
        match self {
            Self::CurrentRow => "ogee_exclude_current_row",
            Self::Group => "ogee_exclude_group",
            Self::Ties => "ogee_exclude_ties",
        }
    }

    /// That of the function `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|exclusion| exclusion.function_name() == name)
    }

    /// That of a window with the keys `partition_by`, and the keys without it.
    pub fn of(mut partition_by: Vec<Arc<dyn PhysicalExpr>>) -> (Option<Self>, Vec<Arc<dyn PhysicalExpr>>) {
        let own = |key: &Arc<dyn PhysicalExpr>| Self::named(key.downcast_ref::<ScalarFunctionExpr>()?.name());
        let found = partition_by.iter().find_map(own);
        partition_by.retain(|key| own(key).is_none());
        (found, partition_by)
    }

    /// Whether one of the keys `partition_by` of a window is one.
    pub fn is_among(partition_by: &[Expr]) -> bool {
        let is_one = |key: &Expr| matches!(key, Expr::ScalarFunction(call) if Self::named(call.name()).is_some());
        partition_by.iter().any(is_one)
    }
}

/// The functions of all exclusions.
pub fn functions() -> Vec<ScalarUDF> {
    static FUNCTIONS: LazyLock<Vec<ScalarUDF>> = LazyLock::new(|| {
        // Volatile: a constant would be evaluated while the statement is planned.
        let function = |exclusion| Marker { exclusion, signature: Signature::nullary(Volatility::Volatile) };
        Exclusion::ALL.into_iter().map(|exclusion| ScalarUDF::new_from_impl(function(exclusion))).collect()
    });
    FUNCTIONS.clone()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Marker {
    exclusion: Exclusion,
    signature: Signature,
}

impl ScalarUDFImpl for Marker {
    fn name(&self) -> &str {
        self.exclusion.function_name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let what = self.exclusion.function_name()[PREFIX.len()..].to_uppercase().replace('_', " ");
        not_impl_err!("EXCLUDE {what} of the frame of this window function")
    }
}
