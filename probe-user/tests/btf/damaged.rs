//! Bytes that are not quite BTF.

use std::sync::LazyLock;

use probe_user::kernel::btf::Btf;
use proptest::prelude::*;

use crate::{KERNELS, WITH_MODULES, modules};

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
