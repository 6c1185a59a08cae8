#include "outrider/attempts.h"

#include <algorithm>
#include <cmath>

namespace outrider {
namespace {

constexpr double kFirstBackoff = 0.1;
constexpr double kShortest = 0.01;     // worth a try: a server's clock may end a call that much early
constexpr double kLongestPause = 300;  // that a server can make a client wait
constexpr int kMostBroken =
    1;  // connections that may break before anything has arrived, and the call is made again
constexpr int kMostBrokenResuming = 3;  // and that may break in a row before a further token arrives

// Whether another try may succeed.
bool IsPassing(const Error& error, bool resuming) {
    switch (error.code) {
        case grpc::StatusCode::UNAVAILABLE:
        case grpc::StatusCode::CANCELLED:
            return true;
        case grpc::StatusCode::FAILED_PRECONDITION:
            return resuming;
        case grpc::StatusCode::RESOURCE_EXHAUSTED:
            return resuming || error.retry_after;
        default:
            return false;
    }
}

}  // namespace

Attempts::Attempts(int max_retries, double max_backoff, int num_addresses, int first,
                   std::optional<double> timeout)
    : max_retries_(max_retries), max_backoff_(max_backoff), num_addresses_(num_addresses), address_(first) {
    if (timeout)
        deadline_ = Clock::now() +
                    std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*timeout));
}

std::optional<double> Attempts::TimeLeft() const {
    if (!deadline_)
        return std::nullopt;
    const double left = std::chrono::duration<double>(*deadline_ - Clock::now()).count();
    if (left < kShortest)
        throw Error(grpc::StatusCode::DEADLINE_EXCEEDED, "the time given to the call ran out");
    return left;
}

double Attempts::Failed(const Error& error, bool resuming) {
    if (error.broke)
        CheckBroken(error, resuming);
    if (!IsPassing(error, resuming))
        throw error;
    if (error.code == grpc::StatusCode::CANCELLED)
        TimeLeft();  // which a server's clock may have ended
    if (error.code == grpc::StatusCode::FAILED_PRECONDITION)
        refused_.insert(address_);
    const int num_open = num_addresses_ - static_cast<int>(refused_.size());
    failures_ += 1;
    if (num_open == 0 || failures_ > max_retries_ * num_addresses_)
        throw error;
    do {
        address_ = (address_ + 1) % num_addresses_;
    } while (refused_.count(address_));
    return failures_ % num_open ? 0 : Pause(error, failures_ / num_open);
}

void Attempts::CheckBroken(Error error, bool resuming) {
    num_broken_ += 1;
    if (num_broken_ <= (resuming ? kMostBrokenResuming : kMostBroken))
        return;
    if (resuming)
        throw error;
    const std::string why =
        ": the connection broke before anything had arrived, which the call may have caused";
    error = Error(error.code, error.what() + why);
    error.broke = error.lost = true;
    throw error;
}

double Attempts::Pause(const Error& error, int rounds) {
    const double longest = std::min(max_backoff_, std::ldexp(kFirstBackoff, rounds - 1));
    double pause = longest * std::uniform_real_distribution<double>(0.5, 1)(random_);
    const bool is_full = error.code == grpc::StatusCode::RESOURCE_EXHAUSTED;
    if (is_full)
        pause = std::max(pause, std::min(error.retry_after.value_or(0), kLongestPause));
    const std::optional<double> left = TimeLeft();
    if (!left || pause < *left)
        return pause;
    if (is_full)
        throw error;
    throw Error(
        grpc::StatusCode::DEADLINE_EXCEEDED,
        std::string("the time given to the call ran out before a server could be reached: ") + error.what());
}

}  // namespace outrider
