//! Estimates that are made when somebody asks for them: `EXPLAIN` for all, the start of a query for few, if any.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use datafusion::{physical_expr::PhysicalExpr, physical_plan::ExecutionPlan};
use parking_lot::Mutex;

use super::{
    estimate::{Estimator, Known},
    sample::Samples,
};

/// What is known of the plans of one query so far. No column is read for it that has not been.
#[derive(Debug)]
pub struct Estimates {
    samples: Arc<Samples>,
    known: Mutex<Known>,
}

impl Estimates {
    /// Nothing is known yet.
    pub fn new(samples: Arc<Samples>) -> Self {
        Self { samples, known: Mutex::default() }
    }

    /// About how many rows `plan` gives, asked now.
    pub fn rows_of(&self, plan: &Arc<dyn ExecutionPlan>) -> f64 {
        Estimator::with(&self.samples, false, &mut self.known.lock()).profile(plan).rows
    }

    /// About how many rows `plan` gives, and how many combinations of `keys` there are among them.
    pub fn combinations(&self, plan: &Arc<dyn ExecutionPlan>, keys: &[Arc<dyn PhysicalExpr>]) -> (f64, f64) {
        Estimator::with(&self.samples, false, &mut self.known.lock()).combinations(plan, keys)
    }

    /// About how many rows `plan` gives.
    pub fn of(self: &Arc<Self>, plan: &Arc<dyn ExecutionPlan>) -> Expected {
        Expected { plan: Arc::clone(plan), estimates: Arc::clone(self), rows: OnceLock::new() }
    }
}

/// About how many rows a plan gives.
#[derive(Clone)]
pub struct Expected {
    plan: Arc<dyn ExecutionPlan>,
    estimates: Arc<Estimates>,
    rows: OnceLock<u64>,
}

impl Expected {
    /// The number, at the first call by an estimate.
    pub fn rows(&self) -> u64 {
        *self.rows.get_or_init(|| {
            let mut known = self.estimates.known.lock();
            Estimator::with(&self.estimates.samples, false, &mut known).rows(&self.plan)
        })
    }
}

impl fmt::Debug for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expected").field(&self.rows).finish()
    }
}
