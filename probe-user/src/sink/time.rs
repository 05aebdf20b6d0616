//! Times and spans as people and programs read them.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// RFC 3339, UTC written `Z`, nanoseconds. What cannot be a date becomes the nearest one that can.
#[derive(Clone, Copy, Debug)]
pub struct Rfc3339(pub i64);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.9}", timestamp(self.0))
    }
}

/// HH:MM:SS.mmm
pub fn clock(wall_ns: i64, zone: &TimeZone) -> String {
    let time = zone.to_datetime(timestamp(wall_ns));
    format!(
        "{:02}:{:02}:{:02}.{:03}",
        time.hour(),
        time.minute(),
        time.second(),
        time.millisecond()
    )
}

fn timestamp(wall_ns: i64) -> Timestamp {
    // 64 bits of nanoseconds reach from 1677 to 2262: always a valid date.
    Timestamp::from_nanosecond(i128::from(wall_ns)).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A span in the unit that suits it, three digits: 350us, 52.3ms, 408ms, 1.60s, 120s.
pub fn span_us(us: u64) -> String {
    match us {
        0..1_000 => format!("{us}us"),
        1_000..1_000_000 => three_digits(us, 1_000, "ms"),
        _ => three_digits(us, 1_000_000, "s"),
    }
}

fn three_digits(us: u64, unit: u64, name: &str) -> String {
    let (whole, thousandths) = (us / unit, us % unit * 1_000 / unit);
    match whole {
        0..10 => format!("{whole}.{:02}{name}", thousandths / 10),
        10..100 => format!("{whole}.{}{name}", thousandths / 100),
        _ => format!("{whole}{name}"),
    }
}

/// Bytes in the unit that suits them: 900 B, 18.2 MiB.
pub fn bytes(bytes: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >> shift > 0 {
            return format!(
                "{}.{} {unit}",
                bytes >> shift,
                ((bytes >> (shift - 10)) % 1024) * 10 / 1024
            );
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_have_nanoseconds_and_z() {
        assert_eq!(Rfc3339(0).to_string(), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(
            Rfc3339(1_700_000_000_000_000_001).to_string(),
            "2023-11-14T22:13:20.000000001Z"
        );
        assert_eq!(
            Rfc3339(i64::MIN).to_string(),
            "1677-09-21T00:12:43.145224192Z"
        );
        assert_eq!(
            Rfc3339(i64::MAX).to_string(),
            "2262-04-11T23:47:16.854775807Z"
        );
    }

    #[test]
    fn the_clock_is_local() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(clock(1_700_000_000_012_345_678, &zone), "00:13:20.012");
        assert_eq!(clock(-1, &TimeZone::UTC), "23:59:59.999");
    }

    #[test]
    fn spans_have_three_digits() {
        for (us, text) in [
            (0, "0us"),
            (999, "999us"),
            (1_000, "1.00ms"),
            (52_345, "52.3ms"),
            (408_000, "408ms"),
            (999_999, "999ms"),
            (1_600_000, "1.60s"),
            (120_000_000, "120s"),
        ] {
            assert_eq!(span_us(us), text);
        }
    }

    #[test]
    fn sizes_have_units() {
        for (size, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (19_083_000, "18.1 MiB"),
            (1 << 31, "2.0 GiB"),
        ] {
            assert_eq!(bytes(size), text);
        }
    }
}
