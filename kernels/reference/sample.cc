#include "kernels/reference/sample.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/reference/log_softmax.h"
#include "kernels/reference/sample_token.h"
#include "kernels/reference/top_k.h"

namespace bole::reference {
namespace {

constexpr int kNoRow = -1;

struct Visit {
  int32_t row;
  int32_t emitted;
  float logprob;
  std::vector<TokenLogit> top;  // Log probabilities, best first.
};

struct Walk {
  std::vector<Visit> visits;
  int32_t accepted = 0;
};

// The first row of `request` at or after `row` that has this parent, or kNoRow.
// With `token`, only a row that carries it.
int FindRow(const SampleParams& p, int request, int row, int32_t parent,
            const int32_t* token = nullptr) {
  const int end = std::min(p.batch.first_row[request + 1], *p.batch.rows.count);
  for (; row < end; ++row) {
    if (p.batch.parent[row] != parent) continue;
    if (token == nullptr || p.token[row] == *token) return row;
  }
  return kNoRow;
}

bool IsStop(const SampleParams& p, int request, int32_t token) {
  const int32_t* end = p.stop_token + p.first_stop[request + 1];
  return std::find(p.stop_token + p.first_stop[request], end, token) != end;
}

Visit MakeVisit(const SampleParams& p, int row, int32_t emitted,
                int num_alternatives) {
  const std::span<const float> logits(
      p.logits + static_cast<size_t>(row) * p.vocabulary, p.num_valid_tokens);
  const LogSoftmax softmax(logits);
  Visit visit{row, emitted, 0, {}};
  if (emitted != kNoToken) visit.logprob = softmax.LogProb(logits[emitted]);
  if (num_alternatives > 0) visit.top = BestTokens(logits, num_alternatives);
  for (TokenLogit& t : visit.top) t.logit = softmax.LogProb(t.logit);
  return visit;
}

Walk WalkTree(const SampleParams& p, int request) {
  Walk walk;
  int row = FindRow(p, request, p.batch.first_row[request], /*parent=*/-1);
  if (row == kNoRow) return walk;
  const SamplingControl& control = p.control[request];
  TokenDrawer drawer(p, request);
  while (row != kNoRow) {
    const int32_t token = drawer.Draw(row);
    walk.visits.push_back(MakeVisit(p, row, token, control.top_logprobs));
    if (token == kNoToken) break;
    row = FindRow(p, request, row + 1, p.batch.node[row], &token);
    if (row != kNoRow) ++walk.accepted;
    if (std::ssize(walk.visits) == control.max_tokens) break;
    if (IsStop(p, request, token)) break;
  }
  return walk;
}

void WriteVisit(const SampleParams& p, const Visit& visit, size_t place) {
  p.path_row[place] = visit.row;
  p.emitted[place] = visit.emitted;
  p.logprob[place] = visit.logprob;
  for (size_t i = 0; i < visit.top.size(); ++i) {
    p.top_token[place * kMaxTopLogprobs + i] = visit.top[i].token;
    p.top_logprob[place * kMaxTopLogprobs + i] = visit.top[i].logit;
  }
}

}  // namespace

void Sample(const SampleParams& p, ThreadPool& pool) {
  std::vector<Walk> walks(p.batch.max_requests);
  pool.ParallelFor(p.batch.max_requests,
                   [&](int b) { walks[b] = WalkTree(p, b); });
  int32_t place = 0;
  p.path_first[0] = 0;
  for (int b = 0; b < p.batch.max_requests; ++b) {
    for (const Visit& visit : walks[b].visits) WriteVisit(p, visit, place++);
    p.path_first[b + 1] = place;
    p.accepted[b] = walks[b].accepted;
    if (!walks[b].visits.empty()) {
      p.next_token[b] = walks[b].visits.back().emitted;
    }
  }
}

}  // namespace bole::reference
