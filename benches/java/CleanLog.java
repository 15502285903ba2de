import com.sun.management.OperatingSystemMXBean;
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
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** Kafka's Cleaner.clean over a copy of a partition folder: java -cp JARS CleanLog.java FOLDER ROUNDS MAP_BYTES. */
public class CleanLog {
    private static final int WARM = 3;

    public static void main(String[] args) throws Exception {
        Path folder = Path.of(args[0]);
        int rounds = Integer.parseInt(args[1]);
        int map = Integer.parseInt(args[2]);
        LogConfig config = new LogConfig(Map.of("cleanup.policy", "compact"));
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        double[] wall = new double[rounds];
        double[] cpu = new double[rounds];
        double[] all = new double[rounds];
        OperatingSystemMXBean process = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
        Path work = folder.resolveSibling("kafka-0");
        for (int round = -WARM; round < rounds; round++) {
            copy(folder, work);
            UnifiedLog log = UnifiedLog.create(work.toFile(), config, 0, 0, scheduler, new BrokerTopicStats(), Time.SYSTEM,
                900_000, new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), true,
                Optional.empty());
            log.updateHighWatermark(log.logEndOffset());
            // As a broker with one cleaner thread: half of log.cleaner.io.buffer.size for each direction.
            Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(map, "MD5"), 262_144, 1_048_588, 0.9,
                new Throttler(Double.MAX_VALUE, 60_000, "t", "e", Time.SYSTEM), Time.SYSTEM, partition -> { });
            LogToClean dirty = new LogToClean(log, 0, log.activeSegment().baseOffset(), false);
            long began = System.nanoTime();
            long usedByAll = process.getProcessCpuTime();
            long used = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
            long end = cleaner.clean(dirty).getKey();
            if (round >= 0) {
                wall[round] = (System.nanoTime() - began) / 1e6;
                all[round] = (process.getProcessCpuTime() - usedByAll) / 1e6;
                cpu[round] = (ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - used) / 1e6;
            }
            if (end != log.activeSegment().baseOffset()) {
                throw new IllegalStateException("compacted to " + end);
            }
            log.close();
        }
        Arrays.sort(wall);
        Arrays.sort(cpu);
        Arrays.sort(all);
        System.out.printf("kafka    %8.1f ms %8.1f ms  with its other threads %.1f ms%n", wall[rounds / 2], cpu[rounds / 2],
            all[rounds / 2]);
        System.exit(0);
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
