package witness;

import com.fasterxml.jackson.databind.JsonNode;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * A client of the broker for the tests: one JSON object a line ({@code {"do": ...}}), one answer a line ({@code {"ok":
 * ...}} or {@code {"error": ...}}).
 */
final class Drive implements AutoCloseable {
    private final String bootstrap;
    private final Admin admin;
    private final Writer writer;

    private Drive(String bootstrap) {
        this.bootstrap = bootstrap;
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "default.api.timeout.ms", "60000",
            "reconnect.backoff.max.ms", "200"));
        writer = new Writer(bootstrap);
    }

    /** Answers until the input ends, and closes what it opened. */
    static void serve(String bootstrap, BufferedReader in, PrintStream out) throws IOException {
        try (Drive drive = new Drive(bootstrap)) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                Map<String, Object> answer;
                try {
                    answer = Lines.row("ok", drive.answer(Lines.JSON.readTree(line)));
                } catch (Exception e) {
                    answer = Lines.row("error", e.toString());
                }
                out.println(Lines.JSON.writeValueAsString(answer));
            }
        }
    }

    private static Map<String, String> strings(JsonNode node) {
        Map<String, String> all = new HashMap<>();
        node.properties().forEach(e -> all.put(e.getKey(), e.getValue().asText()));
        return all;
    }

    private Object answer(JsonNode ask) throws Exception {
        String topic = ask.path("topic").asText();
        TopicPartition tp = new TopicPartition(topic, ask.path("partition").asInt());
        switch (ask.path("do").asText()) {
            case "ready":
                return admin.describeCluster().nodes().get().size();
            case "create":
                admin.createTopics(List.of(new NewTopic(topic, Optional.of(ask.path("partitions").asInt(1)),
                    Optional.of((short) 1)).configs(strings(ask.path("config"))))).all().get();
                return null;
            case "alter":
                List<AlterConfigOp> changes = new ArrayList<>();
                strings(ask.path("config")).forEach((k, v) ->
                    changes.add(new AlterConfigOp(new ConfigEntry(k, v), AlterConfigOp.OpType.SET)));
                admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.TOPIC, topic), changes)).all().get();
                return null;
            case "delete":
                writer.forget(topic);
                admin.deleteTopics(List.of(topic)).all().get();
                return null;
            case "trim":
                return admin.deleteRecords(Map.of(tp, RecordsToDelete.beforeOffset(ask.path("before").asLong())))
                    .lowWatermarks().get(tp).get().lowWatermark();
            case "write":
                return writer.write(topic, ask.path("partitions").asInt(1), ask.path("seed").asLong(), ask.path("batches").asInt(),
                    ask.path("keyed").asBoolean());
            case "leave-open":
                return writer.leaveOpen(topic, tp.partition());
            case "send-offsets":
                sendOffsets(ask.path("id").asText(), ask.path("group").asText(), tp, ask.path("offset").asLong(),
                    ask.path("end").asText());
                return null;
            case "produce":
                return writer.produce(tp, ask.path("codec").asText("none"), ask.path("records"));
            case "state":
                return state();
            case "topic-id":
                return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).topicId().toString();
            case "start":
                List<String> topics = new ArrayList<>();
                ask.path("topics").forEach(t -> topics.add(t.asText()));
                writer.start(topics, ask.path("partitions").asInt(1), ask.path("seed").asLong(),
                    ask.path("transactions").asBoolean(true));
                return null;
            case "stop":
                return writer.stop();
            case "consume":
                return consume(tp, ask.path("isolation").asText("read_uncommitted"), Path.of(ask.path("file").asText()));
            case "list":
                return list(tp, ask.path("timestamps"));
            default:
                throw new IllegalArgumentException(ask.toString());
        }
    }

    /** What the metadata says of topics, their settings, ACLs, users and quotas. */
    private Map<String, Object> state() throws Exception {
        Map<String, Object> configs = new TreeMap<>();
        List<ConfigResource> topics = admin.listTopics().names().get().stream()
            .map(name -> new ConfigResource(ConfigResource.Type.TOPIC, name)).toList();
        for (var each : admin.describeConfigs(topics).all().get().entrySet()) {
            Map<String, String> own = new TreeMap<>();
            for (ConfigEntry entry : each.getValue().entries()) {
                if (entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG) own.put(entry.name(), entry.value());
            }
            configs.put(each.getKey().name(), own);
        }
        Map<String, String> ids = new TreeMap<>();
        admin.describeTopics(configs.keySet()).allTopicNames().get().forEach((name, each) -> ids.put(name, each.topicId().toString()));
        List<List<Object>> acls = new ArrayList<>();
        for (AclBinding each : admin.describeAcls(AclBindingFilter.ANY).values().get()) {
            acls.add(List.of((int) each.pattern().resourceType().code(), each.pattern().name(),
                (int) each.pattern().patternType().code(), each.entry().principal(), each.entry().host(),
                (int) each.entry().operation().code(), (int) each.entry().permissionType().code()));
        }
        List<Object> quotas = new ArrayList<>();
        admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get()
            .forEach((entity, values) -> quotas.add(Lines.row("entity", entity.entries(), "values", values)));
        return Lines.row("configs", configs, "ids", ids, "acls", acls, "quotas", quotas,
            "users", new TreeSet<>(admin.describeUserScramCredentials().users().get()));
    }

    /** Everything from the beginning, as JSON lines: what a real consumer gets. */
    private Object consume(TopicPartition tp, String isolation, Path file) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "isolation.level", isolation,
            "enable.auto.commit", "false", "auto.offset.reset", "earliest");
        Lines out = new Lines();
        long count = 0;
        try (var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(tp));
            consumer.seekToBeginning(List.of(tp));
            long end = consumer.endOffsets(List.of(tp)).get(tp);
            while (consumer.position(tp) < end) {
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(500)).records(tp)) {
                    List<List<String>> headers = new ArrayList<>();
                    for (Header h : r.headers()) headers.add(Arrays.asList(h.key(), Lines.text(h.value())));
                    out.add("offset", r.offset(), "timestamp", r.timestamp(), "timestamp_type", r.timestampType().name,
                        "key", Lines.text(r.key()), "value", Lines.text(r.value()), "headers", headers,
                        "leader_epoch", r.leaderEpoch().orElse(-1));
                    count++;
                }
            }
        }
        Files.write(file, out.utf8());
        return count;
    }

    /** Commits an offset in a transaction of its own, and ends that with "commit" or "abort", or leaves it "open". */
    private void sendOffsets(String id, String group, TopicPartition tp, long offset, String end) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "transactional.id", id,
            "transaction.timeout.ms", "600000");
        var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        producer.beginTransaction();
        producer.sendOffsetsToTransaction(Map.of(tp, new OffsetAndMetadata(offset)), new ConsumerGroupMetadata(group));
        switch (end) {
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            default -> { }
        }
        // Without time to do so it does not end the transaction.
        producer.close(Duration.ZERO);
    }

    /** ListOffsets, asked of the broker: -1 latest, -2 earliest, -3 the greatest timestamp, or a time. */
    private Object list(TopicPartition tp, JsonNode timestamps) throws Exception {
        List<Object> found = new ArrayList<>();
        for (JsonNode each : timestamps) {
            long t = each.asLong();
            OffsetSpec spec = t == -1 ? OffsetSpec.latest() : t == -2 ? OffsetSpec.earliest()
                : t == -3 ? OffsetSpec.maxTimestamp() : OffsetSpec.forTimestamp(t);
            var answer = admin.listOffsets(Map.of(tp, spec)).partitionResult(tp).get();
            found.add(Arrays.asList(answer.offset(), answer.timestamp(), answer.leaderEpoch().orElse(-1)));
        }
        return found;
    }

    @Override
    public void close() {
        writer.close();
        admin.close(Duration.ofSeconds(1));
    }
}
