//! What was measured, each with its budget, and how it is printed.

/// How a measured value stands to its budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    /// By how much.
    Missed(String),
    /// Nothing it could be held against.
    Shown,
    /// Why it was not measured.
    Skipped(String),
    /// It is wrong, not slow: no budget excuses it.
    Wrong(String),
}

pub(crate) struct Row {
    what: String,
    value: String,
    budget: String,
    pub(crate) verdict: Verdict,
}

impl Row {
    /// A value that has no budget.
    pub(crate) fn shown(what: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            value: value.into(),
            budget: String::new(),
            verdict: Verdict::Shown,
        }
    }

    pub(crate) fn skipped(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Skipped(why.into()),
            ..Self::shown(what, "")
        }
    }

    /// Something that is right or wrong.
    pub(crate) fn right(
        what: impl Into<String>,
        value: impl Into<String>,
        fault: Option<String>,
    ) -> Self {
        Self {
            budget: "every one".into(),
            verdict: fault.map_or(Verdict::Met, Verdict::Wrong),
            ..Self::shown(what, value)
        }
    }

    /// A value that must not be above its budget; `text` renders both.
    pub(crate) fn at_most(
        what: impl Into<String>,
        value: f64,
        budget: f64,
        text: impl Fn(f64) -> String,
    ) -> Self {
        let verdict = if value <= budget {
            Verdict::Met
        } else {
            Verdict::Missed(format!("{:.2} times the budget", value / budget))
        };
        Self {
            what: what.into(),
            value: text(value),
            budget: format!("<= {}", text(budget)),
            verdict,
        }
    }

    /// A value that must not be below its budget.
    pub(crate) fn at_least(
        what: impl Into<String>,
        value: f64,
        budget: f64,
        text: impl Fn(f64) -> String,
    ) -> Self {
        let verdict = if value >= budget {
            Verdict::Met
        } else {
            Verdict::Missed(format!("{:.2} of the budget", value / budget))
        };
        Self {
            what: what.into(),
            value: text(value),
            budget: format!(">= {}", text(budget)),
            verdict,
        }
    }

    /// More words behind the value.
    pub(crate) fn with(mut self, note: &str) -> Self {
        self.value.push_str(note);
        self
    }
}

pub(crate) fn render(rows: &[Row]) -> String {
    let width = |cell: fn(&Row) -> &str| rows.iter().map(|row| cell(row).chars().count()).max();
    let what = width(|row| &row.what).unwrap_or(0);
    let value = width(|row| &row.value).unwrap_or(0).max("measured".len());
    let budget = width(|row| &row.budget).unwrap_or(0).max("budget".len());
    let line = |cells: [&str; 3], verdict: &str| {
        let [first, second, third] = cells;
        format!("{first:<what$}  {second:<value$}  {third:<budget$}  {verdict}\n")
    };
    let mut text = line(["what", "measured", "budget"], "verdict");
    for row in rows {
        let verdict = match &row.verdict {
            Verdict::Met => "met".to_owned(),
            Verdict::Missed(by) => format!("MISSED: {by}"),
            Verdict::Shown => "-".to_owned(),
            Verdict::Skipped(why) => format!("SKIPPED: {why}"),
            Verdict::Wrong(why) => format!("WRONG: {why}"),
        };
        text.push_str(&line([&row.what, &row.value, &row.budget], &verdict));
    }
    text
}

/// The middle one; of an even number, the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (
        sorted.get(sorted.len().saturating_sub(1) / 2)?,
        sorted.get(sorted.len() / 2)?,
    );
    Some(f64::midpoint(*low, *high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn a_budget_is_met_or_missed_by_a_factor() {
        let text = |value: f64| format!("{value} ms");
        assert_eq!(Row::at_most("a", 300.0, 300.0, text).verdict, Verdict::Met);
        assert_eq!(
            Row::at_most("a", 600.0, 300.0, text).verdict,
            Verdict::Missed("2.00 times the budget".into())
        );
        assert_eq!(
            Row::at_least("a", 0.5, 1.0, text).verdict,
            Verdict::Missed("0.50 of the budget".into())
        );
    }

    #[test]
    fn columns_line_up() {
        let rows = [
            Row::at_most("startup", 10.0, 300.0, |value| format!("{value:.0} ms")),
            Row::skipped("b", "no root"),
        ];
        assert_eq!(
            render(&rows),
            "what     measured  budget     verdict\n\
             startup  10 ms     <= 300 ms  met\n\
             b                             SKIPPED: no root\n"
        );
    }
}
