//! Limits that the machine and its control groups set: the defaults for memory and threads.
//!
//! Control groups nest, and each ancestor's limit holds, so the smallest from the process's own group to the mounted root counts. Both
//! versions may be mounted at once; whatever says something counts. A container usually sees its own group as the root.
//!
//! Not here: Slurm and other managers. They set control groups or affinity, and those are read.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::{address_space, io::SpareMemory};

/// Of the memory there is, so much is the default limit: the rest is for the page cache and other processes.
const MEMORY_PERCENT: usize = 80;
/// Where nothing tells how much there is.
const MEMORY_UNKNOWN: usize = 4 << 30;

/// The default memory limit in bytes: 80 % of the smaller of RAM and the limits of the control groups, if there are addresses for as much.
pub fn default_limit() -> usize {
    let ram = physical_memory().unwrap_or(MEMORY_UNKNOWN);
    let memory = Groups::of_process(Path::new("/")).memory_limit().map_or(ram, |limit| limit.min(ram));
    (memory / 100 * MEMORY_PERCENT).min(address_space::limit_max()).max(crate::LIMIT_MIN)
}

/// What the machine and the control groups of this process have left.
pub(crate) fn spare_memory() -> SpareMemory {
    static GROUPS: OnceLock<Groups> = OnceLock::new();
    let groups = GROUPS.get_or_init(|| Groups::of_process(Path::new("/")));
    let machine = memory_info("MemAvailable:").unwrap_or(0);
    let bytes = groups.memory_left().map_or(machine, |left| left.min(machine)) as u64;
    SpareMemory { bytes, unwritten: room_for_unwritten().unwrap_or(0) as u64 }
}

/// Bytes that may wait to be written before the system begins.
fn room_for_unwritten() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/vmstat").ok()?;
    let pages = |name: &str| -> Option<usize> {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
    };
    let begins = pages("nr_dirty_background_threshold")?;
    let waiting = pages("nr_dirty")? + pages("nr_writeback")?;
    Some(begins.saturating_sub(waiting) * rustix::param::page_size())
}

/// The default number of threads: what the affinity of the process and the CPU quota of the control groups allow, at least 1. A
/// quota of 1.5 CPUs gives 2 threads.
pub fn default_threads() -> usize {
    let threads = affinity();
    Groups::of_process(Path::new("/")).cpu_quota().map_or(threads, |quota| (quota.ceil() as usize).clamp(1, threads))
}

#[cfg(target_os = "linux")]
fn affinity() -> usize {
    rustix::thread::sched_getaffinity(None).map_or_else(|_| parallelism(), |set| set.count() as usize).max(1)
}

#[cfg(not(target_os = "linux"))]
fn affinity() -> usize {
    parallelism()
}

fn parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(target_os = "linux")]
fn physical_memory() -> Option<usize> {
    memory_info("MemTotal:")
}

/// The bytes that `/proc/meminfo` says for `name`; `None` on other systems.
fn memory_info(name: &str) -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(not(target_os = "linux"))]
#[expect(unsafe_code, reason = "sysconf has no safe binding here")]
fn physical_memory() -> Option<usize> {
    // SAFETY: `sysconf` reads a number and has no precondition.
    let (pages, size) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    Some(usize::try_from(pages).ok()?.checked_mul(usize::try_from(size).ok()?)?)
}

/// The directories of the control groups of a process, its own before its ancestors'.
#[derive(Debug, Default)]
struct Groups {
    memory_v1: Vec<PathBuf>,
    cpu_v1: Vec<PathBuf>,
    unified: Vec<PathBuf>,
}

impl Groups {
    /// Reads membership and mounts below `root` (the file system's root, except in tests).
    fn of_process(root: &Path) -> Self {
        let (Ok(membership), Ok(mounts)) = (
            std::fs::read_to_string(root.join("proc/self/cgroup")),
            std::fs::read_to_string(root.join("proc/self/mountinfo")),
        ) else {
            return Self::default();
        };
        let mut groups = Self::default();
        for line in membership.lines() {
            // hierarchy:controllers:path
            let mut fields = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
                continue;
            };
            if controllers.is_empty() {
                groups.unified = directories(root, &mounts, "cgroup2", None, path);
                continue;
            }
            for controller in controllers.split(',') {
                match controller {
                    "memory" => groups.memory_v1 = directories(root, &mounts, "cgroup", Some("memory"), path),
                    "cpu" => groups.cpu_v1 = directories(root, &mounts, "cgroup", Some("cpu"), path),
                    _ => {}
                }
            }
        }
        groups
    }

    fn memory_limit(&self) -> Option<usize> {
        let v1 = self.memory_v1.iter().filter_map(|group| number(&group.join("memory.limit_in_bytes")));
        let v2 = self
            .unified
            .iter()
            .flat_map(|group| ["memory.max", "memory.high"].into_iter().filter_map(|file| number(&group.join(file))));
        v1.chain(v2).min()
    }

    /// What is left of the limits: the least of `limit - used + cache that would be given up`.
    fn memory_left(&self) -> Option<usize> {
        let left = |limit: Option<usize>, group: &Path, used: &str, inactive: &str| {
            let used = number(&group.join(used))?;
            let stat = std::fs::read_to_string(group.join("memory.stat")).ok()?;
            let inactive = stat.lines().find_map(|line| line.strip_prefix(inactive)?.trim().parse().ok());
            Some((limit? + inactive.unwrap_or(0)).saturating_sub(used))
        };
        let v1 = self.memory_v1.iter().filter_map(|group| {
            let limit = number(&group.join("memory.limit_in_bytes"));
            left(limit, group, "memory.usage_in_bytes", "total_inactive_file ")
        });
        let v2 = self.unified.iter().filter_map(|group| {
            let limits = ["memory.max", "memory.high"].into_iter().filter_map(|file| number(&group.join(file)));
            left(limits.min(), group, "memory.current", "inactive_file ")
        });
        v1.chain(v2).min()
    }

    fn cpu_quota(&self) -> Option<f64> {
        let v1 = self.cpu_v1.iter().filter_map(|group| {
            // Unlimited is -1, which is no number here.
            let quota = number(&group.join("cpu.cfs_quota_us"))?;
            let period = number(&group.join("cpu.cfs_period_us"))?;
            (period > 0).then(|| quota as f64 / period as f64)
        });
        let v2 = self.unified.iter().filter_map(|group| {
            let text = std::fs::read_to_string(group.join("cpu.max")).ok()?;
            let (quota, period) = text.trim().split_once(' ')?;
            let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
            (period > 0.0).then(|| quota / period)
        });
        v1.chain(v2).min_by(f64::total_cmp)
    }
}

