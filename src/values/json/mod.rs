//! JSON values: structs where a JSON Schema is an object with typed properties, else text.
//!
//! | module | what |
//! |---|---|
//! | [`scan`] | tokens of JSON, without recursion |
//! | [`schema`] | the column of a JSON Schema |
//! | [`structs`] | decoding into that column |
//! | [`texts`] | text as it is, checked |
//!
//! The writer's schema changes nothing: JSON names its members. Members that the reader's schema does not have are left
//! out, missing ones and null are null, and of members of one name the last counts.

mod scan;
mod schema;
pub(crate) mod structs;
pub(crate) mod texts;
