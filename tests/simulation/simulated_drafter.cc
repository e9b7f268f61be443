#include "tests/simulation/simulated_drafter.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

namespace bole::simulation {
namespace {

enum Purpose : uint64_t { kIsRight = 1, kRank, kWords };

// A node whose children are being made.
struct Parent {
  int node;
  // The tokens up to the node, if they are what the model writes.
  std::optional<History> history;
};

class TreeMaker {
 public:
  TreeMaker(const TextOptions& text, const TokenRule& rule,
            const DraftShape& shape, int32_t root)
      : text_(text), rule_(rule), top_k_(shape.top_k) {
    const int size = 1 + shape.num_candidates();
    tree_.parent.reserve(size);
    tree_.token.reserve(size);
    tree_.log_rho.reserve(size);
    Add(kNoParent, root, 0);
    for (int k = 0; k < top_k_; ++k) share_.push_back(std::exp2(-k));
    double sum = 0;
    for (const double share : share_) sum += share;
    for (double& share : share_) share /= sum;
  }

  // The children of `parents`, which are likely to be right by `accept`.
  std::vector<Parent> AddLevel(std::span<const Parent> parents, double accept) {
    std::vector<float> log_share;
    for (const double share : share_) {
      log_share.push_back(static_cast<float>(std::log(accept * share)));
    }
    std::vector<Parent> children;
    children.reserve(parents.size() * top_k_);
    for (const Parent& parent : parents) {
      AddChildren(parent, accept, log_share, children);
    }
    return children;
  }

  // The likeliest, in the order of their nodes.
  std::vector<Parent> Likeliest(std::vector<Parent> nodes) const {
    const auto likelier = [this](const Parent& a, const Parent& b) {
      const float rho_a = tree_.log_rho[a.node];
      const float rho_b = tree_.log_rho[b.node];
      return rho_a != rho_b ? rho_a > rho_b : a.node < b.node;
    };
    if (std::ssize(nodes) > top_k_) {
      std::nth_element(nodes.begin(), nodes.begin() + top_k_, nodes.end(),
                       likelier);
      nodes.resize(top_k_);
    }
    std::sort(nodes.begin(), nodes.end(),
              [](const auto& a, const auto& b) { return a.node < b.node; });
    return nodes;
  }

  ProposalTree Take() { return std::move(tree_); }

 private:
  void Add(int32_t parent, int32_t token, float log_rho) {
    tree_.parent.push_back(parent);
    tree_.token.push_back(token);
    tree_.log_rho.push_back(log_rho);
  }

  void AddChildren(const Parent& parent, double accept,
                   std::span<const float> log_share,
                   std::vector<Parent>& children) {
    uint64_t word = Mix(tree_.token[parent.node], parent.node);
    int right_rank = -1;
    std::optional<int32_t> truth;
    if (parent.history) {
      truth = rule_.Next(*parent.history);
      word = rule_.Bits(*parent.history, kWords);
      if (ToUniform(rule_.Bits(*parent.history, kIsRight)) < accept) {
        right_rank = Rank(ToUniform(rule_.Bits(*parent.history, kRank)));
      }
    }
    word %= text_.alphabet.size();
    for (int rank = 0; rank < top_k_; ++rank) {
      const bool is_right = rank == right_rank;
      const int32_t token = is_right ? *truth : WrongToken(word, truth);
      Add(parent.node, token, tree_.log_rho[parent.node] + log_share[rank]);
      children.push_back({.node = tree_.size() - 1, .history = {}});
      if (!is_right) continue;
      children.back().history =
          Append(*parent.history, token, rule_.prompt_length());
    }
  }

  // The alphabet in its order, from `word` on, so that siblings differ.
  int32_t WrongToken(uint64_t& word, std::optional<int32_t> truth) const {
    int32_t token;
    do {
      token = text_.alphabet[word];
      word = (word + 1) % text_.alphabet.size();
    } while (token == truth);
    return token;
  }

  int Rank(double uniform) const {
    int rank = 0;
    while (rank + 1 < top_k_ && uniform >= share_[rank]) {
      uniform -= share_[rank++];
    }
    return rank;
  }

  const TextOptions& text_;
  const TokenRule& rule_;
  const int top_k_;
  std::vector<double> share_;  // [top_k] Sums to 1.
  ProposalTree tree_;
};

}  // namespace

ProposalTree Propose(const TextOptions& text, std::span<const double> accept,
                     const TokenRule& rule, const History& history,
                     int32_t root, const DraftShape& shape) {
  TreeMaker maker(text, rule, shape, root);
  std::vector<Parent> parents = {
      {.node = 0, .history = Append(history, root, rule.prompt_length())}};
  for (int level = 0; level < shape.depth; ++level) {
    const size_t entry = std::min<size_t>(level, accept.size() - 1);
    parents = maker.Likeliest(maker.AddLevel(parents, accept[entry]));
  }
  return maker.Take();
}

}  // namespace bole::simulation
