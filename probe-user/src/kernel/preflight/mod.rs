//! Can this host be traced by this user, and what will be missing?
//!
//! Each finding says what is missing, what does not work without it, and what to do. Pure over [`Host`] and what the
//! BTF resolver found; nothing is tried out.

use std::io::{self, Write};

pub use host::{Btf, Capability, Host, Lockdown};

mod host;
#[cfg(test)]
mod tests;

/// The oldest kernel with all that the programs need.
const FLOOR: &str = "Linux 5.10";

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    Ok,
    /// Tracing works, something will be missing.
    Warn,
    /// Tracing does not work.
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub what: &'static str,
    pub status: Status,
    /// How it is; where it is not well, also what does not work because of it.
    pub detail: String,
    /// What to do. Only where it is not well.
    pub remedy: Option<String>,
}

impl Finding {
    fn sentence(&self) -> String {
        match &self.remedy {
            Some(remedy) => format!("{}: {}; {remedy}", self.what, self.detail),
            None => format!("{}: {}", self.what, self.detail),
        }
    }

    fn ok(what: &'static str, detail: impl Into<String>) -> Self {
        Self {
            what,
            status: Status::Ok,
            detail: detail.into(),
            remedy: None,
        }
    }

    fn warn(what: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            what,
            status: Status::Warn,
            detail: detail.into(),
            remedy: Some(remedy.into()),
        }
    }

    fn fail(what: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            what,
            status: Status::Fail,
            detail: detail.into(),
            remedy: Some(remedy.into()),
        }
    }
}

/// A tracepoint the programs can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracepoint<'a> {
    pub name: &'a str,
    pub present: bool,
    /// Without it there is no tracing at all.
    pub required: bool,
}

/// All findings, in the order in which they are best put right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub findings: Vec<Finding>,
}

impl Report {
    /// Looks at what needs no knowledge of the kernel's types. [`Report::check_tracepoints`] and
    /// [`Report::check_reasons`] add what does.
    pub fn new(host: &Host) -> Self {
        Self {
            findings: vec![
                check_privilege(host),
                check_btf(host),
                check_lockdown(host),
                check_memlock(host),
                check_symbols(host),
                check_namespaces(host),
                check_owners(host),
                check_names(host),
                Finding::ok("tracefs", "not needed"),
            ],
        }
    }

    /// What the kernel's types say of its tracepoints.
    pub fn check_tracepoints(&mut self, host: &Host, tracepoints: &[Tracepoint<'_>]) {
        let absent = |required| {
            let names = tracepoints
                .iter()
                .filter(|one| !one.present && one.required == required)
                .map(|one| one.name);
            names.collect::<Vec<_>>().join(", ")
        };
        let (missing, lesser) = (absent(true), absent(false));
        self.findings.push(if !missing.is_empty() {
            Finding::fail(
                "tracepoints",
                format!(
                    "{missing} missing: Linux {} cannot report retransmits and drops",
                    host.release
                ),
                format!(
                    "run {FLOOR} or later, built with CONFIG_BPF_EVENTS and CONFIG_DEBUG_INFO_BTF"
                ),
            )
        } else if !lesser.is_empty() {
            Finding::warn(
                "tracepoints",
                format!("all that are required; without {lesser} some causes are not told"),
                "nothing to do: a later kernel has more",
            )
        } else {
            Finding::ok("tracepoints", format!("all {} present", tracepoints.len()))
        });
    }

    /// How many drop reasons the kernel's types name.
    pub fn check_reasons(&mut self, host: &Host, names: usize) {
        self.findings.push(if names == 0 {
            Finding::warn(
                "drop reasons",
                format!(
                    "Linux {} gives none: a drop is explained by the function it happened in",
                    host.release
                ),
                "run Linux 6.1 or later for reasons",
            )
        } else {
            Finding::ok(
                "drop reasons",
                format!("{names} named by the running kernel"),
            )
        });
    }

    /// Nothing stands in the way of tracing.
    pub fn can_trace(&self) -> bool {
        self.failures().next().is_none()
    }

    fn failures(&self) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(|finding| finding.status == Status::Fail)
    }

    /// Why tracing must not even be tried (exit code 3): what is missing, what does not work without it, the remedy.
    pub fn must_stop(&self) -> Option<String> {
        let sentences: Vec<String> = self.failures().map(Finding::sentence).collect();
        (!sentences.is_empty()).then(|| sentences.join("\n"))
    }

    /// What will be missing: one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let warnings = self
            .findings
            .iter()
            .filter(|finding| finding.status == Status::Warn);
        warnings.map(Finding::sentence).collect()
    }

    /// The report of `doctor`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        for Finding {
            what,
            status,
            detail,
            remedy,
        } in &self.findings
        {
            let mark = match status {
                Status::Ok => "ok",
                Status::Warn => "warn",
                Status::Fail => "FAIL",
            };
            writeln!(out, "{mark:4}  {what:13}  {detail}")?;
            if let Some(remedy) = remedy {
                writeln!(out, "{:21}→ {remedy}", "")?;
            }
        }
        let warnings = self
            .findings
            .iter()
            .filter(|finding| finding.status == Status::Warn)
            .count();
        match (self.failures().count(), warnings) {
            (0, 0) => writeln!(out, "This host can be traced."),
            (0, _) => writeln!(out, "This host can be traced, with the limits named above."),
            (_, _) => writeln!(out, "This host cannot be traced by this user."),
        }
    }
}

