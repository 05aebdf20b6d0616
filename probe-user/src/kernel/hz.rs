//! Jiffies per second. BTF does not tell, and the kernel's configuration need not be readable: so it is measured.
//!
//! A socket pair of our own carries one-byte packets past a small program that notes jiffies and time. From one tick of
//! jiffies to a later one, time over ticks is HZ.

use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use probe_common::stats::Tick;

/// Ticks between the two moments: with the kernel's slowest clock (100 Hz) 20 ms.
const TICKS: u64 = 2;
/// The clock of a kernel that does not tick within that is not worth waiting for.
const PATIENCE: Duration = Duration::from_millis(250);
/// What kernels are built with; what is measured is never this far off.
const USUAL: [u32; 6] = [100, 250, 300, 500, 1000, 1024];
const TOLERANCE: f64 = 0.02;

/// Measures HZ. `near` and `far` are the ends of a socket pair; `tick` reads what the program noted last.
pub(crate) fn measure(near: &UnixDatagram, far: &UnixDatagram, tick: impl Fn() -> Result<Tick>) -> Result<u32> {
    let started = Instant::now();
    let look = || -> Result<Tick> {
        if started.elapsed() > PATIENCE {
            bail!("jiffies did not advance within {PATIENCE:?}");
        }
        near.send(&[0]).context("send a packet to the own socket")?;
        far.recv(&mut [0]).context("receive a packet from the own socket")?;
        tick()
    };
    let wait_past = |jiffies: u64| -> Result<Tick> {
        loop {
            let now = look()?;
            if now.jiffies > jiffies {
                return Ok(now);
            }
        }
    };
    let first = wait_past(look()?.jiffies)?;
    let last = wait_past(first.jiffies + TICKS - 1)?;
    hz(first, last).context("measure jiffies per second")
}

/// HZ from two moments just after a tick.
fn hz(first: Tick, last: Tick) -> Option<u32> {
    let ticks = last.jiffies.checked_sub(first.jiffies).filter(|ticks| *ticks > 0)?;
    let nanoseconds = last.ktime_ns.checked_sub(first.ktime_ns).filter(|ns| *ns > 0)?;
    #[expect(clippy::cast_precision_loss, reason = "a few ticks and milliseconds")]
    let measured = ticks as f64 * 1e9 / nanoseconds as f64;
    USUAL.into_iter().min_by(|a, b| distance(*a, measured).total_cmp(&distance(*b, measured))).filter(|usual| {
        // A moment is taken some time after its tick, so few ticks tell only which of the usual rates it is.
        distance(*usual, measured) < TOLERANCE * 4.0
    })
}

fn distance(usual: u32, measured: f64) -> f64 {
    (measured / f64::from(usual) - 1.0).abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(jiffies: u64, ktime_ns: u64) -> Tick {
        Tick { jiffies, ktime_ns }
    }

    #[test]
    fn the_usual_rates_are_told_apart() {
        for rate in USUAL {
            let period = 1_000_000_000 / u64::from(rate);
            assert_eq!(hz(at(10, 0), at(12, 2 * period + 3_000)), Some(rate));
        }
    }

    #[test]
    fn a_clock_that_stands_still_has_no_rate() {
        assert_eq!(hz(at(10, 0), at(10, 4_000_000)), None);
        assert_eq!(hz(at(10, 5), at(11, 5)), None);
    }

    #[test]
    fn what_fits_no_rate_is_not_guessed() {
        assert_eq!(hz(at(0, 0), at(2, 14_000_000)), None);
    }
}
