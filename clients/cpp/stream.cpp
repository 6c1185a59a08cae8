// Continues a prompt and prints the text as it streams, then what it cost.
#include <getopt.h>
#include <grpcpp/grpcpp.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>

#include "outrider/v1/errors.pb.h"
#include "outrider/v1/generation.grpc.pb.h"

namespace {

using namespace outrider::v1;

constexpr char kUsage[] =
    "usage: stream [--address HOST:PORT] [--max-tokens N] [--temperature X] [--seed N]\n"
    "    [--tls-ca FILE [--tls-cert FILE --tls-key FILE]] [--token-file FILE] PROMPT\n";
constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;
constexpr int kInterrupted = 130;  // as shells report a process that SIGINT ended

struct Arguments {
    std::string address = "localhost:50051";
    std::string authorities, certificate, key, token;  // what the files hold; empty without them
    StreamGenerateRequest request;
};

// Reads a whole file; throws std::invalid_argument with its name if that cannot be done, or it is empty.
std::string ReadFile(const char* name) {
    std::ifstream file(name, std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(file)), {});
    if (text.empty())
        throw std::invalid_argument(name);
    return text;
}

// Reads the one word in a file.
std::string ReadWord(const char* name) {
    std::istringstream text(ReadFile(name));
    std::string word;
    text >> word;
    return word;
}

bool IsLocal(const std::string& address) {
    static const std::regex pattern(R"((unix:|localhost:|127\.\d+\.\d+\.\d+:|\[::1\]:).*)");
    return std::regex_match(address, pattern);
}

// What keeps what is to be shown from being sent; empty if nothing does.
std::string Problem(const Arguments& arguments) {
    if (!arguments.authorities.empty())
        return "";
    if (!arguments.certificate.empty() || !arguments.key.empty())
        return "--tls-cert and --tls-key need --tls-ca";
    if (!arguments.token.empty() && !IsLocal(arguments.address))
        return "a token is sent over TLS only, or to this machine";
    return "";
}

// Reads a number that is all of `text`; throws std::invalid_argument if there is none.
template <typename Number>
Number Parse(const std::string& text) {
    std::istringstream stream(text);
    Number number{};
    const bool wraps = std::is_unsigned_v<Number> && text.find('-') != std::string::npos;
    if (wraps || !(stream >> number) || !stream.eof())
        throw std::invalid_argument(text);
    return number;
}

// Reads the command line. What no option sets stays unset in the request, so that the server's default holds.
std::optional<Arguments> ReadArguments(int argc, char** argv) {
    const option options[] = {{"address", required_argument, nullptr, 'a'},
                              {"max-tokens", required_argument, nullptr, 'm'},
                              {"temperature", required_argument, nullptr, 't'},
                              {"seed", required_argument, nullptr, 's'},
                              {"tls-ca", required_argument, nullptr, 'A'},
                              {"tls-cert", required_argument, nullptr, 'C'},
                              {"tls-key", required_argument, nullptr, 'K'},
                              {"token-file", required_argument, nullptr, 'T'},
                              {}};
    Arguments arguments;
    StreamGenerateRequest& request = arguments.request;
    int letter = 0, index = 0;
    try {
        while ((letter = getopt_long(argc, argv, "", options, &index)) != -1) {
            switch (letter) {
                case 'a':
                    arguments.address = optarg;
                    break;
                case 'm':
                    request.mutable_stop()->set_max_tokens(Parse<int32_t>(optarg));
                    break;
                case 't':
                    request.mutable_sampling()->set_temperature(Parse<double>(optarg));
                    break;
                case 's':
                    request.mutable_sampling()->set_seed(Parse<uint64_t>(optarg));
                    break;
                case 'A':
                    arguments.authorities = ReadFile(optarg);
                    break;
                case 'C':
                    arguments.certificate = ReadFile(optarg);
                    break;
                case 'K':
                    arguments.key = ReadFile(optarg);
                    break;
                case 'T':
                    arguments.token = ReadWord(optarg);
                    break;
                default:
                    return std::nullopt;  // getopt has said why
            }
        }
    } catch (const std::invalid_argument& error) {
        std::cerr << "--" << options[index].name << " cannot be " << std::quoted(error.what()) << '\n';
        return std::nullopt;
    }
    if (optind != argc - 1)
        return std::nullopt;
    if (const std::string problem = Problem(arguments); !problem.empty()) {
        std::cerr << problem << '\n';
        return std::nullopt;
    }
    request.mutable_prompt()->set_text(argv[optind]);
    return arguments;
}

// Cancels a call on Ctrl-C for as long as it lives. SIGINT is taken by a thread and not by a handler, which
// could not safely call into gRPC. Make it before the first channel: gRPC's threads must inherit the blocked
// signal.
class CancelOnInterrupt {
  public:
    explicit CancelOnInterrupt(grpc::ClientContext& context) {
        sigemptyset(&signals_);
        sigaddset(&signals_, SIGINT);
        pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
        thread_ = std::thread([this, &context] {
            int signal = 0;
            sigwait(&signals_, &signal);
            context.TryCancel();  // does nothing to a call that has ended
        });
    }
    ~CancelOnInterrupt() {
        pthread_kill(thread_.native_handle(), SIGINT);
        thread_.join();
    }
    CancelOnInterrupt(const CancelOnInterrupt&) = delete;
    CancelOnInterrupt& operator=(const CancelOnInterrupt&) = delete;

