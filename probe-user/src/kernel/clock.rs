//! From the kernel's clock to the wall clock.
//!
//! Kernel events carry `CLOCK_BOOTTIME`, which never jumps and goes on during suspend. The wall clock
//! (`CLOCK_REALTIME`) is that plus an offset, and the offset changes when somebody sets the clock. A [`Clock`] remembers
//! which offset was in force when, so that an event from before a step keeps the time people saw on the wall then.

use std::collections::VecDeque;

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::event::EventTime;

/// A smaller change of the offset is slewing (or the error of a reading), not a step.
const STEP_NS: u64 = 1_000_000;
/// Steps remembered. Once a second for hours is not a clock any more.
const MAX_SAMPLES: usize = 64;
/// A reading during which the thread was not interrupted is among this many.
const ATTEMPTS: usize = 5;
const NS_PER_S: i64 = 1_000_000_000;

/// How far apart the two clocks were at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// `CLOCK_BOOTTIME`, ns.
    pub boottime_ns: u64,
    /// `CLOCK_REALTIME` − `CLOCK_BOOTTIME`, ns.
    pub offset_ns: i64,
    /// `offset_ns` is off by no more than this.
    pub error_ns: u64,
}

impl Sample {
    /// Reads both clocks: the wall clock between two readings of the other, and the tightest of a few such pairs.
    pub fn now() -> Self {
        let mut best = Self::read_once();
        for _ in 1..ATTEMPTS {
            let other = Self::read_once();
            if other.error_ns < best.error_ns {
                best = other;
            }
        }
        best
    }

    fn read_once() -> Self {
        let before = nanoseconds(clock_gettime(ClockId::Boottime));
        let wall = nanoseconds(clock_gettime(ClockId::Realtime));
        let after = nanoseconds(clock_gettime(ClockId::Boottime));
        let half = after.saturating_sub(before) / 2;
        let middle = before.saturating_add(half);
        Self {
            boottime_ns: u64::try_from(middle).unwrap_or(0),
            offset_ns: wall.saturating_sub(middle),
            error_ns: u64::try_from(half).unwrap_or(0).saturating_add(1),
        }
    }
}

/// `CLOCK_BOOTTIME` now, ns.
pub fn boottime_ns() -> u64 {
    u64::try_from(nanoseconds(clock_gettime(ClockId::Boottime))).unwrap_or(0)
}

fn nanoseconds(time: Timespec) -> i64 {
    time.tv_sec
        .saturating_mul(NS_PER_S)
        .saturating_add(time.tv_nsec)
}

/// Which offset was in force when. Pure: readings come in through [`Clock::observe`].
#[derive(Clone, Debug)]
pub struct Clock {
    /// In force before the first of `steps`.
    first: Sample,
    /// In the order of their times.
    steps: VecDeque<Sample>,
}

impl Clock {
    /// A clock that knows one reading.
    pub fn new(first: Sample) -> Self {
        Self {
            first,
            steps: VecDeque::new(),
        }
    }

    /// A clock that has read the host's clocks.
    pub fn start() -> Self {
        Self::new(Sample::now())
    }

    /// Reads the host's clocks. Call it about once a second: a step is dated by the reading that found it.
    pub fn sample(&mut self) {
        self.observe(Sample::now());
    }

    /// Takes in a reading; it is remembered when the offset moved. Readings older than the last one are ignored.
    pub fn observe(&mut self, sample: Sample) {
        let last = self.steps.back().unwrap_or(&self.first);
        if sample.boottime_ns < last.boottime_ns {
            return;
        }
        let doubt = sample.error_ns.saturating_add(last.error_ns);
        if sample.offset_ns.abs_diff(last.offset_ns) <= STEP_NS.saturating_add(doubt) {
            return;
        }
        self.steps.push_back(sample);
        if self.steps.len() > MAX_SAMPLES
            && let Some(oldest) = self.steps.pop_front()
        {
            self.first = oldest;
        }
    }

    /// The wall clock at a moment of the kernel's clock, ns since 1970-01-01T00:00:00Z.
    pub fn wall_ns(&self, ktime_ns: u64) -> i64 {
        let sample = self
            .steps
            .iter()
            .rev()
            .find(|step| step.boottime_ns <= ktime_ns)
            .unwrap_or(&self.first);
        i64::try_from(ktime_ns)
            .unwrap_or(i64::MAX)
            .saturating_add(sample.offset_ns)
    }

