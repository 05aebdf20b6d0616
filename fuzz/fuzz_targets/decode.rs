//! Records from the ring: any bytes, no panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| probe_user::decode::fuzz(data));
