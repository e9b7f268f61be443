// The text of the simulated model: a pure function of what its memory holds.
#ifndef BOLE_TESTS_SIMULATION_SIMULATED_TEXT_H_
#define BOLE_TESTS_SIMULATION_SIMULATED_TEXT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/sampling_params.h"
#include "common/step.h"

namespace bole::simulation {

// 64 well-mixed bits of two words. The same on every machine and in every
// process, as clients compute the same text as the worker.
uint64_t Mix(uint64_t a, uint64_t b);

// Uniform in [0, 1).
double ToUniform(uint64_t bits);

// What slot and pages hold of a sequence of `length` tokens. `state`, `prompt`
// and `output` come from the slot, `rows` from the pages.
//
// The row of a token is a hash of the token, its position and everything found
// before it, as a row of keys and values is. `state` folds the rows one by one,
// as a recurrent state does. `rows` is the polynomial sum of row_p * g^p, which
// is the same however rows are cut into pages, and differs if two of them
// change places. Whatever is wrong in either therefore changes every later row
// and token.
struct History {
  int32_t length = 0;
  uint64_t state = 0;
  uint64_t rows = 0;
  uint64_t power = 1;   // g^length.
  uint64_t prompt = 0;  // Multiset hashes of the tokens in prompt and output:
  uint64_t output = 0;  // what penalties count.
  // The sum of draft_p * g^p over all tokens but the first: what a drafter that
  // has seen them all has in the pages. Not a part of any text.
  uint64_t drafts = 0;
};

inline constexpr uint64_t kRowBase = 0x9e3779b97f4a7c15;  // g

// The row that `token` gets as the next one of the history.
uint64_t RowOf(const History& history, int32_t token);

// What the drafter has at the position of `next`, which follows the history:
// from the state before it, as from a hidden vector.
uint64_t DraftOf(const History& history, int32_t next);

// The history with one more token, which is output if it stands at or beyond
// `prompt_length`.
History Append(const History& history, int32_t token, int32_t prompt_length);

struct TextOptions {
  std::vector<int32_t> alphabet;     // What the model writes. Not empty.
  std::vector<int32_t> stop_tokens;  // The model's own.
  // Probability that a stop token is drawn at a position.
  double stop_probability = 0;
  uint64_t seed = 0;  // Other seeds are other models.
};

// A model that writes small letters, which are their own bytes in a tokenizer
// of bytes.
TextOptions LetterText();

// How the tokens of one request are drawn. Which sampling parameters count is
// as in the engine: temperature 0 ignores the seed and the filters, and the
// counts of the history matter to requests with penalties alone. Where no stop
// token may be drawn, the next word of the alphabet that is none takes its
// place; if there is none, it stays.
class TokenRule {
 public:
  // `stops`: all that end the request. They and `text` must outlive the rule.
  TokenRule(const TextOptions& text, int32_t prompt_length,
            const SamplingParams& sampling,
            std::span<const int32_t> stops = {});

  // The token that follows `history`. COST: some 10 ns.
  int32_t Next(const History& history) const;

  // 64 bits that depend on all that Next() depends on, for another `purpose`.
  uint64_t Bits(const History& history, uint64_t purpose) const;

  int32_t prompt_length() const { return prompt_length_; }

 private:
  const TextOptions& text_;
  int32_t prompt_length_;
  int32_t min_tokens_;
  std::span<const int32_t> stops_;
  uint64_t parameters_;  // A hash of them.
  bool counts_output_;
  bool counts_prompt_;
};

// What a client is sent for `prompt`: `num_tokens` tokens, or fewer if one of
// `stops` comes first, which is then the last.
std::vector<int32_t> ExpectedOutput(const TextOptions& text,
                                    std::span<const int32_t> prompt,
                                    const SamplingParams& sampling,
                                    int num_tokens,
                                    std::span<const int32_t> stops = {});

// How a token is reported: as the likeliest, with a log probability that `bits`
// give; its alternatives are those that follow it in the vocabulary.
EmittedToken Report(int32_t token, uint64_t bits, int num_alternatives,
                    int vocabulary);

// The same of a prompt's token that follows `history`: whatever else is asked.
EmittedToken ReportOfPrompt(const TextOptions& text, const History& history,
                            int32_t token, int num_alternatives,
                            int vocabulary);

// What a client is sent for the tokens of `prompt` but the first.
std::vector<EmittedToken> ExpectedPromptLogprobs(
    const TextOptions& text, std::span<const int32_t> prompt,
    int num_alternatives, int vocabulary);

}  // namespace bole::simulation

#endif  // BOLE_TESTS_SIMULATION_SIMULATED_TEXT_H_
