// Generation: what has arrived of one stream, and how to take it up again. It does no input or output itself.
#pragma once

#include "outrider/client.h"

namespace outrider {

// One generation over as many calls as it takes.
class Generation {
  public:
    explicit Generation(v1::StreamGenerateRequest request);

    // What to send now: the original request until the generation has started, then its continuation.
    v1::StreamGenerateRequest NextRequest() const;
    // Takes in one event. True if that gives a chunk, or the last text. Throws Error if a server goes on that
    // should have refused.
    bool Receive(const v1::StreamGenerateResponse& response, v1::Chunk* chunk);
    const Received& received() const { return received_; }

  private:
    void ReceiveStarted(const v1::Started& started);

    v1::StreamGenerateRequest request_;
    Received received_;
};

}  // namespace outrider
