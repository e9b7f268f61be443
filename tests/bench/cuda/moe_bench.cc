// A mixture of experts on the GPU, whole and its launches by themselves, beside
// the least that reading the chosen experts takes.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/command_line.h"
#include "common/status_macros.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/moe/moe_kernels.h"
#include "kernels/cuda/moe/moe_products.h"
#include "kernels/cuda/moe/moe_streamed.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/products/matmul.h"
#include "kernels/dense.h"
#include "kernels/generate.h"
#include "nlohmann/json.hpp"
#include "tests/bench/cuda/gpu_bench.h"

namespace bole::cuda {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::vector<std::string> models = {"35B-A3B"};
  std::vector<int> rows = {1, 8, 16, 64, 128};
  int layers = 4;
  int replays = 20;
  std::string json;
  std::string commit;
};

// A routed expert is as wide as the shared one.
struct Sizes {
  int hidden;
  int num_experts;
  int experts_per_token;
  int width;

  int64_t ExpertBytes() const { return int64_t{3} * width * hidden * 2; }
};

const std::map<std::string, Sizes>& Models() {
  static const auto* models = new std::map<std::string, Sizes>{
      {"35B-A3B", {2048, 256, 8, 512}}, {"122B-A10B", {3072, 256, 8, 1024}}};
  return *models;
}

// The weights of one layer. The backend keeps the matrices.
struct Layer {
  const WeightMatrix* router;
  const WeightMatrix* shared_gate;
  std::vector<const WeightMatrix*> gate_ups;  // The shared one last,
  std::vector<const WeightMatrix*> downs;     // here too.
  DeviceMemory pointers;  // [E + 1] of gate_ups, then of downs.
};

class LayerMaker {
 public:
  LayerMaker(CudaBackend& backend, const Sizes& sizes)
      : backend_(backend), sizes_(sizes) {}

  absl::StatusOr<Layer> Make() {
    Layer layer;
    const int h = sizes_.hidden;
    BOLE_ASSIGN_OR_RETURN(layer.router, Matrix(sizes_.num_experts, h));
    BOLE_ASSIGN_OR_RETURN(layer.shared_gate, Matrix(1, h));
    std::vector<const void*> pointers;
    for (int e = 0; e <= sizes_.num_experts; ++e) {
      BOLE_ASSIGN_OR_RETURN(layer.gate_ups.emplace_back(),
                            Matrix(2 * sizes_.width, h));
      pointers.push_back(DataOf(layer.gate_ups.back()));
    }
    for (int e = 0; e <= sizes_.num_experts; ++e) {
      BOLE_ASSIGN_OR_RETURN(layer.downs.emplace_back(),
                            Matrix(h, sizes_.width));
      pointers.push_back(DataOf(layer.downs.back()));
    }
    const size_t bytes = pointers.size() * sizeof(void*);
    BOLE_ASSIGN_OR_RETURN(layer.pointers,
                          backend_.Allocate(bytes, "where the experts are"));
    BOLE_RETURN_IF_ERROR(
        backend_.Upload(layer.pointers.get(), pointers.data(), bytes));
    return layer;
  }

  static const void* DataOf(const WeightMatrix* matrix) {
    return static_cast<const DeviceMatrix*>(matrix)->data;
  }

 private:
  // With a deviation that keeps the size of what it multiplies.
  absl::StatusOr<const WeightMatrix*> Matrix(int rows, int columns) {
    const float deviation = 1 / std::sqrt(static_cast<float>(columns));
    return backend_.GenerateMatrix(
        {.pattern = MatrixPattern::kRandom,
         .rows = rows,
         .columns = columns,
         .seed = 1,
         .stream = num_made_++,
         .num_blocks = 1,
         .blocks = {
             {.end = rows, .deviation = deviation, .shift = 0, .gain = 0}}});
  }

  CudaBackend& backend_;
  const Sizes sizes_;
  uint32_t num_made_ = 0;
};

struct Part {
  const char* name;
  absl::Status (*launch)(const MoeTask& task, const Launch& on);
};

