// What llama-sampler.cpp asks of a model's vocabulary, which is nothing here, and its DRY under a plain name.
#include "llama-sampler.h"
#include "llama-vocab.h"

struct llama_vocab::impl {};

llama_vocab::llama_vocab() = default;
llama_vocab::~llama_vocab() = default;

// Breakers are single tokens.
extern "C" llama_sampler* peer_dry(float multiplier, float base, int32_t allowed_length, int32_t last_n,
                                   const int32_t* breakers, int32_t num_breakers) {
    std::vector<std::vector<llama_token>> sequences;
    for (int32_t i = 0; i < num_breakers; ++i) {
        sequences.push_back({breakers[i]});
    }
    return llama_sampler_init_dry_testing(multiplier, base, allowed_length, last_n, sequences);
}
