#include <grpcpp/client_context.h>

#include <condition_variable>
#include <mutex>
#include <utility>

#include "outrider/attempts.h"
#include "outrider/client.h"
#include "outrider/generation.h"
#include "outrider/pool.h"
#include "outrider/status.h"
#include "outrider/v1/generation.grpc.pb.h"

namespace outrider {
namespace {

std::chrono::system_clock::time_point In(double seconds) {
    const std::chrono::duration<double> time(seconds);
    return std::chrono::system_clock::now() +
           std::chrono::duration_cast<std::chrono::system_clock::duration>(time);
}

}  // namespace

// One generation, the servers that may continue it, and whether it is still wanted.
class Stream::Call {
  public:
    Call(std::shared_ptr<Pool> pool, v1::StreamGenerateRequest request, std::optional<double> timeout)
        : pool_(std::move(pool)),
          generation_(std::move(request)),
          attempts_(pool_->options.max_retries, pool_->options.max_backoff,
                    static_cast<int>(pool_->servers.size()), pool_->preferred, timeout) {}
    ~Call() {
        Cancel();
        if (reader_)
            reader_->Finish();
    }

    bool Read(v1::Chunk* chunk) {
        while (!has_failed_ && !received().finished) {
            try {
                if (ReadEvent(chunk))
                    return true;
            } catch (const Error& error) {
                has_failed_ = true;
                Wait(PauseAfter(error));
                has_failed_ = false;
            }
        }
        return false;
    }

    void Cancel() {
        const std::lock_guard lock(mutex_);
        is_cancelled_ = true;
        if (context_)
            context_->TryCancel();
        cancelled_.notify_all();
    }

    const Received& received() const { return generation_.received(); }

  private:
    // Takes in one event of the call, which it makes if there is none; true if that gives a chunk.
    bool ReadEvent(v1::Chunk* chunk) {
        if (!reader_)
            Begin();
        v1::StreamGenerateResponse response;
        if (!reader_->Read(&response)) {
            const grpc::Status status = reader_->Finish();
            if (status.ok())
                throw Error(grpc::StatusCode::UNAVAILABLE, "the server ended the stream early");
            throw AsError(status, *context_);
        }
        const bool is_chunk = generation_.Receive(response, chunk);
        if (is_chunk && chunk->token_ids_size() > 0)
            attempts_.Progressed();
        return is_chunk;
    }

    void Begin() {
        const std::optional<double> left = attempts_.TimeLeft();
        const auto& server = pool_->servers[attempts_.address()];
        auto context = std::make_unique<grpc::ClientContext>();
        if (left)
            context->set_deadline(In(*left));
        if (!pool_->options.token.empty())
            context->AddMetadata("authorization", "Bearer " + pool_->options.token);
        Watch(std::move(context));
        reader_ =
            v1::GenerationService::NewStub(server)->StreamGenerate(context_.get(), generation_.NextRequest());
    }

    // Makes Cancel end what is called with this context.
    void Watch(std::unique_ptr<grpc::ClientContext> context) {
        const std::lock_guard lock(mutex_);
        context_ = std::move(context);
        if (is_cancelled_)
            context_->TryCancel();
    }

    // Seconds to wait before the next call; throws if there is to be none.
    double PauseAfter(const Error& error) {
        Drop();
        CheckWanted();
        const double pause = attempts_.Failed(error, received().started.has_value());
        pool_->preferred = attempts_.address();
        return pause;
    }

    void Drop() {
        const std::lock_guard lock(mutex_);
        if (context_)
            context_->TryCancel();
        reader_.reset();
        context_.reset();
    }

    // Sleeps, but no longer than until the stream is cancelled, which it throws.
    void Wait(double seconds) {
        std::unique_lock lock(mutex_);
        cancelled_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return is_cancelled_; });
        lock.unlock();
        CheckWanted();
    }

    void CheckWanted() {
        const std::lock_guard lock(mutex_);
        if (is_cancelled_)
            throw Error(grpc::StatusCode::CANCELLED, "the stream was cancelled");
    }

    std::shared_ptr<Pool> pool_;
    Generation generation_;
    Attempts attempts_;
    bool has_failed_ = false;
    std::mutex mutex_;  // guards what tells of being cancelled, and what context there is
    std::condition_variable cancelled_;
    bool is_cancelled_ = false;
    std::unique_ptr<grpc::ClientContext> context_;
    std::unique_ptr<grpc::ClientReader<v1::StreamGenerateResponse>> reader_;
};

Stream::Stream(std::shared_ptr<Pool> pool, v1::StreamGenerateRequest request, std::optional<double> timeout)
    : call_(std::make_unique<Call>(std::move(pool), std::move(request), timeout)) {}

Stream::~Stream() = default;

bool Stream::Read(v1::Chunk* chunk) {
    return call_->Read(chunk);
}

const Received& Stream::received() const {
    return call_->received();
}

void Stream::Cancel() {
    call_->Cancel();
}

}  // namespace outrider
