#include "worker_service/ranks/round_digest.h"

#include <bit>
#include <optional>
#include <vector>

namespace bole {
namespace {

class Digest {
 public:
  uint64_t value() const { return value_; }

  // Both lines are bijections, of the value and of the number.
  void Add(uint64_t number) {
    value_ = (value_ ^ number) * 0x9e3779b97f4a7c15;
    value_ ^= value_ >> 32;
  }
  void Add(int32_t number) { Add(uint64_t{static_cast<uint32_t>(number)}); }
  void Add(float number) { Add(uint64_t{std::bit_cast<uint32_t>(number)}); }
  void Add(bool is_so) { Add(uint64_t{is_so}); }

  void Add(const TokenLogprob& token) {
    Add(token.token);
    Add(token.logprob);
  }
  void Add(const EmittedToken& token) {
    Add(token.token);
    Add(token.logprob);
    Add(token.top);
  }
  void Add(const ProposalTree& tree) {
    Add(tree.parent);
    Add(tree.token);
    Add(tree.log_rho);
  }
  // Everything else in a forest follows from these.
  void Add(const PackedForest& forest) {
    Add(forest.first_node);
    Add(forest.parent);
    Add(forest.token);
  }
  void Add(const SequenceResult& result) {
    Add(result.committed);
    Add(result.emitted);
    Add(result.accepted_drafts);
    Add(result.promised_drafts);
    Add(result.proposal);
    Add(result.bad_logits_position);
    Add(result.prompt_logprobs);
  }
  template <typename T>
  void Add(const std::vector<T>& values) {
    Add(uint64_t{values.size()});
    for (const T& value : values) Add(value);
  }
  template <typename T>
  void Add(const std::optional<T>& value) {
    Add(value.has_value());
    if (value) Add(*value);
  }

 private:
  uint64_t value_ = 0;
};

}  // namespace

uint64_t DigestOf(const StepResult& result) {
  Digest digest;
  digest.Add(result.prefills);
  digest.Add(result.sequences);
  digest.Add(result.round);
  digest.Add(result.is_last);
  digest.Add(result.forest);
  return digest.value();
}

}  // namespace bole
