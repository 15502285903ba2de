package witness;

import java.nio.file.Path;
import java.util.Arrays;

/** Entry point: {@code expect CASE...}, {@code drive BOOTSTRAP}, {@code fill BOOTSTRAP ...}, {@code pass MODE FILE...}. */
public final class Main {
    private Main() { }

    /** Runs one command. */
    public static void main(String[] args) throws Exception {
        String command = args.length == 0 ? "" : args[0];
        String[] rest = args.length == 0 ? args : Arrays.copyOfRange(args, 1, args.length);
        switch (command) {
            case "expect" -> {
                for (String each : rest) Expect.write(Path.of(each));
            }
            case "drive" -> Drive.serve(rest[0]);
            case "fill" -> Fill.run(rest[0], rest[1], Integer.parseInt(rest[2]), Long.parseLong(rest[3]),
                Integer.parseInt(rest[4]), Integer.parseInt(rest[5]), rest[6]);
            case "pass" -> Pass.serve(rest[0], Arrays.asList(rest).subList(1, rest.length));
            default -> {
                System.err.println("usage: expect CASE... | drive BOOTSTRAP"
                    + " | fill BOOTSTRAP TOPIC PARTITIONS RECORDS VALUE_BYTES BATCH CODEC | pass MODE FILE...");
                System.exit(2);
            }
        }
    }
}
