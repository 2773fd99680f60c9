import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.net.Socket;

/** One proxy in front of the server, for one check; see proxy_test.go for the orders that it takes. */
final class Proxy implements AutoCloseable {
    /** Where clients connect. */
    final String address;

    private final Socket socket;
    private final PrintWriter orders;
    private final BufferedReader answers;

    /** A proxy in front of the plain port. */
    Proxy() throws Exception {
        this(System.getProperty("interop.control"));
    }

    Proxy(String control) throws Exception {
        String[] at = control.split(":");
        socket = new Socket(at[0], Integer.parseInt(at[1]));
        orders = new PrintWriter(socket.getOutputStream(), true);
        answers = new BufferedReader(new InputStreamReader(socket.getInputStream()));
        address = answers.readLine();
    }

    /** Gives one order and returns how many connections were accepted so far. */
    synchronized int order(String word) throws Exception {
        orders.println(word);
        return Integer.parseInt(answers.readLine().split(" ")[1]);
    }

    @Override
    public void close() throws Exception {
        socket.close();
    }
}
