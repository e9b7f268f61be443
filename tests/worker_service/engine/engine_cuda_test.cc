// Whole runs of the demo model on a GPU: captured rounds against queued ones.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/sampling_params.h"
#include "common/step.h"
#include "gtest/gtest.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/worker_service/engine/checkpoint_driver.h"
#include "tests/worker_service/engine/chunk_traffic.h"
#include "tests/worker_service/eval/demo_model.h"
#include "worker_service/eval/generator.h"
#include "worker_service/loading/loaded_model.h"

namespace bole::testing_support {
namespace {

constexpr int kMaxTokens = 48;
constexpr int kContext = 512;

// How two results of one plan differ.
struct Difference {
  int num_tokens = 0;
  int num_other_tokens = 0;
  double logprob = 0;  // The most, of equal tokens.

  void Add(std::span<const SequenceResult> actual,
           std::span<const SequenceResult> expected) {
    for (size_t b = 0; b < expected.size(); ++b) {
      Add(std::span(actual[b].emitted), expected[b].emitted);
      Add(std::span(actual[b].prompt_logprobs), expected[b].prompt_logprobs);
    }
  }

 private:
  void Add(std::span<const EmittedToken> actual,
           std::span<const EmittedToken> expected) {
    const size_t common = std::min(actual.size(), expected.size());
    const size_t most = std::max(actual.size(), expected.size());
    num_tokens += static_cast<int>(most);
    num_other_tokens += static_cast<int>(most - common);
    for (size_t i = 0; i < common; ++i) {
      if (actual[i].token != expected[i].token) {
        ++num_other_tokens;
        continue;
      }
      logprob =
          std::max(logprob, std::abs(static_cast<double>(actual[i].logprob -
                                                         expected[i].logprob)));
    }
  }
};

// What all of them emitted.
SequenceResult Joined(std::span<const SequenceResult> results) {
  SequenceResult joined;
  for (const SequenceResult& result : results) {
    joined.emitted.insert(joined.emitted.end(), result.emitted.begin(),
                          result.emitted.end());
  }
  return joined;
}

class EngineCudaTest : public testing::CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (cuda_ == nullptr) return;
    absl::StatusOr<LoadedModel> model = LoadModel("models/demo", *cuda_);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
  }
  void TearDown() override { model_ = {}; }

  // Prompts of several lengths; temperature 0.7 for every other one.
  std::vector<GenerateRequest> Requests(int count) const {
    const std::vector<int32_t> text = *model_.tokenizer->Encode(
        "The quick brown fox jumps over the lazy dog while seven wizards "
        "watch the river, and nobody says what the old map was for.");
    std::vector<GenerateRequest> requests(count);
    for (int i = 0; i < count; ++i) {
      requests[i].prompt = {text.begin() + i, text.end() - i};
      requests[i].sampling.temperature = i % 2 == 0 ? 0 : 0.7f;
      requests[i].sampling.seed = 5 + i;
      requests[i].sampling.max_tokens = kMaxTokens;
      requests[i].sampling.frequency_penalty = i % 3 == 2 ? 0.5f : 0;
    }
    return requests;
  }

  std::vector<std::vector<int32_t>> Run(const GenerateOptions& options,
                                        bool graphs, EngineTimes* times) {
    EngineOptions sizes =
        EngineOptionsFor(options, kContext, model_.num_valid_tokens());
    sizes.graphs = graphs;
    const auto engine =
        Engine::Create(model_.config, *model_.weights, *cuda_, sizes);
    EXPECT_TRUE(engine.ok()) << engine.status();
    const auto results =
        Generate(**engine, options, Requests(2 * options.max_batch), nullptr);
    EXPECT_TRUE(results.ok()) << results.status();
    std::vector<std::vector<int32_t>> tokens;
    if (!results.ok()) return tokens;
    for (const GenerateResult& result : *results) {
      tokens.push_back(Tokens(result));
    }
    *times = (*engine)->times();
    free_bytes_ = cuda_->memory()->free_bytes;
    return tokens;
  }

  LoadedModel model_;
  size_t free_bytes_ = 0;  // At the end of the last run.
};

