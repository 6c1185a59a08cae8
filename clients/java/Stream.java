import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.protobuf.Any;
import com.google.protobuf.Duration;
import com.google.protobuf.InvalidProtocolBufferException;
import io.grpc.ChannelCredentials;
import io.grpc.Context;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.TlsChannelCredentials;
import io.grpc.stub.MetadataUtils;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import outrider.v1.BadRequestDetail;
import outrider.v1.ErrorStatus;
import outrider.v1.FieldViolation;
import outrider.v1.FinishReason;
import outrider.v1.Finished;
import outrider.v1.GenerationServiceGrpc;
import outrider.v1.SpeculationStats;
import outrider.v1.StreamGenerateRequest;
import outrider.v1.StreamGenerateResponse;

/** Continues a prompt and prints the text as it streams, then what it cost. */
public final class Stream {
    private static final String USAGE =
            "usage: java Stream [--address HOST:PORT] [--max-tokens N] [--temperature X] [--seed N]\n"
                    + "    [--tls-ca FILE [--tls-cert FILE --tls-key FILE]] [--token-file FILE] PROMPT";
    private static final Pattern LOCAL =
            Pattern.compile("(unix:|localhost:|127\\.\\d+\\.\\d+\\.\\d+:|\\[::1\\]:).*");
    private static final Set<String> NAMES = Set.of(
            "address", "max-tokens", "temperature", "seed", "tls-ca", "tls-cert", "tls-key", "token-file");
    private static final Metadata.Key<byte[]> DETAILS =
            Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER);
    private static final Metadata.Key<String> AUTHORIZATION =
            Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
    private static final int FAILED = 1;
    private static final int WRONG_USAGE = 2;
    // Not the encoding of the locale, which may know few characters.
    private static final PrintStream OUT = new PrintStream(new FileOutputStream(FileDescriptor.out), true, UTF_8);
    private static final PrintStream ERR = new PrintStream(new FileOutputStream(FileDescriptor.err), true, UTF_8);

    /** What is wrong with the command line. */
    private static final class UsageException extends Exception {
        UsageException(String message) {
            super(message);
        }
    }

    public static void main(String[] arguments) {
        try {
            Map<String, String> options = readArguments(arguments);
            StreamGenerateRequest request = request(options);
            System.exit(run(options, request));
        } catch (UsageException | IOException | IllegalArgumentException error) {
            ERR.println(error.getMessage() + "\n" + USAGE);
            System.exit(WRONG_USAGE);
        }
    }

    /** Reads the command line; the prompt has no name. */
    private static Map<String, String> readArguments(String[] arguments) throws UsageException {
        Map<String, String> options = new HashMap<>(Map.of("address", "localhost:50051"));
        List<String> prompts = new ArrayList<>();
        for (int i = 0; i < arguments.length; i++) {
            if (!arguments[i].startsWith("--")) {
                prompts.add(arguments[i]);
                continue;
            }
            String[] option = arguments[i].substring(2).split("=", 2);
            boolean isWhole = option.length == 2 || ++i < arguments.length;
            if (!NAMES.contains(option[0]) || !isWhole) {
                throw new UsageException("--" + option[0] + (isWhole ? " is no option" : " needs a value"));
            }
            options.put(option[0], option.length == 2 ? option[1] : arguments[i]);
        }
        if (prompts.size() != 1) {
            throw new UsageException("exactly one prompt is needed");
        }
        options.put("", prompts.get(0));
        return options;
    }

    /** What is left out stays unset in the request, so that the server's default holds. */
    private static StreamGenerateRequest request(Map<String, String> options) throws UsageException {
        StreamGenerateRequest.Builder request = StreamGenerateRequest.newBuilder();
        request.getPromptBuilder().setText(options.get(""));
        String name = "";
        try {
            if (options.containsKey(name = "max-tokens")) {
                request.getStopBuilder().setMaxTokens(Integer.parseInt(options.get(name)));
            }
            if (options.containsKey(name = "temperature")) {
                request.getSamplingBuilder().setTemperature(Double.parseDouble(options.get(name)));
            }
            if (options.containsKey(name = "seed")) {
                request.getSamplingBuilder().setSeed(Long.parseUnsignedLong(options.get(name)));
            }
        } catch (NumberFormatException error) {
            throw new UsageException("--" + name + " cannot be \"" + options.get(name) + '"');
        }
        return request.build();
    }

    /** TLS where there are authorities to trust, else clear text; a certificate of ours goes with its key. */
    private static ChannelCredentials credentials(Map<String, String> options) throws UsageException, IOException {
        boolean showsCertificate = options.containsKey("tls-cert") || options.containsKey("tls-key");
        if (!options.containsKey("tls-ca")) {
            if (showsCertificate) {
                throw new UsageException("--tls-cert and --tls-key need --tls-ca");
            }
            return InsecureChannelCredentials.create();
        }
        TlsChannelCredentials.Builder tls = TlsChannelCredentials.newBuilder();
        tls.trustManager(new File(options.get("tls-ca")));
        if (showsCertificate) {
            tls.keyManager(new File(options.get("tls-cert")), new File(options.get("tls-key")));
        }
        return tls.build();
    }

    /** What shows the token, if there is one: over TLS, or to this machine only. */
    private static Metadata headers(Map<String, String> options) throws UsageException, IOException {
        Metadata headers = new Metadata();
        if (!options.containsKey("token-file")) {
            return headers;
        }
        if (!options.containsKey("tls-ca") && !LOCAL.matcher(options.get("address")).matches()) {
            throw new UsageException("a token is sent over TLS only, or to this machine");
        }
        headers.put(AUTHORIZATION, "Bearer " + Files.readString(Path.of(options.get("token-file"))).strip());
        return headers;
    }

    /** Streams to the end and returns the exit code. That of Ctrl-C, 130, is the virtual machine's own. */
    private static int run(Map<String, String> options, StreamGenerateRequest request)
            throws UsageException, IOException {
        Metadata headers = headers(options);
        ManagedChannel channel = Grpc.newChannelBuilder(options.get("address"), credentials(options)).build();
        var stub = GenerationServiceGrpc.newBlockingStub(channel)
                .withInterceptors(MetadataUtils.newAttachHeadersInterceptor(headers));
        Context.CancellableContext context = Context.current().withCancellation();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> close(context, channel)));
        try {
            Finished finished = context.call(() -> printText(stub.streamGenerate(request)));
            ERR.println(figures(finished));
            return 0;
        } catch (StatusRuntimeException error) {
            if (!context.isCancelled()) {
                explain(error).forEach(ERR::println);
            }
            return FAILED;
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static void close(Context.CancellableContext context, ManagedChannel channel) {
        context.cancel(null); // does nothing to a call that has ended
        try {
            channel.shutdown().awaitTermination(1, TimeUnit.SECONDS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    /** Prints the text of a call as it arrives and returns the last message. */
    private static Finished printText(Iterator<StreamGenerateResponse> responses) {
        Finished finished = null;
        boolean hasText = false;
        try {
            while (responses.hasNext()) {
                StreamGenerateResponse response = responses.next();
                finished = response.hasFinished() ? response.getFinished() : finished;
                String text = finished == null ? response.getChunk().getText() : finished.getText();
                OUT.print(text);
                OUT.flush();
                hasText |= !text.isEmpty();
            }
        } finally {
            if (hasText) {
                OUT.println();
            }
        }
        if (finished == null) {
            throw Status.DATA_LOSS.withDescription("the server ended the stream early").asRuntimeException();
        }
        return finished;
    }

    private static double seconds(Duration duration) {
        return duration.getSeconds() + duration.getNanos() / 1e9;
    }

    /** Tokens, their rate, the time to the first one, what speculation did, and why the text ended, in one line. */
    private static String figures(Finished finished) {
        int count = finished.getUsage().getCompletionTokens();
        double decode = seconds(finished.getTimings().getDecode());
        SpeculationStats speculation = finished.getSpeculation();
        List<String> parts = new ArrayList<>(List.of(count == 1 ? "1 token" : count + " tokens"));
        if (count > 1 && decode > 0) {
            parts.add(format("%.1f tokens/s", (count - 1) / decode));
        }
        if (finished.getTimings().hasFirstToken()) {
            double milliseconds = 1000 * seconds(finished.getTimings().getFirstToken());
            parts.add(format("first token after %.0f ms", milliseconds));
        }
        if (speculation.getPasses() > 0) {
            parts.add(format("%.2f tokens per pass", speculation.getTokensPerPass()));
        }
        double acceptance = 100.0 * speculation.getAccepted() / speculation.getPredicted();
        parts.add(speculation.getPredicted() > 0 ? format("%.0f %% accepted", acceptance) : "no predictions");
        parts.add("ended by " + words(finished.getReason(), finished.getReasonValue()));
        return String.join(" · ", parts);
    }

    /** "max tokens" for FINISH_REASON_MAX_TOKENS; a reason newer than these stubs is shown as its number. */
    private static String words(FinishReason reason, int number) {
        if (reason == FinishReason.UNRECOGNIZED) {
            return Integer.toString(number);
        }
        return reason.name().replace("FINISH_REASON_", "").replace('_', ' ').toLowerCase(Locale.ROOT);
    }

    private static String format(String pattern, double number) {
        return String.format(Locale.ROOT, pattern, number);
    }

    /** The lines that tell a person what is wrong: one per bad field, or else the status. */
    private static List<String> explain(StatusRuntimeException error) {
        List<String> lines = new ArrayList<>();
        Metadata trailers = error.getTrailers();
        try {
            if (trailers != null && trailers.containsKey(DETAILS)) {
                for (Any detail : ErrorStatus.parseFrom(trailers.get(DETAILS)).getDetailsList()) {
                    if (detail.getTypeUrl().endsWith("/google.rpc.BadRequest")) {
                        for (FieldViolation violation :
                                BadRequestDetail.parseFrom(detail.getValue()).getFieldViolationsList()) {
                            lines.add(violation.getField() + ": " + violation.getDescription());
                        }
                    }
                }
            }
        } catch (InvalidProtocolBufferException ignored) {
            lines.clear(); // the status alone still says what is wrong
        }
        return lines.isEmpty() ? List.of(error.getMessage()) : lines;
    }
}
