//! The 1 % rule for looking things up: saved while nothing is to be done, spent in small portions.

use rustix::time::{ClockId, clock_gettime};

/// Share of the time that may be spent: one in so many.
const ONE_IN: i64 = 100;
/// What can be saved: longer work than this must be done in slices.
const MOST_NS: i64 = 50_000_000;

/// CPU time that may still be spent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    balance_ns: i64,
    seen_ns: Option<u64>,
}

impl Default for Allowance {
    fn default() -> Self {
        Self {
            balance_ns: MOST_NS,
            seen_ns: None,
        }
    }
}

impl Allowance {
    /// May something be done now?
    pub(super) fn has(&mut self, now_ns: u64) -> bool {
        let since = now_ns.saturating_sub(self.seen_ns.unwrap_or(now_ns));
        let earned = i64::try_from(since).unwrap_or(i64::MAX) / ONE_IN;
        // What is too little to count is not lost: it is earned at the next look.
        if earned > 0 || self.seen_ns.is_none() {
            self.seen_ns = Some(now_ns);
        }
        self.balance_ns = self.balance_ns.saturating_add(earned).min(MOST_NS);
        self.balance_ns > 0
    }

    /// It was done, and took that much. A debt is paid back before anything else is done.
    pub(super) fn spend(&mut self, cost_ns: u64) {
        self.balance_ns = self
            .balance_ns
            .saturating_sub(i64::try_from(cost_ns).unwrap_or(i64::MAX));
    }
}

/// A portion of work, measured in CPU time of this thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    start_ns: u64,
    most_ns: u64,
}

impl Slice {
    /// Begins now.
    pub(super) fn of(most_ns: u64) -> Self {
        Self {
            start_ns: cpu_time_ns(),
            most_ns,
        }
    }

    pub(super) fn spent_ns(self) -> u64 {
        cpu_time_ns().saturating_sub(self.start_ns)
    }

    pub(super) fn is_over(self) -> bool {
        self.most_ns != u64::MAX && self.spent_ns() >= self.most_ns
    }
}

fn cpu_time_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    part(time.tv_sec)
        .saturating_mul(1_000_000_000)
        .saturating_add(part(time.tv_nsec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_one_percent_is_spent_in_the_long_run() {
        let mut allowance = Allowance::default();
        let mut spent = 0_u64;
        for now in (0..1_000_000_000_000_u64).step_by(1_000_000) {
            if allowance.has(now) {
                allowance.spend(5_000_000);
                spent += 5_000_000;
            }
        }
        assert!(
            (10_000_000_000..=10_060_000_000).contains(&spent),
            "{spent}"
        );
    }

    #[test]
    fn a_debt_is_paid_back_first() {
        let mut allowance = Allowance::default();
        assert!(allowance.has(0));
        allowance.spend(1_050_000_000);
        assert!(!allowance.has(99_000_000_000));
        assert!(allowance.has(101_000_000_000));
    }

    #[test]
    fn looking_often_loses_nothing() {
        let mut allowance = Allowance::default();
        assert!(allowance.has(0));
        allowance.spend(60_000_000);
        for now in (0..1_100_000_000).step_by(10_001) {
            allowance.has(now);
        }
        assert!(allowance.has(1_100_000_000));
    }
}
