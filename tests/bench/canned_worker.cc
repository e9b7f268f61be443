#include "tests/bench/canned_worker.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>

#include "common/check.h"
#include "proto/protocol_version.h"

namespace bole {
namespace {

constexpr int kVocabulary = 8000;
constexpr int32_t kNeverProposed = kVocabulary - 1;
constexpr int kPromptTokens = 256;
constexpr int kMaxContext = 1 << 14;

// Tokens of the nodes on the way from the root of a request's tree, which is
// left out, to its first node at `depth`, or else to the deepest one.
std::vector<int32_t> DeepPath(const PackedForest& forest, int request,
                              int depth) {
  const int first = forest.first_node[request];
  int end = first;
  for (int i = first; i < forest.first_node[request + 1]; ++i) {
    if (forest.depth[i] > forest.depth[end] && forest.depth[i] <= depth) {
      end = i;
    }
  }
  std::vector<int32_t> tokens(forest.depth[end]);
  for (auto token = tokens.rbegin(); token != tokens.rend(); ++token) {
    *token = forest.token[end];
    end = first + forest.parent[end];
  }
  return tokens;
}

}  // namespace

WorkerDescription CannedWorker::Description() {
  const int pages = kCannedRequests * (kMaxContext / 64 + 1);
  return {.model = "demo",
          .device = "none",
          .version = "0",
          .protocol_version = kProtocolVersion,
          .limits = {.max_requests = kCannedRequests,
                     .max_nodes = kCannedRequests * 128,
                     .max_nodes_per_tree = 128,
                     .max_prefill_tokens = kCannedRequests * kPromptTokens,
                     .max_draft = kCannedShape,
                     .num_slots = kCannedRequests,
                     .num_pages = pages,
                     .page_size = 64,
                     .max_context = kMaxContext,
                     .vocabulary = kVocabulary},
          .has_drafter = true,
          .stop_tokens = {}};
}

StepResult CannedWorker::Answer(const StepPlan& plan) {
  const auto token = [this] {
    return static_cast<int32_t>(random_() % kVocabulary);
  };
  StepResult result;
  result.prefills.reserve(plan.prefills.size());
  for (const PrefillPlan& chunk : plan.prefills) {
    SequenceResult& sequence = result.prefills.emplace_back();
    sequence.committed =
        chunk.sequence.committed + static_cast<int32_t>(chunk.tokens.size());
    if (chunk.next_token) continue;
    sequence.emitted = {{.token = token(), .logprob = -1, .top = {}}};
    sequence.proposal = Candidates(sequence.emitted.back().token);
  }
  result.sequences.reserve(plan.sequences.size());
  for (size_t b = 0; b < plan.sequences.size(); ++b) {
    const SequencePlan& planned = plan.sequences[b];
    SequenceResult& sequence = result.sequences.emplace_back();
    const int count = std::min(kCannedTokens, planned.max_new_tokens);
    std::vector<int32_t> tokens =
        DeepPath(plan.forest, static_cast<int>(b), count - 1);
    sequence.accepted_drafts = static_cast<int32_t>(tokens.size());
    tokens.push_back(kNeverProposed);
    sequence.committed =
        planned.committed + static_cast<int32_t>(tokens.size());
    sequence.emitted.reserve(tokens.size());
    for (const int32_t emitted : tokens) {
      sequence.emitted.push_back({.token = emitted, .logprob = -1, .top = {}});
    }
    sequence.proposal = Candidates(sequence.emitted.back().token);
  }
  return result;
}

// On every level the four likeliest nodes get four children each.
ProposalTree CannedWorker::Candidates(int32_t root) {
  ProposalTree tree{.parent = {kNoParent}, .token = {root}, .log_rho = {0}};
  std::vector<int> expanded = {0};
  for (int level = 0; level < kCannedShape.depth; ++level) {
    const int first = tree.size();
    for (const int parent : expanded) {
      for (int k = 0; k < kCannedShape.top_k; ++k) {
        tree.parent.push_back(parent);
        tree.token.push_back(static_cast<int32_t>(
            random_() % (kNeverProposed / kCannedShape.top_k) *
                kCannedShape.top_k +
            k));
        const float share = static_cast<float>(random_() % 900 + 1) / 1000;
        tree.log_rho.push_back(tree.log_rho[parent] + std::log(share));
      }
    }
    std::vector<int> nodes(tree.size() - first);
    for (size_t i = 0; i < nodes.size(); ++i) nodes[i] = first + i;
    std::sort(nodes.begin(), nodes.end(), [&tree](int a, int b) {
      return tree.log_rho[a] > tree.log_rho[b];
    });
    nodes.resize(kCannedShape.top_k);
    std::sort(nodes.begin(), nodes.end());
    expanded = std::move(nodes);
  }
  BOLE_CHECK(tree.size() == 1 + kCannedShape.num_candidates());
  return tree;
}

std::vector<std::unique_ptr<Request>> CannedRequests(int rounds) {
  std::vector<std::unique_ptr<Request>> requests;
  requests.reserve(kCannedRequests);
  for (int i = 0; i < kCannedRequests; ++i) {
    auto request = std::make_unique<Request>();
    request->id = std::to_string(i);
    request->prompt.assign(kPromptTokens, 1000 + i);
    request->sampling.temperature = 0;
    request->sampling.max_tokens = 1 + rounds * kCannedTokens;
    request->arrival = std::chrono::steady_clock::now();
    request->stream = std::make_shared<TokenStream>([] {});
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace bole
