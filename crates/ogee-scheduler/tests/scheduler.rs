//! What the scheduler promises, through its public face.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use ogee_scheduler::{
    Cancellation, Job, JobError, JobWaker, MorselRanges, QueryBuilder, QueryError, QueryHandle, Scheduler, Step,
    TaskContext,
};

type Run = dyn Fn(usize, &TaskContext) -> Result<Step, JobError> + Send + Sync;
type Finish = dyn Fn(&TaskContext) -> Result<(), JobError> + Send + Sync;

/// A job made of closures, which checks what holds for every job: lanes start in order, are exclusive, are not run once
/// exhausted, and all of them are exhausted when it is finished, once.
struct TestJob {
    name: &'static str,
    lanes: Box<dyn Fn() -> usize + Send + Sync>,
    run: Box<Run>,
    finish: Box<Finish>,
    waker: OnceLock<JobWaker>,
    seen: Vec<Seen>,
    running: AtomicUsize,
    running_max: AtomicUsize,
    finished: AtomicBool,
}

#[derive(Default)]
struct Seen {
    started: AtomicBool,
    running: AtomicBool,
    exhausted: AtomicBool,
}

impl TestJob {
    fn new(
        name: &'static str,
        lanes: usize,
        run: impl Fn(usize, &TaskContext) -> Result<Step, JobError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            lanes: Box::new(move || lanes),
            run: Box::new(run),
            finish: Box::new(|_| Ok(())),
            waker: OnceLock::new(),
            seen: (0..64).map(|_| Seen::default()).collect(),
            running: AtomicUsize::new(0),
            running_max: AtomicUsize::new(0),
            finished: AtomicBool::new(false),
        }
    }

    fn lanes(mut self, lanes: impl Fn() -> usize + Send + Sync + 'static) -> Self {
        self.lanes = Box::new(lanes);
        self
    }

    fn finish(mut self, finish: impl Fn(&TaskContext) -> Result<(), JobError> + Send + Sync + 'static) -> Self {
        self.finish = Box::new(finish);
        self
    }

    fn lanes_started(&self) -> usize {
        self.seen.iter().filter(|seen| seen.started.load(SeqCst)).count()
    }
}

impl Job for TestJob {
    fn name(&self) -> &str {
        self.name
    }

    fn lanes(&self) -> usize {
        (self.lanes)()
    }

    fn run(&self, lane: usize, ctx: &TaskContext) -> Result<Step, JobError> {
        let seen = &self.seen[lane];
        assert!(!seen.running.swap(true, SeqCst), "lane {lane} run twice at once");
        assert!(!seen.exhausted.load(SeqCst), "exhausted lane {lane} run again");
        assert!(!self.finished.load(SeqCst), "lane {lane} run after the end");
        seen.started.store(true, SeqCst);
        let running = self.running.fetch_add(1, SeqCst) + 1;
        self.running_max.fetch_max(running, SeqCst);
        let step = (self.run)(lane, ctx);
        self.running.fetch_sub(1, SeqCst);
        if matches!(step, Ok(Step::Exhausted)) {
            seen.exhausted.store(true, SeqCst);
        }
        seen.running.store(false, SeqCst);
        step
    }

    fn finish(&self, ctx: &TaskContext) -> Result<(), JobError> {
        assert!(!self.finished.swap(true, SeqCst), "finished twice");
        assert_eq!(self.running.load(SeqCst), 0);
        let started = self.lanes_started();
        for (lane, seen) in self.seen.iter().enumerate() {
            assert_eq!(seen.started.load(SeqCst), lane < started, "lanes start in order");
            assert_eq!(seen.exhausted.load(SeqCst), lane < started, "finished too early");
        }
        (self.finish)(ctx)
    }

    fn attach(&self, waker: JobWaker) {
        assert!(self.waker.set(waker).is_ok(), "attached twice");
    }
}

fn submit(scheduler: &Arc<Scheduler>, job: &Arc<TestJob>) -> QueryHandle {
    let mut query = QueryBuilder::new();
    query.add_job(job.clone(), &[]);
    scheduler.submit(query, Box::new(drop))
}

fn run(scheduler: &Arc<Scheduler>, job: TestJob) -> Result<(), QueryError> {
    // The query alone holds the job, so that it is dropped on a worker.
    let mut query = QueryBuilder::new();
    query.add_job(Arc::new(job), &[]);
    scheduler.submit(query, Box::new(drop)).wait()
}

/// Polls, since what is waited for is another thread's; fails after a time that no machine should need.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "never happened: {what}");
        thread::sleep(Duration::from_micros(100));
    }
}

/// A job of `morsels` morsels that records each.
fn counting(morsels: usize, lanes: usize) -> (TestJob, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let ranges = MorselRanges::new(morsels, lanes, 1);
    let job = TestJob::new("counting", lanes, {
        let count = Arc::clone(&count);
        move |lane, _| {
            Ok(ranges.next(lane).map_or(Step::Exhausted, |range| {
                count.fetch_add(range.len(), SeqCst);
                Step::Again
            }))
        }
    });
    (job, count)
}

fn assert_usable(scheduler: &Arc<Scheduler>) {
    let (job, count) = counting(100, 4);
    run(scheduler, job).unwrap();
    assert_eq!(count.load(SeqCst), 100);
}