// Queued and captured rounds run the same kernels on the same data.
TEST_P(EngineCudaTest, CapturedRoundsWriteWhatQueuedOnesWrite) {
  for (const int batch : {1, 3, 8}) {
    for (const GenerateOptions& options :
         {Off(batch), Chain(5, batch), Tree(20, batch)}) {
      SCOPED_TRACE(::testing::Message()
                   << "batch " << batch << ", " << options.max_nodes_per_tree
                   << " nodes");
      const size_t free_before = cuda_->memory()->free_bytes;
      EngineTimes queued;
      EngineTimes captured;
      const auto expected = Run(options, /*graphs=*/false, &queued);
      const size_t free_queued = free_bytes_;
      const auto actual = Run(options, /*graphs=*/true, &captured);
      const double graph_mib = (static_cast<double>(free_queued) -
                                static_cast<double>(free_bytes_)) /
                               (1 << 20);

      EXPECT_EQ(actual, expected);
      EXPECT_EQ(captured.rounds, queued.rounds);
      EXPECT_GT(captured.rounds, 0);
      // Nothing of an engine outlives it but what operators keep. Holds on a
      // GPU that nobody else uses meanwhile.
      const auto kept = static_cast<int64_t>(free_before) -
                        static_cast<int64_t>(cuda_->memory()->free_bytes);
      EXPECT_LT(kept, int64_t{256} << 20);
      std::printf(
          "  batch %d, %d nodes: %d rounds; per round busy %.3f ms "
          "queued, %.3f ms captured; idle %.3f and %.3f ms; graphs %.1f MiB\n",
          batch, options.max_nodes_per_tree, static_cast<int>(captured.rounds),
          1e3 * queued.busy / queued.rounds,
          1e3 * captured.busy / captured.rounds,
          1e3 * queued.idle / queued.rounds,
          1e3 * captured.idle / captured.rounds, graph_mib);
    }
  }
}

// No round is captured while the engine serves, and no operator needs more
// scratch than was reserved, which would be an error.
TEST_P(EngineCudaTest, WarmRoundsAreNotCapturedWhileItServes) {
  for (GenerateOptions options : {Tree(20, 8), Tree(31, 3)}) {
    for (const int lease : {1, kMaxLeaseRounds}) {
      options.lease_rounds = lease;
      const auto engine = Engine::Create(
          model_.config, *model_.weights, *cuda_,
          EngineOptionsFor(options, kContext, model_.num_valid_tokens()));
      ASSERT_TRUE(engine.ok()) << engine.status();
      const size_t free_before = cuda_->memory()->free_bytes;
      const auto begin = std::chrono::steady_clock::now();
      int num_shapes = 0;

      const absl::Status warm = (*engine)->WarmUp([&](int done, int) {
        num_shapes = done;
        return true;
      });

      ASSERT_TRUE(warm.ok()) << warm;
      const std::chrono::duration<double> took =
          std::chrono::steady_clock::now() - begin;
      std::printf(
          "  %d shapes of at most %d graphs in %.2f s, %.1f MiB; "
          "scratch %.1f MiB\n",
          num_shapes, (*engine)->num_graphs(), took.count(),
          static_cast<double>(free_before - cuda_->memory()->free_bytes) /
              (1 << 20),
          static_cast<double>((*engine)->memory_use().scratch) / (1 << 20));
      const auto results =
          Generate(**engine, options, Requests(2 * options.max_batch), nullptr);
      ASSERT_TRUE(results.ok()) << results.status();
      EXPECT_EQ((*engine)->graph_misses(), 0);
      std::vector<std::vector<int32_t>> tokens;
      for (const GenerateResult& result : *results) {
        tokens.push_back(Tokens(result));
      }
      EngineTimes times;
      EXPECT_EQ(tokens, Run(options, /*graphs=*/true, &times));
    }
  }
}

