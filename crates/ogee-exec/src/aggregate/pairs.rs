//! Aggregates of two floating-point arguments: covariance, correlation, linear regression.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Float64Array, UInt64Array,
    cast::AsArray,
    types::{Float64Type, UInt64Type},
};

use super::{
    AggregateFunction, RegrKind,
    kernel::{Kernel, Targets},
};
use crate::ExecError;

/// Joint moments of `(y, x)` pairs without a NULL, updated as Welford and merged as Chan do.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, packed)]
pub struct Moments {
    count: u64,
    mean_y: f64,
    mean_x: f64,
    yy: f64,
    xx: f64,
    xy: f64,
}

impl Moments {
    /// Those that [`Self::parts`] gave.
    pub fn of_parts(count: u64, [mean_y, mean_x, yy, xx, xy]: [f64; 5]) -> Self {
        Self { count, mean_y, mean_x, yy, xx, xy }
    }

    /// The number of pairs, the means of `y` and of `x`, and the sums of `y²`, `x²` and `xy` about them.
    pub fn parts(self) -> (u64, [f64; 5]) {
        (self.count, [self.mean_y, self.mean_x, self.yy, self.xx, self.xy])
    }

    /// Takes in a pair.
    #[inline(always)]
    pub fn add(&mut self, y: f64, x: f64) {
        self.count += 1;
        let n = self.count as f64;
        let (dy, dx) = (y - self.mean_y, x - self.mean_x);
        self.mean_y += dy / n;
        self.mean_x += dx / n;
        self.yy += dy * (y - self.mean_y);
        self.xx += dx * (x - self.mean_x);
        self.xy += dx * (y - self.mean_y);
    }

    /// Takes in the pairs of `other`.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let (a, b) = (self.count as f64, other.count as f64);
        let (dy, dx) = (other.mean_y - self.mean_y, other.mean_x - self.mean_x);
        let weight = a * b / (a + b);
        self.count += other.count;
        self.mean_y += dy * b / (a + b);
        self.mean_x += dx * b / (a + b);
        self.yy += other.yy + dy * dy * weight;
        self.xx += other.xx + dx * dx * weight;
        self.xy += other.xy + dy * dx * weight;
    }

    /// What `function`, one of two arguments whose results are floats, gives for the pairs; `None` for NULL.
    ///
    /// As in DuckDB, the correlation with what is constant and the slope over it are no numbers, and a line through constants explains all of them.
    pub fn result(&self, function: AggregateFunction) -> Option<f64> {
        use AggregateFunction as F;
        use RegrKind as R;
        let n = self.count as f64;
        if self.count == 0 {
            return None;
        }
        let (yy, xx, xy) = (self.yy, self.xx, self.xy);
        match function {
            F::CovarPopulation => Some(xy / n),
            F::CovarSample => (self.count > 1).then(|| xy / (n - 1.0)),
            F::Correlation if xx == 0.0 || yy == 0.0 => Some(f64::NAN),
            F::Correlation => Some(xy / (xx.sqrt() * yy.sqrt())),
            F::Regression(R::AvgX) => Some(self.mean_x),
            F::Regression(R::AvgY) => Some(self.mean_y),
            F::Regression(R::Sxx) => Some(xx),
            F::Regression(R::Syy) => Some(yy),
            F::Regression(R::Sxy) => Some(xy),
            F::Regression(R::Slope) if xx == 0.0 => Some(f64::NAN),
            F::Regression(R::Slope) => Some(xy / xx),
            F::Regression(R::Intercept) => (xx > 0.0).then(|| self.mean_y - xy / xx * self.mean_x),
            F::Regression(R::R2) if xx <= 0.0 => None,
            F::Regression(R::R2) if yy <= 0.0 => Some(1.0),
            F::Regression(R::R2) => {
                let squared = xy * xy / (xx * yy);
                // Products have no room where roots have.
                Some(if squared.is_finite() { squared } else { (xy / (xx.sqrt() * yy.sqrt())).powi(2) })
            }
            _ => unreachable!("a function of two arguments"),
        }
    }
}

