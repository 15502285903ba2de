import java.io.File;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.StandardOpenOption;

/**
 * Takes a log dir's lock as a broker does (Kafka's FileLock: tryLock on a channel), says so, and keeps it until a line
 * comes in. Usage: java HoldLock.java LOG_DIR. Prints "held" or "refused".
 */
public class HoldLock {
    public static void main(String[] args) throws Exception {
        File file = new File(args[0], ".lock");
        try (FileChannel channel = FileChannel.open(file.toPath(), StandardOpenOption.CREATE,
                StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            FileLock lock = channel.tryLock();
            System.out.println(lock == null ? "refused" : "held");
            if (lock != null) {
                System.in.read();
                lock.release();
                file.delete();
            }
        }
    }
}