// A lease's rounds have the shape of its budget, and the host's that of what is
// left: other algorithms for products, and other roundings. In float32 they do
// not change a token.
TEST_P(EngineCudaTest, LeasesWriteWhatTheHostsRoundsWrite) {
  for (const int batch : {1, 3, 8}) {
    for (GenerateOptions options :
         {Off(batch), Chain(5, batch), Tree(20, batch)}) {
      SCOPED_TRACE(::testing::Message()
                   << "batch " << batch << ", " << options.max_nodes_per_tree
                   << " nodes");
      EngineTimes host;
      EngineTimes device;
      const auto expected = Run(options, /*graphs=*/true, &host);
      options.lease_rounds = kMaxLeaseRounds;
      const auto queued = Run(options, /*graphs=*/false, &device);
      const auto actual = Run(options, /*graphs=*/true, &device);

      EXPECT_EQ(actual, queued);
      int same = 0;
      for (size_t i = 0; i < expected.size(); ++i) {
        same += actual[i] == expected[i] ? 1 : 0;
      }
      if (is_float()) {
        EXPECT_EQ(same, std::ssize(expected));
      }
      std::printf(
          "  batch %d, %d nodes: %d of %d texts equal; idle per round "
          "%.3f ms by the host, %.3f ms leased\n",
          batch, options.max_nodes_per_tree, same,
          static_cast<int>(expected.size()), 1e3 * host.idle / host.rounds,
          1e3 * device.idle / device.rounds);
    }
  }
}

// The products of both are of other shapes, and round otherwise. In float32
// that does not change a token; in bfloat16 the two go on until it has.
TEST_P(EngineCudaTest, ChunksBesideAForestWriteWhatTheyWriteApart) {
  for (const std::optional<DraftShape>& draft :
       {std::optional<DraftShape>(),
        std::optional(DraftShape{.top_k = 3, .depth = 5})}) {
    EngineOptions sizes = EngineOptionsFor(Tree(20, /*max_batch=*/4), kContext,
                                           model_.num_valid_tokens());
    sizes.max_prefill_tokens = 128;
    const auto joint =
        Engine::Create(model_.config, *model_.weights, *cuda_, sizes);
    const auto apart =
        Engine::Create(model_.config, *model_.weights, *cuda_, sizes);
    ASSERT_TRUE(joint.ok()) << joint.status();
    ASSERT_TRUE(apart.ok()) << apart.status();
    std::vector<int32_t> text;
    for (const auto& tokens : DemoModel::Get().Prompts()) {
      text.insert(text.end(), tokens.begin(), tokens.end());
    }
    ChunkTraffic traffic({.limits = (*joint)->limits(),
                          .draft = draft,
                          .max_prompt = 200,
                          .text = text});
    Difference difference;
    int step = 0;
    for (; step < 60 && difference.num_other_tokens == 0; ++step) {
      const StepPlan plan = traffic.Plan();

      const absl::StatusOr<StepResult> actual = (*joint)->Step(plan);

      const absl::StatusOr<StepResult> expected = StepApart(**apart, plan);
      ASSERT_TRUE(actual.ok()) << actual.status();
      ASSERT_TRUE(expected.ok()) << expected.status();
      difference.Add(actual->prefills, expected->prefills);
      difference.Add(actual->sequences, expected->sequences);
      traffic.Apply(plan, *actual);
    }
    if (is_float()) {
      EXPECT_EQ(difference.num_other_tokens, 0);
      EXPECT_LT(difference.logprob, 1e-3);
    }
    std::printf(
        "  %s: %d steps, %d of %d tokens differ, log probabilities by at most "
        "%.1e\n",
        draft ? "drafted" : "plain", step, difference.num_other_tokens,
        difference.num_tokens, difference.logprob);
  }
}

