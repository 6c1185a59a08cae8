#include "outrider/generation.h"

#include <utility>

namespace outrider {

Generation::Generation(v1::StreamGenerateRequest request) : request_(std::move(request)) {
    request_.mutable_output()->set_prompt_token_ids(true);
    const auto& token_ids = request_.continue_from().token_ids();
    received_.token_ids.assign(token_ids.begin(), token_ids.end());
}

v1::StreamGenerateRequest Generation::NextRequest() const {
    v1::StreamGenerateRequest request = request_;
    if (!received_.started)
        return request;
    const v1::Started& started = *received_.started;
    const v1::Chat& chat = request_.prompt().chat();
    if (request_.prompt().has_chat() && chat.tool_choice().mode() != v1::TOOL_CHOICE_MODE_NONE)
        *request.mutable_output()->mutable_tools() = chat.tools();  // parsing their calls needs the schemas
    *request.mutable_prompt()->mutable_token_ids()->mutable_ids() = started.prompt_token_ids();
    request.mutable_sampling()->set_seed(started.seed());
    request.set_request_id(started.request_id());
    if (started.has_grammar())  // the server's own, where it made one of a tool choice
        *request.mutable_grammar() = started.grammar();
    v1::Continuation& continuation = *request.mutable_continue_from();
    continuation.set_fingerprint(started.fingerprint());
    continuation.mutable_token_ids()->Assign(received_.token_ids.begin(), received_.token_ids.end());
    return request;
}

bool Generation::Receive(const v1::StreamGenerateResponse& response, v1::Chunk* chunk) {
    switch (response.event_case()) {
        case v1::StreamGenerateResponse::kStarted:
            ReceiveStarted(response.started());
            return false;
        case v1::StreamGenerateResponse::kPrefill:
            for (const v1::TokenRecord& record : response.prefill().records())
                received_.prompt_records.push_back(record);
            return false;
        case v1::StreamGenerateResponse::kChunk:
            *chunk = response.chunk();
            break;
        case v1::StreamGenerateResponse::kFinished:
            received_.finished = response.finished();
            chunk->Clear();
            chunk->set_text(response.finished().text());
            *chunk->mutable_message_deltas() = response.finished().message_deltas();
            break;
        default:
            return false;  // an event that is newer than this client
    }
    received_.text += chunk->text();
    received_.token_ids.insert(received_.token_ids.end(), chunk->token_ids().begin(),
                               chunk->token_ids().end());
    received_.records.insert(received_.records.end(), chunk->records().begin(), chunk->records().end());
    return response.has_chunk() || !chunk->text().empty() || chunk->message_deltas_size() > 0;
}

void Generation::ReceiveStarted(const v1::Started& started) {
    if (!received_.started) {
        received_.started = started;
        return;
    }
    const v1::Started& first = *received_.started;
    if (started.fingerprint() != first.fingerprint() || started.seed() != first.seed())
        throw Error(grpc::StatusCode::FAILED_PRECONDITION,
                    "the server continues with fingerprint " + started.fingerprint() + " and seed " +
                        std::to_string(started.seed()) + ", but the generation has " + first.fingerprint() +
                        " and " + std::to_string(first.seed()));
    received_.resumed += 1;
    if (received_.token_ids.empty())
        received_.prompt_records.clear();  // they come anew
}

}  // namespace outrider