#[test]
fn every_morsel_is_run_once() {
    for threads in [1, 2, 4, 8] {
        let scheduler = Scheduler::new(threads);
        for lanes in [1, 2, 7] {
            let (job, count) = counting(5_000, lanes);
            let job = Arc::new(job);
            submit(&scheduler, &job).wait().unwrap();
            assert_eq!(count.load(SeqCst), 5_000);
            assert_eq!(job.lanes_started(), lanes);
            assert!(job.running_max.load(SeqCst) <= lanes.min(threads));
            assert!(job.finished.load(SeqCst));
        }
    }
}

#[test]
fn lanes_run_on_named_workers_at_once() {
    let scheduler = Scheduler::new(3);
    let names = Arc::new(Mutex::new(HashSet::new()));
    let job = TestJob::new("meeting", 3, {
        let names = Arc::clone(&names);
        move |_, ctx| {
            let name = thread::current().name().unwrap().to_owned();
            assert_eq!(name, format!("ogee-worker-{}", ctx.worker));
            names.lock().unwrap().insert(name);
            // Each lane waits for the others: passes only if three workers are on the job at the same time.
            eventually("three lanes at once", || names.lock().unwrap().len() == 3);
            Ok(Step::Exhausted)
        }
    });
    run(&scheduler, job).unwrap();
}

#[test]
fn zero_lanes_count_as_one() {
    let scheduler = Scheduler::new(2);
    let (job, count) = counting(10, 1);
    let job = Arc::new(job.lanes(|| 0));
    submit(&scheduler, &job).wait().unwrap();
    assert_eq!(count.load(SeqCst), 10);
    assert_eq!(job.lanes_started(), 1);
}

#[test]
fn a_query_without_jobs_ends_well() {
    let scheduler = Scheduler::new(1);
    let (sender, receiver) = mpsc::channel();
    let handle = scheduler.submit(QueryBuilder::new(), Box::new(move |outcome| sender.send(outcome).unwrap()));
    handle.wait().unwrap();
    assert!(handle.is_finished());
    receiver.recv().unwrap().unwrap();
}

#[test]
fn jobs_start_after_their_dependencies_have_finished() {
    let scheduler = Scheduler::new(4);
    for _ in 0..200 {
        let finished = Arc::new([const { AtomicBool::new(false) }; 6]);
        let mut query = QueryBuilder::new();
        let mut ids = Vec::new();
        let deps: [&[usize]; 6] = [&[], &[0], &[0, 0], &[1, 2], &[], &[3, 4, 0]];
        for (index, deps) in deps.into_iter().enumerate() {
            let ranges = MorselRanges::new(8, 2, 1);
            let job = TestJob::new("step", 2, {
                let finished = Arc::clone(&finished);
                move |lane, _| {
                    for &dep in deps {
                        assert!(finished[dep].load(SeqCst), "{index} ran before {dep}");
                    }
                    Ok(ranges.next(lane).map_or(Step::Exhausted, |_| Step::Again))
                }
            });
            let finished = Arc::clone(&finished);
            let job = job.finish(move |_| {
                finished[index].store(true, SeqCst);
                Ok(())
            });
            let deps: Vec<_> = deps.iter().map(|&dep| ids[dep]).collect();
            ids.push(query.add_job(Arc::new(job), &deps));
        }
        scheduler.submit(query, Box::new(drop)).wait().unwrap();
        assert!(finished.iter().all(|finished| finished.load(SeqCst)));
    }
}

#[test]
fn lanes_of_a_dependent_are_asked_when_it_becomes_executable() {
    let scheduler = Scheduler::new(1);
    let known = Arc::new(AtomicUsize::new(0));
    let first = TestJob::new("first", 1, |_, _| Ok(Step::Exhausted)).finish({
        let known = Arc::clone(&known);
        move |_| {
            known.store(5, SeqCst);
            Ok(())
        }
    });
    let second = Arc::new(TestJob::new("second", 0, |_, _| Ok(Step::Exhausted)).lanes(move || {
        assert_ne!(known.load(SeqCst), 0, "asked too early");
        known.load(SeqCst)
    }));
    let mut query = QueryBuilder::new();
    let first = query.add_job(Arc::new(first), &[]);
    query.add_job(second.clone(), &[first]);
    scheduler.submit(query, Box::new(drop)).wait().unwrap();
    assert_eq!(second.lanes_started(), 5);
}

#[test]
#[should_panic(expected = "may depend only on jobs added before it")]
fn a_job_cannot_depend_on_a_later_one() {
    let job = || Arc::new(TestJob::new("job", 1, |_, _| Ok(Step::Exhausted)));
    let mut other = QueryBuilder::new();
    other.add_job(job(), &[]);
    let later = other.add_job(job(), &[]);
    QueryBuilder::new().add_job(job(), &[later]);
}

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("broken at {0}")]
struct Broken(usize);

