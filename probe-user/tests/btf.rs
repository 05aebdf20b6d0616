//! The BTF reader, the offsets and the reason names against real kernels and tables of right answers made with other
//! tools.
//!
//! `fixtures/btf/*.btf.xz` is the BTF of distribution kernels; the tables `*.tsv` beside it have a column for each.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use probe_common::offsets::{self, ABSENT, Features, Need, Offsets};
use probe_user::kernel::btf::{Btf, BtfError};
use probe_user::kernel::offsets::{Why, resolve};
use probe_user::kernel::reasons::ReasonNames;
use proptest::prelude::*;
use zerocopy::IntoBytes;

const WITH_MODULES: &str = "debian-13-bpo-7.3.4-amd64";
const MODULE_CODES: [(u32, &str, &str); 4] = [
    (0x2_0001, "openvswitch", "LAST_ACTION"),
    (0x2_000b, "openvswitch", "IP_TTL"),
    (0x1_0000, "mac80211_unusable", "UNUSABLE"),
    (0x1_0001, "mac80211_unusable", "MIC_FAIL"),
];

static KERNELS: LazyLock<BTreeMap<String, Btf>> = LazyLock::new(|| {
    let names: Vec<String> = fs::read_dir(fixtures())
        .unwrap()
        .filter_map(|entry| {
            Some(
                entry
                    .unwrap()
                    .file_name()
                    .to_str()?
                    .strip_suffix(".btf.xz")?
                    .to_owned(),
            )
        })
        .collect();
    let next = AtomicUsize::new(0);
    let parsed = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let btf = Btf::parse(unpack(name)).unwrap();
                    parsed.lock().unwrap().insert(name.clone(), btf);
                }
            });
        }
    });
    parsed.into_inner().unwrap()
});

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/btf")
}

