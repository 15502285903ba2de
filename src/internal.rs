//! Private items for the tests, benchmarks and fuzz targets of this repository. Not part of the interface: it changes
//! without notice.

pub mod arrow {
    pub mod append {
        pub use crate::arrow::append::{Appended, append_rows, encode_options};
    }
    pub mod batches {
        pub use crate::arrow::batches::BatchReader;
    }
    pub mod columns {
        pub use crate::arrow::schema::ColumnOptions;
    }
    pub mod encode {
        pub use crate::arrow::encode::{DEFAULT_BATCH_SIZE, EncodeOptions, Encoder};
    }
    pub mod parallel {
        pub use crate::arrow::parallel::ParallelReader;
    }
    pub mod reader {
        pub use crate::arrow::reader::RangeReader;
    }
    pub mod schema {
        pub use crate::arrow::schema::{Column, Layout};
    }
}
#[cfg(feature = "decrypt")]
pub mod chunks {
    pub use crate::chunks::{
        DataKey, StoredChunk, decode_chunks, decompress_sizes, unwrap_data_key,
    };
}
pub mod compress {
    pub use crate::compress::{Codec, Compressor, DecodeLimit, Decompressor};
}
pub mod error {
    pub use crate::error::{Error, ProducerRule, Refusal, Result};
}
pub mod format {
    pub mod batch {
        pub use crate::format::batch::{
            ATTRIBUTES_AT, BatchHeader, CRC_AT, LENGTH_AT, LOG_OVERHEAD, RECORD_BATCH_OVERHEAD,
        };
    }
    pub mod checkpoint {
        pub use crate::format::checkpoint::{
            parse_epochs, parse_offsets, parse_partition_metadata,
        };
    }
    pub mod control {
        pub use crate::format::control::{ControlType, EndTransactionMarker};
    }
    pub mod entry {
        pub use crate::format::entry::{
            OffsetPosition, PRODUCER_STATE_SIZE, ProducerState, TimestampOffset,
        };
    }
    pub mod file_name {
        pub use crate::format::file_name::{
            FileKind, FileName, FileState, FolderName, base_offset, is_topic_name,
        };
    }
    pub mod message {
        pub use crate::format::message::Message;
    }
    pub mod properties {
        pub use crate::format::properties::parse_properties;
    }
    pub mod record {
        pub use crate::format::record::{Header, HeaderIter, Record, key_text};
    }
}
pub mod index {
    pub mod offset {
        pub use crate::index::offset::{OffsetIndex, WritableOffsetIndex};
    }
    pub mod time {
        pub use crate::index::time::{TimeIndex, WritableTimeIndex};
    }
    pub mod txn {
        pub use crate::index::txn::TransactionIndex;
    }
}
pub mod io {
    pub mod appender {
        pub use crate::io::appender::SyncPolicy;
    }
    pub mod disk {
        pub use crate::io::disk::{Disk, DiskStep, Faults, InjectedFailure};
    }
    pub mod folder {
        pub use crate::io::folder::DiskFolder;
    }
    pub mod interrupt {
        pub use crate::io::interrupt::with_cancellation;
    }
    pub mod kept_map {
        pub use crate::io::kept_map::KeptMap;
    }
    pub mod lock {
        pub use crate::io::lock::{LOCK_FILE, LogDirLock};
    }
    pub mod mapping {
        pub use crate::io::mapping::{ClosedName, Mapping};
    }
    pub mod storage {
        pub use crate::io::storage::Folder;
    }
}
pub mod load {
    pub use crate::load::{LoadRequest, LoadedLog, Note, OnLoss, Plan, plan};
}
pub mod log {
    pub mod config {
        pub use crate::log::config::{BrokerCompression, LogConfig};
    }
    pub mod dir {
        pub use crate::log::dir::{
            CHECKPOINTS, CLEAN_SHUTDOWN, DirState, LOG_START, LogDir, META_PROPERTIES,
            RECOVERY_POINT,
        };
    }
    pub mod partition {
        pub use crate::log::partition::{OffsetAndTimestamp, PartitionLog};
    }
    pub mod retention {
        pub use crate::log::retention::{Rule, SegmentAge};
    }
}
pub mod producers {
    pub use crate::producers::{DEFAULT_PRODUCER_ID_EXPIRATION_MS, ProducerStateManager};
    pub mod entry {
        pub use crate::producers::entry::ProducerEntry;
    }
    pub mod snapshots {
        pub use crate::producers::snapshots::FolderSnapshots;
    }
}
pub mod records {
    pub use crate::records::RecordSlot;
    pub mod block {
        pub use crate::records::block::{Payload, open};
    }
    pub mod builder {
        pub use crate::records::builder::{
            BatchBuilder, BatchOptions, empty_batch, end_transaction,
        };
    }
    pub mod control {
        pub use crate::records::control::EndTransaction;
    }
    pub mod filtered {
        pub use crate::records::filtered::{
            BatchFilter, BatchRetention, BatchVerdict, FilterRules, Filtered, FilteredBatch,
            RecordFilter,
        };
    }
    pub mod legacy {
        pub use crate::records::legacy::first_offset;
    }
    pub mod plain {
        pub use crate::records::plain::{batch, walk};
    }
    pub mod validate {
        pub use crate::records::leader::{LeaderValidator, Placement};
        pub use crate::records::validate::LeaderRules;
    }
    pub mod walk {
        pub use crate::records::walk::RecordDecoder;
    }
}
pub mod scan {
    pub mod pieces {
        pub use crate::scan::pieces::{NoIndexEntry, Pieces};
    }
    pub mod plan {
        pub use crate::scan::plan::{
            Ending, IsolationLevel, Partitions, PlanOptions, Pruning, Starting, Timestamp,
            plan_scan,
        };
    }
    pub mod range {
        pub use crate::scan::range::{PartitionRange, SegmentRange};
    }
    pub mod lost {
        pub use crate::scan::lost::LostRange;
    }
    pub mod transactions {
        pub use crate::scan::transactions::LogTransactions;
    }
    pub mod raw_batches {
        pub use crate::scan::raw_batches::WholeBatches;
    }
}
pub mod segment {
    pub mod batches {
        pub use crate::segment::batches::BatchCursor;
    }
    pub mod filter {
        pub use crate::segment::filter::{AbortedRange, TimestampBounds};
    }
    pub mod lookup {
        pub use crate::segment::lookup::SegmentLookup;
    }
    pub mod metrics {
        pub use crate::segment::metrics::Metrics;
    }
    pub mod reader {
        pub use crate::segment::reader::ReadOptions;
    }
    pub mod resync {
        pub use crate::segment::resync::{Lost, Reason};
    }
    pub mod skipping {
        pub use crate::segment::skipping::OnCorrupt;
    }
    pub mod source {
        pub use crate::segment::source::Access;
    }
    pub mod statistics {
        pub use crate::segment::statistics::SegmentStatistics;
    }
}
pub mod tables {
    pub mod topic {
        pub use crate::tables::topic::{TOPICS, as_json};
    }
}
pub mod tools {
    pub mod compact {
        pub use crate::tools::compact::cleanable::Cleanable;
        pub use crate::tools::compact::{
            Cleaner, CleanerLines, CleanerSettings, CleanerStats, CleaningPass,
        };
    }
    pub mod rebuild {
        pub use crate::tools::rebuild::{Level, RebuildOptions, rebuild_indexes};
    }
    pub mod recover {
        pub use crate::tools::recover::{OnLoss, RecoverySettings, recover};
    }
    pub mod rewrite {
        pub use crate::tools::rewrite::{Drops, RewriteOptions, rewrite};
    }
}
pub mod types {
    pub use crate::types::{AppendOrigin, Compression, TimestampType, TopicPartition};
}
pub mod values {
    use std::sync::Arc;