fn check_privilege(host: &Host) -> Finding {
    const WHAT: &str = "privilege";
    if !host.initial_user_namespace {
        return Finding::fail(
            WHAT,
            "capabilities of a user namespace other than the host's: the kernel loads no tracing programs for it",
            "run on the host, or in a container without a user namespace of its own",
        );
    }
    if host.may_load() {
        return Finding::ok(
            WHAT,
            if host.uid == 0 {
                "root"
            } else {
                "the capabilities to load tracing programs"
            },
        );
    }
    let missing: Vec<&str> = [Capability::Bpf, Capability::Perfmon]
        .into_iter()
        .filter(|capability| !host.has(*capability))
        .map(Capability::name)
        .collect();
    let missing = missing.join(" and ");
    let detail = format!("{missing} missing: tracing programs cannot be loaded");
    if host.uid == 0 {
        let remedy = format!("give the container {missing} (--cap-add), or run outside of it");
        return Finding::fail(WHAT, detail, remedy);
    }
    Finding::fail(
        WHAT,
        detail,
        "run it with sudo, or: sudo setcap cap_bpf,cap_perfmon,cap_sys_admin,cap_syslog,cap_sys_ptrace,cap_dac_read_search+ep dropwatch-rs",
    )
}

fn check_btf(host: &Host) -> Finding {
    const WHAT: &str = "kernel types";
    match &host.btf {
        Btf::Readable => Finding::ok(
            WHAT,
            format!("/sys/kernel/btf/vmlinux of Linux {}", host.release),
        ),
        Btf::Missing => Finding::fail(
            WHAT,
            format!(
                "/sys/kernel/btf/vmlinux missing: without it nothing says where Linux {} keeps what is to be read",
                host.release
            ),
            format!(
                "run {FLOOR} or later, built with CONFIG_DEBUG_INFO_BTF=y, as all large distributions build it"
            ),
        ),
        Btf::Unreadable(error) => Finding::fail(
            WHAT,
            format!(
                "/sys/kernel/btf/vmlinux cannot be read ({error}): nothing says where the kernel keeps what is to be read"
            ),
            "in a container, mount the host's /sys (read-only is enough); else check the security policy",
        ),
    }
}

fn check_lockdown(host: &Host) -> Finding {
    const WHAT: &str = "lockdown";
    match host.lockdown {
        Lockdown::None => Finding::ok(WHAT, "off"),
        Lockdown::Integrity => Finding::ok(WHAT, "integrity: reading the kernel is allowed"),
        Lockdown::Confidentiality => Finding::fail(
            WHAT,
            "confidentiality: the kernel lets no program read its memory, so no packet and no socket can be told",
            "boot with lockdown=integrity or without lockdown= (with Secure Boot the distribution may decide)",
        ),
    }
}

fn check_memlock(host: &Host) -> Finding {
    const WHAT: &str = "locked memory";
    const NEEDED: u64 = 64 << 20;
    match host.memlock {
        // From 5.11 on it does not apply; root may raise it, and does.
        Some(limit) if limit < NEEDED && !host.has(Capability::SysAdmin) => Finding::warn(
            WHAT,
            format!(
                "limited to {} KiB: before Linux 5.11 maps may not fit",
                limit / 1024
            ),
            "ulimit -l unlimited, if loading fails",
        ),
        _ => Finding::ok(WHAT, "enough, or not limited for this user"),
    }
}

fn check_symbols(host: &Host) -> Finding {
    const WHAT: &str = "symbols";
    const LOST: &str = "places of drops are shown as bare addresses, and drops of fragments already delivered cannot be told from real ones";
    if host.symbols_shown {
        return Finding::ok(WHAT, "/proc/kallsyms shows addresses to this user");
    }
    if !host.has(Capability::Syslog) {
        return Finding::warn(
            WHAT,
            format!("CAP_SYSLOG missing, addresses are hidden: {LOST}"),
            "run it with sudo, or add cap_syslog to the capabilities",
        );
    }
    match host.kptr_restrict {
        Some(2..) => Finding::warn(
            WHAT,
            format!("kernel.kptr_restrict hides addresses from everybody: {LOST}"),
            "sysctl kernel.kptr_restrict=1",
        ),
        _ => Finding::warn(
            WHAT,
            format!("/proc/kallsyms shows no addresses: {LOST}"),
            "build the kernel with CONFIG_KALLSYMS; in a container, mount the host's /proc",
        ),
    }
}

fn check_namespaces(host: &Host) -> Finding {
    const WHAT: &str = "namespaces";
    if host.has(Capability::SysAdmin) {
        return Finding::ok(WHAT, "the counters of every network namespace can be read");
    }
    Finding::warn(
        WHAT,
        "CAP_SYS_ADMIN missing: other network namespaces cannot be entered, their counters cannot be compared",
        "run it with sudo, or add cap_sys_admin to the capabilities",
    )
}

fn check_owners(host: &Host) -> Finding {
    const WHAT: &str = "owners";
    let missing: Vec<&str> = [Capability::SysPtrace, Capability::DacReadSearch]
        .into_iter()
        .filter(|capability| !host.has(*capability))
        .map(Capability::name)
        .collect();
    if missing.is_empty() {
        return Finding::ok(WHAT, "the process behind a socket can be found");
    }
    Finding::warn(
        WHAT,
        format!(
            "{} missing: the sockets of other users' processes cannot be told, their events have no owner",
            missing.join(" and ")
        ),
        "run it with sudo, or add cap_sys_ptrace and cap_dac_read_search to the capabilities",
    )
}

fn check_names(host: &Host) -> Finding {
    const WHAT: &str = "names";
    // Most hosts have no named namespaces, and then no directory: no fault.
    let detail = if host.run_netns {
        "named network namespaces are shown by name"
    } else {
        "no named network namespaces here (in a container: --run-netns says where the host's are)"
    };
    Finding::ok(WHAT, detail)
}
