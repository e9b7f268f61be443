#include "tests/bench/canned_worker.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>

#include "common/check.h"

namespace bole {
namespace {

constexpr int kVocabulary = 8000;
constexpr int kPromptTokens = 256;
constexpr int kMaxContext = 1 << 14;

}  // namespace

WorkerDescription CannedWorker::Description() {
  const int pages = kCannedRequests * (kMaxContext / 64 + 1);
  return {.model = "demo",
          .device = "none",
          .version = "0",
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
  for (const SequencePlan& planned : plan.sequences) {
    SequenceResult& sequence = result.sequences.emplace_back();
    const int count = std::min(kCannedTokens, planned.max_new_tokens);
    sequence.committed = planned.committed + count;
    sequence.accepted_drafts = count - 1;
    sequence.emitted.reserve(count);
    for (int i = 0; i < count; ++i) {
      sequence.emitted.push_back({.token = token(), .logprob = -1, .top = {}});
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
        tree.token.push_back(static_cast<int32_t>(random_() % kVocabulary));
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
