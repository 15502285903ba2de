package witness;

import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;

/** One pass over files with Kafka's FileRecords for every line on standard input, checksums verified: a leg of the benches. */
final class Pass {
    private Pass() { }

    private static long copied(ByteBuffer bytes) {
        if (bytes == null) return 0;
        byte[] own = new byte[bytes.remaining()];
        bytes.get(own);
        return own.length == 0 ? 0 : own[own.length - 1];
    }

    /** {@code mode}: "copy" takes key and value as arrays of their own, as a consumer does; "sizes" only looks. */
    static void serve(String mode, List<String> files) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("{\"ready\": true}");
        long seen = 0;
        while (in.readLine() != null) {
            long start = System.nanoTime();
            long records = 0;
            long bytes = 0;
            BufferSupplier buffers = BufferSupplier.create();
            for (String file : files) {
                try (FileRecords log = FileRecords.open(new File(file), false)) {
                    for (RecordBatch batch : log.batches()) {
                        batch.ensureValid();
                        try (CloseableIterator<Record> each = batch.streamingIterator(buffers)) {
                            while (each.hasNext()) {
                                Record r = each.next();
                                records++;
                                bytes += Math.max(0, r.valueSize());
                                seen += r.offset() ^ r.timestamp();
                                if (mode.equals("copy")) seen += copied(r.key()) + copied(r.value());
                            }
                        }
                    }
                }
            }
            buffers.close();
            double seconds = (System.nanoTime() - start) / 1e9;
            System.out.println(Lines.JSON.writeValueAsString(
                Map.of("records", records, "value_bytes", bytes, "seconds", seconds, "seen", seen)));
        }
    }
}