#[test]
fn an_error_ends_the_query_and_keeps_its_type() {
    let scheduler = Scheduler::new(4);
    let started = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&started);
    let first = TestJob::new("first", 4, move |lane, ctx| {
        let before = counted.fetch_add(1, SeqCst);
        if before == 20 {
            return Err(Broken(before).into());
        }
        assert!(lane < 4 && ctx.worker < 4);
        Ok(Step::Again)
    });
    let first = first.finish(|_| panic!("a failed job is not finished"));
    let second = TestJob::new("second", 1, |_, _| panic!("must not be reached"));
    let mut query = QueryBuilder::new();
    let first = query.add_job(Arc::new(first), &[]);
    query.add_job(Arc::new(second), &[first]);
    let (sender, receiver) = mpsc::channel();
    let handle = scheduler.submit(query, Box::new(move |outcome| sender.send(outcome).unwrap()));
    for outcome in [handle.wait(), handle.clone().wait(), receiver.recv().unwrap()] {
        let error = outcome.unwrap_err();
        assert_eq!(error.code(), "OGEE_W003");
        assert_eq!(error.to_string(), "broken at 20");
        let QueryError::Failed(error) = error else {
            panic!("{error}");
        };
        assert_eq!(error.downcast_ref::<Broken>(), Some(&Broken(20)));
    }
    assert!(receiver.recv().is_err(), "on_done is called once");
    assert_usable(&scheduler);
}

#[test]
fn panics_are_caught_wherever_they_come_from() {
    let scheduler = Scheduler::new(2);
    let good = |_: usize, _: &TaskContext| Ok(Step::Exhausted);
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("boom in drop");
        }
    }
    let (bomb, asked) = (Bomb, AtomicUsize::new(0));
    let jobs = [
        TestJob::new("run", 2, |lane, _| panic!("boom in {lane}")),
        TestJob::new("finish", 2, good).finish(|_| panic!("boom in finish")),
        TestJob::new("lanes", 2, good).lanes(move || match asked.fetch_add(1, SeqCst) {
            0 => 1,
            _ => panic!("boom in lanes"),
        }),
        TestJob::new("drop", 1, move |_, _| {
            let _held = &bomb;
            Ok(Step::Exhausted)
        }),
    ];
    for job in jobs {
        let name = job.name;
        let error = run(&scheduler, job).unwrap_err();
        assert_eq!(error.code(), "OGEE_W002");
        let QueryError::Panicked { message, job } = error else {
            panic!("{error}");
        };
        assert!(message.starts_with("boom in "), "{message}");
        assert_eq!(job, name);
        assert_usable(&scheduler);
    }
}

#[test]
fn a_panic_while_a_dependent_is_asked_is_the_dependents() {
    let scheduler = Scheduler::new(2);
    let mut query = QueryBuilder::new();
    let first = query.add_job(Arc::new(TestJob::new("first", 1, |_, _| Ok(Step::Exhausted))), &[]);
    let second = TestJob::new("second", 1, |_, _| Ok(Step::Exhausted)).lanes(|| panic!("no lanes"));
    query.add_job(Arc::new(second), &[first]);
    let error = scheduler.submit(query, Box::new(drop)).wait().unwrap_err();
    assert!(matches!(error, QueryError::Panicked { job, .. } if job == "second"));
    assert_usable(&scheduler);
}

#[test]
fn a_panic_in_on_done_has_no_effect() {
    let scheduler = Scheduler::new(1);
    let handle = scheduler.submit(QueryBuilder::new(), Box::new(|_| panic!("in on_done")));
    handle.wait().unwrap();
    assert_usable(&scheduler);
}

#[test]
fn jobs_are_dropped_before_on_done() {
    let scheduler = Scheduler::new(4);
    for failing in [false, true] {
        for _ in 0..100 {
            let state = Arc::new(());
            let weak = Arc::downgrade(&state);
            let mut query = QueryBuilder::new();
            for _ in 0..3 {
                let (state, ranges) = (Arc::clone(&state), MorselRanges::new(20, 3, 1));
                let job = TestJob::new("holding", 3, move |lane, _| {
                    assert!(Arc::strong_count(&state) > 0);
                    match ranges.next(lane) {
                        Some(range) if failing && range.start == 7 => Err(Broken(7).into()),
                        Some(_) => Ok(Step::Again),
                        None => Ok(Step::Exhausted),
                    }
                });
                query.add_job(Arc::new(job), &[]);
            }
            drop(state);
            let (sender, receiver) = mpsc::channel();
            let on_done = Box::new(move |outcome: Result<(), QueryError>| {
                sender.send((outcome.is_err(), weak.strong_count())).unwrap();
            });
            scheduler.submit(query, on_done).wait().unwrap_or_else(|_| assert!(failing));
            assert_eq!(receiver.try_recv(), Ok((failing, 0)));
        }
    }
}

#[test]
fn a_finished_job_is_dropped_before_the_next_starts() {
    let scheduler = Scheduler::new(2);
    let state = Arc::new(());
    let weak = Arc::downgrade(&state);
    let first = TestJob::new("first", 2, move |_, _| {
        assert_eq!(Arc::strong_count(&state), 1);
        Ok(Step::Exhausted)
    });
    let second = TestJob::new("second", 2, move |_, _| {
        assert_eq!(weak.strong_count(), 0);
        Ok(Step::Exhausted)
    });
    let mut query = QueryBuilder::new();
    let first = query.add_job(Arc::new(first), &[]);
    query.add_job(Arc::new(second), &[first]);
    scheduler.submit(query, Box::new(drop)).wait().unwrap();
}

