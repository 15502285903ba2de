package witness;

import com.fasterxml.jackson.databind.JsonNode;

import org.apache.kafka.storage.internals.log.UnifiedLog;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.GZIPOutputStream;

/**
 * Kafka's answers for a case, in the format of tests/golden: {@code CASE/LOGDIR/PARTITION} to
 * {@code CASE/expected/PARTITION}. {@code CASE/expected/case.json} stands there before, with the topics' settings.
 */
final class Expect {
    /** The year 2100 in milliseconds. */
    private static final long LATE = 4_102_444_800_000L;

    private Expect() { }

    static void write(Path home) throws Exception {
        JsonNode topics = Lines.JSON.readTree(home.resolve("expected/case.json").toFile()).path("topics");
        for (String logDir : AsTheyLie.names(home)) {
            Path dir = home.resolve(logDir);
            if (logDir.equals("expected") || !Files.isDirectory(dir)) continue;
            Files.write(home.resolve("expected").resolve(logDir + ".checkpoints.jsonl"), AsTheyLie.checkpoints(dir).utf8());
            for (String name : AsTheyLie.names(dir)) {
                Path folder = dir.resolve(name);
                if (!Files.isDirectory(folder)) continue;
                String kind = logDir.replaceFirst("-[0-9]+$", "");
                Path answers = home.resolve("expected").resolve(kind.equals("data") ? name : kind + "-" + name);
                Map<String, String> config = new HashMap<>();
                topics.path(UnifiedLog.parseTopicPartitionName(folder.toFile()).topic()).properties()
                    .forEach(e -> config.put(e.getKey(), e.getValue().asText()));
                config.keySet().retainAll(List.of("index.interval.bytes", "segment.index.bytes"));
                partition(folder, Files.createDirectories(answers), config);
            }
        }
    }

    private static void partition(Path folder, Path answers, Map<String, String> config) throws Exception {
        put(answers, "batches", AsTheyLie.batches(folder));
        put(answers, "records", AsTheyLie.records(folder));
        for (String name : AsTheyLie.names(folder))
            if (AsTheyLie.isIndex(name)) put(answers, "index." + name, AsTheyLie.index(folder.resolve(name)));
        try (Loaded log = new Loaded(folder, 0, config)) {
            put(answers, "load", log.summary());
            put(answers, "lookup-offset", log.byOffset());
            List<Long> times = log.times();
            put(answers, "lookup-time", log.byTime(times, true));
            if (!log.needsMtime) return;
            try (Loaded late = new Loaded(folder, LATE, config)) {
                put(answers, "lookup-time-late-mtime", late.byTime(times, false));
            }
        }
    }

    private static void put(Path answers, String name, Lines lines) throws IOException {
        try (OutputStream out = new GZIPOutputStream(Files.newOutputStream(answers.resolve(name + ".jsonl.gz")))) {
            out.write(lines.utf8());
        }
    }
}
