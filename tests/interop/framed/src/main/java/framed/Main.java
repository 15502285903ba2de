package framed;

import com.amazonaws.services.schemaregistry.serializers.GlueSchemaRegistrySerializationFacade;
import com.amazonaws.services.schemaregistry.common.configs.GlueSchemaRegistryConfiguration;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.apicurio.registry.resolver.ParsedSchemaImpl;
import io.apicurio.registry.resolver.SchemaLookupResult;
import io.apicurio.registry.resolver.SchemaParser;
import io.apicurio.registry.resolver.SchemaResolver;
import io.apicurio.registry.resolver.data.Record;
import io.apicurio.registry.resolver.strategy.ArtifactReference;
import io.apicurio.registry.resolver.strategy.ArtifactReferenceResolverStrategy;
import io.apicurio.registry.rest.client.RegistryClient;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import software.amazon.awssdk.auth.credentials.AnonymousCredentialsProvider;
import software.amazon.awssdk.services.glue.model.DataFormat;

/** Prints values as the serializers of Apicurio and AWS Glue frame them, one JSON object a line; no registry runs. */
public final class Main {
    static final String TEXT = "{\"type\":\"record\",\"name\":\"Order\",\"fields\":[{\"name\":\"id\",\"type\":\"long\"},"
            + "{\"name\":\"name\",\"type\":\"string\"},{\"name\":\"amount\",\"type\":[\"null\",\"double\"]}]}";
    static final Schema SCHEMA = new Schema.Parser().parse(TEXT);
    static final long GLOBAL_ID = 0x1_0000_0007L;
    static final long CONTENT_ID = 11;
    static final UUID GLUE_VERSION = UUID.fromString("b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63");
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        String handlers = "io.apicurio.registry.serde.";
        apicurio("apicurio-4", Map.of("apicurio.registry.headers.enabled", "false",
                "apicurio.registry.id-handler", handlers + "Legacy4ByteIdHandler",
                "apicurio.registry.use-id", "contentId"));
        apicurio("apicurio-8", Map.of("apicurio.registry.headers.enabled", "false",
                "apicurio.registry.id-handler", handlers + "DefaultIdHandler",
                "apicurio.registry.use-id", "globalId"));
        apicurio("apicurio-headers", Map.of("apicurio.registry.headers.enabled", "true",
                "apicurio.registry.use-id", "globalId"));
        apicurio("apicurio-headers-content", Map.of("apicurio.registry.headers.enabled", "true",
                "apicurio.registry.use-id", "contentId"));
        glue("glue-none", "NONE");
        glue("glue-zlib", "ZLIB");
    }

    private static void apicurio(String name, Map<String, ?> settings) throws Exception {
        try (AvroKafkaSerializer<GenericRecord> serializer = new AvroKafkaSerializer<>(new Known())) {
            serializer.configure(new HashMap<>(settings), false);
            for (GenericRecord order : orders()) {
                RecordHeaders headers = new RecordHeaders();
                byte[] value = serializer.serialize("orders", headers, order);
                print(name, settings.get("apicurio.registry.use-id").equals("globalId") ? GLOBAL_ID : CONTENT_ID,
                        value, headers, order);
            }
        }
    }

    private static void glue(String name, String compression) throws Exception {
        Map<String, Object> settings = new HashMap<>(Map.of("region", "eu-central-1", "compression", compression));
        GlueSchemaRegistrySerializationFacade facade = GlueSchemaRegistrySerializationFacade.builder()
                .credentialProvider(AnonymousCredentialsProvider.create())
                .glueSchemaRegistryConfiguration(new GlueSchemaRegistryConfiguration(settings))
                .build();
        for (GenericRecord order : orders()) {
            byte[] value = facade.serialize(DataFormat.AVRO, order, GLUE_VERSION);
            print(name, GLUE_VERSION.toString(), value, new RecordHeaders(), order);
        }
    }

    private static List<GenericRecord> orders() {
        List<GenericRecord> orders = new ArrayList<>();
        for (int n = 0; n < 3; n++) {
            GenericRecord order = new GenericData.Record(SCHEMA);
            order.put("id", n * 1_000_000_007L);
            order.put("name", "order ".repeat(n * 20) + n);
            order.put("amount", n == 1 ? null : n + 0.25);
            orders.add(order);
        }
        return orders;
    }

    private static void print(String name, Object id, byte[] value, RecordHeaders headers, GenericRecord order)
            throws Exception {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("case", name);
        line.put("id", id);
        line.put("schema", TEXT);
        line.put("value", Base64.getEncoder().encodeToString(value));
        List<List<String>> listed = new ArrayList<>();
        for (Header header : headers) {
            listed.add(List.of(header.key(), Base64.getEncoder().encodeToString(header.value())));
        }
        line.put("headers", listed);
        Map<String, Object> fields = new LinkedHashMap<>();
        for (Schema.Field field : SCHEMA.getFields()) {
            fields.put(field.name(), order.get(field.pos()));
        }
        line.put("order", fields);
        System.out.println(JSON.writeValueAsString(line));
    }

    /** Knows one schema, and asks no registry. */
    private static final class Known implements SchemaResolver<Schema, GenericRecord> {
        private SchemaParser<Schema, GenericRecord> parser;

        @Override
        public void configure(Map<String, ?> settings, SchemaParser<Schema, GenericRecord> given) {
            parser = given;
        }

        @Override
        public void setClient(RegistryClient client) {
        }

        @Override
        public void setArtifactResolverStrategy(ArtifactReferenceResolverStrategy<Schema, GenericRecord> strategy) {
        }

        @Override
        public SchemaParser<Schema, GenericRecord> getSchemaParser() {
            return parser;
        }

        @Override
        public SchemaLookupResult<Schema> resolveSchema(Record<GenericRecord> data) {
            return SchemaLookupResult.<Schema>builder()
                    .parsedSchema(new ParsedSchemaImpl<Schema>().setParsedSchema(SCHEMA)
                            .setRawSchema(TEXT.getBytes(StandardCharsets.UTF_8)))
                    .globalId(GLOBAL_ID).contentId(CONTENT_ID).groupId("default").artifactId("orders-value").version("1")
                    .build();
        }

        @Override
        public SchemaLookupResult<Schema> resolveSchemaByArtifactReference(ArtifactReference reference) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void reset() {
        }

        @Override
        public void close() {
        }
    }
}
