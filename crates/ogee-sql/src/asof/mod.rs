//! `ASOF JOIN`: each row of the left side with the row of the right side that was the last before it.
//!
//! `a ASOF [LEFT | RIGHT | FULL | SEMI | ANTI] JOIN b ON a.k = b.k AND a.t >= b.t`, as DuckDB has it: any number of equalities, and one of `>=`, `>`, `<=`
//! and `<`. Neither the parser nor DataFusion know it, so it takes three steps: the text becomes a join whose condition is marked (`syntax`); an analyzer rule
//! makes it a logical node of its own, through which no other rule moves conditions on the right side, since these would change which row is the last
//! (`logical`); planning makes of that what islands know.
//!
//! Not here: the operator (`ogee_exec::asof`).

mod logical;
mod syntax;

pub use self::logical::AsofJoin;
pub(crate) use self::{
    logical::{AsofJoins, marker, with_left_filters},
    syntax::{mark, tokens},
};
