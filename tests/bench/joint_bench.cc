// A chunk of a prompt beside decoding requests: as one forward, and as two
// plans one after the other, on the demo model.
//
//   bazel run //tests/bench:joint_bench
//
// The two take turns on one engine, at the same positions, with one thread, and
// it is that thread's time that counts. Prints medians, of the times and of the
// ratio of every pair; quote the ratio.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/packed_forest.h"
#include "common/step.h"
#include "kernels/reference/reference_backend.h"
#include "worker_service/engine/engine.h"
#include "worker_service/loading/loaded_model.h"

namespace bole {
namespace {

constexpr int kContext = 640;
constexpr int kPageSize = 64;
constexpr int kPagesOfOne = kContext / kPageSize;
constexpr int kMaxRequests = 9;
constexpr int kMaxNodes = 128;
constexpr int kPrompt = 128;  // Of a request that decodes.
constexpr int kPairs = 15;

template <typename T>
T ValueOrDie(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  std::abort();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

double Milliseconds(const std::function<void()>& body) {
  const std::clock_t start = std::clock();
  body();
  return 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

SequencePlan SequenceOf(int number, int committed, int prompt_length) {
  SequencePlan sequence{.slot = SlotId(number), .committed = committed};
  for (int i = 0; i < kPagesOfOne; ++i) {
    sequence.pages.emplace_back(number * kPagesOfOne + i);
  }
  sequence.prompt_length = prompt_length;
  return sequence;
}

std::vector<int32_t> TokensOf(int count) {
  std::vector<int32_t> tokens(count);
  for (int i = 0; i < count; ++i) tokens[i] = 100 + (31 * i) % 1000;
  return tokens;
}

// A chunk that ends no prompt.
StepPlan ChunkOf(int tokens, int slot) {
  StepPlan plan;
  plan.prefills.push_back(
      {.sequence = SequenceOf(slot, /*committed=*/0, kContext),
       .tokens = TokensOf(tokens),
       .next_token = 7});
  return plan;
}

// Chains of `nodes` for each request.
StepPlan ForestOf(int requests, int nodes) {
  StepPlan plan;
  std::vector<NodeList> lists(requests);
  for (int b = 0; b < requests; ++b) {
    plan.sequences.push_back(SequenceOf(b, kPrompt, kPrompt));
    lists[b].token = TokensOf(nodes);
    for (int i = 0; i < nodes; ++i) lists[b].parent.push_back(i - 1);
  }
  plan.forest = ValueOrDie(BuildForest(lists));
  return plan;
}

void Compare(Engine& engine, int chunk, int requests, int nodes) {
  const StepPlan chunks = ChunkOf(chunk, kMaxRequests - 1);
  const StepPlan forest = ForestOf(requests, nodes);
  StepPlan both = forest;
  both.prefills = chunks.prefills;
  std::vector<double> joint, apart, ratio;
  for (int pair = -1; pair < kPairs; ++pair) {
    const double one = Milliseconds([&] { ValueOrDie(engine.Step(both)); });
    const double two = Milliseconds([&] {
      ValueOrDie(engine.Step(chunks));
      ValueOrDie(engine.Step(forest));
    });
    if (pair < 0) continue;
    joint.push_back(one);
    apart.push_back(two);
    ratio.push_back(one / two);
  }
  std::printf("  %5d %8d %5d %10.2f %10.2f %8.3f\n", chunk, requests, nodes,
              Median(joint), Median(apart), Median(ratio));
  std::fflush(stdout);
}

void Run() {
  ReferenceBackend backend(/*num_threads=*/1);
  const LoadedModel model = ValueOrDie(LoadModel("models/demo", backend));
  const auto engine = ValueOrDie(
      Engine::Create(model.config, *model.weights, backend,
                     {.max_requests = kMaxRequests,
                      .max_nodes = kMaxNodes,
                      .max_nodes_per_tree = 16,
                      .max_prefill_tokens = 512,
                      .max_draft = {},
                      .num_slots = kMaxRequests,
                      .num_pages = kMaxRequests * kPagesOfOne,
                      .page_size = kPageSize,
                      .max_context = kContext,
                      .num_valid_tokens = model.num_valid_tokens()}));
  for (int slot = 0; slot + 1 < kMaxRequests; ++slot) {
    ValueOrDie(engine->Step(ChunkOf(kPrompt, slot)));
  }
  std::printf("  chunk requests nodes   joint ms   apart ms    ratio\n");
  for (const int chunk : {64, 128, 256, 512}) {
    for (const int requests : {1, 8}) {
      for (const int nodes : {1, 8}) Compare(*engine, chunk, requests, nodes);
    }
  }
}

}  // namespace
}  // namespace bole

int main() { bole::Run(); }
