import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.net.Socket;

/** Has the leader of the cluster killed and started again; see several_test.go for the orders. */
final class Killer implements AutoCloseable {
    private final Socket socket;
    private final PrintWriter orders;
    private final BufferedReader answers;

    Killer() throws Exception {
        String[] at = System.getProperty("interop.control").split(":");
        socket = new Socket(at[0], Integer.parseInt(at[1]));
        orders = new PrintWriter(socket.getOutputStream(), true);
        answers = new BufferedReader(new InputStreamReader(socket.getInputStream()));
    }

    /** Kills the leader and returns its address. */
    String kill() throws Exception {
        return order("kill");
    }

    /** Starts the member that was killed, and waits until it serves. */
    void restart() throws Exception {
        order("restart");
    }

    private String order(String word) throws Exception {
        orders.println(word);
        String answer = answers.readLine();
        Check.that(answer != null && !answer.startsWith("failed"), word + ": " + answer);
        return answer;
    }

    @Override
    public void close() throws Exception {
        socket.close();
    }
}
