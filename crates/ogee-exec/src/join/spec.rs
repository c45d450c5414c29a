//! What a join is asked to do, and how it is bound to rows.

use std::sync::{Arc, atomic::AtomicU64};

use arrow_schema::{DataType, SchemaRef};
use ogee_row::{HeapBuffers, PinnedRows, RowLayout, RowLayoutBuilder, SerialForm};
use ogee_vector::{Domain, PhysicalType};

use super::{ranges::RangeKeys, side::Side};
use crate::{ExecError, Expr, RowsExpected};

/// Which rows a join gives. The *build* side is kept, the *probe* side streams by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// Pairs that match.
    Inner,
    /// And build rows without a match, with NULLs.
    BuildOuter,
    /// Pairs, and probe rows without a match, with NULLs.
    ProbeOuter,
    /// Pairs, and the rows of both sides without a match.
    FullOuter,
    /// Build rows with a match, once.
    BuildSemi,
    /// Build rows without one.
    BuildAnti,
    /// All build rows, with whether they have a match.
    BuildMark,
    /// Probe rows with a match, once.
    ProbeSemi,
    /// Probe rows without one.
    ProbeAnti,
    /// All probe rows, with whether they have a match.
    ProbeMark,
}

impl JoinKind {
    /// Whether pairs are given.
    pub(crate) fn pairs(self) -> bool {
        matches!(self, Self::Inner | Self::BuildOuter | Self::ProbeOuter | Self::FullOuter)
    }

    /// Whether it matters which build rows have a match.
    pub(crate) fn marks_build(self) -> bool {
        matches!(self, Self::BuildOuter | Self::FullOuter | Self::BuildSemi | Self::BuildAnti | Self::BuildMark)
    }

    /// Whether build rows are given that have no match.
    pub(crate) fn keeps_build(self) -> bool {
        self.marks_build() && self != Self::BuildSemi
    }

    /// Whether it matters which probe rows have a match.
    pub(crate) fn marks_probe(self) -> bool {
        matches!(self, Self::ProbeOuter | Self::FullOuter | Self::ProbeSemi | Self::ProbeAnti | Self::ProbeMark)
    }

    /// Whether probe rows are given that have no match.
    pub(crate) fn keeps_probe(self) -> bool {
        self.marks_probe() && self != Self::ProbeSemi
    }

    /// Whether a probe row needs one match only.
    pub(crate) fn first_only(self) -> bool {
        matches!(self, Self::ProbeSemi | Self::ProbeAnti | Self::ProbeMark)
    }
}

/// A pair of expressions that must be equal.
#[derive(Clone, Debug)]
pub struct JoinKey {
    /// Over the columns of the build side.
    pub build: Expr,
    /// Over the columns of the probe side.
    pub probe: Expr,
    /// Normalized type of both.
    pub data_type: DataType,
}

/// A column of a pair of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JoinColumn {
    /// Of the build side.
    Build(usize),
    /// Of the probe side.
    Probe(usize),
    /// Whether there is a match.
    Mark,
}

/// A condition beyond equal keys.
#[derive(Clone, Debug)]
pub struct Residual {
    /// The condition, over `columns`.
    pub predicate: Expr,
    /// What it reads.
    pub columns: Vec<JoinColumn>,
}

/// A join.
#[derive(Clone, Debug)]
pub struct JoinSpec {
    /// Which rows it gives.
    pub kind: JoinKind,
    /// What must be equal.
    pub keys: Vec<JoinKey>,
    /// Whether NULL equals NULL.
    pub nulls_equal: bool,
    /// `NOT IN`, for [`JoinKind::BuildAnti`] with one key: one NULL on the probe side, and no row is given; a NULL on the build side is given
    /// only if the probe side is empty.
    pub null_aware: bool,
    /// What else must be true.
    pub residual: Option<Residual>,
    /// Comparisons of the residual condition that mates are looked up by, where there are no keys.
    pub ranges: Option<RangeKeys>,
    /// The columns given.
    pub output: Vec<JoinColumn>,
    /// Columns of the build side, in normalized types.
    pub build: SchemaRef,
    /// Columns of the probe side, in normalized types.
    pub probe: SchemaRef,
    /// What is known of the columns of the build side.
    pub build_domains: Vec<Domain>,
    /// About how many rows the build side has.
    pub build_rows: RowsExpected,
    /// Whether groupings on the probe side are to wait for the build side where that spares them groups that have no mate. It takes memory meanwhile.
    pub groups_wait: bool,
    /// Counts the rows that were dropped before they came to the join, since no row of the build side has their keys.
    pub dropped: Arc<AtomicU64>,
    /// Columns given, in normalized types.
    pub schema: SchemaRef,
}