// The others read what the last whole one left.
std::vector<Part> PartsOf(const MoeTask& task, const Launch& on) {
  if (CanStreamMoe(task, on)) {
    return {{"whole", LaunchMoe},
            {"logits", LaunchStreamedMoeLogits},
            {"gate_up", LaunchStreamedMoeGateUp},
            {"down", LaunchStreamedMoeDown}};
  }
  return {{"whole", LaunchMoe},
          {"logits", LaunchMoeLogits},
          {"routing", LaunchMoeRouting},
          {"gate_up", LaunchMoeGateUp},
          {"down", LaunchMoeDown}};
}

// Rows that go through the mixtures of several layers.
class Bench {
 public:
  static absl::StatusOr<Json> Run(CudaBackend& backend, const Flags& flags) {
    BOLE_ASSIGN_OR_RETURN(const double bandwidth, CopyBandwidth(backend));
    std::printf(
        "%s, copies at %.0f GB/s. Microseconds a layer (over the floor of the "
        "bytes of the chosen experts)\n",
        backend.description().c_str(), bandwidth / 1e9);
    Json rows = Json::array();
    for (const std::string& model : flags.models) {
      Bench bench(backend, flags, bandwidth, model);
      BOLE_RETURN_IF_ERROR(bench.Prepare());
      for (const int num_rows : flags.rows) {
        BOLE_ASSIGN_OR_RETURN(rows.emplace_back(), bench.Measure(num_rows));
      }
    }
    return rows;
  }

 private:
  Bench(CudaBackend& backend, const Flags& flags, double bandwidth,
        std::string model)
      : backend_(backend),
        flags_(flags),
        bandwidth_(bandwidth),
        model_(std::move(model)),
        sizes_(Models().at(model_)) {}

  int MaxRows() const {
    return *std::max_element(flags_.rows.begin(), flags_.rows.end());
  }

  absl::Status Prepare() {
    LayerMaker maker(backend_, sizes_);
    for (int i = 0; i < flags_.layers; ++i) {
      BOLE_ASSIGN_OR_RETURN(layers_.emplace_back(), maker.Make());
    }
    const int64_t values = int64_t{MaxRows()} * sizes_.hidden;
    BOLE_ASSIGN_OR_RETURN(x_, RandomActivations(backend_, values, 1, 2));
    BOLE_ASSIGN_OR_RETURN(out_, RandomActivations(backend_, values, 1, 3));
    BOLE_ASSIGN_OR_RETURN(count_, backend_.Allocate(sizeof(int32_t), "count"));
    return MakeScratch();
  }

  absl::Status MakeScratch() {
    const auto take = [&](int64_t bytes, auto*& part) -> absl::Status {
      BOLE_ASSIGN_OR_RETURN(
          scratch_memory_.emplace_back(),
          backend_.Allocate(static_cast<size_t>(bytes), "scratch"));
      part = static_cast<std::remove_reference_t<decltype(part)>>(
          scratch_memory_.back().get());
      return absl::OkStatus();
    };
    const int64_t rows = MaxRows();
    const int64_t entries = rows * (sizes_.experts_per_token + 1);
    const int64_t groups =
        MaxMoeGroups(MaxRows(), sizes_.experts_per_token, sizes_.num_experts);
    BOLE_RETURN_IF_ERROR(
        take(rows * (sizes_.num_experts + 1) * 4, scratch_.logits));
    BOLE_RETURN_IF_ERROR(take(entries * 4, scratch_.expert));
    BOLE_RETURN_IF_ERROR(take(entries * 4, scratch_.weight));
    BOLE_RETURN_IF_ERROR(take(4, scratch_.num_groups));
    BOLE_RETURN_IF_ERROR(
        take(groups * int64_t{sizeof(MoeGroup)}, scratch_.group));
    BOLE_RETURN_IF_ERROR(take(entries * 4, scratch_.entry));
    BOLE_RETURN_IF_ERROR(take(entries * sizes_.width * 4, scratch_.inner));
    return take(entries * sizes_.hidden * 4, scratch_.y);
  }

  MoeTask Task(int num_rows, int layer) const {
    const Layer& of = layers_[static_cast<size_t>(layer)];
    const auto* pointers = static_cast<const void* const*>(of.pointers.get());
    return {.rows = {static_cast<const int32_t*>(count_.get()), num_rows},
            .experts_per_token = sizes_.experts_per_token,
            .x = static_cast<const Activation*>(x_.get()),
            .out = static_cast<Activation*>(out_.get()),
            .accumulate = false,
            .experts = {.num_experts = sizes_.num_experts,
                        .hidden = sizes_.hidden,
                        .width = sizes_.width,
                        .shared_width = sizes_.width,
                        .router = LayerMaker::DataOf(of.router),
                        .shared_gate = LayerMaker::DataOf(of.shared_gate),
                        .gate_ups = pointers,
                        .downs = pointers + sizes_.num_experts + 1},
            .scratch = scratch_};
  }

