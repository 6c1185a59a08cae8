// exllamav2's sampling.cpp under plain names. Each cuts or changes `probs` and `ids` in place, and returns
// how many are left.
#include "cpp/sampling.h"

extern "C" {

int peer_softmax(int vocab, float temperature, const float* logits, float exponent, float* probs) {
    return softmax_cpu(vocab, temperature, logits, nullptr, exponent, probs);
}

int peer_top_k(int count, float* probs, int* ids, float k) {
    return top_k_cpu(count, probs, ids, static_cast<int>(k));
}

int peer_top_p(int count, float* probs, int* ids, float p) {
    return top_p_cpu(count, probs, ids, p);
}

int peer_top_a(int count, float* probs, int* ids, float a) {
    return top_a_cpu(count, probs, ids, a);
}

int peer_min_p(int count, float* probs, int* ids, float p) {
    return min_p_cpu(count, probs, ids, p);
}

int peer_tail_free(int count, float* probs, int* ids, float z) {
    return tfs_cpu(count, probs, ids, z);
}

int peer_typical(int count, float* probs, int* ids, float p) {
    return typical_cpu(count, probs, ids, p);
}

int peer_mirostat(int count, float* probs, int* ids, float tau) {
    return mirostat_pre_cpu(count, probs, ids, 2 * tau, tau, 0);
}

int peer_xtc(int count, float* probs, int* ids, bool* mask, float threshold) {
    return xtc_cpu(count, probs, ids, mask, 1, threshold);
}

int peer_temperature(int count, float* probs, int* ids, float least, float most, float exponent) {
    return post_softmax_temperature(count, probs, ids, 1, least, most, exponent);
}

// Draws with a number in (0, 1) among tokens sorted by probability; the drawn one is at place 0 afterwards.
int peer_draw(int count, float* probs, int* ids, float random) {
    const int left = sort_descending(count, probs, ids, 0);
    return multinomial_cpu(left, probs, ids, random);
}

void peer_penalties(int vocab, const uint64_t* tokens, int count, float repetition, int last_n, int decay,
                    float frequency, float presence, float* logits) {
    apply_rep_penalty_cpu(vocab, tokens, repetition, last_n, decay, frequency, presence, count, logits);
}
}
