package witness;

import com.fasterxml.jackson.databind.JsonNode;

import org.apache.kafka.common.utils.Exit;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.locks.LockSupport;

/**
 * Kafka's command line tools, and clients of brokers, in one JVM for all tests of a process. The first JSON line of a
 * connection is {@code {"main": CLASS, "words": [...]}}, which gets {@code {"code": N, "out": TEXT, "err": TEXT}}, or
 * {@code {"drive": BOOTSTRAP}}, whose next lines {@link Drive} answers.
 *
 * <p>A tool runs as its {@code main}, in a thread of its own; one that exits stops there for good, as in a JVM that ends.
 */
final class Tools {
    /** A standard stream whose target changes; Scala and Log4j keep the one that they find first. */
    private static final class Target extends OutputStream {
        private ByteArrayOutputStream now = new ByteArrayOutputStream();

        @Override
        public synchronized void write(int b) {
            now.write(b);
        }

        @Override
        public synchronized void write(byte[] bytes, int start, int length) {
            now.write(bytes, start, length);
        }

        synchronized String taken() {
            String text = now.toString(StandardCharsets.UTF_8);
            now = new ByteArrayOutputStream();
            return text;
        }
    }

    private static final BlockingQueue<Integer> ENDED = new LinkedBlockingQueue<>();

    private Tools() { }

    /** Prints its port, and answers until standard input ends. */
    static void serve() throws IOException {
        PrintStream answers = System.out;
        Target out = new Target();
        Target err = new Target();
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> end(code));
        Exit.setHaltProcedure((code, message) -> end(code));
        Thread parent = new Thread(Tools::untilInputEnds);
        parent.setDaemon(true);
        parent.start();
        try (ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            answers.println(server.getLocalPort());
            while (true) {
                Socket client = server.accept();
                Thread serving = new Thread(() -> serve(client, out, err));
                serving.setDaemon(true);
                serving.start();
            }
        }
    }

    private static void serve(Socket client, Target out, Target err) {
        try (client) {
            BufferedReader in = new BufferedReader(new InputStreamReader(client.getInputStream(), StandardCharsets.UTF_8));
            PrintStream answers = new PrintStream(client.getOutputStream(), true, StandardCharsets.UTF_8);
            JsonNode ask = Lines.JSON.readTree(in.readLine());
            if (ask.has("drive")) {
                Drive.serve(ask.path("drive").asText(), in, answers);
                return;
            }
            synchronized (Tools.class) {
                int code = run(ask.path("main").asText(), ask.path("words"));
                answers.println(
                    Lines.JSON.writeValueAsString(Lines.row("code", code, "out", out.taken(), "err", err.taken())));
            }
        } catch (IOException | InterruptedException e) {
            // Whoever asked has gone.
        }
    }

    private static void untilInputEnds() {
        try {
            while (System.in.read() >= 0) { }
        } catch (IOException e) {
            // It has ended.
        }
        Runtime.getRuntime().halt(0);
    }

    private static int run(String main, JsonNode words) throws InterruptedException {
        List<String> args = new ArrayList<>();
        words.forEach(each -> args.add(each.asText()));
        Thread tool = new Thread(() -> {
            try {
                Class.forName(main).getMethod("main", String[].class).invoke(null, (Object) args.toArray(new String[0]));
                ENDED.offer(0);
            } catch (ReflectiveOperationException e) {
                e.printStackTrace();
                ENDED.offer(1);
            }
        });
        tool.setDaemon(true);
        tool.start();
        return ENDED.take();
    }

    /** Passes on the code, and never returns. */
    private static void end(int code) {
        ENDED.offer(code);
        while (true) LockSupport.park();
    }
}
