// Prompts without text: token ids from seeds.
#ifndef BOLE_CLIENTS_BENCH_SYNTHETIC_H_
#define BOLE_CLIENTS_BENCH_SYNTHETIC_H_

#include <cstdint>
#include <vector>

#include "clients/bench/workload.h"

namespace bole::bench {

struct SyntheticOptions {
  int num_sessions = 100;
  int input_tokens = 512;
  int output_tokens = 128;
  // Lengths are drawn evenly from (1 - spread) to (1 + spread) of these.
  double spread = 0;      // [0, 1]
  int shared_prefix = 0;  // Input tokens with which all prompts begin.
  uint64_t seed = 0;
};

// Sessions of one turn. Equal options give equal workloads.
Workload MakeSynthetic(const SyntheticOptions& options);

// Multiplies every length of ids and answers by `factor` and rounds it, to at
// least one token, so that a long trace fits a small context. Texts are not
// changed.
void ScaleLengths(double factor, Workload& workload);

// Puts sessions into an order that `seed` chooses.
void Shuffle(uint64_t seed, Workload& workload);

// Appends the ids of `segment`, all below `vocab_size`, to `ids`. Another
// `load_seed` gives other ids to every segment.
void AppendIds(const Segment& segment, uint64_t load_seed, uint32_t vocab_size,
               std::vector<uint32_t>& ids);

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_SYNTHETIC_H_
