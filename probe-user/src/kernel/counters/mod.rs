//! The kernel's own books: `/proc/net/snmp`, `snmp6` and `netstat` of each network namespace.
//!
//! A counter this kernel does not have is absent, not 0. Names are those of `nstat`: the file's group and field run
//! together.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::LazyLock;

use super::netns::Namespaces;
use crate::event::Netns;

/// Of the thread that entered the namespace; always the own /proc, which knows the own threads.
const NET: &str = "/proc/thread-self/net";
/// Larger than each of the files today, so that one read takes all of it.
const FILE_BYTES: usize = 16 * 1024;

macro_rules! counters {
    ($($name:ident)*) => {
        /// A counter, by its nstat name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Counter { $($name),* }

        impl Counter {
            /// Every counter that is read.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// As nstat names it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),* }
            }
        }
    };
}

counters! {
    TcpInSegs TcpOutSegs TcpRetransSegs TcpInErrs TcpOutRsts TcpInCsumErrors TcpAttemptFails TcpEstabResets
    TcpExtTCPFastRetrans TcpExtTCPSlowStartRetrans TcpExtTCPTimeouts TcpExtTCPLossProbes TcpExtTCPLossProbeRecovery
    TcpExtTCPSynRetrans TcpExtTCPRetransFail TcpExtTCPSpuriousRtxHostQueues TcpExtTCPLostRetransmit
    TcpExtTCPSpuriousRTOs TcpExtTCPLossUndo TcpExtTCPFullUndo TcpExtTCPPartialUndo TcpExtTCPDSACKUndo
    TcpExtTCPDSACKRecv TcpExtTCPDSACKOfoRecv TcpExtTCPDSACKRecvSegs TcpExtTCPDSACKOldSent TcpExtTCPDSACKOfoSent
    TcpExtTCPDSACKIgnoredOld TcpExtTCPDSACKIgnoredNoUndo TcpExtTCPDSACKIgnoredDubious
    TcpExtListenOverflows TcpExtListenDrops TcpExtTCPReqQFullDrop TcpExtTCPReqQFullDoCookies
    TcpExtTCPBacklogDrop TcpExtTCPRcvQDrop TcpExtTCPOFODrop TcpExtTCPZeroWindowDrop TcpExtTCPMinTTLDrop
    TcpExtPFMemallocDrop TcpExtPruneCalled TcpExtRcvPruned TcpExtOfoPruned TcpExtTCPMemoryPressures
    TcpExtPAWSActive TcpExtPAWSEstab TcpExtPAWSOldAck TcpExtPAWSTimewait TcpExtTSEcrRejected TcpExtBeyondWindow
    TcpExtTCPAbortOnMemory TcpExtTCPAbortOnData TcpExtTCPAbortOnClose TcpExtTCPAbortOnTimeout
    TcpExtTCPTimeWaitOverflow TcpExtTCPWqueueTooBig TcpExtTCPFastOpenListenOverflow TcpExtSyncookiesFailed
    TcpExtIPReversePathFilter TcpExtLockDroppedIcmps TcpExtOutOfWindowIcmps TcpExtTCPMTUPFail TcpExtTCPMTUPSuccess
    TcpExtTCPMD5NotFound TcpExtTCPMD5Unexpected TcpExtTCPMD5Failure TcpExtTCPChallengeACK
    UdpInErrors UdpRcvbufErrors UdpSndbufErrors UdpNoPorts UdpInCsumErrors UdpMemErrors UdpIgnoredMulti
    Udp6InErrors Udp6RcvbufErrors Udp6SndbufErrors Udp6NoPorts Udp6InCsumErrors Udp6MemErrors Udp6IgnoredMulti
    IpInHdrErrors IpInAddrErrors IpInUnknownProtos IpInDiscards IpOutDiscards IpOutNoRoutes IpReasmTimeout IpReasmFails
    IpFragFails IpExtInNoRoutes IpExtInTruncatedPkts IpExtInCsumErrors
    Ip6InHdrErrors Ip6InTooBigErrors Ip6InNoRoutes Ip6InAddrErrors Ip6InUnknownProtos Ip6InTruncatedPkts Ip6InDiscards
    Ip6OutDiscards Ip6OutNoRoutes Ip6ReasmTimeout Ip6ReasmFails Ip6FragFails
}

