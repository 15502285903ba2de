package witness;

import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.metadata.MetadataRecordSerde;

import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.List;

/** Applies records of a metadata log one after the other, as a broker does, and says which it refuses. */
final class Apply {
    private Apply() { }

    static void run(List<String> values) {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        for (String value : values) {
            byte[] bytes = Base64.getDecoder().decode(value);
            try {
                var record = MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(ByteBuffer.wrap(bytes)), bytes.length);
                delta.replay(record.message());
                System.out.println("applied");
            } catch (RuntimeException refused) {
                System.out.println("refused: " + refused);
            }
        }
    }
}
