#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kafkalog_fuzz::checks::chunks(data));
