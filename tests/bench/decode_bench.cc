// Plain decoding of the demo model beside what the machine needs for it at
// least: one pass over the float32 weights, and their multiply-adds.
//
//   bazel run //tests/bench:decode_bench
//
// Prints medians of interleaved repetitions; quote the ratio.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <variant>
#include <vector>

#include "common/thread_pool.h"
#include "kernels/reference/packed_matrix.h"
#include "kernels/reference/reference_backend.h"
#include "worker_service/engine/engine.h"
#include "worker_service/eval/generator.h"
#include "worker_service/loading/loaded_model.h"

namespace bole {
namespace {

constexpr int kContext = 512;
constexpr int kTokens = 64;  // Per repetition.
constexpr int kRepetitions = 31;

double Milliseconds(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now() - start)
      .count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

template <typename T>
T ValueOrDie(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  std::abort();
}

// Every matrix that one decoding step of the target reads.
std::vector<const reference::PackedMatrix*> MatricesOf(const Weights& weights) {
  std::vector<const WeightMatrix*> all = {weights.head};
  for (const LayerWeights& layer : weights.layers) {
    std::visit(
        [&](const auto& mixer) {
          all.insert(all.end(), {mixer.projection, mixer.output});
        },
        layer.mixer);
    const auto& ffn = std::get<DenseFfnWeights>(layer.ffn);
    all.insert(all.end(), {ffn.gate_up, ffn.down});
  }
  std::vector<const reference::PackedMatrix*> packed;
  packed.reserve(all.size());
  for (const WeightMatrix* matrix : all) {
    packed.push_back(static_cast<const reference::PackedMatrix*>(matrix));
  }
  return packed;
}

// One load of each cache line, all threads.
void ReadAll(const std::vector<const reference::PackedMatrix*>& matrices,
             ThreadPool& pool) {
  constexpr int kLine = 16;  // Floats.
  for (const reference::PackedMatrix* matrix : matrices) {
    const int num_panels = matrix->num_panels();
    const int num_tasks = std::min(num_panels, 4 * pool.num_threads());
    const int64_t panel_floats =
        static_cast<int64_t>(matrix->kPanelRows) * matrix->columns;
    pool.ParallelFor(num_tasks, [&](int task) {
      const int64_t begin = num_panels * task / num_tasks * panel_floats;
      const int64_t end = num_panels * (task + 1) / num_tasks * panel_floats;
      const float* data = matrix->panel(0);
      float sums[4] = {};
      for (int64_t i = begin; i < end; i += 4 * kLine) {
        for (int j = 0; j < 4; ++j) sums[j] += data[i + j * kLine];
      }
      volatile float keep = sums[0] + sums[1] + sums[2] + sums[3];
      static_cast<void>(keep);
    });
  }
}

// As many multiply-adds as one step, on a matrix that stays in the cache.
void MultiplyAll(int64_t num_weights, ThreadPool& pool) {
  constexpr int kColumns = 128;
  constexpr int kRows = 12;
  static const auto matrix = reference::PackedMatrix::Create(
      2 * reference::PackedMatrix::kPanelRows, kColumns);
  const std::vector<float> x(kRows * kColumns, 1.0f);
  const int64_t per_product =
      static_cast<int64_t>(matrix->rows) * kColumns * kRows;
  const int num_tasks = 4 * pool.num_threads();
  const int64_t products = num_weights / per_product / num_tasks + 1;
  pool.ParallelFor(num_tasks, [&](int) {
    ThreadPool alone(1);
    std::vector<float> out(static_cast<size_t>(kRows) * matrix->rows);
    for (int64_t i = 0; i < products; ++i) {
      reference::Multiply({.weight = matrix.get(),
                           .x = x.data(),
                           .out = out.data(),
                           .num_rows = kRows,
                           .accumulate = false},
                          alone);
    }
  });
}

struct Summary {
  int num_threads;
  int64_t num_weights;
  double read_ms;
  double multiply_ms;
  double decode_ms;
  double ratio;
};

void Print(const Summary& s) {
  std::printf("threads                      %d\n", s.num_threads);
  std::printf("weights read per token       %.1f MB\n",
              static_cast<double>(s.num_weights) * 4e-6);
  std::printf("one pass over them           %.3f ms\n", s.read_ms);
  std::printf("their multiply-adds          %.3f ms\n", s.multiply_ms);
  std::printf("plain decoding, one token    %.3f ms\n", s.decode_ms);
  std::printf("decoding / (pass + adds)     %.2f (median of paired runs)\n",
              s.ratio);
}

int Main() {
  const int num_threads =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  ReferenceBackend backend(num_threads);
  const LoadedModel model = ValueOrDie(LoadModel("models/demo", backend));
  const GenerateOptions options{
      .draft = std::nullopt, .max_nodes_per_tree = 1, .max_batch = 1};
  const std::unique_ptr<Engine> engine = ValueOrDie(Engine::Create(
      model.config, *model.weights, backend,
      EngineOptionsFor(options, kContext, model.num_valid_tokens())));
  SequencePlan sequence{.max_new_tokens = 1};
  sequence.prompt_length = 8;
  sequence.sampling.temperature = 0;
  for (int i = 0; i < engine->limits().num_pages; ++i) {
    sequence.pages.emplace_back(i);
  }
  StepPlan prefill;
  prefill.prefills = {
      {.sequence = sequence, .tokens = {1, 2, 3, 4, 5, 6, 7, 8}}};
  ValueOrDie(engine->Step(prefill));
  const NodeList root{.token = {9}, .parent = {kNoParent}};
  StepPlan step;
  step.forest = ValueOrDie(BuildForest({&root, 1}));
  step.sequences = {sequence};
  const auto decode = [&] {
    step.sequences[0].committed = 8;
    for (int i = 0; i < kTokens; ++i) {
      step.sequences[0].committed =
          ValueOrDie(engine->Step(step)).sequences[0].committed;
    }
  };

  const std::vector<const reference::PackedMatrix*> matrices =
      MatricesOf(*model.weights);
  int64_t num_weights = 0;
  for (const reference::PackedMatrix* matrix : matrices) {
    num_weights += static_cast<int64_t>(matrix->rows) * matrix->columns;
  }
  ThreadPool pool(num_threads);
  std::vector<double> decode_ms;
  std::vector<double> read_ms;
  std::vector<double> multiply_ms;
  std::vector<double> ratio;
  for (int i = 0; i < kRepetitions; ++i) {
    decode_ms.push_back(Milliseconds(decode) / kTokens);
    read_ms.push_back(Milliseconds([&] {
                        for (int j = 0; j < 16; ++j) ReadAll(matrices, pool);
                      }) /
                      16);
    multiply_ms.push_back(
        Milliseconds([&] { MultiplyAll(num_weights, pool); }));
    ratio.push_back(decode_ms.back() / (read_ms.back() + multiply_ms.back()));
  }
  Print({.num_threads = num_threads,
         .num_weights = num_weights,
         .read_ms = Median(read_ms),
         .multiply_ms = Median(multiply_ms),
         .decode_ms = Median(decode_ms),
         .ratio = Median(ratio)});
  return 0;
}

}  // namespace
}  // namespace bole

int main() { return bole::Main(); }
