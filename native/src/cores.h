// Cores: lists the cores that this process may use, pins threads to them, and names threads.
#pragma once

#include <thread>
#include <vector>

namespace outrider {

/// The numbers of the cores that the calling thread may run on, in order; empty if the system does not report
/// them.
std::vector<int> available_cores();

/// Pins a thread to one core; if the system refuses, the thread stays unpinned.
void pin(std::thread& thread, int core);

/// Gives the calling thread a name of at most 15 characters, which tools such as `top -H` show.
void name_this_thread(const char* name);

}  // namespace outrider
