use super::*;

/// Root on an ordinary host.
fn root() -> Host {
    Host {
        uid: 0,
        capabilities: Some(0x1ff_ffff_ffff),
        initial_user_namespace: true,
        release: "6.1.0-57-amd64".to_owned(),
        btf: Btf::Readable,
        lockdown: Lockdown::None,
        symbols_shown: true,
        kptr_restrict: Some(0),
        memlock: Some(8 << 20),
        run_netns: true,
    }
}

fn set_of(capabilities: &[Capability]) -> u64 {
    capabilities
        .iter()
        .fold(0, |set, capability| set | 1 << *capability as u32)
}

fn report(host: &Host) -> Report {
    let mut report = Report::new(host);
    report.check_tracepoints(
        host,
        &[Tracepoint {
            name: "kfree_skb",
            present: true,
            required: true,
        }],
    );
    report.check_reasons(host, 77);
    report
}

fn finding(host: &Host, what: &str) -> Finding {
    report(host)
        .findings
        .into_iter()
        .find(|finding| finding.what == what)
        .unwrap()
}

fn text(report: &Report) -> String {
    let mut bytes = Vec::new();
    report.write(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn root_on_an_ordinary_host_can_trace() {
    let report = report(&root());
    assert!(report.can_trace());
    assert_eq!(report.must_stop(), None);
    insta::assert_snapshot!(text(&report), @"
    ok    privilege      root
    ok    kernel types   /sys/kernel/btf/vmlinux of Linux 6.1.0-57-amd64
    ok    lockdown       off
    ok    locked memory  enough, or not limited for this user
    ok    symbols        /proc/kallsyms shows addresses to this user
    ok    namespaces     the counters of every network namespace can be read
    ok    owners         the process behind a socket can be found
    ok    names          named network namespaces are shown by name
    ok    tracefs        not needed
    ok    tracepoints    all 1 present
    ok    drop reasons   77 named by the running kernel
    This host can be traced.
    ");
}

#[test]
fn an_ordinary_user_is_told_what_is_missing_and_what_to_do() {
    let host = Host {
        uid: 1000,
        capabilities: Some(0),
        symbols_shown: false,
        ..root()
    };
    let report = report(&host);
    assert_eq!(
        report.must_stop().unwrap(),
        "privilege: CAP_BPF and CAP_PERFMON missing: tracing programs cannot be loaded; run it with sudo, or: \
         sudo setcap cap_bpf,cap_perfmon,cap_sys_admin,cap_syslog,cap_sys_ptrace,cap_dac_read_search+ep dropwatch-rs"
    );
    insta::assert_snapshot!(text(&report), @"
    FAIL  privilege      CAP_BPF and CAP_PERFMON missing: tracing programs cannot be loaded
                         → run it with sudo, or: sudo setcap cap_bpf,cap_perfmon,cap_sys_admin,cap_syslog,cap_sys_ptrace,cap_dac_read_search+ep dropwatch-rs
    ok    kernel types   /sys/kernel/btf/vmlinux of Linux 6.1.0-57-amd64
    ok    lockdown       off
    warn  locked memory  limited to 8192 KiB: before Linux 5.11 maps may not fit
                         → ulimit -l unlimited, if loading fails
    warn  symbols        CAP_SYSLOG missing, addresses are hidden: places of drops are shown as bare addresses, and drops of fragments already delivered cannot be told from real ones
                         → run it with sudo, or add cap_syslog to the capabilities
    warn  namespaces     CAP_SYS_ADMIN missing: other network namespaces cannot be entered, their counters cannot be compared
                         → run it with sudo, or add cap_sys_admin to the capabilities
    warn  owners         CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH missing: the sockets of other users' processes cannot be told, their events have no owner
                         → run it with sudo, or add cap_sys_ptrace and cap_dac_read_search to the capabilities
    ok    names          named network namespaces are shown by name
    ok    tracefs        not needed
    ok    tracepoints    all 1 present
    ok    drop reasons   77 named by the running kernel
    This host cannot be traced by this user.
    ");
}

#[test]
fn only_the_missing_capability_is_named() {
    let host = Host {
        uid: 1000,
        capabilities: Some(set_of(&[Capability::Bpf])),
        ..root()
    };
    assert!(
        finding(&host, "privilege")
            .detail
            .starts_with("CAP_PERFMON missing:")
    );
    let host = Host {
        uid: 0,
        capabilities: Some(set_of(&[Capability::Perfmon, Capability::Syslog])),
        ..root()
    };
    let privilege = finding(&host, "privilege");
    assert!(privilege.detail.starts_with("CAP_BPF missing:"));
    assert_eq!(
        privilege.remedy.unwrap(),
        "give the container CAP_BPF (--cap-add), or run outside of it"
    );
}

#[test]
fn two_capabilities_are_enough_to_trace_and_what_they_do_not_give_is_said() {
    let host = Host {
        uid: 1000,
        capabilities: Some(set_of(&[Capability::Bpf, Capability::Perfmon])),
        symbols_shown: false,
        ..root()
    };
    let report = report(&host);
    assert!(report.can_trace());
    assert_eq!(finding(&host, "symbols").status, Status::Warn);
    assert_eq!(finding(&host, "namespaces").status, Status::Warn);
    assert!(text(&report).ends_with("This host can be traced, with the limits named above.\n"));
    let host = Host {
        capabilities: Some(set_of(&[Capability::SysAdmin])),
        ..host
    };
    assert_eq!(finding(&host, "privilege").status, Status::Ok);
}

#[test]
fn root_of_a_user_namespace_is_not_root() {
    let host = Host {
        initial_user_namespace: false,
        ..root()
    };
    let stop = report(&host).must_stop().unwrap();
    assert!(
        stop.starts_with("privilege: capabilities of a user namespace other than the host's"),
        "{stop}"
    );
}

#[test]
fn a_kernel_without_types_is_refused() {
    let host = Host {
        btf: Btf::Missing,
        release: "4.19.0".to_owned(),
        ..root()
    };
    assert_eq!(
        Report::new(&host).must_stop().unwrap(),
        "kernel types: /sys/kernel/btf/vmlinux missing: without it nothing says where Linux 4.19.0 keeps what is to be \
         read; run Linux 5.10 or later, built with CONFIG_DEBUG_INFO_BTF=y, as all large distributions build it"
    );
    let host = Host {
        btf: Btf::Unreadable("Permission denied (os error 13)".to_owned()),
        ..root()
    };
    assert!(
        Report::new(&host)
            .must_stop()
            .unwrap()
            .contains("mount the host's /sys")
    );
}

#[test]
fn lockdown_stops_only_where_it_forbids_reading() {
    let stop = |lockdown| Report::new(&Host { lockdown, ..root() }).must_stop();
    assert_eq!(stop(Lockdown::None), None);
    assert_eq!(stop(Lockdown::Integrity), None);
    assert!(
        stop(Lockdown::Confidentiality)
            .unwrap()
            .contains("lockdown=integrity")
    );
}

#[test]
fn hidden_symbols_are_a_limit_only() {
    let hidden = Host {
        symbols_shown: false,
        ..root()
    };
    assert!(
        finding(&hidden, "symbols")
            .detail
            .starts_with("/proc/kallsyms shows no addresses")
    );
    let host = Host {
        capabilities: Some(0),
        ..hidden.clone()
    };
    assert!(
        finding(&host, "symbols")
            .detail
            .starts_with("CAP_SYSLOG missing")
    );
    let symbols = finding(
        &Host {
            kptr_restrict: Some(2),
            ..hidden
        },
        "symbols",
    );
    assert_eq!(symbols.status, Status::Warn);
    assert_eq!(symbols.remedy.unwrap(), "sysctl kernel.kptr_restrict=1");
}

#[test]
fn a_missing_tracepoint_stops_only_if_it_is_required() {
    let host = root();
    let mut report = Report::new(&host);
    let optional = Tracepoint {
        name: "qdisc_drop",
        present: false,
        required: false,
    };
    report.check_tracepoints(&host, &[optional]);
    assert!(report.can_trace());
    assert_eq!(report.findings.last().unwrap().status, Status::Warn);
    let required = Tracepoint {
        name: "kfree_skb",
        present: false,
        required: true,
    };
    report.check_tracepoints(&host, &[optional, required]);
    assert!(
        report
            .must_stop()
            .unwrap()
            .starts_with("tracepoints: kfree_skb missing:")
    );
}

#[test]
fn a_kernel_without_reasons_is_a_limit() {
    let host = Host {
        release: "5.10.0-30-amd64".to_owned(),
        ..root()
    };
    let mut report = Report::new(&host);
    report.check_reasons(&host, 0);
    assert!(report.can_trace());
    assert_eq!(report.findings.last().unwrap().status, Status::Warn);
}

#[test]
fn every_bad_finding_has_a_remedy_and_all_failures_are_told() {
    let host = Host {
        uid: 1000,
        capabilities: Some(0),
        initial_user_namespace: true,
        btf: Btf::Missing,
        lockdown: Lockdown::Confidentiality,
        kptr_restrict: Some(2),
        ..root()
    };
    let report = report(&host);
    assert!(
        report
            .findings
            .iter()
            .all(|finding| finding.remedy.is_some() == (finding.status != Status::Ok))
    );
    assert_eq!(report.must_stop().unwrap().lines().count(), 3);
}
