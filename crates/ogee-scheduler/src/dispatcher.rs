//! The dispatcher: which worker runs which lane next, and the state machines of the active queries.
//!
//! It has no thread of its own; workers call [`Dispatcher::next`] and [`Dispatcher::release`] at morsel boundaries, under
//! one lock that is held for a look at the active queries and never while code of a job runs. A worker that would be given
//! its own lane again does not come here at all: `interrupt` is down exactly while a single job is executable and no worker
//! has to leave, and then only the job's number of lanes and the query's marker can take a lane away.
//!
//! 1. `running` of a query counts its running lanes, plus each worker that finishes one of its jobs. The worker that
//!    brings it to zero with nothing left to do takes the query out and ends it.
//! 2. A query with a failure is not scheduled; when its `running` is zero it is not in `queries` but on its way to its end.
//! 3. A worker parks only if, under the lock, nothing is runnable. Whoever makes something runnable notifies a parked worker
//!    or asks for work itself; a worker that takes a lane and leaves another runnable notifies the next.
//!
//! After "Morsel-driven parallelism", SIGMOD 2014, sections 3.1 and 3.2. The paper's lists are lock-free; here the common
//! boundary is, and the lock is taken where queries or pipelines compete.
//!
//! Not here: running anything.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use parking_lot::{Condvar, Mutex};

use crate::lane::{LANES_MAX, LaneState};
use crate::query::{PlannedJob, QueryControl};
use crate::{Job, JobWaker, QueryError, QueryHandle, Step};

pub(crate) type OnDone = Box<dyn FnOnce(Result<(), QueryError>) + Send>;

/// A lane of a job of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneId {
    query: u64,
    job: usize,
    lane: usize,
}

/// Index of a job in its query, and a lane of it.
type JobLane = (usize, usize);

/// A job with what a worker needs to run it.
pub(crate) struct JobCell {
    pub(crate) job: Arc<dyn Job>,
    pub(crate) name: String,
    pub(crate) control: Arc<QueryControl>,
    index: usize,
    /// What the dispatcher takes `Job::lanes` to be: what it said last, at least 1. Not only copied with each morsel, since one
    /// worker may report a change and be parked by it while another, inside a long morsel, misses that it ever was.
    lanes: AtomicUsize,
}

impl JobCell {
    pub(crate) fn lane(&self, lane: usize) -> &LaneState {
        self.control.lanes[self.index].lane(lane)
    }

    /// `Job::lanes`, within what a job can have.
    pub(crate) fn ask_lanes(&self) -> usize {
        self.job.lanes().clamp(1, LANES_MAX)
    }

    /// The number of lanes that the dispatcher goes by. Written under its lock; read without it by a worker that decides
    /// whether it has news, which is one boundary late at worst.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes.load(Ordering::Relaxed)
    }

    fn set_lanes(&self, lanes: usize) {
        self.lanes.store(lanes, Ordering::Relaxed);
    }
}

/// A lane taken by a worker, in state `Running`.
pub(crate) struct Morsel {
    pub(crate) at: LaneId,
    pub(crate) cell: Arc<JobCell>,
    /// The number of lanes under which it was taken.
    pub(crate) lanes: usize,
}

impl Morsel {
    pub(crate) fn lane(&self) -> usize {
        self.at.lane
    }
}

/// What a worker does next.
pub(crate) enum Task {
    Morsel(Morsel),
    /// The query has nothing running any more: drop its jobs and report.
    End(EndedQuery),
}

/// What a worker that gave its lane back has to do before it asks again.
pub(crate) enum Boundary {
    Nothing,
    /// Every lane of the job is exhausted.
    Finish(Arc<JobCell>),
    End(EndedQuery),
}

/// A query that is not scheduled any more and has no running lane.
pub(crate) struct EndedQuery {
    pub(crate) control: Arc<QueryControl>,
    pub(crate) jobs: Vec<Arc<JobCell>>,
    pub(crate) failure: Option<QueryError>,
    pub(crate) on_done: OnDone,
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    /// Holds the number of dependencies that have not finished.
    Waiting(usize),
    Executable,
    Finishing,
    Finished,
}

