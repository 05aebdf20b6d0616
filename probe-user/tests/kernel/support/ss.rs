//! What `ss -ti` shows of a socket.

use super::netns::Netns;
use super::run;

/// One socket's line.
pub(crate) struct Ss(String);

impl Ss {
    /// The socket with that local port.
    #[track_caller]
    pub(crate) fn of(netns: &Netns, port: u16) -> Self {
        let filter = format!("sport = :{port}");
        let text = run(netns.command("ss").args(["-tiHn", &filter]));
        assert!(!text.trim().is_empty(), "no socket with port {port}");
        Self(text)
    }

    /// A word `name:value`; absent: `None`.
    pub(crate) fn word(&self, name: &str) -> Option<&str> {
        self.0
            .split_whitespace()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix(':'))
    }

    /// Is there such a word?
    pub(crate) fn has(&self, word: &str) -> bool {
        self.0.split_whitespace().any(|one| one == word)
    }

    /// Absent: 0, as `ss` leaves out what is 0.
    #[track_caller]
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.word(name)
            .map_or(0, |word| word.parse().expect("a number"))
    }

    /// Milliseconds as microseconds.
    #[track_caller]
    pub(crate) fn micros(&self, name: &str) -> u64 {
        micros(self.word(name).expect("a time"))
    }

    /// `rtt:SRTT/RTTVAR`, in microseconds.
    #[track_caller]
    pub(crate) fn rtt(&self) -> (u64, u64) {
        let (srtt, rttvar) = self
            .word("rtt")
            .and_then(|word| word.split_once('/'))
            .expect("rtt");
        (micros(srtt), micros(rttvar))
    }

    /// `retrans:CURRENT/TOTAL`
    #[track_caller]
    pub(crate) fn total_retrans(&self) -> u64 {
        let (_, total) = self
            .word("retrans")
            .and_then(|word| word.split_once('/'))
            .expect("retrans");
        total.parse().expect("a number")
    }
}

/// `1.25` → 1250, without the rounding of floating point.
fn micros(millis: &str) -> u64 {
    let (whole, part) = millis.split_once('.').unwrap_or((millis, ""));
    let part = format!("{part:0<3}");
    let number = |text: &str| text.parse::<u64>().expect("a number");
    number(whole) * 1000 + number(&part[..3])
}