const COUNT: usize = Counter::ALL.len();
const _: () = assert!(COUNT <= 128, "`present` has a bit for each");

static BY_NAME: LazyLock<Vec<(&'static str, Counter)>> = LazyLock::new(|| {
    let mut names: Vec<_> = Counter::ALL
        .iter()
        .map(|counter| (counter.name(), *counter))
        .collect();
    names.sort_unstable();
    names
});

/// One reading of the counters of one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    values: Box<[u64; COUNT]>,
    /// A bit for each counter this kernel has.
    present: u128,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            values: Box::new([0; COUNT]),
            present: 0,
        }
    }
}

impl Counters {
    /// `None`: this kernel has no such counter.
    pub fn get(&self, counter: Counter) -> Option<u64> {
        let value = self.values.get(counter as usize)?;
        (self.present & bit(counter) != 0).then_some(*value)
    }

    /// For tests and recordings.
    pub fn set(&mut self, counter: Counter, value: u64) {
        if let Some(place) = self.values.get_mut(counter as usize) {
            *place = value;
            self.present |= bit(counter);
        }
    }

    /// Takes in a file of lines in pairs, a header and its values: `snmp`, `netstat`.
    pub fn read_pairs(&mut self, text: &str) {
        let mut name = String::with_capacity(64);
        let mut lines = text.lines();
        while let (Some(header), Some(values)) = (lines.next(), lines.next()) {
            let (Some((group, fields)), Some((same, values))) =
                (header.split_once(':'), values.split_once(':'))
            else {
                continue;
            };
            if group != same {
                continue;
            }
            for (field, value) in fields
                .split_ascii_whitespace()
                .zip(values.split_ascii_whitespace())
            {
                name.clear();
                name.push_str(group);
                name.push_str(field);
                self.take(&name, value);
            }
        }
    }

    /// Takes in a file with a name and a value on each line: `snmp6`.
    pub fn read_lines(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            if let (Some(name), Some(value)) = (words.next(), words.next()) {
                self.take(name, value);
            }
        }
    }

    fn take(&mut self, name: &str, value: &str) {
        let Ok(index) = BY_NAME.binary_search_by(|(other, _)| (*other).cmp(name)) else {
            return;
        };
        // MaxConn is -1; none of ours is.
        if let (Some((_, counter)), Ok(value)) = (BY_NAME.get(index), value.parse()) {
            self.set(*counter, value);
        }
    }

    /// Reads the files in that directory. A host without IPv6 has no `snmp6`.
    pub fn read(net: &Path) -> io::Result<Self> {
        let mut counters = Self::default();
        let mut buffer = Vec::with_capacity(FILE_BYTES);
        counters.read_pairs(read(&net.join("snmp"), &mut buffer)?);
        counters.read_pairs(read(&net.join("netstat"), &mut buffer)?);
        match read(&net.join("snmp6"), &mut buffer) {
            Ok(text) => counters.read_lines(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(counters)
    }
}

fn bit(counter: Counter) -> u128 {
    1 << (counter as u32)
}

fn read<'a>(path: &Path, buffer: &'a mut Vec<u8>) -> io::Result<&'a str> {
    buffer.clear();
    File::open(path)?.read_to_end(buffer)?;
    std::str::from_utf8(buffer).map_err(io::Error::other)
}

