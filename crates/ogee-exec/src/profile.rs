//! What the operators of a plan do, counted by lane: rows and chunks in and out, and the time that it takes.
//!
//! An operator of a plan may be several here, of several pipelines: the sink that an aggregation's rows go into, and the source and the operators that its groups come from. A [`Mark`]
//! stands where the rows of one have come out; what is before it, back to the mark before, is that operator's. What is behind the last mark of a pipeline, with the sink, is of the
//! operator that closed the pipeline ([`Query::owned`](crate::Query::owned)).
//!
//! A lane counts for itself and reports when it pauses, at the ends of morsels at the latest, so that no cache line is written by all lanes for each chunk. A report is what an event
//! of a trace is made of.
//!
//! Not here: how plans show it.

use std::{
    ops::AddAssign,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{ExecContext, Operator, OperatorLocal, pipeline::Mapped};

/// What was counted of an operator of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows that came in, of all inputs.
    pub rows_in: u64,
    /// The chunks that they were in.
    pub chunks_in: u64,
    /// Rows that came out.
    pub rows_out: u64,
    /// The chunks that they were in.
    pub chunks_out: u64,
    /// Time that the lanes spent in it, added up; zero unless times are taken ([`ExecContext::takes_times`]).
    pub time: Duration,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.rows_in += other.rows_in;
        self.chunks_in += other.chunks_in;
        self.rows_out += other.rows_out;
        self.chunks_out += other.chunks_out;
        self.time += other.time;
    }
}

/// The counts of one operator of a plan.
#[derive(Debug, Default)]
pub struct OperatorProfile {
    lanes: Mutex<Vec<Counts>>,
}

impl OperatorProfile {
    /// What each lane has reported so far, by its number. A lane that did nothing has zeros, or is missing at the end.
    pub fn lanes(&self) -> Vec<Counts> {
        self.lanes.lock().clone()
    }

    /// What all lanes have reported so far.
    pub fn total(&self) -> Counts {
        self.lanes.lock().iter().fold(Counts::default(), |mut total, lane| {
            total += *lane;
            total
        })
    }

    fn add(&self, lane: usize, counts: Counts) {
        if counts == Counts::default() {
            return;
        }
        let mut lanes = self.lanes.lock();
        if lanes.len() <= lane {
            lanes.resize(lane + 1, Counts::default());
        }
        lanes[lane] += counts;
    }
}

/// The place between two operators where the rows of an operator of a plan have come out. A pipeline that runs counts there, and calls nothing.
#[derive(Debug)]
pub struct Mark {
    profile: Arc<OperatorProfile>,
}

impl Mark {
    /// Whose rows pass here.
    pub fn new(profile: Arc<OperatorProfile>) -> Self {
        Self { profile }
    }
}

impl Operator for Mark {
    fn name(&self) -> &str {
        "mark"
    }

    fn origin(&self, column: usize) -> Option<usize> {
        Some(column)
    }

    fn keeps_rows(&self) -> bool {
        true
    }

    fn is_light(&self) -> bool {
        true
    }

    fn mark(&self) -> Option<&Arc<OperatorProfile>> {
        Some(&self.profile)
    }

    fn local(&self, _ctx: &ExecContext, _lane: usize) -> Box<dyn OperatorLocal> {
        Mapped::local(|chunk| chunk)
    }
}

/// The marks of a pipeline, and whose the rest of it is.
pub(crate) struct Marks {
    /// How many operators are before each, and whose rows pass there.
    marks: Vec<(usize, Arc<OperatorProfile>)>,
    owner: Option<Arc<OperatorProfile>>,
}

impl Marks {
    /// The marks among `operators`, and the operators without them.
    pub(crate) fn taken_out(
        operators: Vec<Arc<dyn Operator>>,
        owner: Option<Arc<OperatorProfile>>,
    ) -> (Self, Vec<Arc<dyn Operator>>) {
        let mut marks = Vec::new();
        let mut others: Vec<Arc<dyn Operator>> = Vec::with_capacity(operators.len());
        for operator in operators {
            match operator.mark() {
                Some(profile) => marks.push((others.len(), Arc::clone(profile))),
                None => others.push(operator),
            }
        }
        (Self { marks, owner }, others)
    }
}

/// Rows and chunks, since the last report.
#[derive(Clone, Copy, Default)]
struct Passed {
    rows: u64,
    chunks: u64,
}

/// What one lane of a pipeline has counted since its last report.
pub(crate) struct LaneProfile {
    /// What went into each operator, and behind the last one what came out of it.
    passed: Vec<Passed>,
    /// Time in the source, in each operator, and in the sink.
    times: Option<Vec<Duration>>,
}

