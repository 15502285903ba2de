//! Protobuf: `.proto` texts compiled, messages decoded into structs or JSON.
//!
//! | module | what |
//! |---|---|
//! | [`compile`] | descriptors of a schema, from text or base64 |
//! | [`schema`] | messages of a schema, as the decoder needs them |
//! | [`wire`] | tags, varints, lengths, groups |
//! | [`scan`] | one pass over a message: where the last value of each field is |
//! | [`maps`] | entries of maps: of those with one key, the last |
//! | [`columns`] | the columns of a message |
//! | [`direct`] | a message whose fields come once, in one pass into its columns |
//! | [`message`] | any message, into its columns |
//! | [`structs`] | messages as structs |
//! | [`texts`] | messages as JSON |
//! | [`known`] | text of well-known messages in JSON |
//!
//! Fields are known by number: a message is read by the reader schema's message of its full name. The parser is as strict
//! as google.protobuf's: the last value of a field counts, the parts of an embedded message merge.

mod columns;
mod compile;
mod direct;
mod known;
mod maps;
mod message;
mod scan;
pub(crate) mod schema;
pub(crate) mod structs;
pub(crate) mod texts;
mod wire;
