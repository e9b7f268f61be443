// The matrix products of a forward pass on the GPU, each layer with weights of
// its own, by our kernels for few rows, by those for weights of 7 bits and by
// cuBLASLt, beside the least that reading the weights takes.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/command_line.h"
#include "common/status_macros.h"
#include "cuda_runtime_api.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/products/int7_product.h"
#include "kernels/cuda/products/int7_products.h"
#include "kernels/cuda/products/matmul.h"
#include "kernels/cuda/products/product.h"
#include "kernels/cuda/products/wide_product.h"
#include "kernels/dense.h"
#include "nlohmann/json.hpp"
#include "tests/bench/cuda/gpu_bench.h"

namespace bole::cuda {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxRows = 8192;

struct Matrix {
  int rows;
  int columns;
};

// A model's products. A fourth of the layers are attention layers.
struct Model {
  std::string name;
  int layers;
  int hidden;            // H
  int intermediate;      // I
  int linear_rows;       // C + Vd + 2 Hv, of a linear layer's projection.
  int linear_values;     // Vd
  int attention_rows;    // 2 Hq hd + 2 Hkv hd
  int attention_values;  // Hq hd
  bool head_only;
  Matrix alone = {0, 0};  // Nothing else, many times.
  int draft_head = 0;     // A drafter: its layer and a head of so many rows.

  bool HasHead() const { return head_only || draft_head > 0; }

  std::vector<Matrix> Matrices() const {
    constexpr int kVocabulary = 248320;
    constexpr int kAlone = 16;
    if (alone.rows > 0) return std::vector<Matrix>(kAlone, alone);
    if (head_only) return {{kVocabulary, hidden}};
    if (draft_head > 0) {
      return {{hidden, 2 * hidden},       {attention_rows, hidden},
              {hidden, attention_values}, {2 * intermediate, hidden},
              {hidden, intermediate},     {draft_head, hidden}};
    }
    std::vector<Matrix> matrices;
    for (int layer = 0; layer < layers; ++layer) {
      const bool linear = layer % 4 != 3;
      matrices.insert(matrices.end(),
                      {{linear ? linear_rows : attention_rows, hidden},
                       {hidden, linear ? linear_values : attention_values},
                       {2 * intermediate, hidden},
                       {hidden, intermediate}});
    }
    return matrices;
  }
};

const std::vector<Model>& Models() {
  static const auto* models = new std::vector<Model>{
      {"4B", 32, 2560, 9216, 12352, 4096, 10240, 4096, false},
      {"9B", 32, 4096, 12288, 12352, 4096, 10240, 4096, false},
      {"27B", 64, 5120, 17408, 16480, 6144, 14336, 6144, false},
      {"9B-head", 1, 4096, 0, 0, 0, 0, 0, true},
      {"9B-draft", 1, 4096, 12288, 0, 0, 10240, 4096, false, {0, 0}, 32768},
      {"5120x6144", 0, 5120, 0, 0, 0, 0, 0, false, {5120, 6144}},
      {"5120x17408", 0, 5120, 0, 0, 0, 0, 0, false, {5120, 17408}},
      {"16480x5120", 0, 5120, 0, 0, 0, 0, 0, false, {16480, 5120}},
      {"34816x5120", 0, 5120, 0, 0, 0, 0, 0, false, {34816, 5120}},
  };
  return *models;
}

struct Flags {
  std::vector<std::string> models = {"4B", "9B", "27B", "9B-head", "9B-draft"};
  std::vector<int> rows = {1, 2, 4, 8, 16, 32, 64, 96, 128, 256, 512};
  bool neighbours = false;
  int replays = 10;
  std::string json;
  std::string commit;
};

int64_t Elements(const std::vector<Matrix>& matrices) {
  int64_t elements = 0;
  for (const Matrix& m : matrices) {
    elements += static_cast<int64_t>(m.rows) * m.columns;
  }
  return elements;
}

// Device memory for any of the models, reused from one to the next.
struct Operands {
  DeviceMemory weights;
  DeviceMemory norm;      // [H]
  DeviceMemory residual;  // [N, H]
  DeviceMemory x;         // [N, widest]
  DeviceMemory out;       // [N, widest], or float32 logits.
  DeviceMemory count;     // [1]
};

absl::StatusOr<Operands> MakeOperands(CudaBackend& backend,
                                      const Flags& flags) {
  int64_t weights = 0;
  int64_t width = 0;
  int64_t out_bytes = 0;
  const int64_t rows = *std::max_element(flags.rows.begin(), flags.rows.end());
  for (const Model& model : Models()) {
    if (std::find(flags.models.begin(), flags.models.end(), model.name) ==
        flags.models.end()) {
      continue;
    }
    weights = std::max(weights, Elements(model.Matrices()));
    for (const Matrix& m : model.Matrices()) {
      width = std::max<int64_t>(width, m.columns);
      out_bytes = std::max<int64_t>(out_bytes,
                                    rows * m.rows * (model.HasHead() ? 4 : 2));
    }
  }
  Operands operands;
  // Weights are small enough to keep the residual stream finite.
  BOLE_ASSIGN_OR_RETURN(operands.weights,
                        RandomActivations(backend, weights, 0.01f, 1));
  BOLE_ASSIGN_OR_RETURN(operands.norm, RandomFloats(backend, width, 1, 2));
  BOLE_ASSIGN_OR_RETURN(operands.residual,
                        RandomActivations(backend, rows * width, 1, 3));
  BOLE_ASSIGN_OR_RETURN(operands.x,
                        RandomActivations(backend, rows * width, 1, 4));
  BOLE_ASSIGN_OR_RETURN(operands.out,
                        RandomActivations(backend, out_bytes / 2, 1, 5));
  BOLE_ASSIGN_OR_RETURN(operands.count,
                        backend.Allocate(sizeof(int32_t), "a count"));
  return operands;
}

struct Products {
  std::unique_ptr<MatMuls> matmuls;
  std::unique_ptr<Int7Products> int7;
};

enum class Way { kStreamed, kLibrary, kInt7 };

// All products of one forward pass, in order.
class Pass {
 public:
  Pass(CudaBackend& backend, const Products& products, const Operands& operands,
       const Model& model, int num_rows)
      : backend_(backend),
        products_(products),
        operands_(operands),
        model_(model),
        matrices_(model.Matrices()),
        num_rows_(num_rows) {}

