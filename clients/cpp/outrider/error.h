// Error: what a failed call says.
#pragma once

#include <grpcpp/support/status_code_enum.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace outrider {

// One thing wrong with a request: the path of the field, and what it allows.
struct Violation {
    std::string field, description;
};

// A call failed; what() is the server's message, or gRPC's.
class Error : public std::runtime_error {
  public:
    Error(grpc::StatusCode code, const std::string& message) : std::runtime_error(message), code(code) {}

    grpc::StatusCode code;
    // Of INVALID_ARGUMENT: everything that is wrong with the request.
    std::vector<Violation> violations;
    // Of RESOURCE_EXHAUSTED: seconds after which the server wants to be asked again, if it does.
    std::optional<double> retry_after;
    // Of UNAVAILABLE: whether the connection went while the server was at work on the call.
    bool broke = false;
    // And whether this happened before anything had arrived, at a second server too. The call is not carried to
    // further ones: it may be what these died of.
    bool lost = false;
};

}  // namespace outrider