    /// Both times of a moment of the kernel's clock.
    pub fn event_time(&self, ktime_ns: u64) -> EventTime {
        EventTime {
            ktime_ns,
            wall_ns: self.wall_ns(ktime_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn sample(boottime_ns: u64, offset_ns: i64) -> Sample {
        Sample {
            boottime_ns,
            offset_ns,
            error_ns: 100,
        }
    }

    #[test]
    fn an_event_before_a_step_keeps_its_time() {
        let mut clock = Clock::new(sample(10 * SECOND, 1_000_000));
        clock.observe(sample(20 * SECOND, 1_000_000));
        clock.observe(sample(30 * SECOND, 3_600_000_000_000));
        assert_eq!(clock.wall_ns(15 * SECOND), 15_001_000_000);
        assert_eq!(clock.wall_ns(30 * SECOND - 1), 30_000_999_999);
        assert_eq!(clock.wall_ns(30 * SECOND), 3_630_000_000_000);
        assert_eq!(
            clock.event_time(31 * SECOND),
            EventTime {
                ktime_ns: 31 * SECOND,
                wall_ns: 3_631_000_000_000
            }
        );
    }

    #[test]
    fn a_step_back_makes_the_wall_clock_go_back_but_not_the_order_of_events() {
        let mut clock = Clock::new(sample(0, 50 * 1_000_000_000));
        clock.observe(sample(SECOND, 0));
        assert!(clock.wall_ns(SECOND) < clock.wall_ns(SECOND - 1));
        assert!(clock.event_time(SECOND) > clock.event_time(SECOND - 1));
    }

    #[test]
    fn events_from_before_the_first_reading_use_the_first_reading() {
        let clock = Clock::new(sample(10 * SECOND, 7));
        assert_eq!(clock.wall_ns(3), 10);
    }

    #[test]
    fn suspend_is_no_step() {
        // Boottime and the wall clock both go on while the host sleeps: the offset stays.
        let mut clock = Clock::new(sample(SECOND, 5));
        clock.observe(sample(36_000 * SECOND, 5));
        assert!(clock.steps.is_empty());
        assert_eq!(clock.wall_ns(36_000 * SECOND), 36_000_000_000_005);
    }

    #[test]
    fn slewing_and_reading_errors_are_no_steps_until_they_add_up() {
        let mut clock = Clock::new(sample(0, 0));
        clock.observe(sample(SECOND, 600_000));
        assert!(clock.steps.is_empty());
        clock.observe(sample(2 * SECOND, 1_200_000));
        assert_eq!(clock.steps.len(), 1);
        let mut clock = Clock::new(sample(0, 0));
        clock.observe(Sample {
            boottime_ns: 1,
            offset_ns: 5_000_000,
            error_ns: 10_000_000,
        });
        assert!(
            clock.steps.is_empty(),
            "a reading that was interrupted proves nothing"
        );
    }

    #[test]
    fn the_history_is_bounded() {
        let mut clock = Clock::new(sample(0, 0));
        for step in 1..1000_u64 {
            clock.observe(sample(
                step * SECOND,
                i64::try_from(step).unwrap() * 10_000_000,
            ));
        }
        assert_eq!(clock.steps.len(), MAX_SAMPLES);
        assert_eq!(clock.wall_ns(999 * SECOND), 999_000_000_000 + 9_990_000_000);
        assert_eq!(
            clock.wall_ns(0),
            i64::try_from(999 - MAX_SAMPLES).unwrap() * 10_000_000
        );
    }

    #[test]
    fn an_old_reading_does_not_disturb_the_order() {
        let mut clock = Clock::new(sample(10, 0));
        clock.observe(sample(5, 1_000_000_000));
        assert!(clock.steps.is_empty());
    }

    #[test]
    fn the_hosts_clocks_agree_with_the_standard_library() {
        let clock = Clock::start();
        let wall = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        let ours = clock.wall_ns(boottime_ns());
        assert!(ours.abs_diff(i64::try_from(wall.as_nanos()).unwrap()) < 500_000_000);
        assert!(Sample::now().error_ns < 50_000_000);
    }

    proptest! {
        #[test]
        fn no_reading_makes_it_overflow(readings in prop::collection::vec((any::<u64>(), any::<i64>(), any::<u64>()), 0..100), at: u64) {
            let mut clock = Clock::new(sample(0, 0));
            for (boottime_ns, offset_ns, error_ns) in readings {
                clock.observe(Sample { boottime_ns, offset_ns, error_ns });
            }
            let _wall = clock.wall_ns(at);
        }
    }
}
