//! Any file may be given as a suspend image, and who may write one may write anything into it.
#![no_main]

use brisk_image;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    image::parse_anything(data);
});