fn unpack(name: &str) -> Vec<u8> {
    let packed = fs::read(fixtures().join(format!("{name}.btf.xz"))).unwrap();
    let mut bytes = Vec::new();
    lzma_rust2::XzReader::new(packed.as_slice(), false)
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

/// Cells of a table by kernel and row; rows are named by their first `keys` columns.
fn table(name: &str, keys: usize) -> BTreeMap<String, BTreeMap<String, String>> {
    let text = fs::read_to_string(fixtures().join(name)).unwrap();
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let kernels: Vec<&str> = lines.next().unwrap().split('\t').skip(keys).collect();
    let mut table = BTreeMap::<String, BTreeMap<String, String>>::new();
    for line in lines {
        let cells: Vec<&str> = line.split('\t').collect();
        assert_eq!(cells.len(), keys + kernels.len(), "{line}");
        for (kernel, cell) in kernels.iter().zip(&cells[keys..]) {
            let column = table.entry((*kernel).to_owned()).or_default();
            column.insert(cells[..keys].join("\t"), (*cell).to_owned());
        }
    }
    assert!(table.keys().eq(KERNELS.keys()), "a column for each kernel");
    table
}

/// As the table writes a place.
fn cell(btf: &Btf, path: &str) -> String {
    match btf.member(path).unwrap() {
        None => "-".to_owned(),
        Some(place) if place.width == 0 => {
            format!("{};{};{}", place.byte, place.size, place.c_type)
        }
        Some(place) => format!(
            "{}.{}:{};{};{}",
            place.byte, place.bit, place.width, place.size, place.c_type
        ),
    }
}

#[test]
fn every_member_is_where_the_table_says() {
    for (kernel, members) in table("members.tsv", 1) {
        assert!(members.len() > 370);
        for (path, expected) in members {
            assert_eq!(cell(&KERNELS[&kernel], &path), expected, "{kernel} {path}");
        }
    }
}

#[test]
fn every_tracepoint_passes_what_the_table_says() {
    for (kernel, tracepoints) in table("tracepoints.tsv", 1) {
        assert!(tracepoints.len() > 90);
        for (tracepoint, expected) in tracepoints {
            let found = KERNELS[&kernel]
                .tracepoint_args(&tracepoint)
                .map_or("-".to_owned(), |args| format!("({})", args.join(", ")));
            assert_eq!(found, expected, "{kernel} {tracepoint}");
        }
    }
}

#[test]
fn every_enum_value_is_what_the_table_says() {
    for (kernel, rows) in table("reasons.tsv", 2) {
        let mut expected = BTreeMap::<&str, BTreeMap<String, u64>>::new();
        for (row, value) in &rows {
            let (enumeration, name) = row.split_once('\t').unwrap();
            let values = expected.entry(enumeration).or_default();
            if value != "-" {
                values.insert(name.to_owned(), value.parse().unwrap());
            }
        }
        assert_eq!(expected.len(), 4);
        for (enumeration, expected) in expected {
            let found = KERNELS[&kernel].enum_values(enumeration);
            assert_eq!(
                found.is_none(),
                expected.is_empty(),
                "{kernel} {enumeration}"
            );
            let found: BTreeMap<_, _> = found.unwrap_or_default().into_iter().collect();
            assert_eq!(found, expected, "{kernel} {enumeration}");
        }
    }
}

#[test]
fn every_kernel_has_what_the_programs_read() {
    let table = table("members.tsv", 1);
    for (kernel, btf) in &*KERNELS {
        let (found, _) = resolve(btf).unwrap_or_else(|missing| panic!("{kernel}: {missing}"));
        let words: Vec<u32> = found
            .as_bytes()
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect();
        let mut checked = 0;
        for (word, member) in words.iter().zip(Offsets::MEMBERS) {
            if *word == ABSENT {
                assert_eq!(member.need, Need::May, "{kernel} {}", member.path);
            }
            let Some(expected) = table[kernel].get(member.path) else {
                continue;
            };
            let found = match *word {
                ABSENT => "-".to_owned(),
                word if offsets::width(word) == 0 => offsets::byte(word).to_string(),
                word => format!(
                    "{}.{}:{}",
                    offsets::byte(word),
                    offsets::shift(word),
                    offsets::width(word)
                ),
            };
            assert_eq!(
                found,
                expected.split(';').next().unwrap(),
                "{kernel} {}",
                member.path
            );
            checked += 1;
        }
        assert!(checked > 100, "{checked} of {}", words.len());
        // The first and the last: fields and members are in the same order.
        assert_eq!(words[0], found.skc_daddr);
        assert_eq!(words[words.len() - 1], found.dst_input);
    }
}

#[test]
fn features_follow_the_prototypes() {
    for (kernel, btf) in &*KERNELS {
        let (_, found) = resolve(btf).unwrap();
        let since =
            |series: &[&str]| u32::from(series.iter().any(|series| kernel.contains(series)));
        let expected = Features {
            kfree_skb_reason: 1 - since(&["5.10"]),
            kfree_skb_rx_sk: 1 - since(&["5.10", "-6.1.0"]),
            retransmit_err: 1 - since(&["5.10", "-6.1.0", "6.12", "6.16"]),
            send_reset_reason: 1 - since(&["5.10", "-6.1.0"]),
            reason_consumed: 1 - since(&["5.10", "-6.1.0"]),
            ..Features::default()
        };
        assert_eq!(found, expected, "{kernel}");
    }
}

#[test]
fn what_is_missing_is_named() {
    let openvswitch = modules().remove("openvswitch").unwrap();
    // A module taken for vmlinux: it has types, but not these.
    let (vmlinux, _) = openvswitch;
    let mut bytes = vmlinux;
    bytes.truncate(24);
    bytes[12..24].fill(0);
    let missing = resolve(&Btf::parse(bytes).unwrap()).unwrap_err();
    assert!(matches!(missing.0[0].why, Why::Absent));
    let musts = Offsets::MEMBERS
        .iter()
        .filter(|member| member.need == Need::Must);
    assert_eq!(missing.0.len(), musts.count());
    let text = missing.to_string();
    assert!(
        text.starts_with("find members of kernel structs in BTF: sock_common.skc_daddr is not there, sock_common."),
        "{text}"
    );
    assert!(text.ends_with("dst_entry.input is not there"), "{text}");
}

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
                            assert_eq!(subsystem, Some("qdisc"), "{kernel} {name}")
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

/// Bytes of the modules, and their number of types that need vmlinux.
fn modules() -> BTreeMap<&'static str, (Vec<u8>, Btf)> {
    ["openvswitch", "mac80211"]
        .into_iter()
        .map(|module| {
            let bytes = unpack(&format!("modules/{WITH_MODULES}-{module}"));
            let btf = Btf::parse_split(bytes.clone(), &KERNELS[WITH_MODULES]).unwrap();
            (module, (bytes, btf))
        })
        .collect()
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

#[test]
fn a_module_has_types_of_its_own_and_of_vmlinux() {
    let modules = modules();
    let (bytes, openvswitch) = &modules["openvswitch"];
    assert_eq!(cell(openvswitch, "datapath.net"), "96;8;possible_net_t");
    assert_eq!(
        cell(openvswitch, "sock_common.skc_net.net"),
        "48;8;struct net *"
    );
    assert_eq!(
        openvswitch
            .tracepoint_args("ovs_dp_upcall")
            .unwrap()
            .join(", "),
        "struct datapath *, struct sk_buff *, const struct sw_flow_key *, const struct dp_upcall_info *"
    );
    // Alone it is a file whose references lead nowhere.
    assert!(Btf::parse(bytes.clone()).unwrap().follow_all() > 100);
}

#[test]
fn every_type_can_be_followed() {
    for kernel in [
        "debian-11-5.10.0-32-cloud-amd64",
        "debian-13-bpo-7.3.4-cloud-arm64",
    ] {
        assert_eq!(KERNELS[kernel].follow_all(), 0, "{kernel}");
    }
    for (_, btf) in modules().into_values() {
        assert_eq!(btf.follow_all(), 0);
    }
}

fn mutated() -> impl Strategy<Value = Vec<u8>> {
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| modules().remove("openvswitch").unwrap().0);
    let flips = prop::collection::vec((0..BYTES.len(), any::<u8>()), 0..64);
    (
        flips,
        prop_oneof![Just(BYTES.len()), 0..BYTES.len()],
        any::<bool>(),
    )
        .prop_map(|(flips, length, early)| {
            let mut bytes = BYTES.clone();
            for (at, byte) in flips {
                // The header and the first types decide most.
                let at = if early { at % 2048 } else { at };
                bytes[at] ^= byte;
            }
            bytes.truncate(length);
            bytes
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_btf_is_survived(bytes in mutated()) {
        for parsed in [Btf::parse(bytes.clone()), Btf::parse_split(bytes, &KERNELS[WITH_MODULES])] {
            match parsed {
                Ok(btf) => {
                    btf.enum_values("ovs_drop_reason");
                    btf.tracepoint_args("ovs_dp_upcall");
                    drop(btf.member("datapath.table.ti"));
                    btf.follow_all();
                }
                Err(error) => assert!(error.to_string().starts_with("parse BTF"), "{error}"),
            }
        }
    }

    #[test]
    fn arbitrary_bytes_are_survived(mut bytes in prop::collection::vec(any::<u8>(), 0..512), real: bool) {
        let header = [0x9f, 0xeb, 1, 0, 24, 0, 0, 0];
        if let Some(start) = bytes.first_chunk_mut().filter(|_| real) {
            *start = header;
        }
        if let Ok(btf) = Btf::parse(bytes) {
            btf.follow_all();
        }
    }
}
