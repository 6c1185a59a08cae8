#include "outrider/status.h"

#include <algorithm>
#include <initializer_list>

#include "outrider/v1/errors.pb.h"

namespace outrider {
namespace {

constexpr char kPushback[] = "grpc-retry-pushback-ms";
constexpr char kUnreached[] = "failed to connect";
// How gRPC reports a stream that a dying server or a proxy has reset, beside UNAVAILABLE.
const std::initializer_list<const char*> kBroken = {"RST_STREAM", "GOAWAY", "Stream removed"};
// And how it reports, as UNAVAILABLE, that a connection went with a call on it. One that never was is another
// matter.
const std::initializer_list<const char*> kLost = {"RST_STREAM",    "GOAWAY",           "Stream removed",
                                                  "Socket closed", "Transport closed", "reset by peer",
                                                  "Broken pipe",   "recvmsg",          "ping"};

bool HasAny(const std::string& text, const std::initializer_list<const char*>& marks) {
    return std::any_of(marks.begin(), marks.end(),
                       [&text](const char* mark) { return text.find(mark) != std::string::npos; });
}

// Reads a status's detail of a kind; false if there is none, or it cannot be read: the status still says what
// is wrong.
template <typename Detail>
bool ReadDetail(const grpc::Status& status, const std::string& kind, Detail* detail) {
    v1::ErrorStatus all;
    if (!all.ParseFromString(status.error_details()))
        return false;
    for (const auto& each : all.details()) {
        const std::string& type = each.type_url();
        if (type.substr(type.rfind('/') + 1) == kind && detail->ParseFromString(each.value()))
            return true;
    }
    return false;
}

std::optional<double> RetryAfter(const grpc::Status& status, const grpc::ClientContext& context) {
    const auto& trailers = context.GetServerTrailingMetadata();
    if (const auto found = trailers.find(kPushback); found != trailers.end()) {
        const std::string text(found->second.data(), found->second.size());
        const bool is_number =
            !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos;
        return is_number ? std::optional<double>(std::stoi(text) / 1e3) : std::nullopt;
    }
    v1::RetryDetail detail;
    if (!ReadDetail(status, "google.rpc.RetryInfo", &detail))
        return std::nullopt;
    const auto& delay = detail.retry_delay();
    return std::max(static_cast<double>(delay.seconds()) + delay.nanos() / 1e9, 0.0);
}

}  // namespace

Error AsError(const grpc::Status& status, const grpc::ClientContext& context) {
    Error error(status.error_code(), status.error_message());
    const std::string message = status.error_message();
    if ((error.code == grpc::StatusCode::INTERNAL || error.code == grpc::StatusCode::UNKNOWN) &&
        HasAny(message, kBroken))
        error.code = grpc::StatusCode::UNAVAILABLE;
    if (error.code == grpc::StatusCode::UNAVAILABLE)
        error.broke = HasAny(message, kLost) && message.rfind(kUnreached, 0) != 0;
    if (error.code == grpc::StatusCode::RESOURCE_EXHAUSTED)
        error.retry_after = RetryAfter(status, context);
    v1::BadRequestDetail bad_request;
    if (error.code == grpc::StatusCode::INVALID_ARGUMENT &&
        ReadDetail(status, "google.rpc.BadRequest", &bad_request))
        for (const auto& violation : bad_request.field_violations())
            error.violations.push_back({violation.field(), violation.description()});
    return error;
}

}  // namespace outrider
