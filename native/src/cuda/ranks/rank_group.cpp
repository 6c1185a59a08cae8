#include "cuda/ranks/rank_group.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace outrider::cuda {
namespace {

constexpr size_t kMailboxUnit = 256;            // bytes
constexpr size_t kMostBytes = size_t{1} << 32;  // of an exchange, whose words are counted in 32 bits

class CudaRankLink final : public RankLink {
  public:
    CudaRankLink(std::shared_ptr<RankGroup> group, int rank) : group_(std::move(group)), rank_(rank) {}

    bool reserve(size_t bytes) override {
        const int moves = group_->reserve(bytes);
        return std::exchange(moves_, moves) != moves;
    }
    void exchange(const ExchangeColumns& op) override { group_->exchange(rank_, op); }

  private:
    std::shared_ptr<RankGroup> group_;
    int rank_;
    int moves_ = 0;
};

}  // namespace

RankGroup::RankGroup(std::vector<RankDevice> devices) : devices_(std::move(devices)) {
    const size_t turns = devices_.size() * kMostExchangeBlocks;
    for (const RankDevice& each : devices_) {
        if (each.device->name() != devices_.front().device->name()) {
            throw std::invalid_argument("devices: are " + devices_.front().device->name() + " and " +
                                        each.device->name() + "; those that hold a model must be alike");
        }
        for (const RankDevice& peer : devices_) {
            if (&each != &peer && each.stream == peer.stream) {
                throw std::invalid_argument("devices: the same one is given twice");
            }
            are_on_one_gpu_ |= &each != &peer && !each.stream->reach(*peer.stream);
        }
        mailboxes_.push_back(
            {.rows = {}, .turns = {each.device, turns}, .own_turns = {each.device, kMostExchangeBlocks}});
    }
    for (const RankDevice& each : devices_) {
        each.device->synchronize();  // the turns are zero before any peer writes them
    }
}

/// A rank's stream waits in each exchange for all that others write. So if all ranks have enqueued the same exchanges,
/// memory whose stream is idle is written by none.
int RankGroup::reserve(size_t bytes) {
    if (bytes > half_bytes_) {
        half_bytes_ = 0;
        const size_t half = (bytes + kMailboxUnit - 1) / kMailboxUnit * kMailboxUnit;
        for (size_t rank = 0; rank < devices_.size(); ++rank) {
            mailboxes_[rank].rows.reserve(devices_[rank].device, 2 * half);
            devices_[rank].device->synchronize();  // it is zeroed before any peer writes
        }
        half_bytes_ = half;
        ++moves_;
    }
    return moves_;
}

void RankGroup::exchange(int rank, const ExchangeColumns& op) const {
    const size_t room = std::min(half_bytes_, kMostBytes) / op.row_bytes();
    if (room == 0 && op.rows > 0) {
        throw std::logic_error("there is no room to exchange a row");
    }
    ExchangeColumns part = op;
    for (int first = 0; first < op.rows; first += part.rows) {
        part.data = static_cast<char*>(op.data) + first * op.stride * op.value_bytes;
        part.rows = static_cast<int>(std::min<size_t>(room, op.rows - first));
        cuda::exchange(*devices_[rank].stream, part, boxes_of(rank));
    }
}

/// Ranks on one GPU leave half of it to those that still compute.
int RankGroup::blocks() const {
    const int part = devices_.front().stream->multiprocessors() / (2 * static_cast<int>(devices_.size()));
    return are_on_one_gpu_ ? std::clamp(part, 1, kMostExchangeBlocks) : kMostExchangeBlocks;
}

Mailboxes RankGroup::boxes_of(int rank) const {
    Mailboxes boxes{.rank = {rank, static_cast<int>(devices_.size())},
                    .rows = {},
                    .turns = {},
                    .own_turns = mailboxes_[rank].own_turns.data(),
                    .half_bytes = half_bytes_,
                    .blocks = blocks(),
                    .are_on_one_gpu = are_on_one_gpu_};
    for (size_t each = 0; each < devices_.size(); ++each) {
        boxes.rows[each] = mailboxes_[each].rows.data();
        boxes.turns[each] = mailboxes_[each].turns.data();
    }
    return boxes;
}

std::vector<std::unique_ptr<RankLink>> link_ranks(std::vector<RankDevice> devices) {
    const auto count = static_cast<int>(devices.size());
    const auto group = std::make_shared<RankGroup>(std::move(devices));
    std::vector<std::unique_ptr<RankLink>> links;
    for (int rank = 0; rank < count; ++rank) {
        links.push_back(std::make_unique<CudaRankLink>(group, rank));
    }
    return links;
}

}  // namespace outrider::cuda
