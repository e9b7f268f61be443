// What follows the logits of a full vocabulary: the drafter's candidates, the
// draw of every token, and the selection of the next forest.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/command_line.h"
#include "common/status_macros.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/cuda_backend.h"
#include "nlohmann/json.hpp"
#include "tests/bench/cuda/gpu_bench.h"

namespace bole::cuda {
namespace {

constexpr int kVocabulary = 248320;
constexpr int kMaxRows = 512;
constexpr int kTreeNodes = 32;  // Nodes of a request that is sampled.

// Rows like a model's: noise, and a hundred tokens that stand out.
std::vector<float> LogitRow(std::mt19937& rng) {
  std::normal_distribution<float> normal(0, 2);
  std::uniform_real_distribution<float> peak(8, 20);
  std::vector<float> row(kVocabulary);
  for (float& logit : row) logit = normal(rng);
  for (int i = 0; i < 100; ++i) row[rng() % kVocabulary] = peak(rng);
  return row;
}

// Device memory that is filled from the host, for the bench's lifetime.
class Operands {
 public:
  explicit Operands(CudaBackend& backend) : backend_(backend) {}

  template <typename T>
  absl::StatusOr<T*> Make(size_t count, const std::vector<T>& content = {}) {
    BOLE_ASSIGN_OR_RETURN(
        DeviceMemory memory,
        backend_.Allocate(count * sizeof(T), "operands of a benchmark"));
    T* const device = static_cast<T*>(memory.get());
    kept_.push_back(std::move(memory));
    for (size_t at = 0; at < count && !content.empty(); at += content.size()) {
      const size_t part = std::min(content.size(), count - at);
      BOLE_RETURN_IF_ERROR(
          backend_.Upload(device + at, content.data(), part * sizeof(T)));
    }
    BOLE_RETURN_IF_ERROR(ToStatus(cudaStreamSynchronize(backend_.stream()),
                                  "operands of a benchmark"));
    return device;
  }

 private:
  CudaBackend& backend_;
  std::vector<DeviceMemory> kept_;
};

struct Bench {
  CudaBackend& backend;
  Operands& operands;
  const float* logits;  // [kMaxRows, kVocabulary]
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();

