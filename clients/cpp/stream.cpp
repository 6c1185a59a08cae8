// Continues a prompt and prints the text as it streams, then what it cost.
#include <getopt.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "outrider/client.h"

namespace {

using namespace outrider::v1;

constexpr char kUsage[] =
    "usage: stream [--address HOST:PORT]... [--max-tokens N] [--temperature X] [--seed N] [--logprobs FILE]\n"
    "    [--max-retries N] [--timeout SECONDS] [--tls-ca FILE [--tls-cert FILE --tls-key FILE]]\n"
    "    [--token-file FILE] PROMPT\n";
constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;
constexpr int kInterrupted = 130;  // as shells report a process that SIGINT ended

struct Arguments {
    std::vector<std::string> addresses;
    outrider::Options options;
    std::optional<double> timeout;
    std::ofstream logprobs;
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

// Takes in one option. What no option sets stays unset in the request, so that the server's default holds.
// Throws std::invalid_argument with what the option cannot be.
bool Take(char letter, const char* value, Arguments& arguments) {
    StreamGenerateRequest& request = arguments.request;
    outrider::Options& options = arguments.options;
    switch (letter) {
        case 'a':
            arguments.addresses.push_back(value);
            return true;
        case 'm':
            request.mutable_stop()->set_max_tokens(Parse<int32_t>(value));
            return true;
        case 't':
            request.mutable_sampling()->set_temperature(Parse<double>(value));
            return true;
        case 's':
            request.mutable_sampling()->set_seed(Parse<uint64_t>(value));
            return true;
        case 'l':
            request.mutable_output()->set_logprobs(true);
            arguments.logprobs.open(value);
            if (!arguments.logprobs)
                throw std::invalid_argument(value);
            return true;
        case 'r':
            options.max_retries = static_cast<int>(Parse<uint16_t>(value));
            return true;
        case 'o':
            arguments.timeout = Parse<double>(value);
            return true;
        case 'A':
            options.authorities = ReadFile(value);
            return true;
        case 'C':
            options.certificate = ReadFile(value);
            return true;
        case 'K':
            options.key = ReadFile(value);
            return true;
        case 'T':
            options.token = ReadWord(value);
            return true;
        default:
            return false;  // getopt has said why
    }
}

// Reads the command line; says what is wrong with it.
bool ReadArguments(int argc, char** argv, Arguments& arguments) {
    const option options[] = {
        {"address", required_argument, nullptr, 'a'},     {"max-tokens", required_argument, nullptr, 'm'},
        {"temperature", required_argument, nullptr, 't'}, {"seed", required_argument, nullptr, 's'},
        {"logprobs", required_argument, nullptr, 'l'},    {"max-retries", required_argument, nullptr, 'r'},
        {"timeout", required_argument, nullptr, 'o'},     {"tls-ca", required_argument, nullptr, 'A'},
        {"tls-cert", required_argument, nullptr, 'C'},    {"tls-key", required_argument, nullptr, 'K'},
        {"token-file", required_argument, nullptr, 'T'},  {}};
    int letter = 0, index = 0;
    try {
        while ((letter = getopt_long(argc, argv, "", options, &index)) != -1)
            if (!Take(static_cast<char>(letter), optarg, arguments))
                return false;
    } catch (const std::invalid_argument& error) {
        std::cerr << "--" << options[index].name << " cannot be " << std::quoted(error.what()) << '\n';
        return false;
    }
    if (optind != argc - 1)
        return false;
    if (arguments.options.authorities.empty() &&
        !(arguments.options.certificate + arguments.options.key).empty()) {
        std::cerr << "--tls-cert and --tls-key need --tls-ca\n";
        return false;
    }
    if (arguments.addresses.empty())
        arguments.addresses = {"localhost:50051"};
    arguments.request.mutable_prompt()->set_text(argv[optind]);
    return true;
}

// Keeps SIGINT from this thread and those that it starts.
sigset_t BlockInterrupt() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    return signals;
}

// Cancels a stream on Ctrl-C for as long as it lives. SIGINT, which must be blocked, is taken by a thread and
// not by a handler, which could not safely call into gRPC.
class CancelOnInterrupt {
  public:
    CancelOnInterrupt(outrider::Stream& stream, const sigset_t& signals) : signals_(signals) {
        thread_ = std::thread([this, &stream] {
            int signal = 0;
            sigwait(&signals_, &signal);
            stream.Cancel();  // does nothing to one that has ended
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

// Prints the text of a stream as it arrives, and its log-probabilities into the file, if there is one.
void PrintText(outrider::Stream& stream, std::ofstream& logprobs) {
    // So many digits determine a float exactly.
    logprobs << std::setprecision(std::numeric_limits<float>::max_digits10);
    Chunk chunk;
    while (stream.Read(&chunk)) {
        std::cout << chunk.text() << std::flush;
        for (const TokenRecord& record : chunk.records())
            logprobs << record.id() << ' ' << record.raw_logprob() << '\n';
    }
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
void PrintError(const outrider::Error& error) {
    for (const outrider::Violation& violation : error.violations)
        std::cerr << violation.field << ": " << violation.description << '\n';
    if (error.violations.empty())
        std::cerr << "gRPC status " << error.code << ": " << error.what() << '\n';
}

// Streams to the end and returns the exit code.
int Run(outrider::Stream& stream, std::ofstream& logprobs) {
    int code = 0;
    std::optional<outrider::Error> failure;
    try {
        PrintText(stream, logprobs);
    } catch (const outrider::Error& error) {
        failure = error;
        code = error.code == grpc::StatusCode::CANCELLED ? kInterrupted : kFailed;
    }
    if (!stream.received().text.empty())
        std::cout << std::endl;
    if (!failure)
        std::cerr << Figures(*stream.received().finished) << '\n';
    else if (code == kFailed)
        PrintError(*failure);
    return code;
}

}  // namespace

int main(int argc, char** argv) {
    Arguments arguments;
    if (!ReadArguments(argc, argv, arguments)) {
        std::cerr << kUsage;
        return kWrongUsage;
    }
    const sigset_t interrupt = BlockInterrupt();
    try {
        const outrider::Client client(arguments.addresses, arguments.options);
        outrider::Stream stream = client.Generate(arguments.request, arguments.timeout);
        const CancelOnInterrupt cancel(stream, interrupt);
        return Run(stream, arguments.logprobs);
    } catch (const std::invalid_argument& error) {
        std::cerr << error.what() << '\n' << kUsage;
        return kWrongUsage;
    }
}
