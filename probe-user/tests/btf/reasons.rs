//! Names of drop reasons.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use probe_user::kernel::btf::{Btf, BtfError};
use probe_user::kernel::reasons::ReasonNames;

use crate::{KERNELS, WITH_MODULES, modules, table};

const MODULE_CODES: [(u32, &str, &str); 4] = [
    (0x2_0001, "openvswitch", "LAST_ACTION"),
    (0x2_000b, "openvswitch", "IP_TTL"),
    (0x1_0000, "mac80211_unusable", "UNUSABLE"),
    (0x1_0001, "mac80211_unusable", "MIC_FAIL"),
];

fn names(kernel: &str) -> ReasonNames {
    let no_module = |_: &str| -> Result<Btf, BtfError> { panic!("no module is needed") };
    ReasonNames::with_sources(
        &KERNELS[kernel],
        || panic!("BTF has them"),
        Box::new(no_module),
    )
}

#[test]
fn every_reason_has_its_name() {
    for (kernel, rows) in table("reasons.tsv", 2) {
        let mut reasons = names(&kernel);
        for (row, value) in &rows {
            let (enumeration, name) = row.split_once('\t').unwrap();
            let Ok(code) = value.parse::<u32>() else {
                continue;
            };
            // Markers of the end, the mask and the start, and what is no reason of a drop.
            let marker =
                name.ends_with("_MAX") || name.ends_with("_SUBSYS_MASK") || name.starts_with("__");
            match enumeration {
                "sk_rst_reason" => {
                    let short = name.strip_prefix("SK_RST_REASON_").unwrap();
                    let short = if marker { value } else { short };
                    assert_eq!(
                        &*reasons.reset_reason(code).unwrap(),
                        short,
                        "{kernel} {name}"
                    );
                }
                "skb_drop_reason" | "qdisc_drop_reason"
                    if code != 0 || enumeration == "skb_drop_reason" =>
                {
                    let short = name.strip_prefix("SKB_DROP_REASON_").unwrap_or(name);
                    let short = short.strip_prefix("QDISC_DROP_").unwrap_or(short);
                    let short = if marker { value } else { short };
                    let found = reasons.lookup(code).unwrap();
                    assert_eq!(&*found.name, short, "{kernel} {name}");
                    let subsystem = found.subsystem.as_deref();
                    match enumeration {
                        "qdisc_drop_reason" => {
                            assert_eq!(subsystem, Some("qdisc"), "{kernel} {name}");
                        }
                        _ if marker => {}
                        _ => assert_eq!(subsystem, None, "{kernel} {name}"),
                    }
                }
                _ => {}
            }
        }
    }
}

#[test]
fn a_kernel_without_reasons_gives_none() {
    let mut reasons = names("debian-11-5.10.0-32-amd64");
    assert_eq!(reasons.lookup(0), None);
    assert_eq!(reasons.lookup(2), None);
    assert_eq!(reasons.reset_reason(1), None);
    assert_eq!(reasons.known(), 0);
    assert!(reasons.codes_matching("*").is_empty());
}

#[test]
fn unknown_reasons_are_numbers() {
    let mut reasons = names("debian-12-6.1.0-57-amd64");
    assert_eq!(
        reasons.lookup(66).unwrap().name.as_ref(),
        "66",
        "MAX is no reason"
    );
    let found = reasons.lookup(0x2_0001).unwrap();
    assert_eq!((found.name.as_ref(), found.subsystem), ("131073", None));
    // SKB_NOT_DROPPED_YET and 65 reasons.
    assert_eq!(reasons.known(), 66);

    let mut reasons = names(WITH_MODULES);
    let found = reasons.lookup(0x63_0001).unwrap();
    assert_eq!(
        (found.name.as_ref(), found.subsystem.as_deref()),
        ("6488065", Some("99"))
    );
}

#[test]
fn globs_choose_core_reasons() {
    let reasons = names("debian-12-6.1.0-57-amd64");
    assert_eq!(reasons.codes_matching("NO_SOCKET"), [2]);
    assert_eq!(reasons.codes_matching("skb_drop_reason_no_socket"), [2]);
    assert_eq!(reasons.codes_matching("*_csum"), [4, 6, 9, 50, 60]);
    assert!(reasons.codes_matching("NO_SUCH*").is_empty());
    let reasons = names(WITH_MODULES);
    let all = reasons.codes_matching("*");
    assert!(
        all.iter().all(|&code| code < 0x1_0000) && all.len() > 120,
        "{all:?}"
    );
}

#[test]
fn module_reasons_are_read_once_when_one_arrives() {
    let loaded = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&loaded);
    let load = move |module: &str| {
        log.lock().unwrap().push(module.to_owned());
        Ok(modules().remove(module).unwrap().1)
    };
    let mut reasons = ReasonNames::with_sources(&KERNELS[WITH_MODULES], || None, Box::new(load));
    let core = reasons.known();
    assert_eq!(
        reasons.lookup(0).unwrap().name.as_ref(),
        "SKB_NOT_DROPPED_YET"
    );
    assert!(loaded.lock().unwrap().is_empty());
    for (code, subsystem, name) in MODULE_CODES {
        let found = reasons.lookup(code).unwrap();
        assert_eq!(
            (found.subsystem.as_deref(), found.name.as_ref()),
            (Some(subsystem), name)
        );
    }
    // Markers, and a number nobody has.
    for code in [0x2_0000, 0x2_000c, 0x2_0063, 0x1_0fff] {
        assert_eq!(
            reasons.lookup(code).unwrap().name.as_ref(),
            code.to_string()
        );
    }
    assert_eq!(*loaded.lock().unwrap(), ["openvswitch", "mac80211"]);
    // mac80211 calls 0 and 1 RX_QUEUED and RX_CONTINUE; those are no drops.
    assert_eq!(
        reasons.lookup(0).unwrap().name.as_ref(),
        "SKB_NOT_DROPPED_YET"
    );
    assert_eq!(reasons.lookup(1).unwrap().name.as_ref(), "SKB_CONSUMED");
    assert_eq!(reasons.known(), core + 11 + 92);
}

#[test]
fn a_module_that_cannot_be_read_is_asked_once() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let load = move |_: &str| {
        count.fetch_add(1, Ordering::Relaxed);
        Err(BtfError::NotBtf)
    };
    let mut reasons = ReasonNames::with_sources(&KERNELS[WITH_MODULES], || None, Box::new(load));
    for _ in 0..3 {
        let found = reasons.lookup(0x2_0001).unwrap();
        assert_eq!(
            (found.name.as_ref(), found.subsystem.as_deref()),
            ("131073", Some("openvswitch"))
        );
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}
