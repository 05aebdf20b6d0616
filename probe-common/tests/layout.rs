//! The layout of everything that crosses the border between kernel and user side. A change here needs a new
//! `ABI_VERSION`.

use core::mem::{offset_of, size_of};

use probe_common::{
    ABI_VERSION, DropCount, DropCountKey, FlowState, HEADER_SNAP, Header, RawDrop, RawFlowEnd,
    RawNetns, RawReset, RawRetransmit, RawSample, RawSock, RawTcp, RawTuple, RetransmitCount,
    RetransmitCountKey,
};

/// Every field with its offset and size: they follow each other without a gap up to the end of the structure.
macro_rules! layout {
    ($($name:ident: $size:literal { $($field:ident at $offset:literal, $bytes:literal;)* })*) => {$(
        #[test]
        #[expect(non_snake_case, reason = "named after the structure")]
        fn $name() {
            let mut end = 0;
            $(
                assert_eq!(offset_of!($name, $field), $offset, stringify!($field));
                assert_eq!($offset, end, "gap before {}", stringify!($field));
                end += $bytes;
            )*
            assert_eq!(end, $size, "gap at the end");
            assert_eq!(size_of::<$name>(), $size);
            assert_eq!($size % 8, 0, "records follow each other at multiples of 8");
        }
    )*};
}

layout! {
    Header: 24 {
        kind at 0, 2;
        abi at 2, 2;
        len at 4, 4;
        cpu at 8, 4;
        reserved at 12, 4;
        ktime_ns at 16, 8;
    }
    RawNetns: 16 {
        cookie at 0, 8;
        inode at 8, 4;
        reserved at 12, 4;
    }
    RawTuple: 40 {
        source at 0, 16;
        destination at 16, 16;
        source_port at 32, 2;
        destination_port at 34, 2;
        protocol at 36, 1;
        version at 37, 1;
        flags at 38, 1;
        reserved at 39, 1;
    }
    RawSock: 136 {
        cookie at 0, 8;
        inode at 8, 8;
        cgroup_id at 16, 8;
        address at 24, 8;
        tuple at 32, 40;
        netns at 72, 16;
        uid at 88, 4;
        receive_queue_bytes at 92, 4;
        receive_buffer_bytes at 96, 4;
        backlog_bytes at 100, 4;
        send_queue_bytes at 104, 4;
        send_buffer_bytes at 108, 4;
        accept_queue at 112, 4;
        accept_queue_max at 116, 4;
        drops at 120, 4;
        family at 124, 2;
        protocol at 126, 2;
        state at 128, 1;
        present at 129, 1;
        reserved at 130, 6;
    }
    RawTcp: 208 {
        bytes_sent at 0, 8;
        bytes_retrans at 8, 8;
        bytes_acked at 16, 8;
        bytes_received at 24, 8;
        pacing_rate at 32, 8;
        srtt_8us at 40, 4;
        mdev_4us at 44, 4;
        min_rtt_us at 48, 4;
        rto_jiffies at 52, 4;
        snd_cwnd at 56, 4;
        snd_ssthresh at 60, 4;
        mss_cache at 64, 4;
        pmtu at 68, 4;
        snd_wnd at 72, 4;
        snd_una at 76, 4;
        snd_nxt at 80, 4;
        write_seq at 84, 4;
        rcv_nxt at 88, 4;
        rcv_wnd at 92, 4;
        packets_out at 96, 4;
        retrans_out at 100, 4;
        lost_out at 104, 4;
        sacked_out at 108, 4;
        reordering at 112, 4;
        reord_seen at 116, 4;
        dsack_dups at 120, 4;
        total_retrans at 124, 4;
        segs_in at 128, 4;
        segs_out at 132, 4;
        data_segs_out at 136, 4;
        delivered at 140, 4;
        delivered_ce at 144, 4;
        undo_marker at 148, 4;
        undo_retrans at 152, 4;
        chrono_start at 156, 4;
        chrono_stat at 160, 12;
        jiffies at 172, 4;
        congestion_control at 176, 16;
        chrono_type at 192, 1;
        ca_state at 193, 1;
        retransmits at 194, 1;
        backoff at 195, 1;
        pending at 196, 1;
        frto at 197, 1;
        sack_ok at 198, 1;
        state at 199, 1;
        reserved at 200, 8;
    }
    RawDrop: 448 {
        header at 0, 24;
        location at 24, 8;
        packet_id at 32, 8;
        route_input at 40, 8;
        netns at 48, 16;
        sock at 64, 136;
        reason at 200, 4;
        length at 204, 4;
        segments at 208, 4;
        ifindex at 212, 4;
        iif at 216, 4;
        flags at 220, 4;
        ifname at 224, 16;
        ethertype at 240, 2;
        vlan_tci at 242, 2;
        inner_offset at 244, 2;
        headers_len at 246, 2;
        packet_type at 248, 1;
        reserved at 249, 7;
        headers at 256, 192;
    }
    RawRetransmit: 400 {
        header at 0, 24;
        sock at 24, 136;
        tcp at 160, 208;
        seq at 368, 4;
        end_seq at 372, 4;
        segments at 376, 4;
        bytes at 380, 4;
        error at 384, 4;
        attempt at 388, 4;
        class at 392, 1;
        outcome at 393, 1;
        tcp_flags at 394, 1;
        sacked at 395, 1;
        flags at 396, 4;
    }
    RawSample: 368 {
        header at 0, 24;
        sock at 24, 136;
        tcp at 160, 208;
    }
    RawFlowEnd: 368 {
        header at 0, 24;
        sock at 24, 136;
        tcp at 160, 208;
    }
    RawReset: 224 {
        header at 0, 24;
        sock at 24, 136;
        netns at 160, 16;
        tuple at 176, 40;
        reason at 216, 4;
        flags at 220, 4;
    }
    FlowState: 24 {
        cookie at 0, 8;
        sampled_ns at 8, 8;
        total_retrans at 16, 4;
        shown at 20, 4;
    }
    DropCountKey: 24 {
        netns at 0, 16;
        reason at 16, 4;
        ethertype at 20, 2;
        protocol at 22, 1;
        domain at 23, 1;
    }
    DropCount: 32 {
        packets at 0, 8;
        segments at 8, 8;
        matched at 16, 8;
        no_record at 24, 8;
    }
    RetransmitCountKey: 24 {
        netns at 0, 16;
        class at 16, 1;
        outcome at 17, 1;
        reserved at 18, 6;
    }
    RetransmitCount: 48 {
        events at 0, 8;
        segments at 8, 8;
        matched at 16, 8;
        no_record at 24, 8;
        matched_segments at 32, 8;
        matched_bytes at 40, 8;
    }
}

