//! The kernel's type information, which a module or a container may have written: any bytes, no panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // Becomes `probe_user::kernel::btf::fuzz(data);`
    let _ = data;
});