struct JobEntry {
    /// `None` once finished: what the job holds is freed then.
    cell: Option<Arc<JobCell>>,
    dependents: Vec<usize>,
    phase: Phase,
    /// Lanes `0..started` have been run; each is running, idle, blocked or exhausted.
    started: usize,
    running: usize,
    exhausted: usize,
}

impl JobEntry {
    fn cell(&self) -> &Arc<JobCell> {
        self.cell.as_ref().expect("a job is kept until it has finished")
    }

    /// A lane that can be run now: the preferred one, else one that has state already, else a new one.
    fn runnable_lane(&self, preferred: Option<usize>) -> Option<usize> {
        if self.phase != Phase::Executable {
            return None;
        }
        let cell = self.cell();
        let lanes = cell.lanes();
        if self.running >= lanes {
            return None;
        }
        if self.started > self.running + self.exhausted {
            let idle = |&lane: &usize| cell.lane(lane).is_idle();
            let started =
                preferred.filter(|&lane| lane < self.started).filter(idle).or_else(|| (0..self.started).find(idle));
            if started.is_some() {
                return started;
            }
        }
        (self.started < lanes).then_some(self.started)
    }

    fn is_exhausted(&self) -> bool {
        self.exhausted == self.started && self.started >= self.cell().lanes()
    }
}

struct ActiveQuery {
    control: Arc<QueryControl>,
    jobs: Vec<JobEntry>,
    /// Jobs in phase `Executable`.
    executable: usize,
    /// Jobs not in phase `Finished`.
    unfinished: usize,
    running: usize,
    /// When a lane was taken last; 0 before the first.
    dispatched: u64,
    failure: Option<QueryError>,
    on_done: OnDone,
}

impl ActiveQuery {
    /// The job with the fewest running lanes that has a runnable lane; at equality the one the worker ran last.
    fn runnable(&self, last: Option<LaneId>) -> Option<JobLane> {
        if self.failure.is_some() {
            return None;
        }
        let last = last.filter(|last| last.query == self.control.id);
        let mut best: Option<((usize, bool), JobLane)> = None;
        for (job, entry) in self.jobs.iter().enumerate() {
            let preferred = last.filter(|last| last.job == job).map(|last| last.lane);
            let key = (entry.running, preferred.is_none());
            if best.is_some_and(|(best, ..)| best <= key) {
                continue;
            }
            if let Some(lane) = entry.runnable_lane(preferred) {
                best = Some((key, (job, lane)));
            }
        }
        best.map(|(_, found)| found)
    }

    /// The first failure is the one that is reported; later ones may be its consequence.
    fn fail(&mut self, failure: QueryError) {
        self.failure.get_or_insert(failure);
        self.control.cancellation.raise();
    }

    fn is_over(&self) -> bool {
        self.running == 0 && (self.failure.is_some() || self.unfinished == 0)
    }

    fn into_ended(self) -> EndedQuery {
        EndedQuery {
            control: self.control,
            jobs: self.jobs.into_iter().filter_map(|entry| entry.cell).collect(),
            failure: self.failure,
            on_done: self.on_done,
        }
    }
}

struct State {
    queries: Vec<ActiveQuery>,
    /// Ended by someone who is no worker; the next worker to ask ends them.
    ended: Vec<EndedQuery>,
    /// Counts lanes taken.
    clock: u64,
    submitted: u64,
    /// Workers wanted, at least 1. Workers with higher numbers leave at their next boundary.
    threads: usize,
    /// By number of worker: whether it has been started and has not left.
    alive: Vec<bool>,
    parked: usize,
    shutdown: bool,
}

impl State {
    fn position(&self, query: u64) -> Option<usize> {
        self.queries.iter().position(|active| active.control.id == query)
    }

    fn query(&mut self, query: u64) -> &mut ActiveQuery {
        let position = self.position(query).expect("a query with a running lane is active");
        &mut self.queries[position]
    }

