package witness;

import com.fasterxml.jackson.databind.JsonNode;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;

/** Random records through real producers: every codec, idempotent or not, in transactions that commit or abort. */
final class Writer implements AutoCloseable {
    private static final String[] CODECS = {"none", "gzip", "snappy", "lz4", "zstd"};
    private static final long FIRST_TIME = 1_700_000_000_000L;

    private final String bootstrap;
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
    private final Set<String> forgotten = ConcurrentHashMap.newKeySet();
    private final AtomicLong acknowledged = new AtomicLong();
    private volatile Exception failure;
    private volatile boolean running;
    private boolean isOpen;
    private Thread thread;

    Writer(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    private KafkaProducer<byte[], byte[]> producer(String name) {
        return producers.computeIfAbsent(name, n -> {
            Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "linger.ms", "60000",
                "batch.size", "1000000", "max.request.size", "4000000", "max.block.ms", "10000",
                "request.timeout.ms", "10000", "delivery.timeout.ms", "80000", "acks", "all"));
            // as long as a broker allows: it would end the transaction itself
            if (n.equals("txn-open")) config.put("transaction.timeout.ms", "900000");
            if (n.startsWith("txn")) config.put("transactional.id", n);
            else config.put("compression.type", n);
            if (n.equals("gzip")) config.put("enable.idempotence", "false");
            var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
            if (n.startsWith("txn")) producer.initTransactions();
            return producer;
        });
    }

    private static byte[] bytes(Random random, int most) {
        int size = random.nextInt(20) == 0 ? 0 : random.nextInt(40) == 0 ? most * 8 : random.nextInt(most);
        byte[] text = new byte[size];
        for (int i = 0; i < size; i++) text[i] = (byte) ('a' + random.nextInt(random.nextInt(3) == 0 ? 26 : 3));
        return text;
    }

    private ProducerRecord<byte[], byte[]> record(String topic, int partition, Random random, boolean keyed, long stamp) {
        List<Header> headers = new ArrayList<>();
        for (int i = random.nextInt(3) == 0 ? random.nextInt(4) : 0; i > 0; i--)
            headers.add(new RecordHeader("h" + random.nextInt(2), random.nextInt(4) == 0 ? null : bytes(random, 12)));
        byte[] key = keyed ? ("k" + random.nextInt(40)).getBytes(StandardCharsets.US_ASCII)
            : random.nextInt(8) == 0 ? null : bytes(random, 20);
        byte[] value = random.nextInt(10) == 0 ? null : bytes(random, 150);
        return new ProducerRecord<>(topic, partition, stamp, key, value, headers);
    }

    /** Sends one batch and waits until it is acknowledged. */
    private void batch(KafkaProducer<byte[], byte[]> producer, String topic, int partition, Random random, boolean keyed, long n) {
        int count = random.nextInt(4) == 0 ? 1 : 1 + random.nextInt(40);
        for (int i = 0; i < count; i++) {
            long stamp = FIRST_TIME + n * 50 + random.nextInt(random.nextInt(5) == 0 ? 4000 : 40);
            producer.send(record(topic, partition, random, keyed, stamp), (metadata, e) -> {
                if (e == null) acknowledged.incrementAndGet();
                else if (!forgotten.contains(topic)) failure = e;
            });
        }
        producer.flush();
    }

    /** One batch or one transaction. Nobody else writes meanwhile: a transactional producer is in one transaction at a time. */
    private synchronized void step(String topic, int partitions, Random random, boolean keyed, boolean transactions, long n) {
        int partition = random.nextInt(partitions);
        if (!transactions || random.nextInt(4) != 0) {
            batch(producer(CODECS[random.nextInt(CODECS.length)]), topic, partition, random, keyed, n);
            return;
        }
        KafkaProducer<byte[], byte[]> producer = producer("txn-" + random.nextInt(2));
        producer.beginTransaction();
        for (int i = random.nextInt(3); i >= 0; i--) batch(producer, topic, partition, random, keyed, n);
        if (random.nextInt(3) == 0) producer.abortTransaction();
        else producer.commitTransaction();
    }

    private void check() throws Exception {
        if (failure != null) throw failure;
    }

    /** Writes so many batches or transactions and returns the count of records acknowledged. */
    long write(String topic, int partitions, long seed, int batches, boolean keyed) throws Exception {
        Random random = new Random(seed);
        acknowledged.set(0);
        for (int i = 0; i < batches; i++) step(topic, partitions, random, keyed, true, i);
        check();
        return acknowledged.get();
    }

    /** Sends these records as one batch and gives the offsets the broker acknowledged. */
    List<Long> produce(TopicPartition tp, String codec, JsonNode records) throws Exception {
        KafkaProducer<byte[], byte[]> producer = producer(codec);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode r : records) {
            List<Header> headers = new ArrayList<>();
            for (JsonNode h : r.path("headers")) headers.add(new RecordHeader(h.get(0).asText(), Lines.bytes(h.get(1))));
            sent.add(producer.send(new ProducerRecord<>(tp.topic(), tp.partition(), r.path("timestamp").asLong(),
                Lines.bytes(r.path("key")), Lines.bytes(r.path("value")), headers)));
        }
        producer.flush();
        List<Long> offsets = new ArrayList<>();
        for (Future<RecordMetadata> each : sent) offsets.add(each.get().offset());
        return offsets;
    }

    /** Leaves a transaction open behind one batch; another one is of the same transaction. */
    long leaveOpen(String topic, int partition) throws Exception {
        KafkaProducer<byte[], byte[]> producer = producer("txn-open");
        if (!isOpen) producer.beginTransaction();
        isOpen = true;
        batch(producer, topic, partition, new Random(1), true, 0);
        check();
        return acknowledged.get();
    }

    /** Writes to all topics until told to stop or forget them. */
    void start(List<String> topics, int partitions, long seed, boolean transactions) {
        running = true;
        acknowledged.set(0);
        thread = new Thread(() -> {
            Random random = new Random(seed);
            for (long n = 0; running; n++) {
                String topic = topics.get(random.nextInt(topics.size()));
                if (forgotten.contains(topic)) continue;
                try {
                    step(topic, partitions, random, true, transactions, n);
                } catch (KafkaException e) {
                    if (!forgotten.contains(topic)) {
                        failure = e;
                        return;
                    }
                    producers.values().forEach(p -> p.close(Duration.ZERO));
                    producers.clear();
                }
            }
        }, "writer");
        thread.start();
    }

    long stop() throws Exception {
        running = false;
        thread.join();
        check();
        return acknowledged.get();
    }

    void forget(String topic) {
        forgotten.add(topic);
    }

    @Override
    public void close() {
        running = false;
        producers.values().forEach(p -> p.close(Duration.ZERO));
    }
}
