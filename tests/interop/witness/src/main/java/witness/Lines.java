package witness;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** JSON lines: rows are maps in the order in which their fields were put. */
final class Lines {
    static final ObjectMapper JSON = new ObjectMapper();

    private final List<Map<String, Object>> rows = new ArrayList<>();

    /** Adds a row from names and values in turn. */
    Lines add(Object... namesAndValues) {
        rows.add(row(namesAndValues));
        return this;
    }

    Lines add(Map<String, Object> row) {
        rows.add(row);
        return this;
    }

    static Map<String, Object> row(Object... namesAndValues) {
        Map<String, Object> row = new LinkedHashMap<>();
        for (int i = 0; i < namesAndValues.length; i += 2) row.put((String) namesAndValues[i], namesAndValues[i + 1]);
        return row;
    }

    /** Base64, null for null. */
    static String text(ByteBuffer bytes) {
        if (bytes == null) return null;
        byte[] copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        return text(copy);
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    /** Base64 back to bytes. */
    static byte[] bytes(JsonNode text) {
        return text.isNull() || text.isMissingNode() ? null : Base64.getDecoder().decode(text.asText());
    }

    byte[] utf8() throws IOException {
        StringBuilder all = new StringBuilder();
        for (Map<String, Object> row : rows) all.append(JSON.writeValueAsString(row)).append('\n');
        return all.toString().getBytes(java.nio.charset.StandardCharsets.UTF_8);
    }
}
