// Outrider's client: generated text as it is written, unbroken by servers that come and go.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "outrider/error.h"
#include "outrider/v1/generation.pb.h"

namespace outrider {

// How a client connects, and how persistent it is.
struct Options {
    // PEM certificates to trust; empty leaves connections in the clear.
    std::string authorities;
    // A PEM certificate to show, and its key.
    std::string certificate, key;
    // Shows who calls: over TLS, or to this machine only.
    std::string token;
    // How many times in a row every address is tried again without a token arriving; 0 turns resuming off.
    int max_retries = 10;
    // Seconds that the pauses between such rounds grow to.
    double max_backoff = 5;
};

// What has arrived of a generation that may not be whole.
struct Received {
    std::optional<v1::Started> started;
    std::string text;
    std::vector<uint32_t> token_ids;  // those of the request's own continue_from first
    std::vector<v1::TokenRecord> records, prompt_records;
    std::optional<v1::Finished> finished;  // once the generation is whole
    int resumed = 0;                       // how many times it was interrupted and taken up again
};

struct Pool;

// The chunks of one generation; made by Client::Stream. One thread reads, any may cancel.
class Stream {
  public:
    Stream(std::shared_ptr<Pool> pool, v1::StreamGenerateRequest request, std::optional<double> timeout);
    ~Stream();

    // Waits for the next chunk; false after the last one. A broken connection is resumed
    // unnoticed. Throws Error, after which there is no more.
    bool Read(v1::Chunk* chunk);
    // All that has arrived so far; of a stream that Read has ended with false, the whole.
    const Received& received() const;
    // Ends the call; a caller that waits for the next chunk gets CANCELLED.
    void Cancel();

  private:
    class Call;
    std::unique_ptr<Call> call_;
};

// A connection to one or several servers that hold the same model. Threads may share it.
class Client {
  public:
    // Connects to addresses such as "localhost:50051", the first one first. Throws std::invalid_argument.
    explicit Client(const std::vector<std::string>& addresses, const Options& options = {});

    // Continues a prompt, chunk by chunk; the seconds, from here, are for all attempts together. Throws
    // std::invalid_argument for several samples.
    Stream Generate(v1::StreamGenerateRequest request, std::optional<double> timeout = std::nullopt) const;

  private:
    std::shared_ptr<Pool> pool_;
};

}  // namespace outrider
