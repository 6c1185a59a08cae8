// Cores: lists the cores that this process may use, and pins threads to them.
#pragma once

#include <thread>
#include <vector>

namespace outrider {

/// The numbers of the cores that the calling thread may run on, in order; empty if the system does not report
/// them.
std::vector<int> available_cores();

/// Pins a thread to one core; if the system refuses, the thread stays unpinned.
void pin(std::thread& thread, int core);

}  // namespace outrider
