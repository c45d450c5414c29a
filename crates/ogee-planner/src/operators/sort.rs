//! Sorts: DataFusion's orderings as keys of the engine.

use std::{fmt, sync::Arc};

use datafusion::{
    arrow::datatypes::Schema,
    physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr},
};
use ogee_exec::sort::{SortKey, SortSpec, supports};
use ogee_vector::{normalize_schema, normalize_type};

use crate::expr::translate;

/// A sort, of all rows or for the first of them.
#[derive(Debug)]
pub struct Sort {
    spec: SortSpec,
    by: LexOrdering,
}

/// The keys of the engine that order rows of `input` as `by` does; `None` if there is a type that it cannot order.
pub fn sort_keys(by: &[PhysicalSortExpr], input: &Schema) -> Option<Vec<SortKey>> {
    let key = |sort: &PhysicalSortExpr| {
        Some(SortKey {
            data_type: normalize_type(&sort.expr.data_type(input).ok()?),
            expr: translate(&sort.expr, input).ok()?,
            descending: sort.options.descending,
            nulls_first: sort.options.nulls_first,
        })
    };
    by.iter().map(key).collect()
}

impl Sort {
    /// A sort of rows of `input`; `None` if they have a type that the engine cannot keep or order.
    pub fn of(by: &LexOrdering, fetch: Option<usize>, input: &Schema) -> Option<Self> {
        let spec = SortSpec { keys: sort_keys(by, input)?, fetch, schema: normalize_schema(input) };
        supports(&spec).then(|| Self { spec, by: by.clone() })
    }

    /// The specification, for one run.
    pub fn spec(&self) -> SortSpec {
        self.spec.clone()
    }

    /// How many rows are wanted.
    pub fn fetch(&self) -> Option<usize> {
        self.spec.fetch
    }

    /// The expressions over the input.
    pub fn expressions(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.by.iter().map(|sort| Arc::clone(&sort.expr)).collect()
    }
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.by)?;
        match self.spec.fetch {
            Some(fetch) => write!(f, ", fetch={fetch}"),
            None => Ok(()),
        }
    }
}
