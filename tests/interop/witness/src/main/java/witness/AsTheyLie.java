package witness;

import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.metadata.properties.MetaProperties;
import org.apache.kafka.storage.internals.checkpoint.CleanShutdownFileHandler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.OffsetIndex;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.TimeIndex;
import org.apache.kafka.storage.internals.log.TransactionIndex;

import java.io.File;
import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.Stream;

/** What Kafka's classes see in files as they lie: nothing is opened for writing, nothing recovered. */
final class AsTheyLie {
    private AsTheyLie() { }

    /** Names of a folder, sorted. */
    static List<String> names(Path folder) throws IOException {
        try (Stream<Path> all = Files.list(folder)) {
            return all.map(p -> p.getFileName().toString()).sorted().toList();
        }
    }

    private interface Each {
        void take(String file, FileChannelRecordBatch batch) throws IOException;
    }

    private static void walk(Path folder, Lines out, Each each) throws IOException {
        for (String name : names(folder)) {
            if (!name.matches("[0-9]{20}[.]log")) continue;
            try (FileRecords log = FileRecords.open(folder.resolve(name).toFile(), false)) {
                long end = 0;
                try {
                    for (FileChannelRecordBatch batch : log.batches()) {
                        each.take(name, batch);
                        end = (long) batch.position() + batch.sizeInBytes();
                    }
                    if (end < log.sizeInBytes()) out.add("file", name, "trailing_bytes", log.sizeInBytes() - end, "position", end);
                } catch (RuntimeException e) {
                    out.add("file", name, "position", end, "error", e.getClass().getSimpleName());
                }
            }
        }
    }

    private static Object orNull(OptionalLong value) {
        return value.isPresent() ? value.getAsLong() : null;
    }

    static Lines batches(Path folder) throws IOException {
        Lines out = new Lines();
        walk(folder, out, (file, b) -> out.add(
            "file", file, "position", b.position(), "size", b.sizeInBytes(), "magic", b.magic(), "crc", b.checksum(),
            "valid", b.isValid(), "base_offset", b.baseOffset(), "last_offset", b.lastOffset(), "count", b.countOrNull(),
            "codec", b.compressionType().name, "timestamp_type", b.timestampType().name, "max_timestamp", b.maxTimestamp(),
            "delete_horizon_ms", orNull(b.deleteHorizonMs()), "partition_leader_epoch", b.partitionLeaderEpoch(),
            "producer_id", b.producerId(), "producer_epoch", b.producerEpoch(), "base_sequence", b.baseSequence(),
            "last_sequence", b.lastSequence(), "is_transactional", b.isTransactional(), "is_control", b.isControlBatch()));
        return out;
    }

    static Lines records(Path folder) throws IOException {
        Lines out = new Lines();
        walk(folder, out, (file, b) -> {
            for (Record r : b) {
                List<List<String>> headers = new ArrayList<>();
                for (Header h : r.headers()) headers.add(java.util.Arrays.asList(h.key(), Lines.text(h.value())));
                out.add("file", file, "batch_position", b.position(), "batch_base_offset", b.baseOffset(), "offset", r.offset(),
                    "magic", b.magic(), "codec", b.compressionType().name, "timestamp", r.timestamp(),
                    "timestamp_type", b.timestampType().name, "producer_id", b.producerId(), "producer_epoch", b.producerEpoch(),
                    "sequence", r.sequence(), "partition_leader_epoch", b.partitionLeaderEpoch(),
                    "is_transactional", b.isTransactional(), "is_control", b.isControlBatch(),
                    "control_type", b.isControlBatch() ? ControlRecordType.parse(r.key()).name() : null,
                    "delete_horizon_ms", orNull(b.deleteHorizonMs()),
                    "key", Lines.text(r.key()), "value", Lines.text(r.value()), "headers", headers);
            }
        });
        return out;
    }

    static boolean isIndex(String name) {
        return name.matches("[0-9]{20}[.](index|timeindex|txnindex|snapshot)") || name.equals("leader-epoch-checkpoint")
            || name.equals("partition.metadata");
    }

