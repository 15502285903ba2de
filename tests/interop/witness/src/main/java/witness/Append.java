package witness;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import com.sun.management.OperatingSystemMXBean;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * Kafka's {@code UnifiedLog.appendAsLeader} into a new log for every line on standard input: a leg of the benches.
 * {@code mode}: "leader" has the batches of a producer ready before the clock runs, "build" makes them while it runs.
 */
final class Append {
    private static final long NOW = 1_700_000_000_000L;

    private final int records;
    private final byte[] bytes;
    private final int valueBytes;
    private final int batchBytes;

    private Append(int records, int valueBytes, int batchBytes) {
        this.records = records;
        this.valueBytes = valueBytes;
        this.batchBytes = batchBytes;
        bytes = new byte[Math.min(records, 65_536) * valueBytes];
        long noise = 1;
        for (int i = 0; i < bytes.length; i++) {
            noise = noise * 6364136223846793005L + 1;
            bytes[i] = (byte) ('a' + (noise >>> 56) % 26);
        }
    }

    static void serve(String mode, Path folder, int records, int valueBytes, int batchBytes) throws IOException {
        Append append = new Append(records, valueBytes, batchBytes);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("{\"ready\": true}");
        while (in.readLine() != null) {
            Path made = folder.resolve("java-0");
            Map<String, Object> spent = append.pass(mode.equals("build"), made);
            delete(made);
            System.out.println(Lines.JSON.writeValueAsString(spent));
        }
    }

    /** The next batch of a producer, from this record on: as many as fit. */
    private MemoryRecords batch(int from, ByteBuffer buffer) {
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(buffer, (byte) 2, Compression.NONE, TimestampType.CREATE_TIME,
            0L, NOW, -1L, (short) -1, -1, false, false, -1, batchBytes);
        for (int i = from; i < records; i++) {
            ByteBuffer value = ByteBuffer.wrap(bytes, i % 65_536 * valueBytes, valueBytes);
            if (!builder.hasRoomFor(NOW, null, value, Record.EMPTY_HEADERS)) break;
            builder.append(NOW, null, value);
        }
        return builder.build();
    }

    private static void delete(Path folder) throws IOException {
        try (Stream<Path> all = Files.walk(folder)) {
            all.sorted(Comparator.reverseOrder()).forEach(p -> p.toFile().delete());
        }
    }

    /** Wall seconds, and processor seconds of all threads: the compiler's and the collector's work is Kafka's too. */
    private Map<String, Object> pass(boolean building, Path folder) throws IOException {
        List<MemoryRecords> ready = new ArrayList<>();
        int made = 0;
        while (!building && made < records) {
            MemoryRecords batch = batch(made, ByteBuffer.allocate(batchBytes));
            made += batch.batches().iterator().next().countOrNull();
            ready.add(batch);
        }
        ByteBuffer buffer = ByteBuffer.allocate(batchBytes);
        OperatingSystemMXBean system = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
        long before = system.getProcessCpuTime();
        long start = System.nanoTime();
        UnifiedLog log = UnifiedLog.create(folder.toFile(), new LogConfig(Map.of()), 0, 0, Loaded.idle(), new BrokerTopicStats(),
            Time.SYSTEM, 900_000, new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1),
            true, Optional.empty());
        for (MemoryRecords batch : ready) log.appendAsLeader(batch, 0);
        while (building && made < records) {
            buffer.clear();
            MemoryRecords batch = batch(made, buffer);
            made += batch.batches().iterator().next().countOrNull();
            log.appendAsLeader(batch, 0);
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        double cpu = (system.getProcessCpuTime() - before) / 1e9;
        if (log.logEndOffset() != records) throw new IllegalStateException("log end " + log.logEndOffset());
        log.closeHandlers();
        return Map.of("records", records, "seconds", seconds, "cpu", cpu);
    }
}
