//! Idle workers cost nothing. Alone in its process, since it reads the processor time of threads by name.

#![cfg(all(target_os = "linux", not(loom)))]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use ogee_scheduler::{Job, JobError, MorselRanges, QueryBuilder, Scheduler, Step, TaskContext};

struct Ranges(MorselRanges);

impl Job for Ranges {
    fn name(&self) -> &str {
        "ranges"
    }

    fn lanes(&self) -> usize {
        4
    }

    fn run(&self, lane: usize, _: &TaskContext) -> Result<Step, JobError> {
        Ok(self.0.next(lane).map_or(Step::Exhausted, |_| Step::Again))
    }

    fn finish(&self, _: &TaskContext) -> Result<(), JobError> {
        Ok(())
    }
}

/// Blocked until it is cancelled.
struct Stuck;

impl Job for Stuck {
    fn name(&self) -> &str {
        "stuck"
    }

    fn lanes(&self) -> usize {
        4
    }

    fn run(&self, _: usize, _: &TaskContext) -> Result<Step, JobError> {
        Ok(Step::Blocked)
    }

    fn finish(&self, _: &TaskContext) -> Result<(), JobError> {
        Ok(())
    }
}

/// Names of the workers, and how many times all of them together have been given a processor.
fn workers() -> (Vec<String>, u64) {
    let mut names = Vec::new();
    let mut switches = 0;
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().path();
        // A thread that has just left is not listed any more, or cannot be read.
        let Ok(name) = fs::read_to_string(task.join("comm")) else {
            continue;
        };
        if name.starts_with("ogee-worker-") {
            let status = fs::read_to_string(task.join("status")).unwrap();
            switches += status
                .lines()
                .filter(|line| line.contains("ctxt_switches"))
                .map(|line| line.split_whitespace().last().unwrap().parse::<u64>().unwrap())
                .sum::<u64>();
            names.push(name.trim().to_owned());
        }
    }
    names.sort_unstable();
    (names, switches)
}

/// Whether `holds` of the workers before and after a wait, tried some times: threads may still be on their way.
fn soon(holds: impl Fn(&(Vec<String>, u64), &(Vec<String>, u64)) -> bool) -> bool {
    (0..50).any(|_| {
        let before = workers();
        std::thread::sleep(Duration::from_millis(200));
        holds(&before, &workers())
    })
}

/// A parked thread is never switched to, so that any polling shows, however cheap.
fn assert_parked() {
    assert!(soon(|before, after| before.1 == after.1), "workers run while there is nothing to do");
}

#[test]
fn idle_and_blocked_workers_are_parked() {
    let scheduler = Scheduler::new(4);
    assert!(workers().0.is_empty(), "workers before the first query");

    let mut query = QueryBuilder::new();
    query.add_job(Arc::new(Ranges(MorselRanges::new(10_000, 4, 1))), &[]);
    scheduler.submit(query, Box::new(drop)).wait().unwrap();
    // A worker names itself when it begins to run, perhaps after the query has ended.
    let expected: Vec<_> = (0..4).map(|worker| format!("ogee-worker-{worker}")).collect();
    while workers().0 != expected {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_parked();

    let mut query = QueryBuilder::new();
    query.add_job(Arc::new(Stuck), &[]);
    let stuck = scheduler.submit(query, Box::new(drop));
    assert_parked();
    stuck.cancel();
    stuck.wait().unwrap_err();

    drop(scheduler);
    // A thread that was joined is listed until the kernel has taken it away.
    assert!(soon(|_, after| after.0.is_empty()), "workers after the drop");
}
