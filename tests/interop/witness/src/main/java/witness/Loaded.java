package witness;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.record.internal.FileRecords.TimestampAndOffset;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.requests.ListOffsetsRequest;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeSet;
import java.util.concurrent.ScheduledFuture;
import java.util.stream.Stream;

/** A copy of a partition folder, opened by Kafka's loader as a starting broker would, and asked for offsets. */
final class Loaded implements AutoCloseable {
    private final Path scratch = Files.createTempDirectory("witness");
    private final UnifiedLog log;
    private final Long highWatermark;
    /** Whether an answer may hang on the modification time of a {@code .log} without timestamps. */
    final boolean needsMtime;

    Loaded(Path folder, long mtimeMs, Map<String, String> config) throws IOException {
        Path copy = Files.createDirectory(scratch.resolve(folder.getFileName()));
        for (String name : AsTheyLie.names(folder)) {
            Path to = Files.copy(folder.resolve(name), copy.resolve(name));
            if (name.endsWith(".log") && !to.toFile().setLastModified(mtimeMs)) throw new IOException("mtime of " + to);
        }
        Path logDir = folder.toAbsolutePath().getParent();
        TopicPartition tp = UnifiedLog.parseTopicPartitionName(copy.toFile());
        // Raft opens the metadata log by itself: never as cleanly closed, and without the checkpoints.
        boolean raft = tp.topic().equals("__cluster_metadata");
        long start = raft ? 0 : checkpoint(logDir, "log-start-offset-checkpoint", tp, 0);
        long recovery = raft ? 0 : checkpoint(logDir, "recovery-point-offset-checkpoint", tp, 0);
        long mark = checkpoint(logDir, "replication-offset-checkpoint", tp, -1);
        highWatermark = mark < 0 ? null : mark;
        boolean clean = !raft && Files.exists(logDir.resolve(".kafka_cleanshutdown"));
        log = UnifiedLog.create(copy.toFile(), new LogConfig(config), start, recovery, new Idle(), new BrokerTopicStats(),
            Time.SYSTEM, Integer.MAX_VALUE, new ProducerStateManagerConfig(Integer.MAX_VALUE, false), Integer.MAX_VALUE,
            new LogDirFailureChannel(1), clean, Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        boolean needed = false;
        List<LogSegment> all = log.logSegments();
        for (LogSegment closed : all.subList(0, all.size() - 1)) needed |= closed.maxTimestampSoFar() < 0;
        needsMtime = needed;
    }

    private static long checkpoint(Path logDir, String name, TopicPartition tp, long absent) throws IOException {
        File file = logDir.resolve(name).toFile();
        return file.exists() ? new OffsetCheckpointFile(file, new LogDirFailureChannel(1)).read().getOrDefault(tp, absent) : absent;
    }

    Lines summary() {
        return new Lines().add("type", "log", "log_start_offset", log.logStartOffset(), "log_end_offset", log.logEndOffset(),
            "high_watermark_checkpoint", highWatermark);
    }

    /** Offsets to ask for: the ends, every segment's edges, and a seeded choice of all. */
    private List<Long> offsets() {
        long start = log.logStartOffset();
        long end = log.logEndOffset();
        TreeSet<Long> asked = new TreeSet<>(List.of(-1L, start - 1, start, start + 1, end - 1, end, end + 1, end + 1000));
        for (LogSegment s : log.logSegments()) asked.addAll(List.of(s.baseOffset() - 1, s.baseOffset(), s.baseOffset() + 1));
        Random random = new Random(end);
        for (int i = 0; i < 60 && end > start; i++) asked.add(start + random.nextLong(end - start));
        return new ArrayList<>(asked);
    }

    Lines byOffset() throws IOException {
        Lines out = new Lines();
        for (long target : offsets()) out.add(lookup(target));
        return out;
    }

    private Map<String, Object> lookup(long target) throws IOException {
        Map<String, Object> row = Lines.row("target", target);
        try {
            long from = target;
            while (true) {
                FetchDataInfo info = log.read(from, 1, FetchIsolation.LOG_END, true);
                var batches = info.records.batches().iterator();
                if (!batches.hasNext()) {
                    row.put("found", from != target);
                    row.put("record_offset", null);
                    return row;
                }
                RecordBatch batch = batches.next();
                for (Record r : batch) {
                    if (r.offset() < target) continue;
                    row.put("found", true);
                    row.put("record_offset", r.offset());
                    row.put("record_segment_base_offset", info.fetchOffsetMetadata.segmentBaseOffset);
                    row.put("record_batch_position", info.fetchOffsetMetadata.relativePositionInSegment);
                    return row;
                }
                from = batch.nextOffset();
            }
        } catch (OffsetOutOfRangeException e) {
            row.put("found", false);
            row.put("error", "OffsetOutOfRange");
            return row;
        }
    }

    /** Timestamps to ask for: around every segment's greatest, and a seeded choice of those in the log. */
    List<Long> times() throws IOException {
        List<Long> seen = new ArrayList<>();
        TreeSet<Long> asked = new TreeSet<>(List.of(0L, 1L));
        for (LogSegment s : log.logSegments()) {
            for (RecordBatch b : s.log().batches()) for (Record r : b) seen.add(r.timestamp());
            long greatest = s.maxTimestampSoFar();
            if (greatest > 0) asked.addAll(List.of(greatest - 1, greatest, greatest + 1));
        }
        Random random = new Random(seen.size());
        for (int i = 0; i < 60 && !seen.isEmpty(); i++) {
            long t = Math.max(1, seen.get(random.nextInt(seen.size())));
            asked.addAll(List.of(t - 1, t, t + 1));
        }
        return new ArrayList<>(asked);
    }

    Lines byTime(List<Long> targets, boolean specials) {
        Lines out = new Lines();
        if (specials) {
            out.add(answer("special", "earliest", ListOffsetsRequest.EARLIEST_TIMESTAMP));
            out.add(answer("special", "latest", ListOffsetsRequest.LATEST_TIMESTAMP));
            out.add(answer("special", "max_timestamp", ListOffsetsRequest.MAX_TIMESTAMP));
        }
        for (long target : targets) out.add(answer("target", target, target));
        return out;
    }

    private Map<String, Object> answer(String name, Object value, long timestamp) {
        Optional<TimestampAndOffset> found = log.fetchOffsetByTimestamp(timestamp, Optional.empty()).timestampAndOffsetOpt();
        Map<String, Object> row = Lines.row(name, value, "found", found.isPresent());
        found.ifPresent(f -> row.putAll(
            Lines.row("offset", f.offset, "timestamp", f.timestamp, "leader_epoch", f.leaderEpoch.orElse(null))));
        return row;
    }

    @Override
    public void close() throws IOException {
        log.closeHandlers();
        try (Stream<Path> all = Files.walk(scratch)) {
            all.sorted(Comparator.reverseOrder()).forEach(p -> p.toFile().delete());
        }
    }

    static Scheduler idle() {
        return new Idle();
    }

    /** Nothing runs behind the back of a log that is only asked. */
    private static final class Idle implements Scheduler {
        @Override
        public void startup() { }

        @Override
        public void shutdown() { }

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            return null;
        }

        @Override
        public void resizeThreadPool(int newSize) { }
    }
}
