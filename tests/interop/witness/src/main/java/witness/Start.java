package witness;

import kafka.log.LogManager;
import kafka.server.KafkaConfig;

import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;

import scala.jdk.javaapi.CollectionConverters;

/** Loads log dirs as a starting broker does, each on its own, and says what comes of it. The log dirs are changed. */
final class Start {
    private Start() { }

    static void run(List<String> logDirs) throws Exception {
        for (String logDir : logDirs) System.out.println(Lines.JSON.writeValueAsString(started(logDir)));
    }

    private static Map<String, Object> started(String logDir) throws Exception {
        Map<String, String> settings = Map.of("process.roles", "broker", "node.id", "1", "log.dirs", logDir,
            "controller.listener.names", "CONTROLLER", "controller.quorum.voters", "2@127.0.0.1:1",
            "listeners", "PLAINTEXT://127.0.0.1:0", "log.cleaner.enable", "false");
        KafkaConfig config = new KafkaConfig(settings, false);
        LogDirFailureChannel failures = new LogDirFailureChannel(1);
        scala.collection.immutable.Seq<String> none = CollectionConverters.asScala(List.<String>of()).toSeq();
        LogManager logs = LogManager.apply(config, none, resource -> new Properties(), Loaded.idle(), Time.SYSTEM,
            new BrokerTopicStats(), failures);
        Map<String, Object> ends = new TreeMap<>();
        Map<String, Object> epochs = new TreeMap<>();
        try {
            logs.loadLogs(logs.currentDefaultConfig(), scala.collection.immutable.Map$.MODULE$.empty(), log -> false);
            for (UnifiedLog log : CollectionConverters.asJava(logs.allLogs())) {
                ends.put(log.dir().getName(), List.of(log.logStartOffset(), log.logEndOffset()));
                epochs.put(log.dir().getName(), log.leaderEpochCache().epochEntries().stream()
                    .map(entry -> List.of(entry.epoch(), entry.startOffset())).toList());
                log.closeHandlers();
            }
        } catch (Exception | Error refused) {
            return Lines.row("starts", false, "why", refused.toString());
        } finally {
            for (var lock : CollectionConverters.asJava(logs.dirLocks())) lock.destroy();
        }
        // ReplicaManager takes it offline; a broker without any other log dir ends.
        return Lines.row("starts", !failures.hasOfflineLogDir(logDir), "logs", ends, "epochs", epochs);
    }
}
