#include "kernels/cuda/ranks/gpu_collectives.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/check.h"

namespace bole::cuda {
namespace {

// Of rows of so many bytes that fit `bytes`, at least one.
int RowsThatFit(size_t bytes, size_t row_bytes) {
  return static_cast<int>(std::max<size_t>(bytes / row_bytes, 1));
}

}  // namespace

void GpuCollectives::FreeHost::operator()(void* memory) const {
  cudaFreeHost(memory);
}
void GpuCollectives::FreeDevice::operator()(void* memory) const {
  cudaFree(memory);
}

absl::StatusOr<std::unique_ptr<GpuCollectives>> GpuCollectives::Create(
    int device, CollectivesKind kind, std::chrono::milliseconds deadline,
    Communicator& ranks, const Launch& on) {
  std::unique_ptr<GpuCollectives> group(new GpuCollectives);
  group->rank_ = ranks.rank();
  group->deadline_ = deadline;
  group->kind_ = kind;
  if (group->rank_.count > kMaxPeers) {
    return absl::UnimplementedError(absl::StrCat(group->rank_.count,
                                                 " ranks on GPUs; at most ",
                                                 kMaxPeers, " are supported"));
  }
  BOLE_RETURN_IF_ERROR(kind == CollectivesKind::kPush
                           ? group->PreparePush(device, ranks, on)
                           : group->PrepareNccl(ranks));
  return group;
}

GpuCollectives::~GpuCollectives() = default;

absl::Status GpuCollectives::PreparePush(int device, Communicator& ranks,
                                         const Launch& on) {
  const int count = rank_.count;
  BOLE_ASSIGN_OR_RETURN(arena_,
                        PeerArena::Create(device, ArenaBytes(count), ranks));
  void* failure = nullptr;
  BOLE_RETURN_IF_ERROR(ToStatus(
      cudaHostAlloc(&failure, sizeof(PushFailure), cudaHostAllocMapped),
      "memory for a failure"));
  failure_.reset(new (failure) PushFailure{});
  group_ = {.rank = rank_.index,
            .count = count,
            .arena = {},
            .failure = failure_.get(),
            .patience = static_cast<uint64_t>(
                std::chrono::nanoseconds(deadline_).count())};
  for (int r = 0; r < count; ++r) group_.arena[r] = arena_->of(r);
  BOLE_RETURN_IF_ERROR(ClearArena(group_, on));
  BOLE_RETURN_IF_ERROR(ToStatus(cudaStreamSynchronize(on.stream),
                                "emptying of a rank's memory"));
  // Nobody sends before all are empty.
  return ranks.AllGather({}, {});
}

absl::Status GpuCollectives::PrepareNccl(Communicator& ranks) {
  BOLE_ASSIGN_OR_RETURN(nccl_, Nccl::Load());
  BOLE_ASSIGN_OR_RETURN(NcclComm comm, MakeNcclComm(*nccl_, ranks));
  comm_.emplace(std::move(comm));
  void* parts = nullptr;
  const size_t bytes =
      std::max(kWholeBytes, static_cast<size_t>(rank_.count) * kSlotBytes);
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaMalloc(&parts, bytes), "memory for the ranks' parts"));
  parts_.reset(parts);
  return absl::OkStatus();
}

absl::Status GpuCollectives::AllReduceAddNorm(
    const AllReduceAddNormParams& params, const Launch& on) {
  BOLE_RETURN_IF_ERROR(CheckReduceWidth(params.width, on.type));
  const size_t row_bytes =
      static_cast<size_t>(params.width) * ElementBytes(on.type);
  const int at_once = RowsThatFit(kSlotBytes, row_bytes);
  for (int first = 0; first < params.rows.max; first += at_once) {
    const int rows = std::min(at_once, params.rows.max - first);
    if (kind_ == CollectivesKind::kPush) {
      BOLE_RETURN_IF_ERROR(
          PushAllReduceAddNorm(params, first, rows, group_, on));
      continue;
    }
    const auto* part = reinterpret_cast<const char*>(params.partial) +
                       static_cast<size_t>(first) * row_bytes;
    BOLE_RETURN_IF_ERROR(
        nccl_->ToStatus(nccl_->AllGather(part, parts_.get(),
                                         static_cast<size_t>(rows) * row_bytes,
                                         ncclInt8, comm_->get(), on.stream),
                        "gathering of partial sums"));
    BOLE_RETURN_IF_ERROR(
        AddPartsAndNorm(params, first, rows, parts_.get(), rank_.count, on));
  }
  return absl::OkStatus();
}

