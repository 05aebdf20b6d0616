//! The BTF reader, the offsets and the reason names against real kernels and tables of right answers made with other
//! tools.
//!
//! `tests/fixtures/btf/*.btf.xz` is the BTF of distribution kernels; the tables `*.tsv` beside it have a column for each.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests, which clippy does not count as tests"
)]

mod damaged;
mod reasons;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};

use probe_common::offsets::{self, ABSENT, Features, Need, Offsets};
use probe_user::kernel::btf::Btf;
use probe_user::kernel::offsets::{Why, resolve};
use zerocopy::IntoBytes;

const WITH_MODULES: &str = "debian-13-bpo-7.3.4-amd64";
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

/// Each module: its bytes, and they parsed.
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
    let mut nothing = vec![0x9f, 0xeb, 1, 0, 24];
    nothing.resize(24, 0);
    let missing = resolve(&Btf::parse(nothing).unwrap()).unwrap_err();
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
