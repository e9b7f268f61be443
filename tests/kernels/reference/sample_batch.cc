#include "tests/kernels/reference/sample_batch.h"

#include <algorithm>
#include <cstddef>

#include "gtest/gtest.h"
#include "kernels/reference/sample.h"

namespace bole::testing {
namespace {

PackedForest ForestOf(const std::vector<SampledRequest>& requests) {
  std::vector<NodeList> lists;
  lists.reserve(requests.size() + SampleBatch::kSpare);
  for (const SampledRequest& request : requests) lists.push_back(request.nodes);
  lists.resize(requests.size() + SampleBatch::kSpare);
  return *BuildForest(lists);
}

}  // namespace

SampleBatch::SampleBatch(const std::vector<SampledRequest>& requests,
                         int vocabulary, int num_valid_tokens,
                         std::vector<int32_t>& counts)
    : num_requests_(static_cast<int>(requests.size())),
      forest_(ForestOf(requests)),
      params_{} {
  num_rows_ = forest_.num_nodes();
  params_.vocabulary = vocabulary;
  params_.num_valid_tokens = num_valid_tokens;
  params_.counts = {.count = counts.data(),
                    .num_slots = static_cast<int>(counts.size()) / vocabulary};
  SetInputs(requests);
  SetOutputs(num_requests_ + kSpare, num_rows_ + kSpare);
  params_.batch = {.max_requests = num_requests_ + kSpare,
                   .max_pages = 0,
                   .mask_words = forest_.mask_words,
                   .rows = {&num_rows_, num_rows_ + kSpare},
                   .first_row = forest_.first_node.data(),
                   .request = forest_.request.data(),
                   .node = node_.data(),
                   .parent = forest_.parent.data(),
                   .depth = forest_.depth.data(),
                   .ancestors = forest_.ancestors.data(),
                   .slot = slot_.data(),
                   .committed = committed_.data(),
                   .page_table = nullptr};
}

void SampleBatch::SetInputs(const std::vector<SampledRequest>& requests) {
  first_bias_ = {0};
  first_stop_ = {0};
  for (const SampledRequest& request : requests) {
    for (int i = 0; i < std::ssize(request.nodes.token); ++i) {
      node_.push_back(i);
      logits_.insert(logits_.end(), request.logits[i].begin(),
                     request.logits[i].end());
    }
    slot_.push_back(request.slot);
    committed_.push_back(request.committed);
    control_.push_back(request.control);
    for (const auto& [token, bias] : request.bias) {
      bias_token_.push_back(token);
      bias_.push_back(bias);
    }
    first_bias_.push_back(static_cast<int32_t>(bias_.size()));
    stop_token_.insert(stop_token_.end(), request.stop.begin(),
                       request.stop.end());
    first_stop_.push_back(static_cast<int32_t>(stop_token_.size()));
  }
  first_bias_.resize(num_requests_ + 1 + kSpare, first_bias_.back());
  first_stop_.resize(num_requests_ + 1 + kSpare, first_stop_.back());
  slot_.resize(num_requests_ + kSpare);
  committed_.resize(num_requests_ + kSpare);
  control_.resize(num_requests_ + kSpare, PlainControl(0));
  params_.token = forest_.token.data();
  params_.logits = logits_.data();
  params_.control = control_.data();
  params_.first_bias = first_bias_.data();
  params_.bias_token = bias_token_.data();
  params_.bias = bias_.data();
  params_.first_stop = first_stop_.data();
  params_.stop_token = stop_token_.data();
}

void SampleBatch::SetOutputs(int num_requests, int num_rows) {
  path_first.assign(num_requests + 1, kUntouched);
  path_row.assign(num_rows, kUntouched);
  emitted.assign(num_rows, kUntouched);
  logprob.assign(num_rows, kUntouched);
  top_token.assign(num_rows * kMaxTopLogprobs, kUntouched);
  top_logprob.assign(num_rows * kMaxTopLogprobs, kUntouched);
  accepted.assign(num_requests, kUntouched);
  next_token.assign(num_requests, kUntouched);
  params_.path_first = path_first.data();
  params_.path_row = path_row.data();
  params_.emitted = emitted.data();
  params_.logprob = logprob.data();
  params_.top_token = top_token.data();
  params_.top_logprob = top_logprob.data();
  params_.accepted = accepted.data();
  params_.next_token = next_token.data();
}

CountTokensParams SampleBatch::count_params() const {
  return {.batch = params_.batch,
          .path = {path_first.data(), path_row.data()},
          .vocabulary = params_.vocabulary,
          .token = params_.token,
          .control = params_.control,
          .counts = params_.counts};
}

std::vector<SampledPath> SampleBatch::Run() {
  ThreadPool pool(1);
  return Run(pool);
}

std::vector<SampledPath> SampleBatch::Run(ThreadPool& pool) {
  reference::Sample(params_, pool);
  ExpectSpareUntouched();
  return Unpack();
}

void SampleBatch::ExpectSpareUntouched() const {
  const size_t used = path_first.back();
  const auto expect_tail = [](const auto& values, size_t begin) {
    EXPECT_TRUE(std::all_of(values.begin() + begin, values.end(),
                            [](auto value) { return value == kUntouched; }));
  };
  expect_tail(path_row, used);
  expect_tail(emitted, used);
  expect_tail(logprob, used);
  expect_tail(top_token, used * kMaxTopLogprobs);
  expect_tail(top_logprob, used * kMaxTopLogprobs);
  expect_tail(next_token, num_requests_);
}

std::vector<SampledPath> SampleBatch::Unpack() const {
  std::vector<SampledPath> paths(num_requests_);
  for (int b = 0; b < num_requests_; ++b) {
    paths[b].accepted = accepted[b];
    paths[b].next_token = next_token[b];
    for (int i = path_first[b]; i < path_first[b + 1]; ++i) {
      SampledVisit visit{
          path_row[i] - forest_.first_node[b], emitted[i], logprob[i], {}};
      for (int j = 0; j < kMaxTopLogprobs; ++j) {
        const int at = i * kMaxTopLogprobs + j;
        if (top_token[at] == kUntouched) break;
        visit.top.emplace_back(top_token[at], top_logprob[at]);
      }
      paths[b].visits.push_back(visit);
    }
  }
  return paths;
}

}  // namespace bole::testing
