// Attempts: which address to try next, when, and when to give up.
#pragma once

#include <chrono>
#include <optional>
#include <random>
#include <set>

#include "outrider/error.h"

namespace outrider {

// The attempts at one call, over all addresses, under one deadline. Times are in seconds.
class Attempts {
  public:
    Attempts(int max_retries, double max_backoff, int num_addresses, int first,
             std::optional<double> timeout);

    // Index of the address to use now.
    int address() const { return address_; }
    // Until the deadline; throws Error when there are hardly any left.
    std::optional<double> TimeLeft() const;
    // Counts retries anew.
    void Progressed() { failures_ = num_broken_ = 0; }

    // Moves to the next address and returns how long to wait before using it; throws the error when it is
    // time to stop.
    //
    // A server that is full is asked again when it says, if it does, after the others. One that does not say,
    // or has another fingerprint, is passed over only when there is something to resume. A call that one
    // server after another breaks down at is not carried on to all of them.
    double Failed(const Error& error, bool resuming);

  private:
    // Counts a connection that broke; throws the error if it was one too many.
    void CheckBroken(Error error, bool resuming);
    double Pause(const Error& error, int rounds);

    using Clock = std::chrono::steady_clock;
    int max_retries_;
    double max_backoff_;
    int num_addresses_;
    int address_;
    std::optional<Clock::time_point> deadline_;
    std::set<int> refused_;
    int failures_ = 0;
    int num_broken_ = 0;
    std::minstd_rand random_{std::random_device{}()};
};

}  // namespace outrider
