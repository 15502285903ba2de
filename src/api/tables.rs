//! Kafka's internal topics: their records, the state that they add up to, and records and snapshots to write.

pub(crate) use crate::tables::coverage::Coverage;
pub(crate) use crate::tables::metadata_log::{Chosen, LogEnd, choose};
pub(crate) use crate::tables::metadata_state::AllRefused;
pub(crate) use crate::tables::new_record::{KeyAndValue, encode};
pub(crate) use crate::tables::new_snapshot::{NewSnapshot, Spelled, write as write_snapshot};
pub(crate) use crate::tables::offset_rows::WantedRows;
pub(crate) use crate::tables::open_transactions::open_transactions;
pub(crate) use crate::tables::plan::plan;
pub(crate) use crate::tables::producers::producers;
pub(crate) use crate::tables::schema_rows::schemas;
pub(crate) use crate::tables::topic::{Show, Topic};