    /// The query with the fewest running lanes that has a runnable lane; at equality the one served least recently.
    fn runnable(&self, last: Option<LaneId>) -> Option<(usize, usize, usize)> {
        let mut best: Option<((usize, u64), usize, JobLane)> = None;
        for (position, query) in self.queries.iter().enumerate() {
            let key = (query.running, query.dispatched);
            if best.is_some_and(|(best, ..)| best <= key) {
                continue;
            }
            if let Some(found) = query.runnable(last) {
                best = Some((key, position, found));
            }
        }
        best.map(|(_, position, (job, lane))| (position, job, lane))
    }

    fn take(&mut self, last: Option<LaneId>) -> Option<Morsel> {
        let (position, job, lane) = self.runnable(last)?;
        self.clock += 1;
        let query = &mut self.queries[position];
        query.dispatched = self.clock;
        query.running += 1;
        let entry = &mut query.jobs[job];
        entry.running += 1;
        entry.started = entry.started.max(lane + 1);
        let cell = Arc::clone(entry.cell());
        cell.lane(lane).start();
        Some(Morsel { at: LaneId { query: query.control.id, job, lane }, lanes: cell.lanes(), cell })
    }

    /// Takes the query out if it is over. Its caller has lowered `running`.
    fn end_if_over(&mut self, query: u64) -> Option<EndedQuery> {
        let position = self.position(query)?;
        self.queries[position].is_over().then(|| self.queries.swap_remove(position).into_ended())
    }

    /// Whether a worker might get something else than its own lane.
    fn competing(&self) -> bool {
        let alone = matches!(self.queries.as_slice(), [query] if query.executable == 1);
        !alone || self.shutdown || !self.ended.is_empty() || self.alive.iter().skip(self.threads).any(|&alive| alive)
    }
}

pub(crate) struct Dispatcher {
    state: Mutex<State>,
    /// Waited for by parked workers.
    work: Condvar,
    /// Whether workers must come to the dispatcher at every boundary; see the header.
    interrupt: CachePadded<AtomicBool>,
}

