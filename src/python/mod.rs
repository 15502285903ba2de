//! The bindings: they parse arguments, detach, call the core and convert the result, nothing else.

use pyo3::prelude::*;

mod callbacks;
mod capsule;
mod cat;
mod chunks;
mod decoding;
mod dump;
mod errors;
mod explain;
mod index;
mod interrupt;
mod log;
mod log_dirs;
mod messages;
mod options;
mod partitioner;
mod query;
mod range;
mod reader;
mod rows;
mod statistics;
mod storage;
mod tables;
mod tools;
mod verify;
mod writer;

/// The compiled module, `kafkalog._core`.
#[pymodule(gil_used = false)]
mod _core {
    use pyo3::prelude::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_export]
    use super::cat::{PyPrintedSearch, PyRecordText, PyRowText};
    #[pymodule_export]
    use super::chunks::{PyChunkReader, decompress_sizes};
    #[pymodule_export]
    use super::decoding::{PyDecoding, PyFoundSchemas, decoding_from_json, find_schemas_of};
    #[pymodule_export]
    use super::dump::dump;
    #[pymodule_export]
    use super::explain::{disk_usage, explain};
    #[pymodule_export]
    use super::index::{Index, PyTransactionIndex};
    #[pymodule_export]
    use super::log::{
        PyDirState, PyLogDir, PyPartitionLog, bounds, check_log_dir, check_output, divide,
        local_path, pieces, plan,
    };
    #[pymodule_export]
    use super::log_dirs::HeldLogDirs;
    #[pymodule_export]
    use super::messages::{abort_marker, encode_record, write_metadata_snapshot};
    #[pymodule_export]
    use super::partitioner::partition_for_key;
    #[pymodule_export]
    use super::query::{describe_all, list_offsets, statistics_all};
    #[pymodule_export]
    use super::range::{PyPartitionRange, PySegmentRange, range_from_json, segment_from_json};
    #[pymodule_export]
    use super::reader::{RecordStream, check_search, scan_batch_ranges, scan_ranges};
    #[pymodule_export]
    use super::rows::PyRows;
    #[pymodule_export]
    use super::storage::{
        forget_listings, is_mounted, list_folder, mount_storage, path_kind, read_range,
    };
    #[pymodule_export]
    use super::tables::{
        table_coverage, table_metadata, table_offsets, table_open_transactions, table_producers,
        table_records, table_schemas,
    };
    #[pymodule_export]
    use super::tools::{check_free, compact, rebuild_indexes, recover, retain, rewrite};
    #[pymodule_export]
    use super::verify::{VerifyProgress, verify, verify_codes};
    #[pymodule_export]
    use super::writer::{
        PyLogWriter, check_columns, check_config, check_load, check_sizes, check_topic,
    };

    #[pymodule_init]
    fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
        m.add("__version__", env!("CARGO_PKG_VERSION"))?;
        m.add("JOB_NOTE", crate::api::JOB_NOTE)?;
        m.add(
            "build_profile",
            if cfg!(debug_assertions) {
                "debug"
            } else {
                "release"
            },
        )
    }
}
