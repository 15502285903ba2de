package witness;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.MappingIterator;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.dataformat.yaml.YAMLFactory;
import io.strimzi.api.kafka.model.common.UnknownPropertyPreserving;
import io.strimzi.api.kafka.model.topic.KafkaTopic;
import io.strimzi.api.kafka.model.user.KafkaUser;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.Collection;

/**
 * Reads the YAML documents of standard input with the classes of the Strimzi operators, and prints what these have of
 * each as a line of JSON. A property that they do not know is an error; a word that they do not know becomes null.
 */
final class ReadResources {
    private ReadResources() {}

    public static void main(String[] args) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        try (MappingIterator<JsonNode> documents =
                new ObjectMapper().readerFor(JsonNode.class).with(new YAMLFactory()).readValues(System.in)) {
            while (documents.hasNext()) {
                JsonNode document = documents.next();
                Class<?> kind = document.get("kind").asText().equals("KafkaTopic") ? KafkaTopic.class : KafkaUser.class;
                Object resource = mapper.treeToValue(document, kind);
                refuseUnknown(resource, kind.getSimpleName());
                System.out.println(mapper.writeValueAsString(resource));
            }
        }
    }

    /** The classes keep what they do not know. */
    private static void refuseUnknown(Object value, String place) throws IllegalAccessException {
        if (value instanceof Collection<?> values) {
            for (Object each : values) {
                refuseUnknown(each, place);
            }
        } else if (value instanceof UnknownPropertyPreserving known) {
            if (known.getAdditionalProperties() != null && !known.getAdditionalProperties().isEmpty()) {
                throw new IllegalArgumentException(place + " does not have " + known.getAdditionalProperties());
            }
            for (Class<?> type = value.getClass();
                    type != null && type.getName().startsWith("io.strimzi");
                    type = type.getSuperclass()) {
                for (Field field : type.getDeclaredFields()) {
                    if (!Modifier.isStatic(field.getModifiers())) {
                        field.setAccessible(true);
                        refuseUnknown(field.get(value), place + "." + field.getName());
                    }
                }
            }
            if (value instanceof KafkaTopic topic) {
                refuseUnknown(topic.getSpec(), place + ".spec");
            } else if (value instanceof KafkaUser user) {
                refuseUnknown(user.getSpec(), place + ".spec");
            }
        }
    }
}
