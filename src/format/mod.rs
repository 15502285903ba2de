//! Kafka's byte formats: no files, no codecs, no unsafe code.
//!
//! Everything here works on `&[u8]` and returns positions relative to it.
//!
//! | module | what |
//! |---|---|
//! | [`cursor`] | checked big-endian reads |
//! | [`varint`] | zig-zag varint and varlong |
//! | [`attributes`] | the bits for codec, timestamp type, transactional, control, delete horizon |
//! | [`crc`] | CRC-32 and CRC-32C, whole and in parts |
//! | [`batch`] | the header of every batch, magic 0, 1 and 2 |
//! | [`message`] | a message of magic 0 or 1 |
//! | [`record`] | a record of magic 2, and its headers |
//! | [`control`] | the records of control batches |
//! | [`text`] | text as Java reads it |
//! | [`put`] | numbers and flags as Java spells them |
//! | [`entry`] | entries of the indexes and of producer snapshots |
//! | [`file_name`] | names of segment files and partition folders |
//! | [`checkpoint`] | the text files |
//! | [`properties`] | Java properties |
//! | [`murmur2`] | the hash that chooses a key's partition |
//! | [`uuid`] | ids |

pub(crate) mod attributes;
pub(crate) mod batch;
pub(crate) mod checkpoint;
pub(crate) mod control;
pub(crate) mod crc;
pub(crate) mod cursor;
pub(crate) mod entry;
pub(crate) mod file_name;
pub(crate) mod message;
pub(crate) mod murmur2;
pub(crate) mod properties;
pub(crate) mod put;
pub(crate) mod record;
pub(crate) mod text;
pub(crate) mod uuid;
pub(crate) mod varint;
