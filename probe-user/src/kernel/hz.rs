//! Jiffies per second. BTF does not tell, and the kernel's configuration need not be readable: so it is measured.
//!
//! A socket pair of our own carries one-byte packets past a small program that notes jiffies and `CLOCK_MONOTONIC`. The
//! kernel starts jiffies at 2³² − 300·HZ (`INITIAL_JIFFIES`, include/linux/jiffies.h, since Linux 2.6) and derives them
//! from that clock, so one look is enough: HZ = (jiffies − 2³²) / (uptime − 300 s). Only around the 300th second, where
//! both are near 0, two looks with some time between them are needed.

use std::os::unix::net::UnixDatagram;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use probe_common::stats::Tick;

/// Uptime at which jiffies pass 2³².
const ZERO_S: f64 = 300.0;
const ZERO_JIFFIES: f64 = 4_294_967_296.0;
/// Distance from it beyond which a tick more or less does not matter.
const CLEAR_S: f64 = 30.0;
/// Time between two looks: long enough to tell 250 from 300 although a look can come a tick late.
const BETWEEN: Duration = Duration::from_millis(120);
/// What kernels are built with.
const USUAL: [u32; 6] = [100, 250, 300, 500, 1000, 1024];
/// What is measured by one look is that exact, by two looks less.
const TOLERANCE: f64 = 0.01;
const TOLERANCE_SHORT: f64 = 0.08;

/// Measures HZ. `near` and `far` are the ends of a socket pair; `tick` reads what the program noted last.
pub(crate) fn measure(
    near: &UnixDatagram,
    far: &UnixDatagram,
    tick: impl Fn() -> Result<Tick>,
) -> Result<u32> {
    let look = || -> Result<Tick> {
        near.send(&[0]).context("send a packet to the own socket")?;
        far.recv(&mut [0])
            .context("receive a packet from the own socket")?;
        tick()
    };
    let first = look()?;
    if let Some(hz) = since_boot(first) {
        return Ok(hz);
    }
    sleep(BETWEEN);
    let last = look()?;
    between(first, last).with_context(|| {
        format!("measure jiffies per second: from {first:?} to {last:?} is no usual rate")
    })
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a kernel that runs for 285 000 years is not supported"
)]
fn as_f64(number: u64) -> f64 {
    number as f64
}

/// HZ from one look.
fn since_boot(tick: Tick) -> Option<u32> {
    let seconds = as_f64(tick.monotonic_ns) / 1e9 - ZERO_S;
    if seconds.abs() < CLEAR_S {
        return None;
    }
    usual((as_f64(tick.jiffies) - ZERO_JIFFIES) / seconds, TOLERANCE)
}

/// HZ from two looks.
fn between(first: Tick, last: Tick) -> Option<u32> {
    let ticks = last.jiffies.checked_sub(first.jiffies)?;
    let nanoseconds = last
        .monotonic_ns
        .checked_sub(first.monotonic_ns)
        .filter(|ns| *ns > 0)?;
    usual(as_f64(ticks) * 1e9 / as_f64(nanoseconds), TOLERANCE_SHORT)
}

fn usual(measured: f64, tolerance: f64) -> Option<u32> {
    let off = |rate: &u32| (measured / f64::from(*rate) - 1.0).abs();
    USUAL
        .into_iter()
        .filter(|rate| off(rate) < tolerance)
        .min_by(|a, b| off(a).total_cmp(&off(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(rate: u32, milliseconds: u64) -> Tick {
        let jiffies = (1 << 32) - 300 * u64::from(rate) + milliseconds * u64::from(rate) / 1000;
        Tick {
            jiffies,
            monotonic_ns: milliseconds * 1_000_000,
        }
    }

    #[test]
    fn one_look_tells_the_usual_rates_apart() {
        for rate in USUAL {
            for seconds in [5, 200, 340, 86_400, 86_400 * 900] {
                assert_eq!(
                    since_boot(at(rate, seconds * 1000)),
                    Some(rate),
                    "after {seconds} s"
                );
            }
        }
    }

    #[test]
    fn around_the_zero_of_jiffies_two_looks_are_taken() {
        for rate in USUAL.into_iter().filter(|rate| *rate != 1024) {
            assert_eq!(since_boot(at(rate, 300_000)), None);
            assert_eq!(between(at(rate, 299_990), at(rate, 300_120)), Some(rate));
        }
    }

    #[test]
    fn what_fits_no_rate_is_not_guessed() {
        let tick = |jiffies, monotonic_ns| Tick {
            jiffies,
            monotonic_ns,
        };
        assert_eq!(since_boot(tick(0, 5_000_000_000)), None);
        assert_eq!(between(tick(10, 0), tick(10, 4_000_000)), None);
        assert_eq!(between(tick(0, 0), tick(2, 14_000_000)), None);
        assert_eq!(between(tick(0, 5), tick(1, 5)), None);
    }
}