/// The number in a file; `None` for "max", negative numbers and files that are not there.
fn number(path: &Path) -> Option<usize> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The directories of group `path` and its ancestors under the mount of the given kind.
fn directories(root: &Path, mounts: &str, kind: &str, controller: Option<&str>, path: &str) -> Vec<PathBuf> {
    let Some((mounted, point)) = mounts.lines().find_map(|line| mount(line, kind, controller)) else {
        return Vec::new();
    };
    // A container may see only a part of the hierarchy, mounted from a group further down.
    let relative = Path::new(path).strip_prefix(mounted).or_else(|_| Path::new(path).strip_prefix("/"));
    let point = root.join(point.trim_start_matches('/'));
    let own = relative.map_or_else(|_| point.clone(), |relative| point.join(relative));
    own.ancestors().take_while(|directory| directory.starts_with(&point)).map(Path::to_path_buf).collect()
}

/// Root and mount point of a line of `mountinfo`, if it is a control group hierarchy of the given kind.
fn mount<'a>(line: &'a str, kind: &str, controller: Option<&str>) -> Option<(&'a str, &'a str)> {
    // id parent device root point options [tags] - type source superoptions
    let (before, after) = line.split_once(" - ")?;
    let mut after = after.split(' ');
    if after.next()? != kind {
        return None;
    }
    if let Some(controller) = controller
        && !after.nth(1)?.split(',').any(|option| option == controller)
    {
        return None;
    }
    let mut before = before.split(' ').skip(3);
    Some((before.next()?, before.next()?))
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_smallest_of_nested_unified_groups_counts() {
        let root = machine(&[
            ("proc/self/cgroup", "0::/job/step\n"),
            ("proc/self/mountinfo", "31 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/job/memory.max", "1000000\n"),
            ("sys/fs/cgroup/job/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/job/step/memory.max", "max\n"),
            ("sys/fs/cgroup/job/step/memory.high", "2000000\n"),
            ("sys/fs/cgroup/job/step/cpu.max", "max 100000\n"),
        ]);
        let groups = Groups::of_process(root.path());
        assert_eq!(groups.memory_limit(), Some(1_000_000));
        assert_eq!(groups.cpu_quota(), Some(1.5));
    }

    #[test]
    fn hierarchies_of_version_one_are_found_by_controller_also_from_inside_a_container() {
        let root = machine(&[
            ("proc/self/cgroup", "5:memory:/docker/abc/inner\n4:cpu,cpuacct:/docker/abc\n0::/\n"),
            (
                "proc/self/mountinfo",
                "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
                 35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro shared:12 - cgroup cgroup rw,memory\n",
            ),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "3000000"),
            ("sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "9223372036854771712"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000"),
        ]);
        let groups = Groups::of_process(root.path());
        assert_eq!(groups.memory_limit(), Some(3_000_000));
        assert_eq!(groups.cpu_quota(), Some(0.5));
    }

    #[test]
    fn without_groups_nothing_is_limited() {
        let root = machine(&[
            ("proc/self/cgroup", "4:cpu:/\n"),
            ("proc/self/mountinfo", "32 31 0:29 / /cg/cpu rw - cgroup cgroup rw,cpu\n"),
            ("cg/cpu/cpu.cfs_quota_us", "-1"),
            ("cg/cpu/cpu.cfs_period_us", "100000"),
        ]);
        let groups = Groups::of_process(root.path());
        assert_eq!((groups.memory_limit(), groups.cpu_quota()), (None, None));
        assert_eq!(Groups::of_process(&root.path().join("nowhere")).memory_limit(), None);
        assert!(default_threads() >= 1 && default_limit() >= crate::LIMIT_MIN);
    }
}