    use arrow_array::ArrayRef;

    use crate::error::Result;
    use crate::format::record::HeaderIter;
    use crate::values::avro::{structs::AvroStructs, texts::AvroTexts};
    use crate::values::builder::Builder;
    use crate::values::decoder::{Body, Decoder, SchemaText};
    use crate::values::decoding::{DecodeRequest, Decoding, ReaderSchema};
    use crate::values::fault::Undecoded;
    use crate::values::field_tree::FieldTree;
    use crate::values::json::{structs::JsonStructs, texts::JsonTexts};
    use crate::values::payloads::{DecodedPart, PayloadDecoder, Wanted};
    use crate::values::protobuf::structs::ProtoStructs;
    use crate::values::protobuf::texts::ProtoTexts;
    use crate::values::schemas::{GivenFor, SchemaKind, Schemas, Side};

    /// Framed values of a topic with its column.
    #[derive(Debug)]
    pub struct DecodedPayloads {
        payloads: PayloadDecoder,
        topic: Arc<str>,
    }

    impl DecodedPayloads {
        /// Values under schemas by ids and GUIDs, in the type of a reader schema, or some of its fields.
        pub fn given(
            schemas: &[(i64, &str)],
            guids: &[(&str, &str)],
            reader: &str,
            wanted: &[Vec<String>],
        ) -> Result<Self> {
            let ids = schemas.iter().map(|(id, text)| (GivenFor::Id(*id), *text));
            let guids = guids.iter().filter_map(|(guid, text)| {
                let guid = guid.parse().ok()?;
                Some((GivenFor::Guid(guid), *text))
            });
            let mut known = Schemas::default();
            for (to, text) in ids.chain(guids) {
                known.give(to, SchemaKind::guess(text), text, Vec::new());
            }
            let request = DecodeRequest {
                value: true,
                reader: ReaderSchema::Text(reader.to_owned()),
                ..DecodeRequest::default()
            };
            let decoding = Decoding::plan(known, &["topic"], &request)?;
            let decoding = Arc::new(decoding.projected(Side::Value, wanted)?);
            let columns = Wanted {
                values: true,
                ..Wanted::default()
            };
            Ok(Self {
                payloads: PayloadDecoder::try_new(&decoding, Side::Value, columns)?,
                topic: Arc::from("topic"),
            })
        }

