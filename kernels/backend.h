#ifndef BOLE_KERNELS_BACKEND_H_
#define BOLE_KERNELS_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/add_and_project.h"
#include "kernels/attention.h"
#include "kernels/collectives.h"
#include "kernels/dense.h"
#include "kernels/draft_inputs.h"
#include "kernels/drafting.h"
#include "kernels/gdn.h"
#include "kernels/generate.h"
#include "kernels/graph_set.h"
#include "kernels/matrix_source.h"
#include "kernels/rank.h"
#include "kernels/sampling.h"

namespace bole {

// Frees memory of the backend that gave it out; the backend must outlive it.
class Backend;
struct DeviceDeleter {
  Backend* backend = nullptr;
  void operator()(void* memory) const;
};
using DeviceMemory = std::unique_ptr<void, DeviceDeleter>;
struct HostDeleter {
  Backend* backend = nullptr;
  void operator()(void* memory) const;
};
using HostMemory = std::unique_ptr<void, HostDeleter>;

// How much memory a device has of its own.
struct MemoryState {
  size_t free_bytes;
  size_t total_bytes;
};

// Some bytes on the device, and as many in memory of AllocateHost().
struct HostCopy {
  void* device;
  void* host;
  size_t bytes;
};

class ScratchMeter;  // kernels/scratch_meter.h

// Memory and operators: all that the model, the drafter and the engine know of
// the machine. The reference backend (CPU, float32) defines every operator.
//
// A round is a sequence of operator calls between two copies: the plan goes up,
// the result comes down. Nothing in between is read by the host: counts, paths
// and trees stay on the device, and shapes are capacities. So a backend may
// queue the calls, and may capture them once per bucket and replay them.
//
// Operators return an error when a shape or option is not supported, before
// anything is queued. Values in device memory (ids, slots, pages) are the
// caller's to validate: out-of-range values are undefined behaviour.
// Not thread-safe: one thread at a time drives a backend. The thread that made
// the backend may do so at once; every other thread calls BindThread() first.
class Backend {
 public:
  virtual ~Backend() = default;

  // Lets the calling thread drive this backend, until it is bound to another
  // one. INTERNAL if the device is gone. COST: well below a microsecond, so
  // Engine binds the thread of every step.
  virtual absl::Status BindThread() { return absl::OkStatus(); }

  // For people: "cpu, 2 threads".
  virtual std::string description() const = 0;
  virtual ElementType activation_type() const = 0;

  // Which of the devices that run a model together this is.
  virtual Rank rank() const { return {}; }
  // Tells the other ranks that this one has failed, so that they do not wait
  // for it; their operators and its own fail from then on.
  virtual void AbortRanks(const absl::Status& /*reason*/) {}

  // Memory. Allocate returns 64-byte aligned memory with unspecified content,
  // or RESOURCE_EXHAUSTED naming `what` and the bytes. Upload and Download copy
  // between host and device in order with the operators; Download returns when
  // the bytes are there and reports errors of everything queued before.
  virtual absl::StatusOr<DeviceMemory> Allocate(size_t bytes,
                                                std::string_view what) = 0;
  virtual absl::Status Upload(void* device, const void* host, size_t bytes) = 0;
  virtual absl::Status Download(void* host, const void* device,
                                size_t bytes) = 0;
  // Host memory that copies use without waiting, 64-byte aligned.
  virtual absl::StatusOr<HostMemory> AllocateHost(size_t bytes,
                                                  std::string_view what) = 0;
  // Within the device, in order with the operators; no overlap, in no graph.
  virtual absl::Status CopyDevice(void* to, const void* from, size_t bytes) = 0;
  // As Download, into memory of AllocateHost(), but does not wait: the bytes
  // are there once a later mark has been reached.
  virtual absl::Status QueueDownload(void* host, const void* device,
                                     size_t bytes) = 0;
  // Copies that run beside the operators, in an order of their own. They begin
  // when the operators queued so far have ended; operators that are queued
  // after AwaitHostCopies(), and those alone, begin when all copies queued
  // before it have. The host waits for none of it.
  virtual absl::Status CopyToHost(std::span<const HostCopy> copies) = 0;
  virtual absl::Status CopyFromHost(std::span<const HostCopy> copies) = 0;
  virtual absl::Status AwaitHostCopies() = 0;
  // Nothing for a backend that uses the host's.
  virtual std::optional<MemoryState> memory() const = 0;
  // Widens activations to float32 on the host.
  virtual absl::Status DownloadActivations(std::span<float> host,
                                           const Activation* device) = 0;

