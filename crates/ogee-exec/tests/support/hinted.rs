//! Statistics that need not be true.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use ogee_exec::{ExecContext, ExecError, Source, SourceLocal};
use ogee_vector::Domain;

/// What another source gives, with such statistics.
pub struct Hinted {
    pub chunks: Arc<dyn Source>,
    pub domains: Vec<Domain>,
}

impl Source for Hinted {
    fn name(&self) -> &str {
        "hinted"
    }

    fn schema(&self) -> SchemaRef {
        self.chunks.schema()
    }

    fn domains(&self) -> Vec<Domain> {
        self.domains.clone()
    }

    fn local(&self, ctx: &ExecContext, lane: usize) -> Result<Box<dyn SourceLocal>, ExecError> {
        self.chunks.local(ctx, lane)
    }
}
