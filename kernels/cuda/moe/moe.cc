#include "kernels/cuda/moe/moe.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/products/matmul.h"

namespace bole::cuda {
namespace {

const void* DataOf(const WeightMatrix* matrix) {
  return static_cast<const DeviceMatrix*>(matrix)->data;
}

absl::Status CheckMatrix(const WeightMatrix& matrix, const char* name, int rows,
                         int columns) {
  if (matrix.rows == rows && matrix.columns == columns) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the ", name, " of an expert is ", matrix.rows, " by ",
                   matrix.columns, ", not ", rows, " by ", columns));
}

absl::Status CheckFfn(const WeightMatrix& gate_up, const WeightMatrix& down,
                      int hidden, int width) {
  BOLE_RETURN_IF_ERROR(CheckMatrix(gate_up, "gate_up", 2 * width, hidden));
  return CheckMatrix(down, "down", hidden, width);
}

absl::Status CheckSizes(const MoeParams& p) {
  const int num_experts = p.router->rows;
  const int hidden = p.router->columns;
  if (num_experts > kMaxMoeExperts) {
    return absl::UnimplementedError(
        absl::StrCat("a mixture of ", num_experts, " experts; at most ",
                     kMaxMoeExperts, " are supported"));
  }
  if (std::ssize(p.gate_up) != num_experts ||
      std::ssize(p.down) != num_experts) {
    return absl::InvalidArgumentError(
        absl::StrCat("a router for ", num_experts, " experts, with ",
                     p.gate_up.size(), " gates and ", p.down.size(), " downs"));
  }
  BOLE_RETURN_IF_ERROR(CheckMatrix(*p.shared_gate, "shared gate", 1, hidden));
  for (int e = 0; e < num_experts; ++e) {
    BOLE_RETURN_IF_ERROR(
        CheckFfn(*p.gate_up[e], *p.down[e], hidden, p.down[0]->columns));
  }
  return CheckFfn(*p.shared_gate_up, *p.shared_down, hidden,
                  p.shared_down->columns);
}

// Hands out parts of a block of memory, or only adds up their sizes.
class Parts {
 public:
  explicit Parts(void* memory) : memory_(static_cast<char*>(memory)) {}

  template <typename T>
  void Take(int64_t count, T*& part) {
    constexpr size_t kAlignment = 256;
    if (memory_ != nullptr) part = reinterpret_cast<T*>(memory_ + bytes_);
    const size_t size = static_cast<size_t>(count) * sizeof(T);
    bytes_ += (size + kAlignment - 1) / kAlignment * kAlignment;
  }
  size_t bytes() const { return bytes_; }

 private:
  char* memory_;
  size_t bytes_ = 0;
};

// The scratch of a task in `memory`, and its size in bytes. If `memory` is
// null, only the size is computed.
std::pair<MoeScratch, size_t> Divide(const MoeTask& task, void* memory) {
  const MoeExperts& m = task.experts;
  const int64_t rows = task.rows.max;
  const int64_t entries = rows * task.places();
  MoeScratch scratch = {};
  Parts parts(memory);
  parts.Take(rows * (m.num_experts + 1), scratch.logits);
  parts.Take(entries, scratch.expert);
  parts.Take(entries, scratch.weight);
  parts.Take(1, scratch.num_groups);
  parts.Take(MaxMoeGroups(task.rows.max, task.experts_per_token, m.num_experts),
             scratch.group);
  parts.Take(entries, scratch.entry);
  parts.Take(entries * m.max_width(), scratch.inner);
  parts.Take(entries * m.hidden, scratch.y);
  return {scratch, parts.bytes()};
}

// The experts' sizes, without their addresses.
MoeExperts SizesOf(const MoeParams& params) {
  return {.num_experts = params.router->rows,
          .hidden = params.router->columns,
          .width = params.down.empty() ? 0 : params.down[0]->columns,
          .shared_width = params.shared_down->columns,
          .router = nullptr,
          .shared_gate = nullptr,
          .gate_ups = nullptr,
          .downs = nullptr};
}

MoeTask TaskOf(const MoeParams& params, const MoeExperts& experts) {
  return {.rows = params.rows,
          .experts_per_token = params.experts_per_token,
          .x = params.x,
          .out = params.out,
          .accumulate = params.accumulate,
          .experts = experts,
          .scratch = {}};
}

}  // namespace

size_t MoeRunner::ScratchBytes(const MoeParams& params) {
  return Divide(TaskOf(params, SizesOf(params)), nullptr).second;
}

absl::StatusOr<const MoeExperts*> MoeRunner::ExpertsOf(const MoeParams& params,
                                                       const Launch& on) {
  const auto found = sets_.find(params.router);
  if (found != sets_.end()) return &found->second.experts;

  BOLE_RETURN_IF_ERROR(CheckSizes(params));
  const size_t count = params.gate_up.size() + 1;
  std::vector<const void*> pointers;
  pointers.reserve(2 * count);
  for (const WeightMatrix* m : params.gate_up) pointers.push_back(DataOf(m));
  pointers.push_back(DataOf(params.shared_gate_up));
  for (const WeightMatrix* m : params.down) pointers.push_back(DataOf(m));
  pointers.push_back(DataOf(params.shared_down));
  const size_t bytes = pointers.size() * sizeof(void*);
  Set set;
  BOLE_ASSIGN_OR_RETURN(void* memory, set.pointers.Get(bytes, on));
  BOLE_RETURN_IF_ERROR(ToStatus(
      cudaMemcpy(memory, pointers.data(), bytes, cudaMemcpyHostToDevice),
      "copy of where the experts are"));

  const auto* on_device = static_cast<const void* const*>(memory);
  set.experts = SizesOf(params);
  set.experts.router = DataOf(params.router);
  set.experts.shared_gate = DataOf(params.shared_gate);
  set.experts.gate_ups = on_device;
  set.experts.downs = on_device + count;
  return &sets_.emplace(params.router, std::move(set)).first->second.experts;
}

absl::Status MoeRunner::Run(const MoeParams& params, void* scratch,
                            const Launch& on) {
  BOLE_ASSIGN_OR_RETURN(const MoeExperts* experts, ExpertsOf(params, on));
  if (params.experts_per_token < 1 ||
      params.experts_per_token > experts->num_experts) {
    return absl::InvalidArgumentError(absl::StrCat(params.experts_per_token,
                                                   " experts for each row, of ",
                                                   experts->num_experts));
  }
  MoeTask task = TaskOf(params, *experts);
  task.scratch = Divide(task, scratch).first;
  return LaunchMoe(task, on);
}

}  // namespace bole::cuda
