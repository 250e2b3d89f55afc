import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;

/**
 * A server of files over TLS and over plain HTTP, with Java's own com.sun.net.httpserver and JSSE.
 * Arguments: TLS-PORT PORT CHAIN.pem KEY.pem FOLDER.
 */
public class FileServer {
    static final Map<String, byte[]> FILES = new HashMap<>();

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

    static void answer(HttpExchange exchange) throws IOException {
        try (exchange) {
            byte[] body = FILES.get(exchange.getRequestURI().getPath());
            if (body == null) {
                exchange.sendResponseHeaders(404, -1);
                return;
            }
            exchange.getResponseHeaders().set("Content-Type", "application/octet-stream");
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
        }
    }

    static void start(HttpServer server) {
        server.createContext("/", FileServer::answer);
        server.setExecutor(Executors.newCachedThreadPool());
        server.start();
    }

    public static void main(String[] words) throws Exception {
        try (DirectoryStream<Path> folder = Files.newDirectoryStream(Path.of(words[4]))) {
            for (Path file : folder) {
                FILES.put("/" + file.getFileName(), Files.readAllBytes(file));
            }
        }
        HttpsServer secure = HttpsServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 128);
        secure.setHttpsConfigurator(new HttpsConfigurator(identity(words[2], words[3])));
        start(secure);
        start(HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[1])), 128));
    }
}