  absl::Status Queue(Way way, bool neighbours) const {
    const auto* weight = static_cast<const uint16_t*>(operands_.weights.get());
    for (size_t i = 0; i < matrices_.size(); ++i) {
      // projection, output, gate_up, down
      if (neighbours) BOLE_RETURN_IF_ERROR(QueueBefore(i % 4));
      const bool to_residual =
          !model_.head_only && (matrices_[i].rows == model_.hidden ||
                                (model_.draft_head == 0 && i % 2 == 1));
      const Product product = {
          .num_rows = num_rows_,
          .count = static_cast<const int32_t*>(operands_.count.get()),
          .rows = matrices_[i].rows,
          .columns = matrices_[i].columns,
          .x = operands_.x.get(),
          .weight = weight,
          .out = to_residual ? operands_.residual.get() : operands_.out.get(),
          .float_out = model_.head_only ||
                       (model_.HasHead() && i + 1 == matrices_.size()),
          .accumulate = to_residual};
      weight += static_cast<int64_t>(product.rows) * product.columns;
      BOLE_RETURN_IF_ERROR(Run(way, product));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Run(Way way, const Product& product) const {
    const Launch& on = backend_.launch();
    switch (way) {
      case Way::kStreamed:
        return products_.matmuls->RunStreamed(product, on);
      case Way::kLibrary:
        return products_.matmuls->RunLibrary(product, on);
      case Way::kInt7:  // Any bytes are weights.
        return products_.int7->Run(product, on);
    }
    return absl::OkStatus();
  }
  // The dense operators ahead of the products: norms, and the gate.
  absl::Status QueueBefore(size_t which) const {
    const RowCount rows = {
        .count = static_cast<const int32_t*>(operands_.count.get()),
        .max = num_rows_};
    auto* x = static_cast<Activation*>(operands_.x.get());
    if (which == 3) {
      return backend_.SiluMul(
          {.rows = rows,
           .width = model_.intermediate,
           .gate_up = static_cast<const Activation*>(operands_.out.get()),
           .out = x});
    }
    if (which == 1) return absl::OkStatus();
    return backend_.RmsNorm(
        {.rows = rows,
         .width = model_.hidden,
         .epsilon = 1e-6f,
         .x = static_cast<const Activation*>(operands_.residual.get()),
         .weight = static_cast<const float*>(operands_.norm.get()),
         .out = x,
         .out_stride = model_.hidden,
         .out_column = 0});
  }

  CudaBackend& backend_;
  const Products& products_;
  const Operands& operands_;
  const Model& model_;
  const std::vector<Matrix> matrices_;
  const int num_rows_;
};

absl::StatusOr<Json> Measure(CudaBackend& backend, const Products& products,
                             const Operands& operands, const Flags& flags,
                             std::pair<const Model*, int> what) {
  const auto [model, num_rows] = what;
  const int32_t count = num_rows;
  BOLE_RETURN_IF_ERROR(
      backend.Upload(operands.count.get(), &count, sizeof(count)));
  const Pass pass(backend, products, operands, *model, num_rows);
  const auto milliseconds = [&](Way way) -> absl::StatusOr<double> {
    BOLE_ASSIGN_OR_RETURN(
        const double us,
        MedianMicroseconds(
            backend, 1, [&](int) { return pass.Queue(way, flags.neighbours); },
            flags.replays));
    return us / 1e3;
  };
  Json row = {{"model", model->name}, {"rows", num_rows}};
  BOLE_ASSIGN_OR_RETURN(row["cublas_ms"], milliseconds(Way::kLibrary));
  if (num_rows <= kMaxWideRows) {
    BOLE_ASSIGN_OR_RETURN(row["streamed_ms"], milliseconds(Way::kStreamed));
  }
  if (num_rows <= kMaxInt7Rows) {
    BOLE_ASSIGN_OR_RETURN(row["int7_ms"], milliseconds(Way::kInt7));
  }
  return row;
}

void Print(const Json& row) {
  const double floor = row["floor_ms"];
  std::printf("%-10s %4d rows  floor %7.3f",
              row["model"].get<std::string>().c_str(), row["rows"].get<int>(),
              floor);
  for (const char* way : {"cublas_ms", "streamed_ms", "int7_ms"}) {
    if (!row.contains(way)) continue;
    const double ms = row[way];
    std::printf("  %s %7.3f (%.3f)", way, ms, ms / floor);
  }
  std::printf("\n");
  std::fflush(stdout);
}

absl::Status Run(const Flags& flags, const std::string& command) {
  BOLE_ASSIGN_OR_RETURN(const auto backend, CudaBackend::Create());
  BOLE_ASSIGN_OR_RETURN(const double bandwidth, CopyBandwidth(*backend));
  Products products;
  BOLE_ASSIGN_OR_RETURN(products.matmuls, MatMuls::Create());
  BOLE_ASSIGN_OR_RETURN(products.int7, Int7Products::Create());
  BOLE_ASSIGN_OR_RETURN(const Operands operands, MakeOperands(*backend, flags));
  std::printf("%s, copies at %.0f GB/s. Milliseconds (over the floor)\n",
              backend->description().c_str(), bandwidth / 1e9);
  Json rows = Json::array();
  for (const Model& model : Models()) {
    if (std::find(flags.models.begin(), flags.models.end(), model.name) ==
        flags.models.end()) {
      continue;
    }
    const double bytes = 2.0 * static_cast<double>(Elements(model.Matrices()));
    for (const int num_rows : flags.rows) {
      BOLE_ASSIGN_OR_RETURN(Json row, Measure(*backend, products, operands,
                                              flags, {&model, num_rows}));
      row["neighbours"] = flags.neighbours;
      row["floor_ms"] = 1e3 * bytes / bandwidth;
      row["copy_gb_per_s"] = bandwidth / 1e9;
      Print(row);
      rows.push_back(std::move(row));
    }
  }
  return WriteReport(flags.json, *backend, command, flags.commit, rows);
}

}  // namespace
}  // namespace bole::cuda

int main(int argc, char** argv) {
  bole::cuda::Flags flags;
  bole::CommandLine app(
      "products_bench",
      "Times the matrix products of one forward pass on the GPU, as replays of "
      "one graph, by our kernels for few rows and by cuBLASLt. The floor is "
      "the bytes of the weights in bfloat16 over the copy bandwidth of the "
      "same run.");
  app.Add("--models", flags.models,
          "of 4B, 9B, 27B, 9B-head, 9B-draft, and single matrices of the 27B: "
          "5120x6144, 5120x17408, 16480x5120, 34816x5120")
      .OneOf({"4B", "9B", "27B", "9B-head", "9B-draft", "5120x6144",
              "5120x17408", "16480x5120", "34816x5120"});
  app.Add("--rows", flags.rows, "rows of x").Range(1, bole::cuda::kMaxRows);
  app.AddSwitch("--neighbours", flags.neighbours,
                "with the norms and the gates between the products");
  bole::cuda::AddReportFlags(flags.replays, flags.json, flags.commit, app);
  if (const auto exit_code = app.Parse(argc, argv)) return *exit_code;
  const std::string command =
      bole::cuda::CommandLine("products_bench", argc, argv);
  return bole::cuda::ExitCode(bole::cuda::Run(flags, command));
}