impl Dispatcher {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            state: Mutex::new(State {
                queries: Vec::new(),
                ended: Vec::new(),
                clock: 0,
                submitted: 0,
                threads: threads.max(1),
                alive: Vec::new(),
                parked: 0,
                shutdown: false,
            }),
            work: Condvar::new(),
            interrupt: CachePadded::new(AtomicBool::new(true)),
        }
    }

    /// Whether a worker has to give its lane back at this boundary. Relaxed: seen one boundary late at worst.
    #[inline]
    pub(crate) fn interrupts(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    /// To be called before the lock is released by whoever changed what `competing` looks at.
    fn refresh(&self, state: &State) {
        let competing = state.competing();
        if self.interrupts() != competing {
            self.interrupt.store(competing, Ordering::Relaxed);
        }
    }

    /// Makes the query active. Job code that it runs (`name`, `attach`, `lanes`) panics through to the submitter, before
    /// anything is scheduled.
    pub(crate) fn submit(self: &Arc<Self>, jobs: Vec<PlannedJob>, on_done: OnDone) -> QueryHandle {
        let id = {
            let mut state = self.state.lock();
            state.submitted += 1;
            state.submitted
        };
        let control = Arc::new(QueryControl::new(id, jobs.len()));
        let handle = QueryHandle { control: Arc::clone(&control), dispatcher: Arc::clone(self) };
        let mut entries: Vec<JobEntry> = Vec::with_capacity(jobs.len());
        for (index, planned) in jobs.into_iter().enumerate() {
            let waker: JobWaker = handle.waker(crate::JobId(index));
            planned.job.attach(waker);
            for &dependency in &planned.dependencies {
                entries[dependency].dependents.push(index);
            }
            let cell = JobCell {
                name: planned.job.name().to_owned(),
                job: planned.job,
                control: Arc::clone(&control),
                index,
                lanes: AtomicUsize::new(1),
            };
            let phase = match planned.dependencies.len() {
                0 => {
                    cell.set_lanes(cell.ask_lanes());
                    Phase::Executable
                }
                unfinished => Phase::Waiting(unfinished),
            };
            entries.push(JobEntry {
                cell: Some(Arc::new(cell)),
                dependents: Vec::new(),
                phase,
                started: 0,
                running: 0,
                exhausted: 0,
            });
        }
        let query = ActiveQuery {
            control,
            executable: entries.iter().filter(|entry| entry.phase == Phase::Executable).count(),
            unfinished: entries.len(),
            jobs: entries,
            running: 0,
            dispatched: 0,
            failure: None,
            on_done,
        };
        let mut state = self.state.lock();
        if query.is_over() {
            state.ended.push(query.into_ended());
        } else {
            state.queries.push(query);
        }
        self.refresh(&state);
        self.work.notify_one();
        drop(state);
        handle
    }

    /// Waits for something to do and takes it; `None` tells the worker to leave.
    pub(crate) fn next(&self, worker: usize, last: Option<LaneId>) -> Option<Task> {
        let mut state = self.state.lock();
        loop {
            if let Some(ended) = state.ended.pop() {
                self.refresh(&state);
                return Some(Task::End(ended));
            }
            // After a shutdown every query has failed: whoever still runs a lane of one will end it.
            if worker >= state.threads || state.shutdown {
                state.alive[worker] = false;
                self.refresh(&state);
                // The notification that woke this worker may have been meant for one that stays.
                self.work.notify_one();
                return None;
            }
            if let Some(morsel) = state.take(last) {
                if state.parked > 0 && state.runnable(None).is_some() {
                    self.work.notify_one();
                }
                return Some(Task::Morsel(morsel));
            }
            state.parked += 1;
            self.work.wait(&mut state);
            state.parked -= 1;
        }
    }

    /// Gives a lane back after a run that ended with a step and the job's number of lanes, or badly. The worker holds no
    /// reference to the job any more.
    pub(crate) fn release(&self, at: LaneId, outcome: Result<(Step, usize), QueryError>) -> Boundary {
        let mut state = self.state.lock();
        let query = state.query(at.query);
        let entry = &mut query.jobs[at.job];
        entry.running -= 1;
        let cell = Arc::clone(entry.cell());
        let lane = cell.lane(at.lane);
        match outcome {
            Ok((step, lanes)) => {
                cell.set_lanes(lanes);
                match step {
                    Step::Again => lane.pause(),
                    Step::Blocked => {
                        lane.block();
                    }
                    Step::Exhausted => {
                        lane.exhaust();
                        entry.exhausted += 1;
                        if query.failure.is_none() && entry.is_exhausted() {
                            // `query.running` goes on counting this worker.
                            entry.phase = Phase::Finishing;
                            query.executable -= 1;
                            self.refresh(&state);
                            return Boundary::Finish(cell);
                        }
                    }
                }
            }
            Err(failure) => {
                lane.exhaust();
                entry.exhausted += 1;
                query.fail(failure);
            }
        }
        query.running -= 1;
        drop(cell);
        self.end_or_go_on(&mut state, at.query)
    }

    /// Marks a job finished after its `finish` returned well. Returns the job, to be dropped outside the lock, and the
    /// jobs that waited only for it, whose number of lanes is to be asked before [`release_finished`](Self::release_finished).
    pub(crate) fn job_finished(&self, at: LaneId) -> (Option<Arc<JobCell>>, Vec<Arc<JobCell>>) {
        let mut state = self.state.lock();
        let query = state.query(at.query);
        query.jobs[at.job].phase = Phase::Finished;
        query.unfinished -= 1;
        let mut ready = Vec::new();
        for dependent in std::mem::take(&mut query.jobs[at.job].dependents) {
            let entry = &mut query.jobs[dependent];
            let Phase::Waiting(unfinished) = &mut entry.phase else {
                unreachable!("a job with an unfinished dependency waits");
            };
            *unfinished -= 1;
            if *unfinished == 0 {
                ready.push(Arc::clone(entry.cell()));
            }
        }
        (query.jobs[at.job].cell.take(), ready)
    }

    /// Ends a worker's turn at finishing a job: makes the `ready` jobs executable with the given numbers of lanes, or fails
    /// the query.
    pub(crate) fn release_finished(
        &self,
        at: LaneId,
        ready: Result<Vec<(Arc<JobCell>, usize)>, QueryError>,
    ) -> Boundary {
        let mut state = self.state.lock();
        let query = state.query(at.query);
        match ready {
            Ok(ready) => {
                for (cell, lanes) in ready {
                    let entry = &mut query.jobs[cell.index];
                    entry.phase = Phase::Executable;
                    cell.set_lanes(lanes);
                    query.executable += 1;
                }
            }
            Err(failure) => query.fail(failure),
        }
        query.running -= 1;
        self.end_or_go_on(&mut state, at.query)
    }

    fn end_or_go_on(&self, state: &mut State, query: u64) -> Boundary {
        let ended = state.end_if_over(query);
        self.refresh(state);
        ended.map_or(Boundary::Nothing, Boundary::End)
    }

    /// Cancels a query unless it has failed or ended.
    pub(crate) fn cancel(&self, query: u64) {
        self.fail(query, QueryError::Cancelled);
    }

    /// Fails a query from outside its jobs. If nothing of it runs, a worker is called to end it: neither the jobs' state
    /// nor `on_done` is to run on a thread that may hold locks of its own.
    fn fail(&self, query: u64, failure: QueryError) {
        let mut state = self.state.lock();
        let Some(position) = state.position(query) else {
            return;
        };
        state.queries[position].fail(failure);
        if let Some(ended) = state.end_if_over(query) {
            state.ended.push(ended);
            self.work.notify_one();
        }
        self.refresh(&state);
    }

    /// Takes out a query that was just submitted, when there is no worker to run it.
    pub(crate) fn withdraw(&self, handle: &QueryHandle, failure: QueryError) -> Option<EndedQuery> {
        self.fail(handle.control.id, failure);
        let mut state = self.state.lock();
        let position = state.ended.iter().position(|ended| ended.control.id == handle.control.id)?;
        Some(state.ended.swap_remove(position))
    }

    /// Tells parked workers of lanes that are runnable now.
    pub(crate) fn lanes_woken(&self, lanes: usize) {
        let state = self.state.lock();
        for _ in 0..lanes.min(state.parked) {
            self.work.notify_one();
        }
    }

    pub(crate) fn threads(&self) -> usize {
        self.state.lock().threads
    }

    /// Sets the number of workers wanted; tells whether any have been started yet.
    pub(crate) fn set_threads(&self, threads: usize) -> bool {
        let mut state = self.state.lock();
        state.threads = threads.max(1);
        self.refresh(&state);
        self.work.notify_all();
        state.alive.contains(&true)
    }

    /// The numbers of the workers that are missing; from here on they count as alive.
    pub(crate) fn claim_missing(&self) -> Vec<usize> {
        let mut state = self.state.lock();
        let threads = state.threads;
        if state.alive.len() < threads {
            state.alive.resize(threads, false);
        }
        let missing: Vec<usize> = (0..threads).filter(|&worker| !state.alive[worker]).collect();
        for &worker in &missing {
            state.alive[worker] = true;
        }
        missing
    }

    /// Takes back the claim on a worker that could not be started; tells whether any other is there to stay.
    pub(crate) fn unclaim(&self, worker: usize) -> bool {
        let mut state = self.state.lock();
        state.alive[worker] = false;
        self.refresh(&state);
        // Those above the number of threads are about to leave.
        state.alive.iter().take(state.threads).any(|&alive| alive)
    }

    /// Cancels every query and tells all workers to leave when that is done.
    pub(crate) fn shut_down(&self) {
        let queries: Vec<u64> = {
            let state = self.state.lock();
            state.queries.iter().map(|query| query.control.id).collect()
        };
        for query in queries {
            self.cancel(query);
        }
        let mut state = self.state.lock();
        state.shutdown = true;
        self.refresh(&state);
        self.work.notify_all();
    }
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Dispatcher")
            .field("queries", &state.queries.len())
            .field("threads", &state.threads)
            .field("parked", &state.parked)
            .finish_non_exhaustive()
    }
}
