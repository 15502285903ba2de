//! One segment: a `.log` file and its indexes.
//!
//! | module | what |
//! |---|---|
//! | [`source`] | the bytes of a `.log`: mapped, or by copy where they may still change |
//! | [`reader`] | the records of a `.log`, chunk by chunk |
//! | [`batches`] | header to header through a `.log`, with every check that needs no checksum |

pub mod batches;
pub mod reader;
pub mod source;