  // How many experts the rows choose in a layer, the shared one too, on
  // average.
  absl::StatusOr<double> NumChosen(int num_rows) {
    int64_t chosen = 0;
    for (int layer = 0; layer < flags_.layers; ++layer) {
      const MoeTask task = Task(num_rows, layer);
      BOLE_RETURN_IF_ERROR(LaunchMoeLogits(task, backend_.launch()));
      BOLE_RETURN_IF_ERROR(LaunchMoeRouting(task, backend_.launch()));
      int32_t groups = 0;
      BOLE_RETURN_IF_ERROR(
          backend_.Download(&groups, scratch_.num_groups, sizeof(groups)));
      chosen += groups;
    }
    return static_cast<double>(chosen) / flags_.layers;
  }

  absl::StatusOr<Json> Measure(int num_rows) {
    const int32_t count = num_rows;
    BOLE_RETURN_IF_ERROR(backend_.Upload(count_.get(), &count, sizeof(count)));
    BOLE_ASSIGN_OR_RETURN(const double chosen, NumChosen(num_rows));
    const double bytes = chosen * static_cast<double>(sizes_.ExpertBytes()) +
                         2.0 * (sizes_.num_experts + 1) * sizes_.hidden;
    const double floor = 1e6 * bytes / bandwidth_;
    Json row = {{"model", model_},
                {"rows", num_rows},
                {"experts", chosen},
                {"floor_us", floor},
                {"copy_gb_per_s", bandwidth_ / 1e9}};
    std::printf("%-9s rows %3d  experts %5.1f  floor %6.2f", model_.c_str(),
                num_rows, chosen, floor);
    bool is_first = true;
    for (const Part& part : PartsOf(Task(num_rows, 0), backend_.launch())) {
      BOLE_ASSIGN_OR_RETURN(const double us, MedianMicroseconds(
                                                 backend_, flags_.layers,
                                                 [&](int layer) {
                                                   return part.launch(
                                                       Task(num_rows, layer),
                                                       backend_.launch());
                                                 },
                                                 flags_.replays));
      row[std::string(part.name) + "_us"] = us;
      std::printf("  %s %.2f", part.name, us);
      if (is_first) std::printf(" (%.2f)", us / floor);
      is_first = false;
      std::fflush(stdout);
    }
    std::printf("\n");
    return row;
  }

  CudaBackend& backend_;
  const Flags& flags_;
  const double bandwidth_;
  const std::string model_;
  const Sizes sizes_;
  std::vector<Layer> layers_;
  DeviceMemory x_;
  DeviceMemory out_;
  DeviceMemory count_;
  std::vector<DeviceMemory> scratch_memory_;
  MoeScratch scratch_ = {};
};

absl::Status Run(const Flags& flags, const std::string& command) {
  BOLE_ASSIGN_OR_RETURN(const auto backend, CudaBackend::Create());
  BOLE_ASSIGN_OR_RETURN(const Json rows, Bench::Run(*backend, flags));
  return WriteReport(flags.json, *backend, command, flags.commit, rows);
}

}  // namespace
}  // namespace bole::cuda

int main(int argc, char** argv) {
  bole::cuda::Flags flags;
  bole::CommandLine app(
      "moe_bench",
      "Times a mixture of experts on the GPU, whole and its launches alone: "
      "medians of graph replays over layers that no cache holds. The rows "
      "differ, and so do their experts.");
  app.Add("--models", flags.models, "of 35B-A3B, 122B-A10B")
      .OneOf({"35B-A3B", "122B-A10B"});
  app.Add("--rows", flags.rows, "of a forward");
  app.Add("--layers", flags.layers, "with weights of their own").Range(1, 40);
  bole::cuda::AddReportFlags(flags.replays, flags.json, flags.commit, app);
  if (const auto exit_code = app.Parse(argc, argv)) return *exit_code;
  const std::string command = bole::cuda::CommandLine("moe_bench", argc, argv);
  return bole::cuda::ExitCode(bole::cuda::Run(flags, command));
}
