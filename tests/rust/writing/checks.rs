//! Content of the folder, compared with the list.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use kafkalog::internal::arrow::columns::ColumnOptions;
use kafkalog::internal::arrow::reader::RangeReader;
use kafkalog::internal::arrow::schema::{Column, Layout};
use kafkalog::internal::error::{Error, Refusal, Result};
use kafkalog::internal::format::file_name::FileKind;
use kafkalog::internal::log::partition::PartitionLog;
use kafkalog::internal::scan::plan::{PlanOptions, Starting, plan_scan};
use kafkalog::internal::segment::batches::BatchCursor;
use kafkalog::internal::segment::reader::ReadOptions;
use kafkalog::internal::segment::source::Access as LogAccess;
use kafkalog::internal::write::LeaderAppend;

use super::{Driver, Op, Pending, Row, append, by_producer, offsets};

impl Driver {
    /// Visible content of the folder.
    pub fn visible(&self) -> Vec<Row> {
        let columns = vec![
            Column::Offset,
            Column::Timestamp,
            Column::Key,
            Column::Value,
        ];
        let options = PlanOptions {
            starting_offsets: Starting::Oldest,
            ..PlanOptions::default()
        };
        let ranges = plan_scan(std::slice::from_ref(&self.folder), &options).unwrap();
        let columns = ColumnOptions {
            columns,
            layout: Layout::Binary,
            ..ColumnOptions::default()
        };
        let mut reader = RangeReader::try_new(ranges, ReadOptions::default(), columns).unwrap();
        let mut rows = Vec::new();
        while let Some(batch) = reader.next_batch().unwrap() {
            let offsets = batch.column(0).as_primitive::<Int64Type>().values();
            let times = batch.column(1).as_primitive::<TimestampMillisecondType>();
            let bytes = |n: usize| {
                let column = batch.column(n).as_binary::<i32>();
                column.iter().map(|value| value.map(<[u8]>::to_vec))
            };
            let numbers = offsets.iter().zip(times.values().iter());
            rows.extend(
                numbers
                    .zip(bytes(2).zip(bytes(3)))
                    .map(|((&offset, &ts), (key, value))| (offset, ts, key, value)),
            );
        }
        rows.retain(|row| row.0 >= self.start);
        rows
    }

    /// After a failure: the log takes nothing more, and what is in the folder is what was acknowledged, or that and a
    /// part of what was under way; nothing of it if the failure was not a crash. Then it is recovered, and the list
    /// takes over what is there.
    pub fn survive(&mut self, error: &Error, is_crash: bool) {
        assert!(matches!(error, Error::Io { .. }), "{error}");
        if let Some(mut log) = self.log.take() {
            assert!(log.has_failed(), "{error}");
            let now_ms = self.now_ms;
            let failed = |outcome: Result<()>| {
                assert_eq!(outcome.unwrap_err().refusal(), Some(Refusal::Failed));
            };
            failed(log.roll(None, now_ms).map(drop));
            failed(log.flush(true, now_ms));
            failed(log.truncate_to(0, now_ms).map(drop));
            failed(log.append_as_follower(&[0; 100], 0, now_ms).map(drop));
            let how = LeaderAppend::default();
            failed(log.append_as_leader(&mut vec![], &how, now_ms).map(drop));
            log.crash();
        }
        self.disk.mend();
        if self.folder.exists() {
            self.check_allowed(&self.visible(), is_crash);
        }
        self.open(false).unwrap();
        let rows = self.visible();
        self.check_allowed(&rows, is_crash);
        self.adopt(&rows);
        self.check_indexes();
    }

