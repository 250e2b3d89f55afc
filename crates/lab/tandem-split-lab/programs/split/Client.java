import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.HexFormat;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/**
 * A client on java.net.http and JSSE that does one job at a split site. Arguments and output as those of client.go. The name is found by
 * -Djdk.net.hosts.file.
 */
public class Client {
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

    static HttpClient client(SSLContext context) {
        return HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).sslContext(context).build();
    }

    static boolean ask(HttpClient client, HttpRequest request, long limit) throws Exception {
        HttpResponse<InputStream> answer = client.send(request, BodyHandlers.ofInputStream());
        ByteArrayOutputStream got = new ByteArrayOutputStream();
        String why = "";
        try (InputStream in = answer.body()) {
            // A request's timeout ends with the head of its answer.
            Thread clock = new Thread(() -> {
                try {
                    Thread.sleep(limit);
                    in.close();
                } catch (InterruptedException | IOException error) {
                    return;
                }
            });
            clock.setDaemon(true);
            clock.start();
            byte[] part = new byte[65536];
            for (int length = in.read(part); length >= 0; length = in.read(part)) {
                got.write(part, 0, length);
            }
            clock.interrupt();
        } catch (IOException error) {
            why = error.toString().replace('\n', ' ');
        }
        String sum = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(got.toByteArray()));
        System.out.println((why.isEmpty() ? "answer " : "cut ") + answer.statusCode() + " " + got.size() + " " + sum + " " + why);
        return why.isEmpty();
    }

    public static void main(String[] words) throws Exception {
        String job = words[4];
        String argument = words.length > 6 ? words[6] : "";
        long limit = Long.parseLong(words[3]) * 1000;
        SSLContext context = trust(words[2]);
        HttpRequest.Builder builder = HttpRequest.newBuilder(URI.create("https://" + words[1] + ":" + words[0] + words[5]))
            .timeout(Duration.ofMillis(limit));
        int times = 1;
        switch (job) {
            case "twice" -> times = 2;
            case "keep" -> times = 3;
            case "head" -> builder.method("HEAD", BodyPublishers.noBody());
            case "fresh" -> builder.header("If-None-Match", argument);
            case "range" -> builder.header("Range", "bytes=" + argument);
            case "upload", "chunked" -> {
                byte[] sent = new byte[Integer.parseInt(argument)];
                for (int i = 0; i < sent.length; i++) {
                    sent[i] = (byte) (i % 251);
                }
                builder.POST(job.equals("upload")
                    ? BodyPublishers.ofByteArray(sent)
                    : BodyPublishers.ofInputStream(() -> new ByteArrayInputStream(sent)));
            }
            default -> { }
        }
        try {
            HttpClient client = client(context);
            for (int i = 0; i < times; i++) {
                if (job.equals("twice")) {
                    // A connection of its own; what is known of sessions is the context's.
                    client = client(context);
                }
                if (!ask(client, builder.build(), limit)) {
                    break;
                }
            }
        } catch (IOException error) {
            System.out.println("failed " + error.toString().replace('\n', ' '));
        }
        System.out.flush();
        System.exit(0);
    }
}
