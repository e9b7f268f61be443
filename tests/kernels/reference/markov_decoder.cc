#include "tests/kernels/reference/markov_decoder.h"

#include <algorithm>
#include <random>

#include "kernels/reference/count_tokens.h"
#include "kernels/reference/top_k.h"

namespace bole::testing {
namespace {

constexpr int kLevels = 2;

// The root continues `text` with its last token; its texts end in each node.
struct DraftTree {
  NodeList nodes;
  std::vector<std::vector<int32_t>> text;
};

DraftTree Propose(const MarkovTarget& target, Drafts drafts,
                  const std::vector<int32_t>& text) {
  DraftTree tree{{{text.back()}, {-1}}, {text}};
  if (drafts == Drafts::kNone) return tree;
  const int num_children = drafts == Drafts::kChain ? 1 : 3;
  int first = 0;
  for (int level = 0; level < kLevels; ++level) {
    const int end = static_cast<int>(tree.text.size());
    for (; first < end; ++first) {
      for (const reference::TokenLogit& child : reference::BestTokens(
               target.LogitsAfter(tree.text[first]), num_children)) {
        tree.nodes.token.push_back(child.token);
        tree.nodes.parent.push_back(first);
        std::vector<int32_t> longer = tree.text[first];
        longer.push_back(child.token);
        tree.text.push_back(longer);
      }
    }
  }
  return tree;
}

}  // namespace

MarkovTarget::MarkovTarget(int vocabulary, uint32_t seed)
    : vocabulary_(vocabulary) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0, 1.5f);
  logits_.resize(vocabulary * vocabulary);
  for (std::vector<float>& row : logits_) {
    for (int v = 0; v < vocabulary; ++v) row.push_back(normal(rng));
  }
}

const std::vector<float>& MarkovTarget::LogitsAfter(
    std::span<const int32_t> text) const {
  const int last = text.back();
  const int before = text.size() > 1 ? text[text.size() - 2] : last;
  return logits_[before * vocabulary_ + last];
}

std::vector<DecodedText> Decode(const MarkovTarget& target, Drafts drafts,
                                int32_t first_token, int num_tokens,
                                std::span<const SamplingControl> controls) {
  const int num_requests = static_cast<int>(controls.size());
  // Nothing of a slot may matter before its first round.
  std::vector<int32_t> counts(num_requests * target.vocabulary(), 12345);
  std::vector<DecodedText> decoded(num_requests);
  std::vector<std::vector<int32_t>> text(num_requests, {first_token});
  for (int left = num_requests; left > 0;) {
    std::vector<SampledRequest> requests(num_requests);
    for (int b = 0; b < num_requests; ++b) {
      const int missing = num_tokens - static_cast<int>(text[b].size()) + 1;
      SampledRequest& request = requests[b];
      request.control = controls[b];
      request.control.prompt_length = 1;
      request.control.max_tokens = std::max(missing, 1);
      request.slot = b;
      request.committed = static_cast<int32_t>(text[b].size()) - 1;
      if (missing == 0) continue;  // Done: a request without rows.
      const DraftTree tree = Propose(target, drafts, text[b]);
      request.nodes = tree.nodes;
      for (const std::vector<int32_t>& longer : tree.text) {
        request.logits.push_back(target.LogitsAfter(longer));
      }
    }
    SampleBatch batch(requests, target.vocabulary(), target.vocabulary(),
                      counts);
    const std::vector<SampledPath> paths = batch.Run();
    reference::CountTokens(batch.count_params());
    left = 0;
    for (int b = 0; b < num_requests; ++b) {
      for (const SampledVisit& visit : paths[b].visits) {
        text[b].push_back(visit.token);
        decoded[b].tokens.push_back(visit.token);
        decoded[b].logprobs.push_back(visit.logprob);
      }
      decoded[b].accepted += paths[b].accepted;
      if (std::ssize(decoded[b].tokens) < num_tokens) ++left;
    }
  }
  return decoded;
}

}  // namespace bole::testing
