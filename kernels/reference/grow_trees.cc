#include "kernels/reference/grow_trees.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace bole::reference {
namespace {

// One request's part of the arrays.
class Level {
 public:
  Level(const GrowTreesParams& params, int request)
      : p_(params),
        request_(request),
        k_(params.shape.top_k),
        num_parents_(params.level == 0 ? 1 : k_),
        first_candidate_(params.level == 0 ? 0
                                           : k_ + (params.level - 1) * k_ * k_),
        trees_(static_cast<size_t>(request) * params.shape.num_candidates()),
        lanes_(static_cast<size_t>(request) * k_) {}

  void AppendCandidates() {
    const size_t in = static_cast<size_t>(request_) * num_parents_ * k_;
    for (int i = 0; i < num_parents_ * k_; ++i) {
      const size_t out = trees_ + first_candidate_ + i;
      const int32_t parent = p_.level == 0 ? -1 : p_.frontier[lanes_ + i / k_];
      const float rho = parent < 0 ? 0 : p_.trees.log_rho[trees_ + parent];
      p_.trees.token[out] = p_.top_token[in + i];
      p_.trees.parent[out] = parent;
      p_.trees.log_rho[out] = rho + p_.top_log_prob[in + i];
    }
  }

  void ChooseFrontier() {
    std::vector<int32_t> order(num_parents_ * k_);
    std::iota(order.begin(), order.end(), first_candidate_);
    const float* log_rho = p_.trees.log_rho + trees_;
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return log_rho[a] > log_rho[b];
    });
    const size_t num_words = static_cast<size_t>(k_) * p_.mask_words;
    const uint32_t* masks = p_.ancestors + lanes_ * p_.mask_words;
    const std::vector<uint32_t> parent_masks(masks, masks + num_words);
    for (int lane = 0; lane < k_; ++lane) {
      SetLane(lane, order[lane], parent_masks);
    }
  }

 private:
  void SetLane(int lane, int32_t candidate,
               const std::vector<uint32_t>& parent_masks) {
    const size_t out = lanes_ + lane;
    const int parent_lane = (candidate - first_candidate_) / k_;
    const int node = p_.level * k_ + lane;
    const size_t words = p_.mask_words;
    uint32_t* mask = p_.ancestors + out * words;
    p_.frontier[out] = candidate;
    p_.row_token[out] = p_.trees.token[trees_ + candidate];
    if (p_.level == 0) {
      p_.row_parent[out] = -1;
      p_.hidden_row[out] = request_;
      std::fill_n(mask, words, 0);
    } else {
      p_.row_parent[out] = (p_.level - 1) * k_ + parent_lane;
      p_.hidden_row[out] = request_ * k_ + parent_lane;
      std::copy_n(parent_masks.begin() + parent_lane * p_.mask_words, words,
                  mask);
    }
    mask[node / 32] |= uint32_t{1} << (node % 32);
  }

  const GrowTreesParams& p_;
  const int request_;
  const int k_;
  const int num_parents_;      // Expanded nodes: the root, or the lanes.
  const int first_candidate_;  // The first one of this level.
  const size_t trees_;         // Where the request's candidates begin.
  const size_t lanes_;         // Where its lanes begin.
};

}  // namespace

void GrowTrees(const GrowTreesParams& params) {
  for (int b = 0; b < *params.requests.count; ++b) {
    Level level(params, b);
    level.AppendCandidates();
    if (params.level + 1 < params.shape.depth) level.ChooseFrontier();
  }
}

}  // namespace bole::reference
