#include "cores.h"

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

namespace outrider {

#if defined(__linux__)

std::vector<int> available_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    std::vector<int> cores;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        for (int core = 0; core < CPU_SETSIZE; ++core) {
            if (CPU_ISSET(core, &set)) {
                cores.push_back(core);
            }
        }
    }
    return cores;
}

void pin(std::thread& thread, int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    pthread_setaffinity_np(thread.native_handle(), sizeof(set), &set);
}

void name_this_thread(const char* name) {
    pthread_setname_np(pthread_self(), name);
}

#else

std::vector<int> available_cores() {
    return {};
}

void pin(std::thread&, int) {}

void name_this_thread(const char*) {}

#endif

}  // namespace outrider