// One engine keeps a checkpoint on the device. The other's goes to the host,
// and another text takes its slot and pages in the same plan. The plans of both
// are otherwise alike, so that all bytes are.
TEST_P(EngineCudaTest, WhatWentToTheHostIsWhatStayedOnTheDevice) {
  std::vector<int32_t> text;
  for (const auto& tokens : DemoModel::Get().Prompts()) {
    text.insert(text.end(), tokens.begin(), tokens.end());
  }
  text.resize(230);
  std::vector<int32_t> other = text;
  std::reverse(other.begin(), other.end());
  std::vector<int32_t> next = text;
  std::rotate(next.begin() + 128, next.begin() + 137, next.end());
  CheckpointDriver kept(model_, *cuda_, /*page_size=*/64);
  CheckpointDriver moved(model_, *cuda_, /*page_size=*/64);
  for (CheckpointDriver* driver : {&kept, &moved}) {
    const bool is_moved = driver == &moved;
    driver->Begin(0, text);
    driver->AddChunk(0, 128);
    driver->Run(CheckpointDriver::kTree);
    const LeftCheckpoint from =
        is_moved ? driver->LeaveOnHost(0, 0) : driver->Leave(0, 0);
    const int number = is_moved ? 0 : 2;
    driver->Begin(number, other);
    driver->Prefill(number);
    for (int i = 0; i < 4; ++i) {
      driver->Round(number, 12, CheckpointDriver::kTree);
    }
    driver->Begin(1, next, {}, from);
  }

  EXPECT_EQ(moved.Prefill(1), kept.Prefill(1));
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(moved.Round(1, 12, CheckpointDriver::kTree),
              kept.Round(1, 12, CheckpointDriver::kTree));
  }
  ExpectSameContent(moved, 1, kept, 1);
}

// From a checkpoint on the grid, with chunks of the same sizes after it: the
// products are the same, but for the drafter's one row of the tail.
TEST_P(EngineCudaTest, ARequestThatGoesOnFromACheckpointWritesWhatItWould) {
  std::vector<int32_t> text;
  for (const auto& tokens : DemoModel::Get().Prompts()) {
    text.insert(text.end(), tokens.begin(), tokens.end());
  }
  text.resize(230);
  CheckpointDriver cached(model_, *cuda_, /*page_size=*/64);
  std::vector<LeftCheckpoint> checkpoints;
  cached.Begin(0, text);
  for (int i = 0; i < 3; ++i) {
    cached.AddChunk(0, kPrefillGrid);
    cached.Run(CheckpointDriver::kTree);
    checkpoints.push_back(cached.Leave(0, i));
  }
  cached.Prefill(0);
  Difference difference;
  for (const LeftCheckpoint& from : checkpoints) {
    SCOPED_TRACE(from.length);
    std::vector<int32_t> prompt = text;
    std::rotate(prompt.begin() + from.length, prompt.begin() + from.length + 9,
                prompt.end());
    SamplingParams sampling;
    sampling.temperature = 0;
    sampling.repetition_penalty = 1.2f;
    CheckpointDriver fresh(model_, *cuda_, /*page_size=*/64);
    fresh.Begin(0, prompt, sampling);
    fresh.AddChunk(0, from.length);
    fresh.Run(CheckpointDriver::kTree);

    cached.Begin(1, prompt, sampling, from);

    std::vector<SequenceResult> actual = {cached.Prefill(1)};
    std::vector<SequenceResult> expected = {fresh.Prefill(0)};
    for (int round = 0; round < 8; ++round) {
      actual.push_back(cached.Round(1, 12, CheckpointDriver::kTree));
      expected.push_back(fresh.Round(0, 12, CheckpointDriver::kTree));
    }
    // The trees of the two may differ where drafts are as likely in all but the
    // last bit, and so their rounds.
    SequenceResult actual_text = Joined(actual);
    SequenceResult expected_text = Joined(expected);
    const size_t length =
        std::min(actual_text.emitted.size(), expected_text.emitted.size());
    actual_text.emitted.resize(length);
    expected_text.emitted.resize(length);
    difference.Add({&actual_text, 1}, {&expected_text, 1});
    if (is_float() && cached.committed(1) == fresh.committed(0)) {
      EXPECT_EQ(cached.Content(1)[2], fresh.Content(0)[2]);  // The counts.
    }
  }
  if (is_float()) {
    EXPECT_EQ(difference.num_other_tokens, 0);
    EXPECT_LT(difference.logprob, 1e-3);
  }
  std::printf("  %d of %d tokens differ, log probabilities by at most %.1e\n",
              difference.num_other_tokens, difference.num_tokens,
              difference.logprob);
}

BOLE_FOR_EACH_ELEMENT(EngineCudaTest);

}  // namespace
}  // namespace bole::testing_support
