//! The kernel's type information, which a module or a container may have written: any bytes, no panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use probe_user::kernel::btf::Btf;

fuzz_target!(|data: &[u8]| {
    if let Ok(types) = Btf::parse(data.to_vec()) {
        types.follow_all();
    }
});
