#include "cuda/sampling/cuda_run_draws.h"

#include <algorithm>

namespace outrider::cuda {
namespace {

constexpr int64_t kReservedDraws = 64;  // per row

/// The edits of all rows, with room for the edits of tokens to be drawn; each RunRow gets the range of its
/// own.
std::vector<Edit> lay_out_edits(const std::vector<RunningRow>& rows, std::vector<RunRow>* run_rows) {
    std::vector<Edit> all;
    for (const RunningRow& from : rows) {
        const auto index = static_cast<int32_t>(run_rows->size());
        const bool counts_tokens = from.row.params().penalises();
        const std::vector<Edit> edits = edits_of(from.row, index);
        const auto first = static_cast<int64_t>(all.size());
        all.insert(all.end(), edits.begin(), edits.end());
        all.insert(all.end(), counts_tokens ? from.count - 1 : 0, {index, kNoToken});
        run_rows->push_back({from.count, counts_tokens, first, static_cast<int64_t>(all.size())});
    }
    return all;
}

}  // namespace

void RunMemory::reserve() {
    rows.reserve(TokenDraws::kReservedRows);
    tokens.reserve(TokenDraws::kReservedRows * kReservedDraws);
}

CudaRunDraws::CudaRunDraws(Stream& stream, TokenDraws& draws, RunMemory& memory,
                           const std::vector<RunningRow>& rows, const NextRows& next)
    : stream_(stream), draws_(draws), memory_(memory) {
    std::vector<SamplingRow> first_rows;
    for (const RunningRow& from : rows) {
        first_rows.push_back(from.row);
        counts_.push_back(from.count);
    }
    std::vector<RunRow> run_rows;
    const std::vector<Edit> edits = lay_out_edits(rows, &run_rows);
    batch_ = draws_.place(first_rows, edits);
    const int most_draws = *std::max_element(counts_.begin(), counts_.end());
    run_ = {memory.rows.upload(run_rows), memory.tokens.reserve(rows.size() * most_draws), batch_.num_rows,
            next};
}

bool CudaRunDraws::draw(int num_rows) {
    for (int64_t first = 0; first < num_rows; first += TokenDraws::kMaxRows) {
        draws_.draw(batch_.part(first, std::min(num_rows - first, TokenDraws::kMaxRows)));
    }
    advance(stream_, batch_.part(0, num_rows), run_, num_draws_++);
    return num_draws_ < *std::max_element(counts_.begin(), counts_.end());
}

std::vector<std::vector<int32_t>> CudaRunDraws::tokens() {
    const std::vector<int32_t> drawn = memory_.tokens.download(num_draws_ * run_.num_rows);
    std::vector<std::vector<int32_t>> tokens(counts_.size());
    for (size_t row = 0; row < counts_.size(); ++row) {
        for (int draw = 0; draw < counts_[row]; ++draw) {
            const int32_t token_id = drawn[draw * run_.num_rows + row];
            if (token_id == kNoToken) {
                break;
            }
            tokens[row].push_back(token_id);
        }
    }
    return tokens;
}

}  // namespace outrider::cuda
