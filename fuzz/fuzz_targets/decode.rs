//! Records from the ring: any bytes, no panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // Becomes `probe_user::decode::fuzz(data);`
    records(data);
});

fn records(data: &[u8]) {
    use probe_common::{
        Header, RawDrop, RawReset, RawRetransmit, RawSample, RecordKind, flow::RawFlowEnd,
        pod::read_pod,
    };
    let Some(header) = read_pod::<Header>(data) else {
        return;
    };
    match RecordKind::from_number(header.kind) {
        Some(RecordKind::Drop) => drop(read_pod::<RawDrop>(data)),
        Some(RecordKind::Retransmit) => drop(read_pod::<RawRetransmit>(data)),
        Some(RecordKind::Sample) => drop(read_pod::<RawSample>(data)),
        Some(RecordKind::FlowEnd) => drop(read_pod::<RawFlowEnd>(data)),
        Some(RecordKind::Reset) => drop(read_pod::<RawReset>(data)),
        None => {}
    }
}
