import com.sun.management.OperatingSystemMXBean;
import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Kafka's side of a bench over a partition folder: java -cp JARS KafkaLegs.java LEG FOLDER ROUNDS [MAP_BYTES].
 * clean: Cleaner.clean over a copy. recover: LogSegment.recover over the first segment.
 */
public class KafkaLegs {
    private static final ProducerStateManagerConfig PRODUCERS = new ProducerStateManagerConfig(86_400_000, false);

    /** What a round prepares, does under the clock, and checks. */
    private interface Leg {
        Timed prepare() throws Exception;
    }

    private interface Timed {
        /** Returns the check that comes after the clock has stopped. */
        Runnable run() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        Path folder = Path.of(args[1]);
        int rounds = Integer.parseInt(args[2]);
        switch (args[0]) {
            case "clean" -> measure(3, rounds, clean(folder, Integer.parseInt(args[3])));
            case "recover" -> measure(20, rounds, recover(folder.toFile()));
            default -> throw new IllegalArgumentException(args[0]);
        }
        // The schedulers' threads go on.
        System.exit(0);
    }

    private static void measure(int warm, int rounds, Leg leg) throws Exception {
        double[] wall = new double[rounds];
        double[] cpu = new double[rounds];
        double[] all = new double[rounds];
        OperatingSystemMXBean process = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
        for (int round = -warm; round < rounds; round++) {
            Timed timed = leg.prepare();
            long began = System.nanoTime();
            long usedByAll = process.getProcessCpuTime();
            long used = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
            Runnable check = timed.run();
            if (round >= 0) {
                wall[round] = (System.nanoTime() - began) / 1e6;
                all[round] = (process.getProcessCpuTime() - usedByAll) / 1e6;
                cpu[round] = (ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - used) / 1e6;
            }
            check.run();
        }
        Arrays.sort(wall);
        Arrays.sort(cpu);
        Arrays.sort(all);
        System.out.printf("kafka    %8.1f ms %8.1f ms  with its other threads %.1f ms%n", wall[rounds / 2], cpu[rounds / 2],
            all[rounds / 2]);
    }

    private static Leg clean(Path folder, int map) {
        LogConfig config = new LogConfig(Map.of("cleanup.policy", "compact"));
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        Path work = folder.resolveSibling("kafka-0");
        return () -> {
            copy(folder, work);
            UnifiedLog log = UnifiedLog.create(work.toFile(), config, 0, 0, scheduler, new BrokerTopicStats(), Time.SYSTEM,
                900_000, PRODUCERS, 600_000, new LogDirFailureChannel(1), true, Optional.empty());
            log.updateHighWatermark(log.logEndOffset());
            // As a broker with one cleaner thread: half of log.cleaner.io.buffer.size for each direction.
            Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(map, "MD5"), 262_144, 1_048_588, 0.9,
                new Throttler(Double.MAX_VALUE, 60_000, "t", "e", Time.SYSTEM), Time.SYSTEM, partition -> { });
            LogToClean dirty = new LogToClean(log, 0, log.activeSegment().baseOffset(), false);
            return () -> {
                long end = cleaner.clean(dirty).getKey();
                return () -> {
                    expect(end == log.activeSegment().baseOffset(), "compacted to " + end);
                    log.close();
                };
            };
        };
    }

    private static Leg recover(File folder) {
        TopicPartition partition = new TopicPartition("bench", 0);
        LogConfig config = new LogConfig(Map.of());
        LogDirFailureChannel failures = new LogDirFailureChannel(1);
        return () -> {
            LeaderEpochFileCache epochs = new LeaderEpochFileCache(partition,
                new LeaderEpochCheckpointFile(LeaderEpochCheckpointFile.newFile(folder), failures), new KafkaScheduler(1));
            epochs.clearAndFlush();
            // Known before the clock runs, so that no checkpoint is brought to the disk while it does.
            epochs.assign(0, 0);
            ProducerStateManager producers = new ProducerStateManager(partition, folder, 900_000, PRODUCERS, Time.SYSTEM);
            LogSegment segment = LogSegment.open(folder, 0, config, Time.SYSTEM, true, 0, false, "");
            return () -> {
                int cut = segment.recover(producers, epochs);
                return () -> {
                    expect(cut == 0, cut + " bytes cut");
                    close(segment);
                };
            };
        };
    }

    private static void expect(boolean holds, String found) {
        if (!holds) {
            throw new IllegalStateException(found);
        }
    }

    private static void close(LogSegment segment) {
        try {
            segment.close();
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void copy(Path from, Path to) throws IOException {
        for (Path each : Files.exists(to) ? walk(to) : new ArrayList<Path>()) {
            Files.delete(each);
        }
        Files.createDirectories(to);
        try (Stream<Path> files = Files.list(from)) {
            for (Path each : files.toList()) {
                Files.copy(each, to.resolve(each.getFileName()));
            }
        }
    }

    private static List<Path> walk(Path root) throws IOException {
        try (Stream<Path> all = Files.walk(root)) {
            return all.sorted(Comparator.reverseOrder()).toList();
        }
    }
}
