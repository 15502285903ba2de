package witness;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;

import java.nio.file.Files;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;

/** A member of a streams group (KIP-1071) that reads a topic until it is killed. */
final class Streams {
    private Streams() { }

    static void run(String bootstrap, String topic, String group) throws Exception {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, group);
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        config.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "200");
        config.put(StreamsConfig.STATE_DIR_CONFIG, Files.createTempDirectory("streams").toString());
        config.put("auto.offset.reset", "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(topic, Consumed.with(Serdes.ByteArray(), Serdes.ByteArray())).foreach((key, value) -> { });
        try (KafkaStreams streams = new KafkaStreams(builder.build(), config)) {
            streams.start();
            new CountDownLatch(1).await();
        }
    }
}
