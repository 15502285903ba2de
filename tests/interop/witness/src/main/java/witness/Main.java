package witness;

import org.apache.kafka.common.KafkaException;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.tools.DumpLogSegments;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;

/**
 * Entry point: {@code expect CASE...}, {@code fill BOOTSTRAP ...}, {@code pass MODE FILE...},
 * {@code append MODE FOLDER ...}, {@code records PARTITION_FOLDER...}, {@code dump FILE...}, {@code settings},
 * {@code stream BOOTSTRAP TOPIC GROUP}, {@code take NAME=VALUE...}, {@code apply BASE64_OF_RECORD...},
 * {@code start LOG_DIR...}, {@code tools}.
 */
public final class Main {
    private Main() { }

    /** Runs one command. */
    public static void main(String[] args) throws Exception {
        String command = args.length == 0 ? "" : args[0];
        String[] rest = args.length == 0 ? args : Arrays.copyOfRange(args, 1, args.length);
        switch (command) {
            case "expect" -> {
                for (String each : rest) Expect.write(Path.of(each));
            }
            case "fill" -> Fill.run(rest[0], rest[1], Integer.parseInt(rest[2]), Long.parseLong(rest[3]),
                Integer.parseInt(rest[4]), Integer.parseInt(rest[5]), rest[6]);
            case "pass" -> Pass.serve(rest[0], Arrays.asList(rest).subList(1, rest.length));
            case "append" -> Append.serve(rest[0], Path.of(rest[1]), Integer.parseInt(rest[2]), Integer.parseInt(rest[3]),
                Integer.parseInt(rest[4]));
            case "records" -> {
                for (String folder : rest) {
                    System.out.println(Lines.JSON.writeValueAsString(Map.of("folder", folder)));
                    System.out.write(AsTheyLie.batches(Path.of(folder)).utf8());
                    System.out.write(AsTheyLie.records(Path.of(folder)).utf8());
                }
            }
            case "dump" -> {
                for (String file : rest) {
                    try {
                        DumpLogSegments.main(new String[] {"--files", file, "--deep-iteration"});
                    } catch (Exception | Error e) {
                        System.out.println("The tool ended: " + e);
                    }
                }
            }
            case "stream" -> Streams.run(rest[0], rest[1], rest[2]);
            case "settings" -> System.out.println(Lines.JSON.writeValueAsString(settings()));
            case "start" -> Start.run(Arrays.asList(rest));
            case "tools" -> Tools.serve();
            case "apply" -> Apply.run(Arrays.asList(rest));
            case "take" -> {
                for (String each : rest) System.out.println(takes(each));
            }
            default -> {
                System.err.println("usage: expect CASE... | settings | take NAME=VALUE..."
                    + " | fill BOOTSTRAP TOPIC PARTITIONS RECORDS VALUE_BYTES BATCH CODEC | pass MODE FILE..."
                    + " | append MODE FOLDER RECORDS VALUE_BYTES BATCH_BYTES | records PARTITION_FOLDER... | dump FILE..."
                    + " | stream BOOTSTRAP TOPIC GROUP | apply BASE64_OF_RECORD... | start LOG_DIR... | tools");
                System.exit(2);
            }
        }
    }

    /** A topic's settings and their defaults. */
    private static Map<String, Object> settings() {
        Map<String, Object> defaults = new TreeMap<>();
        LogConfig.configKeys().forEach((name, key) -> {
            if (!key.internalConfig) defaults.put(name, key.defaultValue);
        });
        return defaults;
    }

    /** Whether a topic may be given this setting. */
    private static boolean takes(String setting) {
        String[] parts = setting.split("=", 2);
        try {
            LogConfig.validate(Map.of(parts[0], parts[1]));
            return true;
        } catch (KafkaException refused) {
            return false;
        }
    }
}