    fn check_allowed(&self, rows: &[Row], is_crash: bool) {
        let acknowledged = self.rows();
        let allowed = match &self.pending {
            Pending::Nothing => rows == acknowledged,
            Pending::Append(batches) => {
                let mut allowed = acknowledged.clone();
                let mut is_allowed = rows == allowed;
                for batch in batches {
                    allowed.extend(batch.rows.clone());
                    is_allowed |= is_crash && rows == allowed;
                }
                is_allowed
            }
            Pending::Cut(at) => {
                let kept = self.list.iter().filter(|batch| batch.last_offset < *at);
                let kept = kept.flat_map(|batch| &batch.rows);
                let kept = kept.filter(|row| row.0 >= self.start).count();
                acknowledged.starts_with(rows) && rows.len() >= kept
            }
            Pending::All => {
                let mut rest = acknowledged.iter();
                rows.iter().all(|row| rest.any(|known| known == row))
            }
        };
        assert!(
            allowed,
            "acknowledged {:?}, under way {:?}, found {:?}",
            offsets(&acknowledged),
            self.pending,
            offsets(rows)
        );
    }

    /// The list becomes what the log holds.
    fn adopt(&mut self, rows: &[Row]) {
        if let Pending::Append(batches) = &self.pending {
            self.list.extend(batches.iter().cloned());
        }
        let log = self.log.as_ref().unwrap();
        let (start, end) = (log.log_start_offset(), log.log_end_offset());
        self.list.retain(|batch| batch.last_offset < end);
        if matches!(self.pending, Pending::All) {
            self.list
                .retain(|batch| batch.rows.iter().any(|row| rows.contains(row)));
        }
        (self.start, self.end) = (start, end);
        self.recovery_point = log.recovery_point();
        self.pending = Pending::Nothing;
        assert_eq!(self.rows(), rows);
    }

    /// Every index entry says what a scan of the `.log` says.
    fn check_indexes(&self) {
        let log = PartitionLog::open(&self.folder).unwrap();
        for segment in log.segments() {
            let mut batches = Vec::new();
            let mut cursor = BatchCursor::new(segment.bounds(), 0);
            let mut source = segment.open(LogAccess::Headers).unwrap();
            while let Some((position, header)) = cursor.next(&mut source).unwrap() {
                batches.push((position, header));
            }
            let path = segment.sibling(FileKind::OffsetIndex);
            if path.exists() {
                let index = segment.offset_index().unwrap();
                for entry in index.iter() {
                    let at = u64::try_from(entry.position).unwrap();
                    let batch = batches.iter().find(|(position, _)| *position == at);
                    let last = batch.map(|(_, header)| header.last_offset());
                    assert_eq!(last, Some(entry.offset), "{}", path.display());
                }
            }
            let path = segment.sibling(FileKind::TimeIndex);
            if path.exists() {
                let index = segment.time_index().unwrap();
                for entry in index.iter() {
                    let upto = batches
                        .iter()
                        .filter(|(_, header)| header.last_offset() <= entry.offset);
                    let largest = upto.map(|(_, header)| header.max_timestamp).max();
                    let largest = largest.unwrap();
                    let is_right =
                        entry.timestamp == largest || self.was_cut && entry.timestamp < largest;
                    assert!(is_right, "{}: {entry:?}", path.display());
                }
            }
        }
    }

    /// Random bytes where index files were not known to be on the disk: those of segments from the recovery point on.
    pub fn garble_indexes(&self) {
        let Ok(log) = PartitionLog::open(&self.folder) else {
            return;
        };
        let segments = log.segments();
        let from = segments.partition_point(|s| s.base_offset <= self.recovery_point);
        let mut chance = crate::common::Chance(7);
        for segment in segments.iter().skip(from.saturating_sub(1)) {
            for kind in [FileKind::OffsetIndex, FileKind::TimeIndex] {
                let path = segment.sibling(kind);
                if path.exists() {
                    let bytes: Vec<u8> = (0..chance.below(120)).map(|_| chance.byte()).collect();
                    std::fs::write(path, bytes).unwrap();
                }
            }
        }
    }

    /// Continues, closes, and opens again: everything is there.
    pub fn finish(&mut self) {
        for op in [
            append(2, 40),
            by_producer(3, 20, 1),
            Op::Roll,
            append(1, 10),
            Op::Reopen,
            append(1, 10),
        ] {
            self.run(&op).unwrap();
        }
        self.log.take().unwrap().close(self.now_ms).unwrap();
        assert_eq!(offsets(&self.visible()), offsets(&self.rows()));
        assert_eq!(self.visible(), self.rows());
        self.check_indexes();
    }
}
