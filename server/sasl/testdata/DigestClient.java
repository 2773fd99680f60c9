import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.NameCallback;
import javax.security.auth.callback.PasswordCallback;
import javax.security.sasl.RealmCallback;
import javax.security.sasl.Sasl;
import javax.security.sasl.SaslClient;

/**
 * Java's own DIGEST-MD5 client, set up as ZooKeeper's client does. Reads lines of base64:
 * user, password, authorization id ("-" for none), challenge; writes the response; reads the
 * server's final token; writes whether the exchange is complete.
 */
class DigestClient {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        String user = text(in), password = text(in), authzid = text(in);
        SaslClient client = Sasl.createSaslClient(new String[] {"DIGEST-MD5"}, authzid.equals("-") ? null : authzid,
            "zookeeper", "zk-sasl-md5", Map.of(), callbacks -> {
                for (Callback c : callbacks) {
                    if (c instanceof NameCallback name) {
                        name.setName(user);
                    } else if (c instanceof PasswordCallback pass) {
                        pass.setPassword(password.toCharArray());
                    } else if (c instanceof RealmCallback realm) {
                        realm.setText(realm.getDefaultText());
                    }
                }
            });
        out.println(Base64.getEncoder().encodeToString(client.evaluateChallenge(bytes(in))));
        client.evaluateChallenge(bytes(in));
        out.println(client.isComplete());
    }

    private static byte[] bytes(BufferedReader in) throws Exception {
        return Base64.getDecoder().decode(in.readLine());
    }

    private static String text(BufferedReader in) throws Exception {
        return new String(bytes(in), StandardCharsets.UTF_8);
    }
}
