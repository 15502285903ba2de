package witness;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;

/** Fills a topic for the benches: 8-byte keys, values of one size, batches of about one number of records. */
final class Fill {
    private static final String WORDS = "order invoice shipped payment customer region amount currency status session ";

    private Fill() { }

    static void run(String bootstrap, String topic, int partitions, long records, int valueBytes, int batch, String codec)
            throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(topic, Optional.of(partitions), Optional.of((short) 1))
                .configs(Map.of("internal.segment.bytes", Integer.toString(16 << 20))))).all().get();
        }
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "acks", "all", "linger.ms", "60000",
            "batch.size", Integer.toString(64 << 20), "buffer.memory", Long.toString(256L << 20),
            "max.request.size", Integer.toString(64 << 20), "compression.type", codec);
        Random random = new Random(valueBytes * 31L + batch);
        byte[] words = WORDS.repeat(valueBytes / WORDS.length() + 2).getBytes(StandardCharsets.US_ASCII);
        try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            long stamp = 1_700_000_000_000L;
            for (long i = 0; i < records; i++) {
                byte[] value = new byte[valueBytes];
                System.arraycopy(words, random.nextInt(WORDS.length()), value, 0, valueBytes);
                byte[] tail = Long.toHexString(random.nextLong()).getBytes(StandardCharsets.US_ASCII);
                System.arraycopy(tail, 0, value, 0, Math.min(tail.length, valueBytes));
                stamp += random.nextInt(3);
                int partition = (int) (i / batch % partitions);
                producer.send(new ProducerRecord<>(topic, partition, stamp, ByteBuffer.allocate(8).putLong(i).array(), value));
                // A batch is sent when every partition has had its turn.
                if ((i + 1) % ((long) batch * partitions) == 0) producer.flush();
            }
        }
    }
}
