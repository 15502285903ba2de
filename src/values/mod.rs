//! Typed values: payloads of records decoded by their schemas. Opens no files.
//!
//! | module | what |
//! |---|---|
//! | [`guid`] | ids of schemas by their content |
//! | [`registered`] | schemas with what a registry keeps beside them |
//! | [`schemas`] | schemas, and the one that a payload is written under |
//! | [`framing`] | the bytes and headers before a value, which name its schema |
//! | [`decoding`] | decoding of a scan, as plain data that travels in plans |
//! | [`messages`] | the message of a Protobuf column, of those in a file |
//! | [`payloads`] | keys or values of a batch, from framing to column |
//! | `formats` | the decoders of all formats |
//! | [`fault`] | reasons for which a payload has no value |
//! | [`decoder`] | the trait of all formats: schemas compiled to programs, payloads decoded into a column |
//! | [`field_tree`] | the fields of a column that are wanted |
//! | [`avro`] | decoders of Avro |
//! | [`protobuf`] | decoders of Protobuf |
//! | [`json`] | decoders of JSON |
//! | [`builder`] | Arrow columns of any type, from which the last rows can be removed again |
//!
//! A column has one reader schema, which gives its type. Every writer schema that occurs is compiled against it once;
//! then each payload is decoded straight into the column, whatever schema the payload before it had.

pub(crate) mod avro;
pub(crate) mod builder;
pub(crate) mod decoder;
pub(crate) mod decoding;
pub(crate) mod fault;
pub(crate) mod field_tree;
mod formats;
pub(crate) mod framing;
pub(crate) mod guid;
pub(crate) mod json;
pub(crate) mod messages;
pub(crate) mod payloads;
pub(crate) mod protobuf;
pub(crate) mod registered;
pub(crate) mod schemas;
