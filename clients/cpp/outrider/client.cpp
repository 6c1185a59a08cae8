#include "outrider/client.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "outrider/pool.h"

namespace outrider {
namespace {

bool IsLocal(const std::string& address) {
    const auto begins_with = [&address](const char* start) { return address.rfind(start, 0) == 0; };
    if (begins_with("unix:") || begins_with("localhost:") || begins_with("[::1]:"))
        return true;
    return begins_with("127.") &&
           address.substr(0, address.rfind(':')).find_first_not_of("0123456789.") == std::string::npos;
}

void Check(const std::vector<std::string>& addresses, const Options& options) {
    if (addresses.empty())
        throw std::invalid_argument("a client needs at least one address, such as \"localhost:50051\"");
    if (options.max_retries < 0 || !(options.max_backoff >= 0))
        throw std::invalid_argument("max_retries and max_backoff must be at least 0");
    const auto is_visible = [](char letter) { return letter >= '!' && letter <= '~'; };
    if (!std::all_of(options.token.begin(), options.token.end(), is_visible))
        throw std::invalid_argument("a token must be one word of visible ASCII characters");
    const bool in_the_clear = options.authorities.empty();
    if (in_the_clear && !options.token.empty() && !std::all_of(addresses.begin(), addresses.end(), IsLocal))
        throw std::invalid_argument("a token is sent over TLS only, or to this machine");
}

grpc::ChannelArguments ChannelArguments(bool in_the_clear) {
    grpc::ChannelArguments arguments;
    // No proxy reads what is sent in the clear: gRPC would send even localhost through the one that
    // http_proxy names.
    if (in_the_clear)
        arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetMaxReceiveMessageSize(-1);
    // A dead peer is noticed within 80 seconds of silence, even in the middle of a stream.
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    // A server that comes back is reached within a second.
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
    return arguments;
}

}  // namespace

Client::Client(const std::vector<std::string>& addresses, const Options& options)
    : pool_(std::make_shared<Pool>()) {
    Check(addresses, options);
    pool_->options = options;
    const bool in_the_clear = options.authorities.empty();
    const auto security = in_the_clear
                              ? grpc::InsecureChannelCredentials()
                              : grpc::SslCredentials({options.authorities, options.key, options.certificate});
    const grpc::ChannelArguments arguments = ChannelArguments(in_the_clear);
    for (const std::string& address : addresses)
        pool_->servers.push_back(grpc::CreateCustomChannel(address, security, arguments));
}

Stream Client::Generate(v1::StreamGenerateRequest request, std::optional<double> timeout) const {
    if (request.num_samples() > 1)
        throw std::invalid_argument("num_samples: one stream is one sample");
    return Stream(pool_, std::move(request), timeout);
}

}  // namespace outrider
