//! What the checks look at.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use rustix::process::{Resource, getrlimit};

/// Capabilities by their numbers in `linux/capability.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    DacReadSearch = 2,
    SysPtrace = 19,
    SysAdmin = 21,
    Syslog = 34,
    Perfmon = 38,
    Bpf = 39,
}

impl Capability {
    pub fn name(self) -> &'static str {
        match self {
            Self::DacReadSearch => "CAP_DAC_READ_SEARCH",
            Self::SysPtrace => "CAP_SYS_PTRACE",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::Syslog => "CAP_SYSLOG",
            Self::Perfmon => "CAP_PERFMON",
            Self::Bpf => "CAP_BPF",
        }
    }
}

/// The kernel's description of its own types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Btf {
    Readable,
    Missing,
    Unreadable(String),
}

/// `/sys/kernel/security/lockdown`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lockdown {
    None,
    Integrity,
    Confidentiality,
}

/// Everything the checks know of the host. A test fills it in by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub uid: u32,
    /// `CapEff`; `None`: not readable.
    pub capabilities: Option<u64>,
    /// In the user namespace the host booted with: capabilities of another one do not count for BPF.
    pub initial_user_namespace: bool,
    /// For sentences only: what a kernel can do is asked of it, not read from its version.
    pub release: String,
    pub btf: Btf,
    pub lockdown: Lockdown,
    /// `/proc/kallsyms` shows addresses to this user.
    pub symbols_shown: bool,
    /// `kernel.kptr_restrict`
    pub kptr_restrict: Option<u32>,
    /// `RLIMIT_MEMLOCK`, bytes; `None`: unlimited.
    pub memlock: Option<u64>,
    pub run_netns: bool,
}

impl Host {
    /// Looks at this host.
    pub fn read(run_netns: &Path) -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let uid_map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let lockdown = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
        Self {
            uid: rustix::process::geteuid().as_raw(),
            capabilities: effective(&status),
            initial_user_namespace: is_initial(&uid_map),
            release: rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
            btf: btf(Path::new("/sys/kernel/btf/vmlinux")),
            lockdown: chosen(&lockdown),
            symbols_shown: fs::File::open("/proc/kallsyms").is_ok_and(shows_addresses),
            kptr_restrict: fs::read_to_string("/proc/sys/kernel/kptr_restrict")
                .ok()
                .and_then(|text| text.trim().parse().ok()),
            memlock: getrlimit(Resource::Memlock).current,
            run_netns: run_netns.is_dir(),
        }
    }

    /// What cannot be read is taken to be there: the kernel will say otherwise.
    pub(super) fn has(&self, capability: Capability) -> bool {
        self.capabilities
            .is_none_or(|set| set & (1 << capability as u32) != 0)
    }

    /// `CAP_BPF` and `CAP_PERFMON` came with Linux 5.8, our floor is 5.10; `CAP_SYS_ADMIN` contains both.
    pub(super) fn may_load(&self) -> bool {
        self.has(Capability::SysAdmin)
            || (self.has(Capability::Bpf) && self.has(Capability::Perfmon))
    }
}

fn btf(path: &Path) -> Btf {
    match fs::File::open(path) {
        Ok(_file) => Btf::Readable,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Btf::Missing,
        Err(error) => Btf::Unreadable(error.to_string()),
    }
}

/// The line `CapEff: 000001ffffffffff` of `/proc/self/status`.
fn effective(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// The first symbols may be 0 at all times (per CPU); hidden ones all are.
fn shows_addresses(kallsyms: impl Read) -> bool {
    let mut start = Vec::new();
    kallsyms.take(64 * 1024).read_to_end(&mut start).is_ok()
        && start.split(|byte| *byte == b'\n').any(|line| {
            line.first_chunk()
                .is_some_and(|digits: &[u8; 16]| digits != b"0000000000000000")
        })
}

/// All ids, each its own.
fn is_initial(uid_map: &str) -> bool {
    uid_map
        .split_ascii_whitespace()
        .eq(["0", "0", "4294967295"])
}

/// `none [integrity] confidentiality`; no such file: no lockdown.
fn chosen(lockdown: &str) -> Lockdown {
    if lockdown.contains("[confidentiality]") {
        Lockdown::Confidentiality
    } else if lockdown.contains("[integrity]") {
        Lockdown::Integrity
    } else {
        Lockdown::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_understood() {
        let status = "Name:\tx\nCapPrm:\t0000000000000001\nCapEff:\t000001fffeffffff\n";
        assert_eq!(effective(status), Some(0x1ff_feff_ffff));
        assert_eq!(effective("CapEff:\tx"), None);
        assert!(is_initial("         0          0 4294967295\n"));
        assert!(!is_initial("         0       1000          1\n"));
        assert!(!is_initial(""));
        assert_eq!(
            chosen("none [integrity] confidentiality\n"),
            Lockdown::Integrity
        );
        assert_eq!(
            chosen("none integrity [confidentiality]\n"),
            Lockdown::Confidentiality
        );
        assert_eq!(chosen("[none] integrity confidentiality\n"), Lockdown::None);
        assert_eq!(chosen(""), Lockdown::None);
        assert!(shows_addresses(
            &b"0000000000000000 A fixed_percpu_data\nffffffff81000000 T _text\n"[..]
        ));
        assert!(!shows_addresses(
            &b"0000000000000000 A fixed_percpu_data\n0000000000000000 T _text\n"[..]
        ));
        assert!(!shows_addresses(&b""[..]));
        assert_eq!(btf(Path::new("/nowhere")), Btf::Missing);
    }

    #[test]
    fn this_host_is_looked_at() {
        let host = Host::read(Path::new("/run/netns"));
        assert!(host.capabilities.is_some());
        assert!(host.release.contains('.'));
    }
}
