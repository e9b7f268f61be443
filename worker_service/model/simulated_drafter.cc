#include "worker_service/model/simulated_drafter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>

#include "absl/strings/str_format.h"
#include "common/proposal_tree.h"
#include "common/select_nodes.h"

namespace bole {
namespace {

struct Draft {
  int32_t token;
  float log_prob;
};

class SimulatedDrafter {
 public:
  SimulatedDrafter(const MarkovChain& chain, std::span<const int32_t> listed)
      : chain_(chain),
        listed_(listed),
        is_listed_(chain.options.num_tokens / kSuccessors),
        drafts_(chain.options.num_tokens) {
    for (const int32_t token : listed) is_listed_[token / kSuccessors] = true;
  }

  // Grows a tree as the drafter of an engine does (EAGLE-2).
  ProposalTree Grow(int32_t root, const DraftShape& shape) {
    ProposalTree tree{.parent = {kNoParent}, .token = {root}, .log_rho = {0}};
    std::vector<int> frontier = {0};
    for (int level = 0; level < shape.depth; ++level) {
      const int first = tree.size();
      for (const int parent : frontier) {
        const Drafts& drafts = DraftsAfter(tree.token[parent]);
        for (int i = 0; i < std::min(shape.top_k, kSuccessors); ++i) {
          tree.parent.push_back(parent);
          tree.token.push_back(drafts[i].token);
          tree.log_rho.push_back(tree.log_rho[parent] + drafts[i].log_prob);
        }
      }
      frontier.resize(tree.size() - first);
      std::iota(frontier.begin(), frontier.end(), first);
      std::stable_sort(frontier.begin(), frontier.end(), [&](int a, int b) {
        return tree.log_rho[a] > tree.log_rho[b];
      });
      frontier.resize(std::min<size_t>(shape.top_k, frontier.size()));
    }
    return tree;
  }

 private:
  using Drafts = std::array<Draft, kSuccessors>;  // Likeliest first.

  const Drafts& DraftsAfter(int32_t token) {
    Drafts& drafts = drafts_[token];
    if (drafts[0].log_prob == 0) drafts = MakeDrafts(token);
    return drafts;
  }

  Drafts MakeDrafts(int32_t token) const {
    const MarkovCode& code = chain_.code;
    double coefficient[kSuccessors];
    for (uint32_t i = 0; i < kSuccessors / 4; ++i) {
      const DraftRanks ranks = DraftRanksOf(code, token, i);
      for (int j = 0; j < 4; ++j) {
        coefficient[4 * i + j] =
            ranks.value[j] / (double{kTextUnit} * kTextUnit);
      }
    }
    uint32_t group = DraftGroup(code, token);
    // In place of a group that is not listed, the drafter takes an arbitrary
    // one that is.
    if (!is_listed_[group]) {
      group = listed_[token % listed_.size()] / kSuccessors;
    }
    const uint32_t place = LikeliestSuccessor(code, token) % kSuccessors;
    Drafts drafts;
    double sum = 0;
    for (uint32_t m = 0; m < kSuccessors; ++m) {
      double logit = 0;
      for (uint32_t k = 1; k < kSuccessors; ++k) {
        logit += Walsh(k, m) * coefficient[k];
      }
      logit *= chain_.rank_scale / kSuccessors;
      sum += std::exp(logit);
      drafts[m] = {static_cast<int32_t>(group * kSuccessors + (place ^ m)),
                   static_cast<float>(logit)};
    }
    for (Draft& draft : drafts) {
      // Kept below 0, because 0 marks drafts that have not been made.
      draft.log_prob =
          std::min(-1e-6f, draft.log_prob - static_cast<float>(std::log(sum)));
    }
    std::stable_sort(
        drafts.begin(), drafts.end(),
        [](const Draft& a, const Draft& b) { return a.log_prob > b.log_prob; });
    return drafts;
  }

