#ifndef BOLE_KERNELS_REFERENCE_COUNT_TOKENS_H_
#define BOLE_KERNELS_REFERENCE_COUNT_TOKENS_H_

#include <cstdint>

#include "kernels/sampling.h"

namespace bole::reference {

// Whether the draws of a request depend on its previous tokens.
inline bool HasPenalties(const SamplingControl& control) {
  return control.presence_penalty != 0 || control.frequency_penalty != 0 ||
         control.repetition_penalty != 1;
}

// Adds the token at a position to one slot's counts [V].
inline void CountToken(const SamplingControl& control, int32_t position,
                       int32_t token, int32_t* count) {
  if (position >= control.prompt_length) {
    ++count[token];
  } else {
    count[token] |= kPromptToken;
  }
}

// The contracts are in kernels/sampling.h. Requests without rows are skipped:
// their slots are not accessed.
void CountTokens(const CountTokensParams& params);
void OutputToPrompt(const OutputToPromptParams& params);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_COUNT_TOKENS_H_