#[test]
fn cancelling_stops_at_the_next_boundary() {
    let scheduler = Scheduler::new(2);
    for _ in 0..50 {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let job = TestJob::new("endless", 2, move |_, _| {
            counted.fetch_add(1, SeqCst);
            Ok(Step::Again)
        });
        let job = Arc::new(job.finish(|_| panic!("a cancelled job is not finished")));
        let handle = submit(&scheduler, &job);
        eventually("some morsels", || runs.load(SeqCst) > 10);
        assert!(!handle.is_finished());
        handle.cancel();
        // Each of the two lanes ends the morsel it is in, and may have missed the marker just before it.
        let at_cancel = runs.load(SeqCst);
        let error = handle.wait().unwrap_err();
        assert_eq!(error.code(), "OGEE_W001");
        assert!(runs.load(SeqCst) <= at_cancel + 4);
        handle.cancel();
    }
    assert_usable(&scheduler);
}

#[test]
fn a_long_morsel_sees_the_marker_and_its_error_does_not_hide_the_cause() {
    let scheduler = Scheduler::new(2);
    let inside = Arc::new(AtomicBool::new(false));
    let job = TestJob::new("long", 1, {
        let inside = Arc::clone(&inside);
        move |_, ctx| {
            inside.store(true, SeqCst);
            eventually("the marker", || ctx.is_cancelled());
            Err("interrupted".into())
        }
    });
    let handle = submit(&scheduler, &Arc::new(job));
    eventually("the morsel", || inside.load(SeqCst));
    handle.cancel();
    assert!(matches!(handle.wait(), Err(QueryError::Cancelled)));
}

#[test]
fn a_failure_is_seen_by_the_other_lanes() {
    let scheduler = Scheduler::new(2);
    let inside = Arc::new(AtomicBool::new(false));
    let job = TestJob::new("long", 2, move |lane, ctx| {
        if lane == 0 {
            inside.store(true, SeqCst);
            eventually("the marker", || ctx.is_cancelled());
            return Ok(Step::Again);
        }
        eventually("the other lane", || inside.load(SeqCst));
        Err(Broken(1).into())
    });
    assert_eq!(run(&scheduler, job).unwrap_err().code(), "OGEE_W003");
}

#[test]
fn the_marker_can_be_made_by_hand() {
    for raised in [false, true] {
        let cancelled = &Cancellation::new(raised);
        let ctx = TaskContext { worker: 0, cancelled };
        assert_eq!(ctx.is_cancelled(), raised);
    }
}

#[test]
fn blocked_lanes_do_not_keep_a_cancelled_query_alive() {
    let scheduler = Scheduler::new(2);
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let job = Arc::new(TestJob::new("stuck", 3, move |_, _| {
        counted.fetch_add(1, SeqCst);
        Ok(Step::Blocked)
    }));
    let handle = submit(&scheduler, &job);
    eventually("three blocked lanes", || runs.load(SeqCst) == 3);
    // Blocked lanes hold no worker.
    assert_usable(&scheduler);
    assert!(!handle.is_finished());
    handle.cancel();
    assert!(matches!(handle.wait(), Err(QueryError::Cancelled)));
    assert_eq!(runs.load(SeqCst), 3);
    // Neither harms: the query is gone.
    job.waker.get().unwrap().wake();
    handle.cancel();
}

#[test]
fn a_query_is_not_cancelled_by_dropping_its_handle() {
    let scheduler = Scheduler::new(1);
    let (job, count) = counting(1_000, 1);
    let mut query = QueryBuilder::new();
    query.add_job(Arc::new(job), &[]);
    let (sender, receiver) = mpsc::channel();
    drop(scheduler.submit(query, Box::new(move |outcome| sender.send(outcome).unwrap())));
    receiver.recv().unwrap().unwrap();
    assert_eq!(count.load(SeqCst), 1_000);
}