  const MarkovChain& chain_;
  const std::span<const int32_t> listed_;
  std::vector<bool> is_listed_;  // By group.
  std::vector<Drafts> drafts_;   // By token, made on first use.
};

int32_t NextToken(const MarkovChain& chain, int32_t token,
                  std::mt19937_64& random) {
  const bool is_second = IsBranch(chain.code, token) && random() % 2 == 0;
  return chain.Successor(token, is_second ? 1 : 0);
}

// Runs a round that begins after `token`, and sets `token` to the round's last
// one. Returns the number of tokens.
int RunRound(const MarkovChain& chain, const ProposalTree& tree, int nodes,
             std::mt19937_64& random, int32_t& token) {
  std::vector<bool> is_selected(tree.size());
  for (const NodeRef ref : SelectNodes({&tree, 1}, nodes)) {
    is_selected[ref.node] = true;
  }
  int accepted = 1;
  int at = 0;
  token = NextToken(chain, token, random);
  for (int i = 1; i < tree.size(); ++i) {
    if (tree.parent[i] != at || tree.token[i] != token || !is_selected[i]) {
      continue;
    }
    at = i;
    ++accepted;
    token = NextToken(chain, token, random);
  }
  return accepted;
}

}  // namespace

std::vector<std::vector<int>> AcceptedTokens(const MarkovChain& chain,
                                             std::span<const int32_t> listed,
                                             const VerifiedTree& tree,
                                             const SimulatedTexts& texts) {
  constexpr int kSkippedRounds = 2;
  SimulatedDrafter drafter(chain, listed);
  std::mt19937_64 random(1);
  std::vector<std::vector<int>> accepted;
  for (int rounds = 0; rounds < texts.rounds;) {
    // Multiples of the golden section fill the chain evenly.
    const double place = std::fmod(
        static_cast<double>(accepted.size()) * 0.6180339887498949, 1.0);
    auto token = static_cast<int32_t>(place * chain.options.num_tokens);
    std::vector<int>& request = accepted.emplace_back();
    int tokens = 0;
    for (int round = 0; tokens < texts.tokens; ++round) {
      const int of_round = RunRound(chain, drafter.Grow(token, tree.shape),
                                    tree.nodes, random, token);
      if (round < kSkippedRounds) continue;
      request.push_back(of_round);
      tokens += of_round;
      ++rounds;
    }
  }
  return accepted;
}

double MeanAcceptedTokens(const MarkovChain& chain,
                          std::span<const int32_t> listed,
                          const VerifiedTree& tree) {
  int64_t tokens = 0;
  size_t rounds = 0;
  for (const std::vector<int>& request :
       AcceptedTokens(chain, listed, tree, {})) {
    tokens = std::accumulate(request.begin(), request.end(), tokens);
    rounds += request.size();
  }
  return static_cast<double>(tokens) / static_cast<double>(rounds);
}

absl::Status SetAcceptedTokens(double accept, std::span<const int32_t> listed,
                               const VerifiedTree& tree, MarkovChain& chain) {
  constexpr int kHalvings = 10;
  constexpr double kMinNoise = 0.01;
  const auto mean_of = [&](double noise) {
    SetDraftNoise(noise, chain);
    return MeanAcceptedTokens(chain, listed, tree);
  };
  const double most = mean_of(0);
  const double fewest = mean_of(kMaxDraftNoise);
  if (accept > most || accept < fewest) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "accept is %g, but from this text a tree of top-k %d, depth %d and %d "
        "nodes takes from %.2f to %.2f tokens a round",
        accept, tree.shape.top_k, tree.shape.depth, tree.nodes, fewest, most));
  }
  double low = std::log(kMinNoise);
  double high = std::log(kMaxDraftNoise);
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (mean_of(std::exp(middle)) > accept ? low : high) = middle;
  }
  SetDraftNoise(std::exp((low + high) / 2), chain);
  return absl::OkStatus();
}

}  // namespace bole
