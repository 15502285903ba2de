//! Avro: schemas in JSON, values without names or types.
//!
//! | module | what |
//! |---|---|
//! | `schema`, `parse` | schemas, and their text |
//! | `column` | Arrow types of a reader schema |
//! | `resolve` | a writer schema against the reader schema, as a program |
//! | `default` | the reader's defaults, as bytes |
//! | `step`, `skip` | the program that decodes; what it passes over |
//! | `block` | the same for several values side by side |
//! | `cursor`, `decimal` | the bytes of a value |
//! | [`structs`], [`texts`] | the decoders: into columns, into JSON |

mod block;
mod column;
mod cursor;
mod decimal;
mod default;
mod parse;
mod resolve;
mod schema;
mod skip;
mod step;
pub(crate) mod structs;
pub(crate) mod texts;
