// Counts the work of kernels, for tests.
#include <cxxabi.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "emulation/emulated_queue.h"

namespace outrider::cuda {
namespace {

std::atomic<int> num_arrivals{0};

struct Launches {
    std::mutex mutex;
    std::map<std::string, int> counts;

    static Launches& instance() {
        static Launches launches;
        return launches;
    }
};

std::string readable(const char* name) {
    const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, nullptr),
                                                      std::free);
    return text ? text.get() : name;
}

}  // namespace

int count_arrivals() {
    return num_arrivals;
}

void count_arrival() {
    ++num_arrivals;
}

std::map<std::string, int> count_launches() {
    Launches& launches = Launches::instance();
    const std::lock_guard<std::mutex> lock(launches.mutex);
    return launches.counts;
}

void count_launch(const std::type_info& kernel) {
    Launches& launches = Launches::instance();
    const std::lock_guard<std::mutex> lock(launches.mutex);
    ++launches.counts[readable(kernel.name())];
}

}  // namespace outrider::cuda