  // Calls of a graph: each reads other rows, until the rows are at an end.
  static int Calls(int num_rows) { return std::min(kMaxRows / num_rows, 64); }
  const float* LogitsOf(int call, int num_rows) const {
    return logits + int64_t{call} * num_rows * kVocabulary;
  }
  void Report(const std::string& what, int num_rows, double microseconds) {
    const double gigabytes = 4e-9 * kVocabulary * num_rows;
    std::printf("%-28s %5d %10.1f %10.2f\n", what.c_str(), num_rows,
                microseconds, 1e3 * gigabytes / microseconds);
    std::fflush(stdout);
    rows.push_back(
        {{"what", what}, {"rows", num_rows}, {"microseconds", microseconds}});
  }
};

absl::Status RunTopK(Bench& bench, int num_rows, int top_k) {
  BOLE_ASSIGN_OR_RETURN(int32_t * count,
                        bench.operands.Make<int32_t>(1, {num_rows}));
  BOLE_ASSIGN_OR_RETURN(int32_t * token,
                        bench.operands.Make<int32_t>(num_rows * top_k));
  BOLE_ASSIGN_OR_RETURN(float* log_prob,
                        bench.operands.Make<float>(num_rows * top_k));
  TopKParams params = {};
  params.rows = {count, num_rows};
  params.vocabulary = kVocabulary;
  params.num_valid_tokens = kVocabulary;
  params.top_k = top_k;
  params.token = token;
  params.log_prob = log_prob;
  BOLE_ASSIGN_OR_RETURN(
      const double time,
      MedianMicroseconds(bench.backend, Bench::Calls(num_rows), [&](int call) {
        params.logits = bench.LogitsOf(call, num_rows);
        return bench.backend.TopK(params);
      }));
  bench.Report(absl::StrCat("TopK ", top_k), num_rows, time);
  return absl::OkStatus();
}

// Trees of up to kTreeNodes rows, node i under node (i - 1) / 2.
struct SampledRows {
  explicit SampledRows(int num_rows) {
    for (int row = 0; row < num_rows; ++row) {
      const int node = row % kTreeNodes;
      if (node == 0) first_row.push_back(row);
      request.push_back(static_cast<int32_t>(first_row.size()) - 1);
      this->node.push_back(node);
      parent.push_back(node == 0 ? -1 : (node - 1) / 2);
      depth.push_back(node == 0 ? 0 : depth[row - node + parent.back()] + 1);
      token.push_back(1000 + row);
    }
    requests = static_cast<int>(first_row.size());
    first_row.push_back(num_rows);
  }
  int requests;
  std::vector<int32_t> first_row, request, node, parent, depth, token;
};

absl::StatusOr<SampleParams> MakeSample(Bench& bench, int num_rows,
                                        const SamplingControl& control) {
  Operands& operands = bench.operands;
  const SampledRows rows(num_rows);
  const int requests = rows.requests;
  SampleParams p = {};
  absl::Status status;
  const auto make = [&](auto& pointer, size_t count, const auto& content) {
    auto made = operands.Make(count, content);
    status.Update(made.status());
    if (made.ok()) pointer = *made;
  };
  const auto ints = [&](auto& pointer, const std::vector<int32_t>& content) {
    make(pointer, content.size(), content);
  };
  p.batch.max_requests = requests;
  p.batch.rows.max = num_rows;
  ints(p.batch.rows.count, {num_rows});
  ints(p.batch.first_row, rows.first_row);
  ints(p.batch.request, rows.request);
  ints(p.batch.node, rows.node);
  ints(p.batch.parent, rows.parent);
  ints(p.batch.depth, rows.depth);
  ints(p.token, rows.token);
  std::vector<int32_t> slot(requests);
  for (int b = 0; b < requests; ++b) slot[b] = b;
  ints(p.batch.slot, slot);
  ints(p.batch.committed, std::vector<int32_t>(requests, 1000));
  p.vocabulary = kVocabulary;
  p.num_valid_tokens = kVocabulary;
  make(p.control, requests, std::vector<SamplingControl>(requests, control));
  p.counts.num_slots = requests;
  make(p.counts.count, size_t{kVocabulary} * requests,
       std::vector<int32_t>(kVocabulary));
  ints(p.first_bias, std::vector<int32_t>(requests + 1));
  ints(p.first_stop, std::vector<int32_t>(requests + 1));
  ints(p.path_first, std::vector<int32_t>(requests + 1));
  ints(p.path_row, std::vector<int32_t>(num_rows));
  ints(p.emitted, std::vector<int32_t>(num_rows));
  make(p.logprob, num_rows, std::vector<float>{});
  ints(p.top_token, std::vector<int32_t>(num_rows * kMaxTopLogprobs));
  make(p.top_logprob, num_rows * kMaxTopLogprobs, std::vector<float>{});
  ints(p.accepted, std::vector<int32_t>(requests));
  ints(p.next_token, std::vector<int32_t>(requests));
  BOLE_RETURN_IF_ERROR(status);
  return p;
}

std::map<std::string, SamplingControl> Controls() {
  SamplingControl control = {.seed = 7,
                             .temperature = 0,
                             .top_k = 0,
                             .top_p = 1,
                             .min_p = 0,
                             .presence_penalty = 0,
                             .frequency_penalty = 0,
                             .repetition_penalty = 1,
                             .prompt_length = 10,
                             .max_tokens = kTreeNodes,
                             .min_tokens = 0,
                             .top_logprobs = 0};
  std::map<std::string, SamplingControl> controls;
  controls["greedy"] = control;
  control.top_logprobs = kMaxTopLogprobs;
  controls["greedy, 20 logprobs"] = control;
  control.top_logprobs = 0;
  control.temperature = 0.7f;
  controls["T 0.7"] = control;
  control.presence_penalty = 1.5f;
  controls["T 0.7, penalties"] = control;
  control.presence_penalty = 0;
  control.top_p = 0.95f;
  controls["T 0.7, p 0.95"] = control;
  control.top_k = 20;
  controls["T 0.7, k 20, p 0.95"] = control;
  control.top_k = 0;
  control.top_p = 1;
  control.min_p = 0.05f;
  controls["T 0.7, min_p 0.05"] = control;
  return controls;
}

absl::Status RunSample(Bench& bench, int num_rows, const std::string& name,
                       const SamplingControl& control) {
  BOLE_ASSIGN_OR_RETURN(SampleParams params,
                        MakeSample(bench, num_rows, control));
  BOLE_ASSIGN_OR_RETURN(
      const double time,
      MedianMicroseconds(bench.backend, Bench::Calls(num_rows), [&](int call) {
        params.logits = bench.LogitsOf(call, num_rows);
        return bench.backend.Sample(params);
      }));
  bench.Report(absl::StrCat("Sample ", name), num_rows, time);
  return absl::OkStatus();
}

absl::Status RunSelect(Bench& bench, int requests, const DraftShape& shape,
                       int nodes_per_tree) {
  Operands& operands = bench.operands;
  const int num_candidates = shape.num_candidates();
  const int rows = requests * nodes_per_tree;
  std::mt19937 rng(1);
  std::vector<int32_t> parent;
  std::vector<float> log_rho;
  for (int i = 0; i < requests * num_candidates; ++i) {
    const int c = i % num_candidates;
    const int k = shape.top_k;
    const int own = c < k ? -1 : c < k + k * k ? (c - k) / k : c - k * k;
    parent.push_back(own);
    log_rho.push_back((own < 0 ? 0 : log_rho[i - c + own]) -
                      std::exponential_distribution<float>(1)(rng));
  }
  SelectForestParams p = {};
  absl::Status status;
  const auto make = [&](auto& pointer, size_t count, const auto& content) {
    auto made = operands.Make(count, content);
    status.Update(made.status());
    if (made.ok()) pointer = *made;
  };
  const auto ints = [&](auto& pointer, size_t count, int32_t value) {
    make(pointer, count, std::vector<int32_t>(count, value));
  };
  p.max_requests = requests;
  p.max_rows = rows;
  p.mask_words = kMaxTreeNodes / 32;
  p.shape = shape;
  p.max_nodes_per_tree = kMaxTreeNodes;
  ints(p.budget, 1, rows);
  ints(p.floor, requests, 1);
  ints(p.cap, requests, kMaxTreeNodes);
  ints(p.root, requests, 5);
  ints(p.node_limit, requests, 1000);
  ints(p.depth_limit, requests, 1000);
  ints(p.trees.token, parent.size(), 7);
  make(p.trees.parent, parent.size(), parent);
  make(p.trees.log_rho, log_rho.size(), log_rho);
  ints(p.num_rows, 1, 0);
  ints(p.first_row, requests + 1, 0);
  for (int32_t** out : {&p.request, &p.node, &p.parent, &p.depth, &p.token}) {
    ints(*out, rows, 0);
  }
  make(p.ancestors, static_cast<size_t>(rows) * p.mask_words,
       std::vector<uint32_t>{});
  BOLE_RETURN_IF_ERROR(status);
  BOLE_ASSIGN_OR_RETURN(const double time,
                        MedianMicroseconds(bench.backend, 32, [&](int) {
                          return bench.backend.SelectForest(p);
                        }));
  const std::string what =
      absl::StrCat("SelectForest ", requests, " of ", num_candidates);
  std::printf("%-28s %5d %10.1f\n", what.c_str(), rows, time);
  bench.rows.push_back(
      {{"what", what}, {"rows", rows}, {"microseconds", time}});
  return absl::OkStatus();
}

absl::Status Run(const std::string& json, const std::string& command,
                 const std::string& commit) {
  BOLE_ASSIGN_OR_RETURN(const std::unique_ptr<CudaBackend> backend,
                        CudaBackend::Create());
  Operands operands(*backend);
  std::mt19937 rng(1);
  std::vector<float> content;
  for (int row = 0; row < 16; ++row) {
    const std::vector<float> own = LogitRow(rng);
    content.insert(content.end(), own.begin(), own.end());
  }
  BOLE_ASSIGN_OR_RETURN(float* logits,
                        operands.Make(size_t{kMaxRows} * kVocabulary, content));
  BOLE_ASSIGN_OR_RETURN(const double bandwidth, CopyBandwidth(*backend));
  std::printf("%s, copies at %.2f TB/s\n%-28s %5s %10s %10s\n",
              backend->description().c_str(), 1e-12 * bandwidth, "operator",
              "rows", "us", "TB/s");
  Bench bench = {.backend = *backend, .operands = operands, .logits = logits};
  for (const int num_rows : {1, 4, 16, 64}) {
    BOLE_RETURN_IF_ERROR(RunTopK(bench, num_rows, 4));
  }
  BOLE_RETURN_IF_ERROR(RunTopK(bench, 4, 8));
  BOLE_RETURN_IF_ERROR(RunTopK(bench, 4, 16));
  for (const auto& [name, control] : Controls()) {
    for (const int num_rows : {1, 16, 64, 128, 512}) {
      BOLE_RETURN_IF_ERROR(RunSample(bench, num_rows, name, control));
    }
  }
  for (const int requests : {1, 8, 16, 64}) {
    BOLE_RETURN_IF_ERROR(
        RunSelect(bench, requests, {.top_k = 4, .depth = 8}, 32));
    BOLE_RETURN_IF_ERROR(
        RunSelect(bench, requests, {.top_k = 8, .depth = 8}, 32));
  }
  return WriteReport(json, *backend, command, commit, bench.rows);
}

}  // namespace
}  // namespace bole::cuda

int main(int argc, char** argv) {
  bole::CommandLine app(
      "sampling_bench",
      "Times TopK, Sample and SelectForest of the GPU backend at a vocabulary "
      "of 248320, as medians of graph replays; every call of a graph reads "
      "other logits. TB/s counts each logit once.");
  std::string json;
  std::string commit = "unknown";
  app.Add("--json", json, "file to write the results to");
  app.Add("--commit", commit, "what is measured, for that file");
  if (const auto exit_code = app.Parse(argc, argv)) return *exit_code;
  const std::string command =
      bole::cuda::CommandLine("sampling_bench", argc, argv);
  return bole::cuda::ExitCode(bole::cuda::Run(json, command, commit));
}
