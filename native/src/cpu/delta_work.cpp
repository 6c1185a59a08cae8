#include "cpu/delta_work.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "recurrence/delta_gates.h"

namespace outrider::cpu {
namespace {

/// Replaces a row's b and a by rate and decay.
void write_gates(const DeltaRule& op, int64_t row) {
    const int heads = op.shape.value_heads;
    float* rates = op.gates + row * 2 * heads;
    float* decays = rates + heads;
    for (int head = 0; head < heads; ++head) {
        rates[head] = delta_rate(rates[head]);
        decays[head] = delta_decay(op.decay_log[head], double{decays[head]} + double{op.decay_bias[head]});
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
void write_kept_ring(const DeltaRule& op, const StatePlace& place) {
    const int64_t start = op.places.positions[place.first_row];
    for (int64_t position = std::max(0, place.kept_position - op.shape.taps + 1);
         position < place.kept_position; ++position) {
        float* const to = ring_row(op, place.kept_slot, position);
        if (position < start) {
            std::copy_n(ring_row(op, place.slot, position), op.shape.ring_width(), to);
        } else {
            write_row(op, place.first_row + position - start, to);
        }
    }
}

/// Writes the rows of a sequence into its ring, except those that later ones of the pass replace.
void write_ring(const DeltaRule& op, const StatePlace& place) {
    if (place.kept_slot >= 0) {
        write_kept_ring(op, place);
    }
    const int end = place.first_row + place.rows;
    for (int row = std::max(place.first_row, end - op.ring_rows); row < end; ++row) {
        write_row(op, row, ring_row(op, place.slot, op.places.positions[row]));
    }
}

/// The states of the sequences that have active rows.
std::vector<StatePlace> states_of(const DeltaRule& op) {
    std::vector<StatePlace> states;
    std::copy_if(op.states, op.states + op.sequences, std::back_inserter(states),
                 [&](const StatePlace& place) {
                     return place.rows > 0 && op.places.positions[place.first_row] != kInactive;
                 });
    return states;
}

}  // namespace

/// The heads of a sequence read its ring, so that no row enters it before all of them are done.
void run_delta_rule(ThreadPool& pool, const Kernels& kernels, const DeltaRule& op) {
    const std::vector<StatePlace> states = states_of(op);
    const auto count = static_cast<int64_t>(states.size());
    const int heads = op.shape.value_heads;
    pool.parallel_for(op.places.rows, [&](int64_t row) { write_gates(op, row); });
    pool.parallel_for(count * heads, [&](int64_t task) {
        kernels.delta_rule(op, states[task / heads], static_cast<int>(task % heads));
    });
    pool.parallel_for(count, [&](int64_t index) { write_ring(op, states[index]); });
}

}  // namespace outrider::cpu