    /** Entries of an index up to a preallocated tail, of an epoch file, or the topic id. */
    static Lines index(Path path) throws IOException {
        File file = path.toFile();
        String name = file.getName();
        Lines out = new Lines();
        if (name.equals("leader-epoch-checkpoint")) {
            out.add("kind", "leader_epochs");
            new LeaderEpochCheckpointFile(file, new LogDirFailureChannel(1)).read()
                .forEach(e -> out.add("epoch", e.epoch(), "start_offset", e.startOffset()));
            return out;
        }
        if (name.equals("partition.metadata")) {
            var metadata = new PartitionMetadataFile(file, new LogDirFailureChannel(1)).read();
            return out.add("kind", "partition_metadata").add("version", metadata.version(), "topic_id", metadata.topicId().toString());
        }
        long base = Long.parseLong(name.substring(0, 20));
        if (name.endsWith(".snapshot")) return snapshot(file, base);
        if (name.endsWith(".txnindex")) return aborted(file, base);
        if (name.endsWith(".timeindex")) {
            TimeIndex index = new TimeIndex(file, base, -1, false);
            try {
                out.add("kind", "time_index", "base_offset", base, "sanity", sound(index::sanityCheck));
                for (int i = 0; i < index.entries(); i++) {
                    var e = index.entry(i);
                    if (e.offset() == base && (i > 0 || e.timestamp() == 0)) break;
                    out.add("timestamp", e.timestamp(), "offset", e.offset());
                }
            } finally {
                index.closeHandler();
            }
        } else {
            OffsetIndex index = new OffsetIndex(file, base, -1, false);
            try {
                out.add("kind", "offset_index", "base_offset", base, "sanity", sound(index::sanityCheck));
                for (int i = 0; i < index.entries(); i++) {
                    var e = index.entry(i);
                    if (i > 0 ? e.offset() == base : e.position() == 0) break;
                    out.add("offset", e.offset(), "position", e.position());
                }
            } finally {
                index.closeHandler();
            }
        }
        return out;
    }

    private static Lines snapshot(File file, long offset) throws IOException {
        Lines out = new Lines();
        List<ProducerStateEntry> producers = ProducerStateManager.readSnapshot(file);
        out.add("kind", "producer_snapshot", "offset", offset, "entries", producers.size());
        for (ProducerStateEntry p : producers) {
            List<Map<String, Object>> batches = new ArrayList<>();
            p.batchMetadata().forEach(b -> batches.add(Lines.row("first_sequence", b.firstSeq(), "last_sequence", b.lastSeq(),
                "first_offset", b.firstOffset(), "last_offset", b.lastOffset(), "offset_delta", b.offsetDelta(),
                "timestamp", b.timestamp())));
            out.add("producer_id", p.producerId(), "producer_epoch", p.producerEpoch(), "coordinator_epoch", p.coordinatorEpoch(),
                "current_txn_first_offset", orNull(p.currentTxnFirstOffset()), "last_timestamp", p.lastTimestamp(),
                "batches", batches);
        }
        return out;
    }

    private static Lines aborted(File file, long base) throws IOException {
        Lines out = new Lines();
        try (TransactionIndex index = new TransactionIndex(base, file)) {
            out.add("kind", "txn_index", "base_offset", base, "sanity", sound(index::sanityCheck));
            index.allAbortedTxns().forEach(t -> out.add("version", t.version(), "producer_id", t.producerId(),
                "first_offset", t.firstOffset(), "last_offset", t.lastOffset(), "last_stable_offset", t.lastStableOffset()));
        }
        return out;
    }

    private static String sound(Runnable check) {
        try {
            check.run();
            return "ok";
        } catch (RuntimeException e) {
            return e.getClass().getSimpleName();
        }
    }

    /** The log dir's own files. */
    static Lines checkpoints(Path logDir) throws IOException {
        Lines out = new Lines();
        for (String name : names(logDir)) {
            File file = logDir.resolve(name).toFile();
            if (name.endsWith("-offset-checkpoint")) {
                out.add("file", name, "kind", "offset_checkpoint");
                TreeMap<String, Map<String, Object>> sorted = new TreeMap<>();
                new OffsetCheckpointFile(file, new LogDirFailureChannel(1)).read().forEach((tp, offset) -> sorted.put(
                    String.format("%s %010d", tp.topic(), tp.partition()),
                    Lines.row("topic", tp.topic(), "partition", tp.partition(), "offset", offset)));
                sorted.values().forEach(out::add);
            } else if (name.equals("meta.properties")) {
                Properties properties = new Properties();
                try (Reader in = Files.newBufferedReader(file.toPath())) {
                    properties.load(in);
                }
                // A broker's own look at it: versions, and which ids must be there.
                new MetaProperties.Builder(properties).build();
                out.add("file", name, "kind", "meta_properties");
                Map<String, Object> row = new TreeMap<>();
                properties.forEach((k, v) -> row.put(k.toString(), v));
                out.add(row);
            } else if (name.equals(".kafka_cleanshutdown")) {
                out.add("file", name, "kind", "clean_shutdown");
                out.add("broker_epoch", orNull(new CleanShutdownFileHandler(logDir.toString()).read()));
            }
        }
        return out;
    }
}