/// A part of a pipeline that takes time.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    /// What gives rows to operator number so: the source, or the rest of the operator before.
    Before(usize),
    /// Operator number so.
    Operator(usize),
    Sink,
}

impl LaneProfile {
    /// Of a lane of a pipeline of so many operators.
    pub(crate) fn new(operators: usize, takes_times: bool) -> Self {
        let times = takes_times.then(|| vec![Duration::ZERO; operators + 2]);
        Self { passed: vec![Passed::default(); operators + 1], times }
    }

    /// A chunk of so many rows goes into operator `number`, or out of the last one.
    pub(crate) fn passes(&mut self, number: usize, rows: usize) {
        let passed = &mut self.passed[number];
        passed.rows += rows as u64;
        passed.chunks += u64::from(rows > 0);
    }

    /// What `work` gives, which is done in `part`.
    pub(crate) fn timed<T>(&mut self, part: Part, work: impl FnOnce() -> T) -> T {
        let Some(times) = &mut self.times else { return work() };
        let at = match part {
            Part::Before(number) => number,
            Part::Operator(number) => number + 1,
            Part::Sink => times.len() - 1,
        };
        let begun = Instant::now();
        let done = work();
        times[at] += begun.elapsed();
        done
    }

    /// Hands over what `lane` has counted; how many rows came from the source.
    pub(crate) fn report(&mut self, marks: &Marks, lane: usize) -> u64 {
        let scanned = self.passed[0].rows;
        let mut before = None;
        for (at, profile) in &marks.marks {
            profile.add(lane, self.between(before, *at, Some(*at)));
            before = Some(*at);
        }
        if let Some(owner) = &marks.owner {
            owner.add(lane, self.between(before, self.passed.len(), None));
        }
        self.passed.fill(Passed::default());
        if let Some(times) = &mut self.times {
            times.fill(Duration::ZERO);
        }
        scanned
    }

    /// What was counted behind mark `before`, or from the source on, up to operator `end`, and out of what is before operator `out`.
    fn between(&self, before: Option<usize>, end: usize, out: Option<usize>) -> Counts {
        let passed = |number: Option<usize>| number.map_or(Passed::default(), |number| self.passed[number]);
        let (came, went) = (passed(before), passed(out));
        // Part 0 is the source.
        let parts = before.map_or(0, |before| before + 1)..=end;
        let time = self.times.as_ref().map_or(Duration::ZERO, |times| times[parts].iter().sum());
        Counts { rows_in: came.rows, chunks_in: came.chunks, rows_out: went.rows, chunks_out: went.chunks, time }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limit;

    #[test]
    fn what_is_between_two_marks_is_of_the_second() {
        let [scan, filter, owner] = [(); 3].map(|()| Arc::new(OperatorProfile::default()));
        let limit = || Arc::new(Limit::new(0, None)) as Arc<dyn Operator>;
        let mark = |profile: &Arc<OperatorProfile>| Arc::new(Mark::new(Arc::clone(profile))) as Arc<dyn Operator>;
        let operators = vec![mark(&scan), limit(), limit(), mark(&filter), limit()];
        let (marks, operators) = Marks::taken_out(operators, Some(Arc::clone(&owner)));
        assert_eq!(operators.len(), 3);
        let mut lane = LaneProfile::new(operators.len(), true);
        let parts = [Part::Before(0), Part::Operator(0), Part::Operator(1), Part::Operator(2), Part::Sink];
        for (at, part) in parts.into_iter().enumerate() {
            lane.timed(part, || ());
            // Times that can be told apart.
            lane.times.as_mut().unwrap_or(&mut Vec::new())[at] = Duration::from_secs(1 << at);
        }
        for (number, rows) in [(0, 100), (1, 50), (1, 0), (2, 20), (3, 10)] {
            lane.passes(number, rows);
        }
        assert_eq!(lane.report(&marks, 2), 100);
        let counts = |rows_in, chunks_in, rows_out, chunks_out, seconds| {
            let time = Duration::from_secs(seconds);
            Counts { rows_in, chunks_in, rows_out, chunks_out, time }
        };
        assert_eq!(scan.total(), counts(0, 0, 100, 1, 1));
        assert_eq!(filter.total(), counts(100, 1, 20, 1, 2 + 4));
        assert_eq!(owner.total(), counts(20, 1, 0, 0, 8 + 16));
        assert_eq!(scan.lanes().len(), 3);
        // What was reported is not reported again.
        assert_eq!(lane.report(&marks, 0), 0);
        assert_eq!(scan.total().rows_out, 100);
        assert_eq!(scan.lanes()[0], Counts::default());
    }
}