absl::Status GpuCollectives::AllGather(RowCount rows,
                                       std::span<const int> widths,
                                       const float* part, float* whole,
                                       const Launch& on) {
  const int width = std::accumulate(widths.begin(), widths.end(), 0);
  const auto own = widths.begin() + rank_.index;
  constexpr int kVector = 4;
  GatherRange range = {
      .part = part,
      .whole = whole,
      .count = rows.count,
      .first_row = 0,
      .num_rows = 0,
      .width = width,
      .own_width = *own,
      .own_first = std::accumulate(widths.begin(), own, 0),
      .are_aligned = std::all_of(widths.begin(), widths.end(),
                                 [](int w) { return w % kVector == 0; })};
  const int at_once =
      RowsThatFit(kWholeBytes, static_cast<size_t>(width) * sizeof(float));
  // Whole rows are longer than what they are made of, so the last come first.
  for (int end = rows.max; end > 0; end = range.first_row) {
    range.first_row = (end - 1) / at_once * at_once;
    range.num_rows = end - range.first_row;
    BOLE_RETURN_IF_ERROR(kind_ == CollectivesKind::kPush
                             ? PushAllGather(range, group_, on)
                             : GatherByNccl(range, widths, on));
  }
  return absl::OkStatus();
}

absl::Status GpuCollectives::GatherByNccl(const GatherRange& range,
                                          std::span<const int> widths,
                                          const Launch& on) {
  const auto rows = static_cast<size_t>(range.num_rows);
  const float* const own =
      range.part + static_cast<size_t>(range.first_row) * range.own_width;
  auto* const parts = static_cast<float*>(parts_.get());
  BOLE_RETURN_IF_ERROR(nccl_->ToStatus(nccl_->GroupStart(), "gathering"));
  float* part = parts;
  for (int r = 0; r < rank_.count; ++r) {
    const size_t size = rows * static_cast<size_t>(widths[r]);
    BOLE_RETURN_IF_ERROR(nccl_->ToStatus(
        nccl_->Broadcast(r == rank_.index ? own : part, part, size, ncclFloat,
                         r, comm_->get(), on.stream),
        "gathering of columns"));
    part += size;
  }
  BOLE_RETURN_IF_ERROR(nccl_->ToStatus(nccl_->GroupEnd(), "gathering"));
  part = parts;
  int first = 0;
  for (const int width : widths) {
    if (width > 0) {
      BOLE_RETURN_IF_ERROR(PlaceColumns(part, first, width, range, on));
    }
    part += rows * static_cast<size_t>(width);
    first += width;
  }
  return absl::OkStatus();
}

absl::Status GpuCollectives::status() const {
  if (failure_ != nullptr) {
    const int missing =
        static_cast<volatile PushFailure*>(failure_.get())->missing;
    if (missing == 0) return absl::OkStatus();
    return absl::DeadlineExceededError(absl::StrCat(
        "rank ", missing - 1, " did not send what rank ", rank_.index,
        " waited for, for ", deadline_.count(), " ms"));
  }
  if (!comm_) return absl::OkStatus();
  ncclResult_t result = ncclSuccess;
  BOLE_RETURN_IF_ERROR(nccl_->ToStatus(
      nccl_->CommGetAsyncError(comm_->get(), &result), "state of NCCL"));
  return nccl_->ToStatus(result, "an exchange between ranks");
}

}  // namespace bole::cuda