/// A channel of bounded length between a job that produces and one that consumes, on as few as one worker.
#[test]
fn producer_and_consumer_wake_each_other() {
    for (threads, lanes) in [(1, 1), (1, 3), (2, 2), (4, 3)] {
        let scheduler = Scheduler::new(threads);
        for _ in 0..20 {
            let (items, length) = (2_000, 4);
            #[derive(Default)]
            struct Channel {
                queue: Mutex<(VecDeque<usize>, bool)>,
                producer: OnceLock<JobWaker>,
                consumer: OnceLock<JobWaker>,
            }
            let channel = Arc::new(Channel::default());
            let ranges = MorselRanges::new(items, lanes, 1);
            let pending: Vec<Mutex<Option<usize>>> = (0..lanes).map(|_| Mutex::default()).collect();
            let producer = TestJob::new("producer", lanes, {
                let channel = Arc::clone(&channel);
                move |lane, _| {
                    // The lane's state: an item that found the channel full.
                    let mut pending = pending[lane].lock().unwrap();
                    let Some(item) = pending.take().or_else(|| ranges.next(lane)?.next()) else {
                        return Ok(Step::Exhausted);
                    };
                    let mut queue = channel.queue.lock().unwrap();
                    if queue.0.len() == length {
                        *pending = Some(item);
                        return Ok(Step::Blocked);
                    }
                    queue.0.push_back(item);
                    drop(queue);
                    channel.consumer.get().unwrap().wake();
                    Ok(Step::Again)
                }
            });
            let producer = producer.finish({
                let channel = Arc::clone(&channel);
                move |_| {
                    channel.queue.lock().unwrap().1 = true;
                    channel.consumer.get().unwrap().wake();
                    Ok(())
                }
            });
            let sum = Arc::new(AtomicUsize::new(0));
            let consumer = TestJob::new("consumer", lanes, {
                let (channel, sum) = (Arc::clone(&channel), Arc::clone(&sum));
                move |_, _| {
                    let mut queue = channel.queue.lock().unwrap();
                    let Some(item) = queue.0.pop_front() else {
                        return Ok(if queue.1 { Step::Exhausted } else { Step::Blocked });
                    };
                    drop(queue);
                    channel.producer.get().unwrap().wake();
                    sum.fetch_add(item, SeqCst);
                    Ok(Step::Again)
                }
            });
            let (producer, consumer) = (Arc::new(producer), Arc::new(consumer));
            let mut query = QueryBuilder::new();
            // The consumer first, so that it blocks at once.
            query.add_job(
                Arc::new(Attached(consumer, channel.clone(), |channel, waker| {
                    assert!(channel.consumer.set(waker).is_ok());
                })),
                &[],
            );
            query.add_job(
                Arc::new(Attached(producer, channel.clone(), |channel, waker| {
                    assert!(channel.producer.set(waker).is_ok());
                })),
                &[],
            );
            scheduler.submit(query, Box::new(drop)).wait().unwrap();
            assert_eq!(sum.load(SeqCst), items * (items - 1) / 2);

            /// A job whose waker goes to something that it shares with others.
            struct Attached(Arc<TestJob>, Arc<Channel>, fn(&Channel, JobWaker));

            impl Job for Attached {
                fn name(&self) -> &str {
                    Job::name(&*self.0)
                }

                fn lanes(&self) -> usize {
                    Job::lanes(&*self.0)
                }

                fn run(&self, lane: usize, ctx: &TaskContext) -> Result<Step, JobError> {
                    self.0.run(lane, ctx)
                }

                fn finish(&self, ctx: &TaskContext) -> Result<(), JobError> {
                    Job::finish(&*self.0, ctx)
                }

                fn attach(&self, waker: JobWaker) {
                    (self.2)(&self.1, waker);
                }
            }
        }
    }
}

#[test]
fn wakes_from_other_threads_are_not_lost() {
    let scheduler = Scheduler::new(2);
    for _ in 0..20 {
        let (available, taken, total) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0), 2_000);
        let job = TestJob::new("waiting", 2, {
            let available = Arc::clone(&available);
            move |_, _| {
                let seen = taken.load(SeqCst);
                if seen == total {
                    return Ok(Step::Exhausted);
                }
                if seen == available.load(SeqCst) {
                    return Ok(Step::Blocked);
                }
                // Losing the race is progress too: another lane took it.
                let _ = taken.compare_exchange(seen, seen + 1, SeqCst, SeqCst);
                Ok(Step::Again)
            }
        });
        let mut query = QueryBuilder::new();
        let id = query.add_job(Arc::new(job), &[]);
        let handle = scheduler.submit(query, Box::new(drop));
        thread::scope(|scope| {
            for _ in 0..2 {
                let waker = handle.waker(id);
                let available = &available;
                scope.spawn(move || {
                    for item in 0..total / 2 {
                        available.fetch_add(1, SeqCst);
                        waker.wake();
                        if item % 16 == 0 {
                            thread::yield_now();
                        }
                    }
                });
            }
        });
        // No wake from here: a lane that blocked saw too few items, so that a publisher's own wake came after its look.
        eventually("every blocked lane was woken", || handle.is_finished());
        handle.wait().unwrap();
    }
}

#[test]
fn a_wake_during_the_run_that_blocks_counts() {
    let scheduler = Scheduler::new(1);
    let runs = AtomicUsize::new(0);
    let waker: Arc<OnceLock<JobWaker>> = Arc::default();
    let job = TestJob::new("self-waking", 1, {
        let waker = Arc::clone(&waker);
        move |_, _| {
            if runs.fetch_add(1, SeqCst) == 100 {
                return Ok(Step::Exhausted);
            }
            eventually("the waker", || waker.get().is_some());
            waker.get().unwrap().wake();
            Ok(Step::Blocked)
        }
    });
    let mut query = QueryBuilder::new();
    let id = query.add_job(Arc::new(job), &[]);
    let handle = scheduler.submit(query, Box::new(drop));
    assert!(waker.set(handle.waker(id)).is_ok());
    handle.wait().unwrap();
}

