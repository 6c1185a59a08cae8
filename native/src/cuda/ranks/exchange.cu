#include <cstdint>
#include <stdexcept>

#include "cuda/primitives/instructions.cuh"
#include "cuda/primitives/launch.cuh"
#include "cuda/primitives/peers.cuh"
#include "cuda/ranks/exchange.h"
#include "cuda/values/words.h"

namespace outrider::cuda {
namespace {

/// Each rank writes its columns into the mailboxes of the others, signals, waits for their signals, and copies their
/// columns from its own mailbox. A rank that writes into a half again has seen signals of a later turn from all others,
/// which had read that half before.
template <int kWords>
struct ExchangedColumns {
    static constexpr int kThreads = 512;
    static constexpr int kBlocksPerMultiprocessor = 2;
    using Word = Words<kWords>;

    char* data;
    int64_t stride;             // bytes
    int64_t width;              // bytes
    int first[kMostRanks + 1];  // words of a row
    uint32_t rows;
    bool only_first;
    Mailboxes boxes;

    __device__ void operator()(const Block& block) const {
        const int own = boxes.rank.index;
        const uint32_t turn = boxes.own_turns[block.index] + 1;
        const size_t half = (turn & 1) * boxes.half_bytes;
        if (!only_first || own != 0) {
            write_own(block, half);
        }
        publish_to_peers();
        block.synchronize();
        const int peer = block.thread;
        const bool has_peer = peer < boxes.rank.count && peer != own;
        const auto place = [&](int rank) { return rank * boxes.blocks + block.index; };
        if (has_peer) {
            signal_peer(boxes.turns[peer] + place(own), turn);
        }
        block.synchronize();
        if (has_peer) {
            wait_for_peer(boxes.turns[own] + place(peer), turn);
        }
        block.synchronize();
        for (int from = 0; from < boxes.rank.count && (!only_first || own == 0); ++from) {
            if (from != own) {
                read_columns(block, from, boxes.rows[own] + half);
            }
        }
        if (block.thread == 0) {
            boxes.own_turns[block.index] = turn;
        }
    }

  private:
    __device__ void write_own(const Block& block, size_t half) const {
        const int peers = only_first ? 1 : boxes.rank.count;
        for_words(block, boxes.rank.index, [&](int64_t row, int64_t place) {
            const Word word = *reinterpret_cast<const Word*>(data + row * stride + place);
            for (int peer = 0; peer < peers; ++peer) {
                if (peer != boxes.rank.index) {
                    *reinterpret_cast<Word*>(boxes.rows[peer] + half + row * width + place) = word;
                }
            }
        });
    }

    __device__ void read_columns(const Block& block, int from, const char* mailbox) const {
        for_words(block, from, [&](int64_t row, int64_t place) {
            *reinterpret_cast<Word*>(data + row * stride + place) =
                read_written(mailbox + row * width + place);
        });
    }

    __device__ static Word read_written(const char* from) {
        if constexpr (kWords == 4) {
            return load_written_words(from);
        } else {
            return {{bit_cast<uint32_t>(load_written(reinterpret_cast<const float*>(from)))}};
        }
    }

    /// Calls visit(row, byte in the row) for this thread's words of a rank's columns.
    template <typename Visit>
    __device__ void for_words(const Block& block, int rank, const Visit& visit) const {
        const auto each = static_cast<uint32_t>(first[rank + 1] - first[rank]);
        const uint32_t count = rows * each;
        for (uint32_t i = block.index * kThreads + block.thread; i < count; i += boxes.blocks * kThreads) {
            const uint32_t row = i / each;
            visit(row, (first[rank] + i - row * each) * static_cast<int64_t>(sizeof(Word)));
        }
    }
};

/// The first byte of each rank's columns, and the end.
int64_t first_byte(const ExchangeColumns& op, Rank rank, int index) {
    rank.index = index;
    return static_cast<int64_t>(rank.first(op.width)) * static_cast<int64_t>(op.value_bytes);
}

bool are_multiples(const ExchangeColumns& op, const Rank& rank, int64_t unit) {
    const auto bytes = static_cast<int64_t>(op.value_bytes);
    bool are = reinterpret_cast<uintptr_t>(op.data) % unit == 0 && op.stride * bytes % unit == 0;
    for (int index = 0; index <= rank.count; ++index) {
        are = are && first_byte(op, rank, index) % unit == 0;
    }
    return are;
}

template <int kWords>
void launch_exchange(const Stream& stream, const ExchangeColumns& op, const Mailboxes& boxes) {
    const auto bytes = static_cast<int64_t>(op.value_bytes);
    ExchangedColumns<kWords> kernel{.data = static_cast<char*>(op.data),
                                    .stride = op.stride * bytes,
                                    .width = op.width * bytes,
                                    .first = {},
                                    .rows = static_cast<uint32_t>(op.rows),
                                    .only_first = op.only_first,
                                    .boxes = boxes};
    for (int index = 0; index <= boxes.rank.count; ++index) {
        kernel.first[index] = static_cast<int>(first_byte(op, boxes.rank, index) / (4 * kWords));
    }
    for_each_block(stream, boxes.blocks, 0, kernel);
    if (boxes.are_on_one_gpu) {
        stream.hold_next();  // waiting blocks of the next kernel would take the room of a peer's exchange
    }
}

}  // namespace

void exchange(const Stream& stream, const ExchangeColumns& op, const Mailboxes& boxes) {
    if (are_multiples(op, boxes.rank, 16)) {
        launch_exchange<4>(stream, op, boxes);
    } else if (are_multiples(op, boxes.rank, 4)) {
        launch_exchange<1>(stream, op, boxes);
    } else {
        throw std::invalid_argument("the columns of a rank must begin at a multiple of four bytes");
    }
}

}  // namespace outrider::cuda
