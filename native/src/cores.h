// Cores: which ones this process may use, and threads that stay on one of them.
#pragma once

#include <thread>
#include <vector>

namespace outrider {

/// The numbers of the cores that the calling thread may run on, in order; empty where the system does not
/// say.
std::vector<int> available_cores();

/// Keeps a thread on one core; where the system refuses, it goes on anywhere.
void pin(std::thread& thread, int core);

}  // namespace outrider
