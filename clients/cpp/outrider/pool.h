// Pool: the servers that a client may talk to.
#pragma once

#include <grpcpp/channel.h>

#include <atomic>
#include <memory>
#include <vector>

#include "outrider/client.h"

namespace outrider {

struct Pool {
    Options options;
    std::vector<std::shared_ptr<grpc::Channel>> servers;
    std::atomic<int> preferred{0};  // index of the server that calls start with
};

}  // namespace outrider