/// Two endless queries on one worker alternate morsel by morsel; on several they have equal shares.
#[test]
fn queries_have_equal_shares() {
    // Ordered: one worker writes it.
    let trace = Arc::new(Mutex::new(Vec::new()));
    let scheduler = Scheduler::new(1);
    let endless = |query: usize| {
        let trace = Arc::clone(&trace);
        Arc::new(TestJob::new("endless", 4, move |_, _| {
            trace.lock().unwrap().push(query);
            Ok(Step::Again)
        }))
    };
    let first = submit(&scheduler, &endless(0));
    eventually("the first runs", || !trace.lock().unwrap().is_empty());
    let second = submit(&scheduler, &endless(1));
    let third = submit(&scheduler, &endless(2));
    eventually("the third runs", || trace.lock().unwrap().contains(&2));
    let from = trace.lock().unwrap().len();
    eventually("some more", || trace.lock().unwrap().len() > from + 300);
    for query in [&first, &second, &third] {
        query.cancel();
        query.wait().unwrap_err();
    }
    let trace = trace.lock().unwrap();
    for three in trace[from..from + 300].windows(3) {
        let mut three = three.to_vec();
        three.sort_unstable();
        assert_eq!(three, [0, 1, 2]);
    }
}

#[test]
fn a_new_query_gets_half_of_the_workers() {
    let scheduler = Scheduler::new(4);
    let long = |running: &Arc<AtomicUsize>| {
        let running = Arc::clone(running);
        Arc::new(TestJob::new("long", 4, move |_, _| {
            running.fetch_add(1, SeqCst);
            thread::sleep(Duration::from_millis(2));
            running.fetch_sub(1, SeqCst);
            Ok(Step::Again)
        }))
    };
    let (here, there) = (Arc::default(), Arc::default());
    let first = submit(&scheduler, &long(&here));
    eventually("all on the first", || here.load(SeqCst) == 4);
    let second = submit(&scheduler, &long(&there));
    eventually("half on each", || here.load(SeqCst) == 2 && there.load(SeqCst) == 2);
    // Sampled often enough that a wrong division would show; a worker between morsels is on neither.
    for _ in 0..100 {
        assert!(here.load(SeqCst) <= 3 && there.load(SeqCst) <= 3);
        thread::sleep(Duration::from_micros(500));
    }
    first.cancel();
    first.wait().unwrap_err();
    eventually("all on the second", || there.load(SeqCst) == 4);
    second.cancel();
    second.wait().unwrap_err();
}

/// Shares are of workers, not of morsels: long morsels do not give a query more workers.
#[test]
fn long_morsels_get_no_more_than_their_share() {
    let scheduler = Scheduler::new(2);
    let (shorts, longs) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&shorts);
    let short = Arc::new(TestJob::new("short", 2, move |_, _| {
        counted.fetch_add(1, SeqCst);
        Ok(Step::Again)
    }));
    let counted = Arc::clone(&longs);
    let long = Arc::new(TestJob::new("long", 2, move |_, _| {
        counted.fetch_add(1, SeqCst);
        thread::sleep(Duration::from_millis(5));
        Ok(Step::Again)
    }));
    // The short one first, until it has both workers: then the long one never gets more than one.
    let first = submit(&scheduler, &short);
    eventually("both workers", || short.running_max.load(SeqCst) == 2);
    let second = submit(&scheduler, &long);
    eventually("some long morsels", || longs.load(SeqCst) > 10);
    assert_eq!(long.running_max.load(SeqCst), 1);
    assert!(shorts.load(SeqCst) > longs.load(SeqCst));
    for query in [first, second] {
        query.cancel();
        query.wait().unwrap_err();
    }
}

#[test]
fn a_worker_keeps_its_lane() {
    let scheduler = Scheduler::new(1);
    let trace = Arc::new(Mutex::new(Vec::new()));
    let waker: Arc<OnceLock<JobWaker>> = Arc::default();
    let job = TestJob::new("kept", 3, {
        let (trace, waker) = (Arc::clone(&trace), Arc::clone(&waker));
        move |lane, _| {
            eventually("the waker", || waker.get().is_some());
            let mut trace = trace.lock().unwrap();
            trace.push(lane);
            Ok(match trace.len() {
                1 | 2 => Step::Blocked,
                3 => {
                    // From here on all three lanes can be run.
                    waker.get().unwrap().wake();
                    Step::Again
                }
                len if len % 5 == 0 => Step::Exhausted,
                _ => Step::Again,
            })
        }
    });
    // A second job of the same query, so that every boundary goes through the dispatcher.
    let stuck = TestJob::new("stuck", 1, |_, _| Ok(Step::Blocked));
    let mut query = QueryBuilder::new();
    let job = query.add_job(Arc::new(job), &[]);
    query.add_job(Arc::new(stuck), &[]);
    let handle = scheduler.submit(query, Box::new(drop));
    assert!(waker.set(handle.waker(job)).is_ok());
    eventually("all lanes exhausted", || trace.lock().unwrap().len() == 15);
    handle.cancel();
    handle.wait().unwrap_err();
    let expected = [0, 1, 2, 2, 2, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1];
    assert_eq!(*trace.lock().unwrap(), expected);
}

