//! Unnesting: DataFusion's node as the engine's operators, one level of lists after the other, then structs.

use std::{fmt, sync::Arc};

use datafusion::{
    arrow::datatypes::DataType,
    common::NullHandling,
    physical_plan::{ExecutionPlan, unnest::UnnestExec},
};
use ogee_exec::{EmptyLists, Expr, Operator, Project, UnnestStructs};

/// What is unnested, and what comes out.
#[derive(Debug)]
pub struct Unnest {
    /// The columns of the input, then, for each list to unnest, its column once more.
    before: Vec<usize>,
    /// The columns to unnest, the deepest lists first.
    levels: Vec<Vec<usize>>,
    /// Of those, the ones that come out, before structs are taken apart.
    after: Vec<usize>,
    structs: Vec<usize>,
    columns: usize,
    empty: EmptyLists,
}

/// The type of what is left of `data_type` after so many levels of lists.
fn inner(data_type: &DataType, depth: usize) -> Option<&DataType> {
    match data_type {
        inner if depth == 0 => Some(inner),
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            self::inner(field.data_type(), depth - 1)
        }
        _ => None,
    }
}

impl Unnest {
    /// What `node` does, if the engine can.
    pub fn of(node: &UnnestExec) -> Option<Self> {
        let schema = node.input().schema();
        let (lists, structs) = (node.list_column_indices(), node.struct_column_indices());
        let input = schema.fields().len();
        for list in lists {
            inner(schema.field(list.index_in_input_schema).data_type(), list.depth)?;
        }
        // A column of lists that becomes several moves those behind it, whose structs are named by their old places.
        let twice = (0..input).any(|column| lists.iter().filter(|l| l.index_in_input_schema == column).count() > 1);
        if twice && !structs.is_empty() {
            return None;
        }
        let deepest = lists.iter().map(|list| list.depth).max().unwrap_or(0);
        let at_level = |level| (0..lists.len()).filter(move |&list| lists[list].depth >= level);
        let levels = (1..=deepest).rev().map(|level| at_level(level).map(|list| input + list).collect()).collect();
        let after = (0..input).flat_map(|column| {
            let of_column = |&list: &usize| lists[list].index_in_input_schema == column;
            let unnested: Vec<usize> = (0..lists.len()).filter(of_column).map(|list| input + list).collect();
            if unnested.is_empty() { vec![column] } else { unnested }
        });
        Some(Self {
            before: (0..input).chain(lists.iter().map(|list| list.index_in_input_schema)).collect(),
            levels,
            after: after.collect(),
            structs: structs.to_vec(),
            columns: node.schema().fields().len(),
            empty: match node.options().null_handling {
                NullHandling::Drop => EmptyLists::Drop,
                NullHandling::Preserve => EmptyLists::KeepNull,
                NullHandling::PreserveAndExpandEmpty => EmptyLists::Keep,
            },
        })
    }

    /// The operators, in the order in which rows pass them.
    pub fn operators(&self) -> Vec<Arc<dyn Operator>> {
        let columns = |columns: &[usize]| -> Arc<dyn Operator> {
            Arc::new(Project::new(columns.iter().map(|&column| Expr::Column(column)).collect()))
        };
        let mut operators = Vec::new();
        if !self.levels.is_empty() {
            operators.push(columns(&self.before));
            let level = |lists: &Vec<usize>| -> Arc<dyn Operator> {
                Arc::new(ogee_exec::Unnest::new(lists.clone(), self.empty))
            };
            operators.extend(self.levels.iter().map(level));
            operators.push(columns(&self.after));
        }
        if !self.structs.is_empty() {
            operators.push(Arc::new(UnnestStructs::new(self.structs.clone(), self.columns)));
        }
        operators
    }
}

impl fmt::Display for Unnest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = self.before.len() - self.levels.first().map_or(self.before.len(), |level| level[0]);
        write!(f, "lists={lists}, levels={}, structs={}", self.levels.len(), self.structs.len())
    }
}
