import java.io.FileInputStream;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.Security;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLServerSocket;
import javax.net.ssl.SSLSocket;

/**
 * A TLS server on Java's JSSE: answers any request with one file. Clients that keep no session make each handshake a full one.
 * Arguments: PORT LOWEST HIGHEST CHAIN.pem KEY.pem FILE.
 */
public class Server {
    static SSLContext identity(String chainFile, String keyFile) throws Exception {
        Certificate[] chain;
        try (InputStream in = new FileInputStream(chainFile)) {
            chain = CertificateFactory.getInstance("X.509").generateCertificates(in).toArray(new Certificate[0]);
        }
        String pem = Files.readString(Path.of(keyFile)).replaceAll("-----[^-]*-----", "").replaceAll("\\s", "");
        String kind = chain[0].getPublicKey().getAlgorithm();
        PrivateKey key = KeyFactory.getInstance(kind).generatePrivate(new PKCS8EncodedKeySpec(Base64.getDecoder().decode(pem)));
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        store.setKeyEntry("server", key, new char[0], chain);
        KeyManagerFactory factory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        factory.init(store, new char[0]);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(factory.getKeyManagers(), null, null);
        return context;
    }

    static void serve(SSLSocket accepted, byte[] answer) {
        try (SSLSocket socket = accepted) {
            socket.setSoTimeout(60_000);
            socket.setTcpNoDelay(true);
            InputStream in = socket.getInputStream();
            int seen = 0;
            // To the empty line: four characters in a row that end lines.
            for (int next = in.read(); next >= 0 && seen < 4; ) {
                seen = next == '\r' || next == '\n' ? seen + 1 : 0;
                if (seen < 4) {
                    next = in.read();
                }
            }
            socket.getOutputStream().write(answer);
        } catch (Exception error) {
            System.err.println(error);
        }
    }

    public static void main(String[] words) throws Exception {
        // Old versions of TLS are what is to be tried, too.
        Security.setProperty("jdk.tls.disabledAlgorithms", "");
        List<String> all = List.of("1.0", "1.1", "1.2", "1.3");
        String[] versions = all.subList(all.indexOf(words[1]), all.indexOf(words[2]) + 1).stream()
            .map(version -> version.equals("1.0") ? "TLSv1" : "TLSv" + version).toArray(String[]::new);
        byte[] body = Files.readAllBytes(Path.of(words[5]));
        String head = "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: " + body.length + "\r\n\r\n";
        byte[] start = head.getBytes(StandardCharsets.US_ASCII);
        byte[] answer = Arrays.copyOf(start, start.length + body.length);
        System.arraycopy(body, 0, answer, start.length, body.length);
        SSLServerSocket listener = (SSLServerSocket) identity(words[3], words[4]).getServerSocketFactory()
            .createServerSocket(Integer.parseInt(words[0]), 128);
        listener.setEnabledProtocols(versions);
        ExecutorService workers = Executors.newCachedThreadPool();
        while (true) {
            SSLSocket socket = (SSLSocket) listener.accept();
            workers.execute(() -> serve(socket, answer));
        }
    }
}
