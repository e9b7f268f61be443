#include "kernels/cuda/ranks/nccl_collectives.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "common/status_macros.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/ranks/nccl_library.h"
#include "kernels/cuda/ranks/push.h"

namespace bole::cuda {
namespace {

struct FreeDevice {
  void operator()(void* memory) const { cudaFree(memory); }
};
using DeviceBytes = std::unique_ptr<void, FreeDevice>;

class NcclCollectives final : public GpuCollectives {
 public:
  NcclCollectives(Rank rank, const Nccl& nccl, NcclComm comm, DeviceBytes parts)
      : GpuCollectives(rank),
        nccl_(nccl),
        comm_(std::move(comm)),
        parts_(std::move(parts)) {}

  absl::Status status() const override {
    ncclResult_t result = ncclSuccess;
    BOLE_RETURN_IF_ERROR(nccl_.ToStatus(
        nccl_.CommGetAsyncError(comm_.get(), &result), "state of NCCL"));
    return nccl_.ToStatus(result, "an exchange between ranks");
  }

 private:
  absl::Status ReduceRows(const AllReduceAddNormParams& params, int first_row,
                          int num_rows, const Launch& on) override {
    const size_t row_bytes =
        static_cast<size_t>(params.width) * ElementBytes(on.type);
    const auto* part = reinterpret_cast<const char*>(params.partial) +
                       static_cast<size_t>(first_row) * row_bytes;
    BOLE_RETURN_IF_ERROR(nccl_.ToStatus(
        nccl_.AllGather(part, parts_.get(),
                        static_cast<size_t>(num_rows) * row_bytes, ncclInt8,
                        comm_.get(), on.stream),
        "gathering of partial sums"));
    return AddPartsAndNorm(params, first_row, num_rows, parts_.get(),
                           rank().count, on);
  }

  absl::Status GatherRows(const GatherRange& range, std::span<const int> widths,
                          const Launch& on) override {
    const auto rows = static_cast<size_t>(range.num_rows);
    const float* const own =
        range.part + static_cast<size_t>(range.first_row) * range.own_width;
    auto* const parts = static_cast<float*>(parts_.get());
    BOLE_RETURN_IF_ERROR(nccl_.ToStatus(nccl_.GroupStart(), "gathering"));
    float* part = parts;
    for (int r = 0; r < rank().count; ++r) {
      const size_t size = rows * static_cast<size_t>(widths[r]);
      BOLE_RETURN_IF_ERROR(nccl_.ToStatus(
          nccl_.Broadcast(r == rank().index ? own : part, part, size, ncclFloat,
                          r, comm_.get(), on.stream),
          "gathering of columns"));
      part += size;
    }
    BOLE_RETURN_IF_ERROR(nccl_.ToStatus(nccl_.GroupEnd(), "gathering"));
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

  const Nccl& nccl_;
  const NcclComm comm_;
  const DeviceBytes parts_;  // The parts that NCCL gathers, rank by rank.
};

}  // namespace

absl::StatusOr<std::unique_ptr<GpuCollectives>> MakeNcclCollectives(
    Communicator& ranks) {
  BOLE_ASSIGN_OR_RETURN(const Nccl* const nccl, Nccl::Load());
  BOLE_ASSIGN_OR_RETURN(NcclComm comm, MakeNcclComm(*nccl, ranks));
  void* parts = nullptr;
  const size_t bytes = std::max(
      kWholeBytes, static_cast<size_t>(ranks.rank().count) * kSlotBytes);
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaMalloc(&parts, bytes), "memory for the ranks' parts"));
  return std::make_unique<NcclCollectives>(ranks.rank(), *nccl, std::move(comm),
                                           DeviceBytes(parts));
}

}  // namespace bole::cuda