#[test]
fn the_version_is_the_one_these_layouts_belong_to() {
    assert_eq!(ABI_VERSION, 1);
    assert_eq!(HEADER_SNAP, 192);
}

#[cfg(feature = "user")]
#[expect(clippy::unwrap_used, reason = "helpers of tests")]
mod bytes {
    use probe_common::pod::read_pod;
    use probe_common::{Header, RawDrop, RawFlowEnd, RawReset, RawRetransmit, RawSample};
    use zerocopy::{FromBytes, IntoBytes};

    /// Bytes 0, 1, 2, … of a record: every field must be read from its own place, in host byte order.
    fn counting<T: FromBytes>() -> T {
        let bytes: Vec<u8> = (0..size_of::<T>())
            .map(|at| u8::try_from(at % 251).unwrap())
            .collect();
        read_pod(&bytes).unwrap()
    }

    fn u32_at(at: u8) -> u32 {
        u32::from_ne_bytes([at, at + 1, at + 2, at + 3])
    }

    #[test]
    fn header() {
        let header: Header = counting();
        assert_eq!(header.kind, u16::from_ne_bytes([0, 1]));
        assert_eq!(header.abi, u16::from_ne_bytes([2, 3]));
        assert_eq!(
            (header.len, header.cpu, header.reserved),
            (u32_at(4), u32_at(8), u32_at(12))
        );
        assert_eq!(
            header.ktime_ns,
            u64::from_ne_bytes([16, 17, 18, 19, 20, 21, 22, 23])
        );
    }

    #[test]
    fn records() {
        let drop: RawDrop = counting();
        assert_eq!(drop.header, counting::<Header>());
        assert_eq!(
            drop.location.to_ne_bytes(),
            [24, 25, 26, 27, 28, 29, 30, 31]
        );
        assert_eq!(
            drop.netns.cookie.to_ne_bytes(),
            [48, 49, 50, 51, 52, 53, 54, 55]
        );
        assert_eq!((drop.reason, drop.length), (u32_at(200), u32_at(204)));
        assert_eq!(drop.headers[..2], [5, 6]);
        let retransmit: RawRetransmit = counting();
        assert_eq!(
            retransmit.sock.cookie.to_ne_bytes(),
            [24, 25, 26, 27, 28, 29, 30, 31]
        );
        let reset: RawReset = counting();
        assert_eq!((reset.reason, reset.flags), (u32_at(216), u32_at(220)));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let sample: RawSample = counting();
        assert_eq!(read_pod::<RawSample>(sample.as_bytes()), Some(sample));
        let end: RawFlowEnd = counting();
        assert_eq!(read_pod::<RawFlowEnd>(end.as_bytes()), Some(end));
    }

    #[test]
    fn too_few_bytes_are_no_record_and_more_are_ignored() {
        let drop: RawDrop = counting();
        let mut bytes = drop.as_bytes().to_vec();
        assert_eq!(read_pod::<RawDrop>(&bytes[..bytes.len() - 1]), None);
        bytes.push(7);
        assert_eq!(read_pod::<RawDrop>(&bytes), Some(drop));
        // Any alignment.
        bytes.insert(0, 9);
        assert_eq!(read_pod::<RawDrop>(&bytes[1..]), Some(drop));
    }
}