#[test]
fn lanes_shrink_and_grow() {
    let scheduler = Scheduler::new(4);
    let allowed = Arc::new(AtomicUsize::new(4));
    let running = Arc::new(AtomicUsize::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let job = TestJob::new("elastic", 4, {
        let (running, stop) = (Arc::clone(&running), Arc::clone(&stop));
        move |_, _| {
            running.fetch_add(1, SeqCst);
            thread::sleep(Duration::from_micros(500));
            running.fetch_sub(1, SeqCst);
            Ok(if stop.load(SeqCst) { Step::Exhausted } else { Step::Again })
        }
    });
    let job = Arc::new(job.lanes({
        let allowed = Arc::clone(&allowed);
        move || allowed.load(SeqCst)
    }));
    let handle = submit(&scheduler, &job);
    for lanes in [4, 1, 3, 0, 2, 6, 1] {
        allowed.store(lanes, SeqCst);
        let lanes = lanes.clamp(1, 4);
        eventually("as many as allowed", || running.load(SeqCst) == lanes);
        job.running_max.store(0, SeqCst);
        // The maximum is of lanes that began since; ones that began before the change may have been counted.
        eventually("settled", || {
            job.running_max.store(0, SeqCst);
            thread::sleep(Duration::from_millis(5));
            job.running_max.load(SeqCst) == lanes
        });
        thread::sleep(Duration::from_millis(10));
        assert_eq!(job.running_max.load(SeqCst), lanes);
    }
    // Six lanes were allowed at a time when four workers were there: lanes start only as workers take them.
    assert_eq!(job.lanes_started(), 4);
    // All four are run to their ends although only one is allowed.
    stop.store(true, SeqCst);
    handle.wait().unwrap();
    assert!(job.finished.load(SeqCst));
}

/// One worker tells of a dip and is parked by it; the other, inside a long morsel, never learns that there was one.
#[test]
fn a_dip_in_lanes_that_one_worker_misses_is_undone() {
    let scheduler = Scheduler::new(2);
    let allowed = Arc::new(AtomicUsize::new(2));
    let hold = Arc::new(AtomicBool::new(true));
    let running = Arc::new(AtomicUsize::new(0));
    let shorts = Arc::new(AtomicUsize::new(0));
    let job = TestJob::new("dipping", 2, {
        let (hold, running) = (Arc::clone(&hold), Arc::clone(&running));
        let shorts = Arc::clone(&shorts);
        move |lane, _| {
            running.fetch_add(1, SeqCst);
            if lane == 0 {
                eventually("the end of the long morsel", || !hold.load(SeqCst));
            } else {
                shorts.fetch_add(1, SeqCst);
            }
            thread::sleep(Duration::from_micros(300));
            running.fetch_sub(1, SeqCst);
            Ok(Step::Again)
        }
    });
    let job = job.lanes({
        let allowed = Arc::clone(&allowed);
        move || allowed.load(SeqCst)
    });
    let handle = submit(&scheduler, &Arc::new(job));
    eventually("both lanes", || running.load(SeqCst) == 2);
    allowed.store(1, SeqCst);
    eventually("the short lane is parked", || {
        let before = shorts.load(SeqCst);
        thread::sleep(Duration::from_millis(20));
        shorts.load(SeqCst) == before
    });
    allowed.store(2, SeqCst);
    hold.store(false, SeqCst);
    eventually("both lanes again", || running.load(SeqCst) == 2);
    handle.cancel();
    handle.wait().unwrap_err();
}

#[test]
fn the_number_of_threads_changes_at_boundaries() {
    let scheduler = Scheduler::new(1);
    assert_eq!(scheduler.threads(), 1);
    let running = Arc::new(Mutex::new(HashSet::new()));
    let job = TestJob::new("long", 8, {
        let running = Arc::clone(&running);
        move |_, ctx| {
            running.lock().unwrap().insert(ctx.worker);
            thread::sleep(Duration::from_micros(500));
            Ok(Step::Again)
        }
    });
    let handle = submit(&scheduler, &Arc::new(job));
    for threads in [1, 4, 2, 3, 8, 1, 0, 5] {
        scheduler.set_threads(threads);
        let threads = threads.max(1);
        assert_eq!(scheduler.threads(), threads);
        let expected: HashSet<usize> = (0..threads).collect();
        eventually("exactly the workers wanted", || {
            running.lock().unwrap().clear();
            thread::sleep(Duration::from_millis(10));
            *running.lock().unwrap() == expected
        });
    }
    handle.cancel();
    handle.wait().unwrap_err();
    assert_usable(&scheduler);
}

#[test]
fn dropping_the_scheduler_cancels_and_joins() {
    let runs = Arc::new(AtomicUsize::new(0));
    let scheduler = Scheduler::new(3);
    let counted = Arc::clone(&runs);
    let endless = Arc::new(TestJob::new("endless", 3, move |_, _| {
        counted.fetch_add(1, SeqCst);
        Ok(Step::Again)
    }));
    let stuck = Arc::new(TestJob::new("stuck", 3, |_, _| Ok(Step::Blocked)));
    let handles = [submit(&scheduler, &endless), submit(&scheduler, &stuck)];
    eventually("it runs", || runs.load(SeqCst) > 0);
    drop(scheduler);
    for handle in handles {
        assert!(handle.is_finished());
        assert!(matches!(handle.wait(), Err(QueryError::Cancelled)));
    }
    // Only the test's own references are left: the workers are gone with theirs.
    assert_eq!((Arc::strong_count(&endless), Arc::strong_count(&stuck)), (1, 1));
}

#[test]
fn the_last_reference_may_be_dropped_by_a_worker() {
    // In a job.
    let scheduler = Scheduler::new(3);
    let held = Arc::new(Mutex::new(Some(Arc::clone(&scheduler))));
    let (go, returned) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let job = TestJob::new("holding", 1, {
        let (go, returned) = (Arc::clone(&go), Arc::clone(&returned));
        move |_, _| {
            eventually("the go", || go.load(SeqCst));
            drop(held.lock().unwrap().take());
            returned.fetch_add(1, SeqCst);
            Ok(Step::Again)
        }
    });
    let handle = submit(&scheduler, &Arc::new(job));
    drop(scheduler);
    go.store(true, SeqCst);
    assert!(matches!(handle.wait(), Err(QueryError::Cancelled)));

    // In on_done.
    let scheduler = Scheduler::new(3);
    let held = Arc::clone(&scheduler);
    let go = Arc::new(AtomicBool::new(false));
    let (waiting, counted) = (Arc::clone(&go), Arc::clone(&returned));
    let handle = scheduler.submit(
        QueryBuilder::new(),
        Box::new(move |_| {
            eventually("the go", || waiting.load(SeqCst));
            drop(held);
            counted.fetch_add(1, SeqCst);
        }),
    );
    drop(scheduler);
    go.store(true, SeqCst);
    handle.wait().unwrap();
    assert_eq!(returned.load(SeqCst), 2, "a drop panicked");
}

#[test]
fn a_query_can_be_submitted_from_a_worker() {
    let scheduler = Scheduler::new(1);
    let (sender, receiver) = mpsc::channel();
    let inner = Arc::clone(&scheduler);
    let on_done = Box::new(move |_| {
        let (job, count) = counting(50, 2);
        let mut query = QueryBuilder::new();
        query.add_job(Arc::new(job), &[]);
        inner.submit(query, Box::new(move |outcome| sender.send((outcome, count)).unwrap()));
    });
    scheduler.submit(QueryBuilder::new(), on_done).wait().unwrap();
    let (outcome, count) = receiver.recv().unwrap();
    outcome.unwrap();
    assert_eq!(count.load(SeqCst), 50);
}

/// Many small queries from several threads, each with its own fate, while the number of threads changes.
#[test]
fn stress() {
    let scheduler = Scheduler::new(3);
    thread::scope(|scope| {
        for submitter in 0..4_usize {
            let scheduler = &scheduler;
            scope.spawn(move || {
                for round in 0..150_usize {
                    let seed = submitter * 1_000 + round;
                    let fate = seed % 5;
                    let mut query = QueryBuilder::new();
                    let mut previous = Vec::new();
                    let counts: Vec<_> = (0..1 + seed % 3)
                        .map(|job| {
                            let (lanes, morsels) = (1 + seed % 4, 10 + seed % 50);
                            let ranges = MorselRanges::new(morsels, lanes, 1 + seed % 2);
                            let count = Arc::new(AtomicUsize::new(0));
                            let counted = Arc::clone(&count);
                            let run = TestJob::new("stress", lanes, move |lane, _| {
                                let Some(range) = ranges.next(lane) else {
                                    return Ok(Step::Exhausted);
                                };
                                match (fate, range.contains(&7)) {
                                    (1, true) => return Err(Broken(seed).into()),
                                    (2, true) => panic!("stress"),
                                    // Ended only by the cancellation.
                                    (3, true) => return Ok(Step::Blocked),
                                    _ => {}
                                }
                                counted.fetch_add(range.len(), SeqCst);
                                Ok(Step::Again)
                            });
                            let deps = if seed % 2 == 0 { previous.as_slice() } else { &[] };
                            let id = query.add_job(Arc::new(run), deps);
                            if job < 2 {
                                previous.push(id);
                            }
                            (count, morsels)
                        })
                        .collect();
                    let ended = Arc::new(AtomicUsize::new(0));
                    let counted = Arc::clone(&ended);
                    let on_done = Box::new(move |_| {
                        counted.fetch_add(1, SeqCst);
                    });
                    let handle = scheduler.submit(query, on_done);
                    if fate >= 3 {
                        if fate == 3 {
                            thread::yield_now();
                        }
                        handle.cancel();
                    }
                    let outcome = handle.wait();
                    assert_eq!(ended.load(SeqCst), 1);
                    match (fate, outcome) {
                        (0, Ok(())) => {
                            for (count, morsels) in counts {
                                assert_eq!(count.load(SeqCst), morsels);
                            }
                        }
                        (1, Err(QueryError::Failed(error))) => {
                            assert_eq!(error.downcast_ref(), Some(&Broken(seed)));
                        }
                        (2, Err(QueryError::Panicked { message, .. })) => {
                            assert_eq!(message, "stress");
                        }
                        (3, Err(QueryError::Cancelled)) => {}
                        // It may have been faster than the cancellation.
                        (4, Ok(()) | Err(QueryError::Cancelled)) => {}
                        (fate, outcome) => panic!("fate {fate} ended as {outcome:?}"),
                    }
                    if round % 10 == 0 {
                        scheduler.set_threads(1 + seed % 5);
                    }
                }
            });
        }
    });
    assert_usable(&scheduler);
}