        /// Appends a payload; where there is no value, null.
        #[inline]
        pub fn push(
            &mut self,
            payload: &[u8],
            headers: HeaderIter<'_>,
        ) -> std::result::Result<(), Fault> {
            let done = self.payloads.push(&self.topic, payload, headers);
            done.map_err(|why| {
                self.payloads.push_undecoded(&why);
                fault(why)
            })
        }

        /// Appends payloads without headers, side by side where all of them have values; where there is no value, null.
        pub fn push_block(&mut self, payloads: &[&[u8]]) {
            let none = || HeaderIter::new(&[], 0, 0);
            let block = payloads.iter().map(|payload| Some((*payload, none())));
            if !self.payloads.push_block(&self.topic, block) {
                for payload in payloads {
                    // A null is what it leaves.
                    let _ = self.push(payload, none());
                }
            }
        }

        pub fn finish(&mut self) -> Result<ArrayRef> {
            self.payloads.finish(DecodedPart::Value)
        }
    }

    /// A decoder with its column. Faults are the name of the cause, and the whole text.
    #[derive(Debug)]
    pub struct DecodedColumn {
        decoder: Box<dyn Decoder>,
        column: Builder,
    }

    type Fault = (&'static str, String);

    #[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
    fn fault(undecoded: Undecoded) -> Fault {
        (undecoded.cause().name(), undecoded.to_string())
    }

    /// Runs `f` on a schema whose references come first.
    fn schema<T>(texts: &[String], f: impl FnOnce(&SchemaText<'_>) -> T) -> T {
        let mut texts = texts.iter().map(String::as_str);
        let text = texts.next_back().unwrap_or_default();
        let references = texts.map(|text| ("", text)).collect();
        f(&SchemaText { text, references })
    }

    fn named<'a>(text: &'a str, references: &'a [(String, String)]) -> SchemaText<'a> {
        let references = references.iter();
        let references = references.map(|(name, text)| (name.as_str(), text.as_str()));
        SchemaText {
            text,
            references: references.collect(),
        }
    }

    impl DecodedColumn {
        fn of(decoder: Box<dyn Decoder>) -> std::result::Result<Self, Fault> {
            let column = Builder::try_new(&decoder.data_type());
            let column = column.map_err(|e| ("internal", e.to_string()))?;
            Ok(Self { decoder, column })
        }

        /// Avro in the type of a reader schema; without one, as text.
        pub fn avro(
            reader: Option<&[String]>,
            wanted: &[Vec<String>],
        ) -> std::result::Result<Self, Fault> {
            let Some(texts) = reader else {
                return Self::of(Box::new(AvroTexts::default()));
            };
            let wanted = FieldTree::of(wanted);
            let decoder = schema(texts, |schema| AvroStructs::try_new(schema, wanted));
            Self::of(Box::new(decoder.map_err(fault)?))
        }

        /// JSON in the type of a reader schema, a text and what it refers to by name; without one, as text.
        pub fn json(
            reader: Option<(&str, &[(String, String)])>,
            wanted: &[Vec<String>],
        ) -> std::result::Result<Self, Fault> {
            let Some((text, references)) = reader else {
                return Self::of(Box::new(JsonTexts));
            };
            let wanted = FieldTree::of(wanted);
            let decoder = JsonStructs::try_new(&named(text, references), &wanted);
            Self::of(Box::new(decoder.map_err(fault)?))
        }

        /// Protobuf in the type of a reader schema, a text and what it refers to by name; without one, as text.
        pub fn protobuf(
            reader: Option<(&str, &[(String, String)])>,
            wanted: &[Vec<String>],
        ) -> std::result::Result<Self, Fault> {
            let Some((text, references)) = reader else {
                return Self::of(Box::new(ProtoTexts::default()));
            };
            let wanted = FieldTree::of(wanted);
            let decoder = ProtoStructs::try_new(&named(text, references), None, &wanted);
            Self::of(Box::new(decoder.map_err(fault)?))
        }

        /// Compiles a text with what it refers to by name.
        pub fn compile_named(
            &mut self,
            text: &str,
            references: &[(String, String)],
        ) -> std::result::Result<usize, Fault> {
            let schema = named(text, references);
            self.decoder.compile(&schema).map_err(fault)
        }

        pub fn compile(&mut self, writer: &[String]) -> std::result::Result<usize, Fault> {
            schema(writer, |schema| self.decoder.compile(schema)).map_err(fault)
        }

        /// Appends a value; where there is none, null.
        pub fn push(&mut self, program: usize, bytes: &[u8]) -> std::result::Result<(), Fault> {
            self.push_message(program, &[], bytes)
        }

        /// Appends a Protobuf message of these indexes; where there is none, null.
        pub fn push_message(
            &mut self,
            program: usize,
            message: &[i32],
            bytes: &[u8],
        ) -> std::result::Result<(), Fault> {
            let rows = self.column.len();
            let body = Body {
                bytes,
                message,
                bare_bytes: true,
            };
            let done = self.decoder.decode(program, body, &mut self.column);
            if done.is_err() {
                self.column.truncate(rows);
                self.column.push_null();
            }
            done.map_err(fault)
        }

        /// Appends values side by side, each of a program; false, and none, where one of them has a fault.
        pub fn push_block(&mut self, values: &[(usize, &[u8])]) -> bool {
            let rows = self.column.len();
            let block = values.iter().map(|&(program, bytes)| {
                let body = Body {
                    bytes,
                    message: &[],
                    bare_bytes: true,
                };
                (program, body)
            });
            let block: Vec<_> = block.collect();
            let done = self.decoder.decode_block(&block, &mut self.column);
            if !done {
                self.column.truncate(rows);
            }
            done
        }

        #[must_use]
        pub fn unknown_fields(&self) -> u64 {
            self.decoder.unknown_fields()
        }

        /// Bytes of the values so far.
        #[must_use]
        pub fn bytes(&self) -> usize {
            self.column.bytes()
        }

        pub fn finish(&mut self) -> Result<ArrayRef> {
            self.column.finish()
        }
    }
}
pub mod write {
    pub use crate::write::{AppendInfo, LeaderAppend, WritableLog, WriteOptions};
    pub mod storage {
        pub use crate::write::storage::Identity;
    }
    pub mod writer {
        pub use crate::write::writer::PartitionWriter;
    }
}