/// Reads the counters of every known namespace. One that cannot be entered, or went meanwhile, is left out: where a
/// reading matters, scan the namespaces first, because the process a door belongs to may have exited.
pub fn read_all(namespaces: &mut Namespaces) -> Vec<(Netns, Counters)> {
    let visits = namespaces.visit_all(|| Counters::read(Path::new(NET)));
    let mut readings = Vec::with_capacity(visits.len());
    for (netns, result) in visits {
        match result {
            Ok(counters) => readings.push((netns, counters)),
            Err(error) => log::debug!(
                "read the counters of network namespace {}: {error}",
                netns.inode
            ),
        }
    }
    readings
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SNMP: &str = include_str!("fixtures/snmp-6.18.txt");
    const NETSTAT: &str = include_str!("fixtures/netstat-6.18.txt");
    const SNMP6: &str = include_str!("fixtures/snmp6-6.18.txt");

    fn fixture() -> Counters {
        let mut counters = Counters::default();
        counters.read_pairs(SNMP);
        counters.read_pairs(NETSTAT);
        counters.read_lines(SNMP6);
        counters
    }

    #[test]
    fn a_6_18_kernel_has_every_counter() {
        let counters = fixture();
        let absent: Vec<_> = Counter::ALL
            .iter()
            .filter(|counter| counters.get(**counter).is_none())
            .collect();
        assert_eq!(absent, Vec::<&Counter>::new());
    }

    #[test]
    fn values_are_those_of_the_file() {
        let mut counters = Counters::default();
        counters.read_pairs("Tcp: RtoAlgorithm MaxConn OutSegs RetransSegs\nTcp: 1 -1 4976 35\n");
        counters.read_pairs(
            "TcpExt: SyncookiesSent TCPTimeouts TCPSynRetrans\nTcpExt: 1 2 18446744073709551615\n",
        );
        counters.read_lines("Udp6RcvbufErrors                \t7\nUdp6NoPorts\t8\n");
        assert_eq!(counters.get(Counter::TcpOutSegs), Some(4976));
        assert_eq!(counters.get(Counter::TcpRetransSegs), Some(35));
        assert_eq!(counters.get(Counter::TcpExtTCPTimeouts), Some(2));
        assert_eq!(counters.get(Counter::TcpExtTCPSynRetrans), Some(u64::MAX));
        assert_eq!(counters.get(Counter::Udp6RcvbufErrors), Some(7));
        assert_eq!(counters.get(Counter::Udp6NoPorts), Some(8));
    }

    #[test]
    fn a_counter_a_5_10_kernel_does_not_have_is_absent() {
        // 5.10: no MemErrors, no TCPDSACKRecvSegs before 5.5 …; columns in another order.
        let mut counters = Counters::default();
        counters.read_pairs(
            "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti\n\
             Udp: 10 1 2 9 3 0 4 0\n\
             IcmpMsg: InType3\nIcmpMsg: 1\n\
             TcpExt: TCPFastRetrans TCPSlowStartRetrans TCPTimeouts TCPRetransFail\n\
             TcpExt: 5 6 7 0\n",
        );
        assert_eq!(counters.get(Counter::UdpRcvbufErrors), Some(3));
        assert_eq!(counters.get(Counter::UdpMemErrors), None);
        assert_eq!(counters.get(Counter::TcpExtTCPRetransFail), Some(0));
        assert_eq!(counters.get(Counter::TcpExtPAWSOldAck), None);
        assert_eq!(counters.get(Counter::Udp6NoPorts), None);
    }

    #[test]
    fn lines_that_do_not_fit_together_are_skipped() {
        let mut counters = Counters::default();
        counters.read_pairs(
            "Tcp: RetransSegs OutSegs\nUdp: 5 6\nTcp: RetransSegs OutSegs\nTcp: x 7\nTcp: InSegs",
        );
        assert_eq!(counters.get(Counter::TcpRetransSegs), None);
        assert_eq!(counters.get(Counter::TcpOutSegs), Some(7));
        assert_eq!(counters.get(Counter::TcpInSegs), None);
    }

    #[test]
    fn this_host_is_read() {
        let counters = Counters::read(Path::new(NET)).unwrap();
        assert!(counters.get(Counter::TcpRetransSegs).is_some());
        assert!(counters.get(Counter::TcpExtTCPTimeouts).is_some());
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(Tcp|Udp|TcpExt|[ -~])?(: |\n|[a-zA-Z0-9 \n:-]){0,40}") {
            let mut counters = Counters::default();
            counters.read_pairs(&text);
            counters.read_lines(&text);
        }
    }
}