/// A function of the joint moments of two arguments.
pub(crate) struct PairKernel {
    pub(crate) offset: usize,
    pub(crate) function: AggregateFunction,
}

impl PairKernel {
    /// Bytes of the state.
    pub(crate) const STATE: usize = size_of::<Moments>();

    /// # Safety
    /// `row` is a row of the layout that the kernel was bound to, owned by the caller.
    #[inline(always)]
    unsafe fn change(&self, row: *mut u8, change: impl FnOnce(&mut Moments)) {
        // SAFETY: the state lies within the row.
        unsafe {
            let place = row.add(self.offset).cast::<Moments>();
            let mut state = place.read_unaligned();
            change(&mut state);
            place.write_unaligned(state);
        }
    }
}

impl Kernel for PairKernel {
    unsafe fn update(&self, args: &[ArrayRef], targets: Targets<'_>) -> Result<(), ExecError> {
        let (y, x) = (args[0].as_primitive::<Float64Type>(), args[1].as_primitive::<Float64Type>());
        for row in (0..y.len()).filter(|&row| y.is_valid(row) && x.is_valid(row)) {
            let target = match targets {
                Targets::Each(rows) => rows[row] as usize as *mut u8,
                Targets::One(target) => target,
            };
            // SAFETY: the caller vouches for the targets.
            unsafe { self.change(target, |state| state.add(y.value(row), x.value(row))) };
        }
        Ok(())
    }

    unsafe fn merge(&self, states: &[ArrayRef], targets: Targets<'_>) -> Result<(), ExecError> {
        let counts = states[0].as_primitive::<UInt64Type>().values();
        let floats: Vec<&[f64]> = states[1..].iter().map(|s| &**s.as_primitive::<Float64Type>().values()).collect();
        let [mean_y, mean_x, yy, xx, xy] = floats[..] else {
            unreachable!("a state has five floats");
        };
        for (row, &count) in counts.iter().enumerate() {
            let target = match targets {
                Targets::Each(rows) => rows[row] as usize as *mut u8,
                Targets::One(target) => target,
            };
            let (mean_y, mean_x) = (mean_y[row], mean_x[row]);
            let other = Moments::of_parts(count, [mean_y, mean_x, yy[row], xx[row], xy[row]]);
            // SAFETY: the caller vouches for the targets.
            unsafe { self.change(target, |state| state.merge(&other)) };
        }
        Ok(())
    }

    unsafe fn combine(&self, sources: &[*const u8], targets: &[*mut u8]) {
        for (source, &target) in sources.iter().zip(targets) {
            // SAFETY: the caller vouches for both.
            unsafe {
                let other = source.add(self.offset).cast::<Moments>().read_unaligned();
                self.change(target, |state| state.merge(&other));
            }
        }
    }

    unsafe fn results(&self, rows: &[*const u8]) -> Result<ArrayRef, ExecError> {
        // SAFETY: the caller vouches for the rows.
        let states = rows.iter().map(|row| unsafe { row.add(self.offset).cast::<Moments>().read_unaligned() });
        if self.function == AggregateFunction::Regression(RegrKind::Count) {
            return Ok(Arc::new(UInt64Array::from_iter_values(states.map(|s| s.count))));
        }
        Ok(Arc::new(states.map(|s| s.result(self.function)).collect::<Float64Array>()))
    }

    unsafe fn states(&self, rows: &[*const u8]) -> Result<Vec<ArrayRef>, ExecError> {
        // SAFETY: the caller vouches for the rows.
        let read = |row: &*const u8| unsafe { row.add(self.offset).cast::<Moments>().read_unaligned() };
        let states: Vec<Moments> = rows.iter().map(read).collect();
        let column = |value: fn(&Moments) -> f64| -> ArrayRef {
            Arc::new(Float64Array::from_iter_values(states.iter().map(value)))
        };
        let counts = UInt64Array::from_iter_values(states.iter().map(|s| s.count));
        let floats = [column(|s| s.mean_y), column(|s| s.mean_x), column(|s| s.yy), column(|s| s.xx), column(|s| s.xy)];
        Ok([Arc::new(counts) as ArrayRef].into_iter().chain(floats).collect())
    }
}
