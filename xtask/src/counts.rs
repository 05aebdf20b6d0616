//! How many passed, failed and were skipped, read from what the test runners print.

use std::{fmt, ops::AddAssign, process::ExitCode};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    /// Tests that said `SKIPPED` and are still to be taken from those their runner will report as passed.
    pending: u64,
}

impl Counts {
    pub(crate) const PASSED: Self = Self {
        passed: 1,
        failed: 0,
        skipped: 0,
        pending: 0,
    };
    pub(crate) const FAILED: Self = Self {
        passed: 0,
        failed: 1,
        skipped: 0,
        pending: 0,
    };
    pub(crate) const SKIPPED: Self = Self {
        passed: 0,
        failed: 0,
        skipped: 1,
        pending: 0,
    };

    /// What one line of `cargo test`, `cargo nextest` or `score` adds.
    ///
    /// A test that cannot run here says `SKIPPED …` and returns: its runner counts it as passed, so it moves over.
    pub(crate) fn read_line(&mut self, line: &str) {
        // nextest repeats a test's own output, in which is a result of its harness, indented.
        let result = line.strip_prefix("test result:");
        let line = line.trim();
        if line.starts_with("SKIPPED ") {
            *self += Self {
                pending: 1,
                ..Self::SKIPPED
            };
        } else if let Some(rest) = result {
            *self += Self::from_words(rest);
        } else if let Some((_, rest)) = line
            .strip_prefix("Summary [")
            .and_then(|rest| rest.split_once("run:"))
        {
            *self += Self::from_words(rest);
        } else if Self::is_total(line) {
            *self += Self::from_words(line);
        }
    }

    /// Whether this is the line a run ends with: `3 passed, 0 failed, 1 skipped`.
    pub(crate) fn is_total(line: &str) -> bool {
        let words: Vec<_> = line.split_whitespace().collect();
        matches!(words.as_slice(), [a, "passed,", b, "failed,", c, "skipped"]
            if [a, b, c].iter().all(|number| number.parse::<u64>().is_ok()))
    }

    fn from_words(text: &str) -> Self {
        let mut counts = Self::default();
        let words: Vec<_> = text
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        for pair in words.windows(2) {
            let [number, word] = pair else { continue };
            let Ok(number) = number.parse::<u64>() else {
                continue;
            };
            match *word {
                "passed" => counts.passed += number,
                // nextest: `1 timed out`, `1 exec failed`.
                "failed" | "timed" | "exec" => counts.failed += number,
                "skipped" | "ignored" => counts.skipped += number,
                _ => {}
            }
        }
        counts
    }

    pub(crate) fn exit_code(self) -> ExitCode {
        if self.failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.pending += other.pending;
        let settled = self.passed.min(self.pending);
        self.passed -= settled;
        self.pending -= settled;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> (u64, u64, u64) {
        let mut counts = Counts::default();
        for line in lines {
            counts.read_line(line);
        }
        (counts.passed, counts.failed, counts.skipped)
    }

    #[test]
    fn cargo_test_results_add_up() {
        let lines = [
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.00s",
        ];
        assert_eq!(read(&lines), (7, 2, 1));
    }

    #[test]
    fn nextest_summaries_add_up() {
        let lines = [
            "     Summary [   0.123s] 12 tests run: 9 passed (1 slow), 2 failed, 1 timed out, 4 skipped",
        ];
        assert_eq!(read(&lines), (9, 3, 4));
    }

    #[test]
    fn what_nextest_repeats_does_not_count_twice() {
        let lines = [
            "    test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.14s",
            "     Summary [   0.163s] 3 tests run: 2 passed, 1 failed, 0 skipped",
        ];
        assert_eq!(read(&lines), (2, 1, 0));
    }

    #[test]
    fn a_test_that_says_skipped_has_not_passed() {
        let lines = [
            "SKIPPED tcp_loss: no nft",
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        ];
        let mut counts = Counts::default();
        // The line may stand before or after the result it belongs to.
        for line in lines.iter().rev() {
            counts.read_line(line);
        }
        assert_eq!((counts.passed, counts.skipped), (1, 1));
        assert_eq!(read(&lines), (1, 0, 1));
    }

    #[test]
    fn other_lines_count_nothing() {
        assert_eq!(
            read(&["test a::b ... ok", "running 3 tests", "passed", "12 passed"]),
            (0, 0, 0)
        );
        assert_eq!(read(&["26 passed, 0 failed, 2 skipped"]), (26, 0, 2));
    }
}
