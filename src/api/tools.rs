//! Verbs: to repair, copy, verify and explain logs, and to show their records.

pub(crate) use crate::load::OnLoss;
pub(crate) use crate::log::output::{check_log_dir, check_output};
pub(crate) use crate::producers::DEFAULT_PRODUCER_ID_EXPIRATION_MS;
pub(crate) use crate::tools::cat::RecordText;
pub(crate) use crate::tools::compact::run::{CompactOptions, compact};
pub(crate) use crate::tools::dump::{Options as DumpOptions, PrintedAs, dump};
pub(crate) use crate::tools::explain::table::table as segments_table;
pub(crate) use crate::tools::explain::usage::usage;
pub(crate) use crate::tools::explain::{ExplainOptions, explain};
pub(crate) use crate::tools::printed_search::PrintedSearch;
pub(crate) use crate::tools::progress::Progress;
pub(crate) use crate::tools::query::{
    Description, MAX_THREADS, OffsetSpec, PartitionStatistics, query_each,
};
pub(crate) use crate::tools::rebuild::{Level, RebuildOptions, rebuild_indexes};
pub(crate) use crate::tools::recover::output::check_out;
pub(crate) use crate::tools::recover::{RecoverySettings, recover};
pub(crate) use crate::tools::retain::{RetainOptions, retain};
pub(crate) use crate::tools::rewrite::{Drops, RewriteOptions, rewrite};
pub(crate) use crate::tools::row_text::RowText;
pub(crate) use crate::tools::verify::finding::{CODES, Code};
pub(crate) use crate::tools::verify::table::table as findings_table;
pub(crate) use crate::tools::verify::{VerifyOptions, verify};
