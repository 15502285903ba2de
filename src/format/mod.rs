//! Kafka's bytes: no files, no codecs, no unsafe.
//!
//! Everything here works on `&[u8]` and returns positions relative to it.
//!
//! | module | what |
//! |---|---|
//! | [`cursor`] | checked big-endian reads |
//! | [`varint`] | zig-zag varint and varlong |
//! | [`attributes`] | the bits that say codec, timestamp type, transactional, control, delete horizon |
//! | [`batch`] | the header every batch is walked by, magic 0, 1 and 2 |

pub mod attributes;
pub mod batch;
pub mod cursor;
pub mod varint;
