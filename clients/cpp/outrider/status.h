// Reads gRPC's statuses.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include "outrider/error.h"

namespace outrider {

// The error that stands for the status of a call that has failed.
Error AsError(const grpc::Status& status, const grpc::ClientContext& context);

}  // namespace outrider
