//! What the tests are made of.

pub(crate) mod counters;
pub(crate) mod identities;
pub(crate) mod netns;
pub(crate) mod ss;
pub(crate) mod tracer;
pub(crate) mod traffic;

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long anything may take that is bound to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How often it is looked at.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Waits until `check` gives something.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain for {what}");
        sleep(TICK);
    }
}

/// Runs a program to its end; it must succeed. Returns what it printed.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().expect("start a program");
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A number in an object of JSON; absent: 0.
pub(crate) fn num(object: &Value, pointer: &str) -> u64 {
    object.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// A text in an object of JSON; absent: empty.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or("")
}

/// A truth in an object of JSON; absent: false.
pub(crate) fn flag(object: &Value, pointer: &str) -> bool {
    object
        .pointer(pointer)
        .and_then(Value::as_bool)
        .unwrap_or(false)
}

/// `address:port` of one end.
pub(crate) fn end(object: &Value, which: &str) -> String {
    format!(
        "{}:{}",
        text(object, &format!("/{which}/address")),
        num(object, &format!("/{which}/port"))
    )
}