  private:
    sigset_t signals_;
    std::thread thread_;
};

// TLS where there are authorities to trust, else clear text.
std::shared_ptr<grpc::ChannelCredentials> Credentials(const Arguments& arguments) {
    if (arguments.authorities.empty())
        return grpc::InsecureChannelCredentials();
    return grpc::SslCredentials({arguments.authorities, arguments.key, arguments.certificate});
}

// Prints the text of a generation as it arrives, and keeps the last message.
grpc::Status PrintText(const Arguments& arguments, grpc::ClientContext& context, Finished& finished) {
    auto channel = grpc::CreateChannel(arguments.address, Credentials(arguments));
    if (!arguments.token.empty())
        context.AddMetadata("authorization", "Bearer " + arguments.token);
    auto stub = GenerationService::NewStub(channel);
    auto reader = stub->StreamGenerate(&context, arguments.request);
    StreamGenerateResponse response;
    bool has_text = false, has_finished = false;
    const auto print = [&has_text](const std::string& text) {
        std::cout << text << std::flush;
        has_text = has_text || !text.empty();
    };
    while (reader->Read(&response)) {
        if (response.has_chunk()) {
            print(response.chunk().text());
        } else if (response.has_finished()) {
            finished = response.finished();
            has_finished = true;
            print(finished.text());
        }
    }
    if (has_text)
        std::cout << std::endl;
    grpc::Status status = reader->Finish();
    if (status.ok() && !has_finished)
        return {grpc::StatusCode::DATA_LOSS, "the server ended the stream early"};
    return status;
}

double Seconds(const google::protobuf::Duration& duration) {
    return static_cast<double>(duration.seconds()) + duration.nanos() / 1e9;
}

std::string Fixed(double value, int digits) {
    std::ostringstream text;
    text << std::fixed << std::setprecision(digits) << value;
    return text.str();
}

// "max tokens" for FINISH_REASON_MAX_TOKENS; a reason newer than these stubs is shown as its number.
std::string Words(FinishReason reason) {
    const std::string prefix = "FINISH_REASON_", name = FinishReason_Name(reason);
    if (name.empty())
        return std::to_string(reason);
    std::string words = name.substr(prefix.size());
    std::transform(words.begin(), words.end(), words.begin(),
                   [](unsigned char letter) { return letter == '_' ? ' ' : std::tolower(letter); });
    return words;
}

// Tokens, their rate, the time to the first one, what speculation did, and why the text ended, in one line.
std::string Figures(const Finished& finished) {
    const uint32_t count = finished.usage().completion_tokens();
    const Timings& timings = finished.timings();
    const SpeculationStats& speculation = finished.speculation();
    std::string line = std::to_string(count) + (count == 1 ? " token" : " tokens");
    const double decode = Seconds(timings.decode());
    if (count > 1 && decode > 0)
        line += " · " + Fixed((count - 1) / decode, 1) + " tokens/s";
    if (timings.has_first_token())
        line += " · first token after " + Fixed(1000 * Seconds(timings.first_token()), 0) + " ms";
    if (speculation.passes())
        line += " · " + Fixed(speculation.tokens_per_pass(), 2) + " tokens per pass";
    if (speculation.predicted())
        line += " · " + Fixed(100.0 * speculation.accepted() / speculation.predicted(), 0) + " % accepted";
    else
        line += " · no predictions";
    return line + " · ended by " + Words(finished.reason());
}

// Tells a person what is wrong: one line per bad field, or else the status.
void PrintError(const grpc::Status& status) {
    ErrorStatus details;
    bool has_violation = false;
    if (details.ParseFromString(status.error_details())) {
        for (const auto& detail : details.details()) {
            BadRequestDetail bad_request;
            const std::string& type = detail.type_url();
            if (type.substr(type.rfind('/') + 1) != "google.rpc.BadRequest")
                continue;
            if (!bad_request.ParseFromString(detail.value()))
                continue;
            for (const auto& violation : bad_request.field_violations()) {
                std::cerr << violation.field() << ": " << violation.description() << '\n';
                has_violation = true;
            }
        }
    }
    if (!has_violation)
        std::cerr << "gRPC status " << status.error_code() << ": " << status.error_message() << '\n';
}

}  // namespace

int main(int argc, char** argv) {
    const std::optional<Arguments> arguments = ReadArguments(argc, argv);
    if (!arguments) {
        std::cerr << kUsage;
        return kWrongUsage;
    }
    grpc::ClientContext context;
    const CancelOnInterrupt cancel(context);
    Finished finished;
    const grpc::Status status = PrintText(*arguments, context, finished);
    if (status.error_code() == grpc::StatusCode::CANCELLED)
        return kInterrupted;
    if (!status.ok()) {
        PrintError(status);
        return kFailed;
    }
    std::cerr << Figures(finished) << '\n';
    return 0;
}
