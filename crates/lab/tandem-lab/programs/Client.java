import java.io.FileInputStream;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.Security;
import java.security.cert.CertificateFactory;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

/**
 * A TLS client on Java's JSSE. Asks for /trial over HTTP/1.0. Arguments as those of client.go:
 * ADDRESS PORT VERSION ROOT.pem, or load ADDRESS PORTS VERSIONS ROOT.pem PARALLEL EXPECTED; it never returns with a session
 * and shows no certificate.
 */
public class Client {
    static final String NAME = "www.tandem.example";
    static final int LIMIT = 60_000;
    static volatile boolean over;

    static SSLContext trust(String file) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream in = new FileInputStream(file)) {
            store.setCertificateEntry("root", CertificateFactory.getInstance("X.509").generateCertificate(in));
        }
        TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, factory.getTrustManagers(), null);
        return context;
    }

    static byte[] ask(SSLContext context, String address, int port, String version) throws Exception {
        try (Socket plain = new Socket()) {
            plain.setSoTimeout(LIMIT);
            plain.setTcpNoDelay(true);
            plain.connect(new InetSocketAddress(InetAddress.getByName(address), port), LIMIT);
            try (SSLSocket socket = (SSLSocket) context.getSocketFactory().createSocket(plain, NAME, port, true)) {
                socket.setEnabledProtocols(new String[] {version.equals("1.0") ? "TLSv1" : "TLSv" + version});
                SSLParameters parameters = socket.getSSLParameters();
                parameters.setEndpointIdentificationAlgorithm("HTTPS");
                socket.setSSLParameters(parameters);
                socket.startHandshake();
                // Not to be resumed: each handshake is a full one.
                socket.getSession().invalidate();
                String request = "GET /trial HTTP/1.0\r\nHost: " + NAME + "\r\n\r\n";
                socket.getOutputStream().write(request.getBytes(StandardCharsets.US_ASCII));
                return socket.getInputStream().readAllBytes();
            }
        }
    }

    /** The verdict, and why. JSSE takes the end of TCP for the end of TLS, too. */
    static String[] compare(byte[] answer, byte[] expected) {
        int head = new String(answer, StandardCharsets.ISO_8859_1).indexOf("\r\n\r\n");
        byte[] body = head < 0 ? new byte[0] : Arrays.copyOfRange(answer, head + 4, answer.length);
        if (Arrays.equals(body, expected)) {
            return new String[] {"ok", ""};
        }
        if (body.length < expected.length && Arrays.equals(body, Arrays.copyOf(expected, body.length))) {
            return new String[] {"failed", "the page ended after " + body.length + " bytes"};
        }
        return new String[] {"differs", body.length + " bytes"};
    }

    static void load(String[] words) throws Exception {
        String[] ports = words[2].split(",");
        String[] versions = words[3].split(",");
        SSLContext context = trust(words[4]);
        byte[] expected = Files.readAllBytes(Path.of(words[6]));
        AtomicInteger next = new AtomicInteger();
        Runnable worker = () -> {
            while (!over) {
                int number = next.incrementAndGet();
                String port = ports[number % ports.length];
                String version = versions[number / ports.length % versions.length];
                long begin = System.nanoTime();
                String verdict;
                String why = "";
                try {
                    String[] came = compare(ask(context, words[1], Integer.parseInt(port), version), expected);
                    verdict = came[0];
                    why = came[1];
                } catch (Exception error) {
                    verdict = "failed";
                    why = error.toString().replace('\n', ' ');
                }
                long milliseconds = (System.nanoTime() - begin) / 1_000_000;
                synchronized (System.out) {
                    System.out.println(verdict + " " + port + " " + version + " " + milliseconds + " full " + why);
                    System.out.flush();
                }
            }
        };
        Thread[] threads = new Thread[Integer.parseInt(words[5])];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(worker);
            threads[i].start();
        }
        System.in.readAllBytes();
        over = true;
        for (Thread thread : threads) {
            thread.join();
        }
    }

    public static void main(String[] words) throws Exception {
        // Old versions of TLS are what is to be tried, too.
        Security.setProperty("jdk.tls.disabledAlgorithms", "");
        if (words[0].equals("load")) {
            load(words);
        } else {
            System.out.write(ask(trust(words[3]), words[0], Integer.parseInt(words[1]), words[2]));
            System.out.flush();
        }
    }
}