  // Converts a weight matrix to what products read and packs it; the backend
  // keeps it for its own lifetime. Each element is exact in float32, and the
  // nearest bfloat16 where activations are; NaN stays NaN, and infinities and
  // what rounds to them are kept. The source's bytes may be gone when this
  // returns, though copies to the device may still be queued: operators that
  // are called later see the whole matrix. RESOURCE_EXHAUSTED without memory.
  // COST: reads the source's elements once, with several threads.
  virtual absl::StatusOr<const WeightMatrix*> LoadMatrix(
      const MatrixSource& source) = 0;
  // A matrix of its own with the rows `row` of `matrix`, in that order; copied
  // on the device. REQUIRES: every row in [0, matrix.rows).
  virtual absl::StatusOr<const WeightMatrix*> GatherMatrix(
      const WeightMatrix& matrix, std::span<const int32_t> row) = 0;
  // A matrix that is computed where it will lie (kernels/generate.h), kept as
  // above.
  virtual absl::StatusOr<const WeightMatrix*> GenerateMatrix(
      const MatrixGenerator& generator) = 0;
  // `matrix` in 7-bit integers (kernels/int7.h), in its place: nothing may
  // refer to `matrix` itself any more. Each element is what its integer stands
  // for, rounded to the type of activations where products do not read the
  // integers; a backend may keep both. For MatMul() alone. INVALID_ARGUMENT,
  // and `matrix` stays, if an element is infinite or not a number.
  virtual absl::StatusOr<const WeightMatrix*> QuantizeMatrix(
      const WeightMatrix& matrix) = 0;
  // How many bytes of the device's memory a matrix takes.
  virtual size_t MatrixBytes(const WeightMatrix& matrix) const = 0;

  // Scratch is memory that operators use within one call. It grows when an
  // operator needs more than there is, unless it was reserved.
  //
  // A stand-in for this backend, which must outlive it: its operators do
  // nothing but note how much scratch they would need here. Null if operators
  // need none.
  virtual std::unique_ptr<ScratchMeter> MakeScratchMeter() const = 0;
  // Allocates the scratch once and for all: from then on an operator that needs
  // more fails with FAILED_PRECONDITION. Of several calls the largest counts.
  // RESOURCE_EXHAUSTED without memory.
  virtual absl::Status ReserveScratch(size_t bytes) = 0;

  // An empty set that keeps up to `capacity` keys, if this backend can keep
  // any; the backend must outlive it.
  virtual std::unique_ptr<GraphSet> MakeGraphs(int capacity) = 0;

  // Marks of the queue, 0 .. kNumMarks - 1; setting one again moves it. Await
  // returns when all before the mark is done, with its errors. Between two
  // marks that have been awaited (or lie before one that has) so many seconds
  // passed on the device.
  static constexpr int kNumMarks = 64;
  virtual absl::Status SetMark(int mark) = 0;
  virtual absl::Status AwaitMark(int mark) = 0;
  virtual absl::StatusOr<double> SecondsBetween(int from, int to) = 0;

