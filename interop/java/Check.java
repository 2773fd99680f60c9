import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.BooleanSupplier;
import org.apache.zookeeper.KeeperException;

/** Runs checks and prints one line for each; see program_test.go for the form of the lines. */
final class Check {
    /** What a check does; it fails by throwing. */
    interface Body {
        void run() throws Exception;
    }

    /** How long a check waits for something that must happen. */
    static final int PATIENCE_MS = 120_000;

    /** The timeout of a session that is to expire: short, but longer than a busy machine stands still. */
    static final int EXPIRY_MS = 5_000;

    private static int done;

    private Check() {}

    /** Runs one check to its end, in a thread of its own so that one that hangs costs only itself. */
    static void run(String name, Body body) {
        long start = System.nanoTime();
        Throwable[] failure = new Throwable[1];
        Thread t = new Thread(() -> {
            try {
                body.run();
            } catch (Throwable e) {
                failure[0] = e;
            }
        }, name);
        t.setDaemon(true);
        t.start();
        try {
            t.join(2 * PATIENCE_MS);
        } catch (InterruptedException e) {
            failure[0] = e;
        }
        if (t.isAlive()) {
            failure[0] = new Exception("hangs");
            failure[0].setStackTrace(t.getStackTrace());
        }
        long ms = (System.nanoTime() - start) / 1_000_000;
        print(failure[0] == null ? "ok " + name + " " + ms + " ms" : "FAIL " + name + " " + describe(failure[0]));
    }

    private static synchronized void print(String line) {
        done++;
        System.out.println(line);
        System.out.flush();
    }

    /** Starts a check, or a group of them, beside the others; finish waits for it. */
    static void start(Body group) {
        Thread t = new Thread(() -> {
            try {
                group.run();
            } catch (Throwable e) {
                print("FAIL group " + describe(e));
            }
        });
        t.start();
        started.add(t);
    }

    /** Starts one check beside the others. */
    static void start(String name, Body body) {
        start(() -> run(name, body));
    }

    /**
     * Starts a check that waits for the end of a session. A cluster whose leader is killed now and then is left in
     * peace for it once the others are through: every new leader gives each session its whole time again.
     */
    static void startPatient(String name, Body body) {
        start(name, body);
        patient.add(started.remove(started.size() - 1));
    }

    private static final List<Thread> started = new ArrayList<>();
    private static final List<Thread> patient = new ArrayList<>();

    /** The exception and where it was thrown, in one line. */
    private static String describe(Throwable e) {
        StringBuilder b = new StringBuilder(e.toString().replace('\n', ' '));
        int lines = 0;
        for (StackTraceElement f : e.getStackTrace()) {
            if (lines++ < 12) {
                b.append(" | at ").append(f);
            }
        }
        return b.toString();
    }

    /** Waits for what was started, prints the last line and ends the program. */
    static void finish() throws Exception {
        for (Thread t : started) {
            t.join();
        }
        if (!patient.isEmpty()) {
            try (Proxy peace = new Proxy()) {
                peace.order("peace");
                for (Thread t : patient) {
                    t.join();
                }
            }
        }
        System.out.println("done " + done);
        System.out.flush();
        System.exit(0);
    }

    static void equal(Object want, Object got, String what) throws Exception {
        if (!Objects.equals(want, got)) {
            throw new Exception(what + ": got " + got + ", want " + want);
        }
    }

    static void that(boolean condition, String what) throws Exception {
        if (!condition) {
            throw new Exception("not so: " + what);
        }
    }

    /** Expects body to fail with that code. */
    static KeeperException fails(KeeperException.Code code, Body body) throws Exception {
        try {
            body.run();
        } catch (KeeperException e) {
            equal(code, e.code(), "error code");
            return e;
        }
        throw new Exception("succeeded instead of failing with " + code);
    }

    /** Polls until the condition holds. */
    static void await(String what, BooleanSupplier condition) throws Exception {
        long deadline = System.nanoTime() + PATIENCE_MS * 1_000_000L;
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new Exception("never happened: " + what);
            }
            Thread.sleep(10);
        }
    }

    /** Expects /zookeeper/config to name every member of the ensemble, and to be empty for a server alone. */
    static void members(byte[] config) throws Exception {
        int lines = 0;
        for (String line : new String(config, StandardCharsets.UTF_8).split("\n")) {
            lines += line.startsWith("server.") ? 1 : 0;
        }
        int members = Integer.getInteger("interop.members");
        equal(members, lines, "members in the configuration");
        that(members > 0 || config.length == 0, "a server alone has no configuration");
    }

    /** The server's own address. */
    static String server() {
        return System.getProperty("interop.server");
    }
}
