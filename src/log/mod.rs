//! One partition folder, and the log dir around it.

pub mod range;
pub mod reader;