/// A join bound to row layouts.
pub(crate) struct JoinPlan {
    pub(crate) spec: JoinSpec,
    /// Rows of the build side: keys, what is needed of the columns, the next row of the chain, whether there was a match.
    pub(crate) build: Side,
    /// Rows of the probe side that are kept: keys, what is needed of the columns, whether there was a match.
    pub(crate) probe: Side,
    /// What rows of both look like while they wait.
    pub(crate) build_form: Arc<SerialForm>,
    pub(crate) probe_form: Arc<SerialForm>,
    /// The keys alone, as both sides have them.
    pub(crate) keys: Arc<RowLayout>,
    /// Offset in a build row of the address of the next one.
    pub(crate) next: usize,
    /// Offset of the byte that tells whether there was a match. That of a probe row is its state.
    pub(crate) build_mark: usize,
    /// Pairs have strings of the build side.
    has_build_strings: bool,
}

impl JoinPlan {
    pub(crate) fn new(spec: JoinSpec) -> Result<Self, ExecError> {
        let kind = spec.kind;
        let residual = spec.residual.iter().flat_map(|residual| &residual.columns);
        let mut used: Vec<JoinColumn> = spec.output.iter().chain(residual).copied().collect();
        used.sort_unstable();
        used.dedup();
        let of_build = used.iter().filter_map(|c| if let JoinColumn::Build(index) = c { Some(*index) } else { None });
        let of_probe = used.iter().filter_map(|c| if let JoinColumn::Probe(index) = c { Some(*index) } else { None });
        // Rows whose key has a NULL are kept for what they are; they are never compared, unless NULLs are equal.
        let nullable = spec.nulls_equal || kind.keeps_build();
        let build_keys = spec.keys.iter().map(|key| (&key.build, &key.data_type));
        let probe_keys = spec.keys.iter().map(|key| (&key.probe, &key.data_type));
        let marked = usize::from(kind.marks_build());
        let build = Side::new(&spec.build, build_keys, nullable, of_build.collect(), size_of::<usize>() + marked)?;
        let marked = usize::from(kind.marks_probe());
        let probe = Side::new(&spec.probe, probe_keys, nullable, of_probe.collect(), marked)?;
        let mut keys = RowLayoutBuilder::default();
        for key in &spec.keys {
            keys.key(key.data_type.clone(), nullable);
        }
        let keys = keys.build()?;
        let next = build.layout.state_offset();
        let build_mark = next + size_of::<usize>();
        // The next row of a chain is known, and matches are, when all rows that could be are in memory.
        let build_form = Arc::new(SerialForm::without_state(Arc::clone(&build.layout)));
        let probe_form = Arc::new(SerialForm::new(Arc::clone(&probe.layout)));
        let is_string = |column: &JoinColumn| match *column {
            JoinColumn::Build(index) => matches!(PhysicalType::of(build.data_type(index)), Ok(PhysicalType::View)),
            _ => false,
        };
        let has_build_strings = used.iter().any(is_string) && (kind.pairs() || spec.residual.is_some());
        Ok(Self { spec, build, probe, build_form, probe_form, keys, next, build_mark, has_build_strings })
    }

    /// The strings of `pages`, rows of the build side, for chunks of pairs to refer to.
    pub(crate) fn heap_buffers(&self, pages: &[PinnedRows]) -> Option<HeapBuffers> {
        if self.has_build_strings { HeapBuffers::of(pages.iter()) } else { None }
    }

    pub(crate) fn kind(&self) -> JoinKind {
        self.spec.kind
    }
}

#[cfg(test)]
impl JoinSpec {
    /// A join of two sides that have one column, a number, by which they are joined; it gives that of the probe side.
    pub(crate) fn of_numbers(kind: JoinKind) -> Self {
        use arrow_schema::{Field, Schema};

        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
        Self {
            kind,
            keys: vec![JoinKey { build: Expr::Column(0), probe: Expr::Column(0), data_type: DataType::Int64 }],
            nulls_equal: false,
            null_aware: false,
            residual: None,
            ranges: None,
            output: vec![JoinColumn::Probe(0)],
            build: Arc::clone(&schema),
            probe: Arc::clone(&schema),
            build_domains: Vec::new(),
            build_rows: RowsExpected::new(|| 0),
            groups_wait: false,
            dropped: Arc::default(),
            schema,
        }
    }
}
