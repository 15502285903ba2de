import com.sun.management.OperatingSystemMXBean;
import java.io.File;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/** Kafka's LogSegment.recover over the first segment of a partition folder: java -cp JARS RecoverSegment.java FOLDER ROUNDS. */
public class RecoverSegment {
    private static final int WARM = 20;

    public static void main(String[] args) throws Exception {
        File folder = new File(args[0]);
        int rounds = Integer.parseInt(args[1]);
        TopicPartition partition = new TopicPartition("bench", 0);
        LogConfig config = new LogConfig(Map.of());
        LogDirFailureChannel failures = new LogDirFailureChannel(1);
        double[] wall = new double[rounds];
        double[] cpu = new double[rounds];
        double[] all = new double[rounds];
        OperatingSystemMXBean process = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
        for (int round = -WARM; round < rounds; round++) {
            LeaderEpochFileCache epochs = new LeaderEpochFileCache(partition,
                new LeaderEpochCheckpointFile(LeaderEpochCheckpointFile.newFile(folder), failures), new KafkaScheduler(1));
            epochs.clearAndFlush();
            // Known before the clock runs, so that no checkpoint is brought to the disk while it does.
            epochs.assign(0, 0);
            ProducerStateManager producers = new ProducerStateManager(partition, folder, 900_000,
                new ProducerStateManagerConfig(86_400_000, false), Time.SYSTEM);
            LogSegment segment = LogSegment.open(folder, 0, config, Time.SYSTEM, true, 0, false, "");
            long began = System.nanoTime();
            long usedByAll = process.getProcessCpuTime();
            long used = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
            int cut = segment.recover(producers, epochs);
            if (round >= 0) {
                wall[round] = (System.nanoTime() - began) / 1e6;
                all[round] = (process.getProcessCpuTime() - usedByAll) / 1e6;
                cpu[round] = (ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - used) / 1e6;
            }
            if (cut != 0) {
                throw new IllegalStateException(cut + " bytes cut");
            }
            segment.close();
        }
        Arrays.sort(wall);
        Arrays.sort(cpu);
        Arrays.sort(all);
        System.out.printf("kafka    %8.1f ms %8.1f ms  with its other threads %.1f ms%n", wall[rounds / 2], cpu[rounds / 2],
            all[rounds / 2]);
        System.exit(0);
    }
}
