#include "cpu/delta_work.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "cpu/recurrence/delta_part.h"
#include "outrider/decoder/limits.h"
#include "sampling/portable_math.h"

namespace outrider::cpu {
namespace {

static_assert(kMostTaps <= kMostStateTaps);

float sigmoid(double x) {
    const double power = portable_exp(-std::fabs(x));
    return static_cast<float>((x < 0.0 ? power : 1.0) / (1.0 + power));
}

double softplus(double x) {
    return std::max(x, 0.0) + portable_log(1.0 + portable_exp(-std::fabs(x)));
}

double exponential(double x) {
    return x > 0.0 ? 1.0 / portable_exp(-x) : portable_exp(x);
}

/// Replaces a row's b and a by rate and decay.
void write_gates(const DeltaRule& op, int64_t row) {
    const int heads = op.shape.value_heads;
    float* rates = op.gates + row * 2 * heads;
    float* decays = rates + heads;
    for (int head = 0; head < heads; ++head) {
        const double step = softplus(double{decays[head]} + double{op.decay_bias[head]});
        rates[head] = sigmoid(rates[head]);
        decays[head] = static_cast<float>(portable_exp(-exponential(op.decay_log[head]) * step));
    }
}

/// The place in a slot's ring of the row at a position.
float* ring_row(const DeltaRule& op, int64_t slot, int64_t position) {
    const DeltaShape& shape = op.shape;
    float* const ring =
        op.slots + slot * shape.slot_size(op.ring_rows) + int64_t{shape.key_dim} * shape.value_size();
    return ring + position % op.ring_rows * shape.ring_width();
}

/// Copies what the ring keeps of a row.
void write_row(const DeltaRule& op, int64_t row, float* to) {
    const DeltaShape& shape = op.shape;
    std::copy_n(op.projected + row * shape.channels(), shape.channels(), to);
    std::copy_n(op.gates + row * 2 * shape.value_heads, 2 * shape.value_heads, to + shape.channels());
}

/// Writes the rows that a convolution reads next into the kept slot's ring.
void write_kept_ring(const DeltaRule& op, int64_t first_row) {
    const StatePlace& place = op.states[op.places.sequences[first_row]];
    const int64_t start = op.places.positions[first_row];
    for (int64_t position = std::max(0, place.kept_position - op.shape.taps + 1);
         position < place.kept_position; ++position) {
        float* const to = ring_row(op, place.kept_slot, position);
        if (position < start) {
            std::copy_n(ring_row(op, place.slot, position), op.shape.ring_width(), to);
        } else {
            write_row(op, first_row + position - start, to);
        }
    }
}

/// Writes the rows of a sequence into its ring, except those that later ones of the pass replace.
void write_ring(const DeltaRule& op, int64_t first_row, int64_t rows) {
    const StatePlace& place = op.states[op.places.sequences[first_row]];
    if (place.kept_slot >= 0) {
        write_kept_ring(op, first_row);
    }
    for (int64_t row = first_row + std::max<int64_t>(0, rows - op.ring_rows); row < first_row + rows; ++row) {
        write_row(op, row, ring_row(op, place.slot, op.places.positions[row]));
    }
}

/// The parts of one head of each sequence.
std::vector<DeltaPart> sequence_parts(const RowPlaces& places) {
    std::vector<DeltaPart> parts;
    for (int64_t row = 0; row < places.rows; ++row) {
        if (row > 0 && places.sequences[row] == places.sequences[row - 1]) {
            ++parts.back().rows;
        } else {
            parts.push_back({.first_row = row, .rows = 1, .head = 0});
        }
    }
    return parts;
}

}  // namespace

/// The heads of a sequence read its ring, so that no row enters it before all of them are done.
void run_delta_rule(ThreadPool& pool, const Kernels& kernels, const DeltaRule& op) {
    const std::vector<DeltaPart> sequences = sequence_parts(op.places);
    const auto count = static_cast<int64_t>(sequences.size());
    pool.parallel_for(op.places.rows, [&](int64_t row) { write_gates(op, row); });
    pool.parallel_for(count * op.shape.value_heads, [&](int64_t task) {
        DeltaPart part = sequences[task / op.shape.value_heads];
        part.head = static_cast<int>(task % op.shape.value_heads);
        kernels.delta_rule(op, part);
    });
    pool.parallel_for(
        count, [&](int64_t index) { write_ring(op, sequences[index].first_row, sequences[index].rows); });
}

}  // namespace outrider::cpu