  // Dense (kernels/dense.h).
  virtual absl::Status Embed(const EmbedParams& params) = 0;
  virtual absl::Status RmsNorm(const RmsNormParams& params) = 0;
  virtual absl::Status MatMul(const MatMulParams& params) = 0;
  virtual absl::Status SiluMul(const SiluMulParams& params) = 0;
  virtual absl::Status GatherRows(const GatherRowsParams& params) = 0;
  virtual absl::Status Moe(const MoeParams& params) = 0;
  // The operators that define it, unless a backend has them as one.
  virtual absl::Status AddAndProject(const AddAndProjectParams& params);
  // The operators that define it.
  absl::Status AddAndNorm(const AddAndNormParams& params);

  // All ranks call these together (kernels/collectives.h). UNIMPLEMENTED on a
  // backend that is always the only rank; errors of Communicator elsewhere.
  virtual absl::Status AllReduceAddNorm(const AllReduceAddNormParams& params);
  virtual absl::Status AllGather(const AllGatherParams& params);

  // Gated DeltaNet (kernels/gdn.h).
  virtual absl::Status GdnConv(const GdnConvParams& params) = 0;
  virtual absl::Status GdnVerify(const GdnCoreParams& params) = 0;
  virtual absl::Status GdnDecode(const GdnCoreParams& params) = 0;
  virtual absl::Status GdnPrefill(const GdnCoreParams& params) = 0;
  virtual absl::Status GdnGatedNorm(const GdnGatedNormParams& params) = 0;
  virtual absl::Status GdnCommitStates(const GdnCommitParams& params) = 0;
  virtual absl::Status GdnCommitWindows(const GdnCommitParams& params) = 0;
  // The operators that define them, unless a backend has them as one.
  virtual absl::Status GdnDecodeLayer(const GdnDecodeLayerParams& params);
  virtual absl::Status GdnVerifyLayer(const GdnVerifyLayerParams& params);

  // Full attention (kernels/attention.h).
  virtual absl::Status PrepareQkv(const QkvParams& params) = 0;
  virtual absl::Status Attend(const AttentionParams& params) = 0;
  // The operators that define it, unless a backend has them as one.
  virtual absl::Status AttentionDecode(const AttentionDecodeParams& params);
  virtual absl::Status CompactKv(const CompactKvParams& params) = 0;

  // An accepted path becomes part of its sequences, in all layers: the three
  // operators that define it, unless a backend has them as one. Both have the
  // same batch and path; requests whose path is empty keep what they have.
  // States are read while the operator before may still run, which must not
  // write them.
  virtual absl::Status CommitPath(const GdnCommitParams& linear,
                                  const CompactKvParams& attention);

  // Sampling (kernels/sampling.h).
  virtual absl::Status Sample(const SampleParams& params) = 0;
  virtual absl::Status CountTokens(const CountTokensParams& params) = 0;
  virtual absl::Status OutputToPrompt(const OutputToPromptParams& params) = 0;

  // Drafting (kernels/drafting.h, kernels/draft_inputs.h).
  virtual absl::Status ExtendRows(const ExtendRowsParams& params) = 0;
  virtual absl::Status StoreHidden(const StoreHiddenParams& params) = 0;
  virtual absl::Status DraftInputs(const DraftInputsParams& params) = 0;
  virtual absl::Status TopK(const TopKParams& params) = 0;
  virtual absl::Status GrowTrees(const GrowTreesParams& params) = 0;
  virtual absl::Status AdvanceRequests(const AdvanceRequestsParams& params) = 0;
  virtual absl::Status SelectForest(const SelectForestParams& params) = 0;

 private:
  friend struct DeviceDeleter;
  friend struct HostDeleter;
  virtual void Free(void* memory) = 0;
  virtual void FreeHost(void* memory) = 0;
};

inline void DeviceDeleter::operator()(void* memory) const {
  backend->Free(memory);
}
inline void HostDeleter::operator()(void* memory) const {
  backend->FreeHost(memory);
}

}  // namespace bole

#endif  // BOLE_KERNELS_BACKEND_H_
