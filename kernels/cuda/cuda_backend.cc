#include "kernels/cuda/cuda_backend.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/cuda_scratch_meter.h"
#include "kernels/cuda/draft_inputs.h"
#include "kernels/cuda/gdn/commit_path.h"
#include "kernels/cuda/verify/choose_verify.h"
#include "kernels/cuda/verify/gdn_verify_few.h"
#include "kernels/cuda/verify/gdn_verify_walk.h"

namespace bole::cuda {
namespace {

Product ProductOf(const MatMulParams& params) {
  const auto* weight = static_cast<const DeviceMatrix*>(params.weight);
  const bool float_out = params.out_float != nullptr;
  return {.num_rows = params.rows.max,
          .count = params.rows.count,
          .rows = weight->rows,
          .columns = weight->columns,
          .x = params.x,
          .weight = weight->data,
          .out = float_out ? static_cast<void*>(params.out_float)
                           : static_cast<void*>(params.out),
          .float_out = float_out,
          .accumulate = params.accumulate};
}

bool HasIntegers(const MatMulParams& params) {
  return static_cast<const DeviceMatrix*>(params.weight)->int7 != nullptr;
}

ProductPair PairOf(const AddAndProjectParams& params) {
  ProductPair pair = {.ahead = ProductOf(params.add),
                      .norm_weight = params.norm.weight,
                      .epsilon = params.norm.epsilon,
                      .behind = ProductOf(params.project)};
  if (params.gate) {
    pair.behind.gated = true;
    pair.behind.out = params.gate->out;
  }
  return pair;
}

}  // namespace

absl::Status CheckDevice(int device) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    return absl::UnavailableError(
        absl::StrCat("no GPU can be used: ", cudaGetErrorString(error)));
  }
  if (device < 0 || device >= count) {
    return absl::UnavailableError(
        absl::StrCat("there is no GPU ", device, "; this machine has ", count));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CudaBackend>> CudaBackend::Create(
    int device, ElementType type, int num_threads, const GpuRank& rank) {
  BOLE_RETURN_IF_ERROR(CheckDevice(device));
  std::unique_ptr<CudaBackend> backend(
      new CudaBackend(device, type, num_threads));
  BOLE_RETURN_IF_ERROR(backend->BindThread());
  cudaDeviceProp properties;
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaGetDeviceProperties(&properties, device), "properties"));
  backend->name_ = properties.name;
  backend->on_.overlaps = properties.major >= 9;
  backend->on_.is_hopper = properties.major == 9;
  backend->on_.shared_bytes =
      static_cast<int>(properties.sharedMemPerBlockOptin);
  backend->on_.multiprocessors = properties.multiProcessorCount;
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaStreamCreate(&backend->on_.stream), "stream of the GPU"));
  for (cudaEvent_t& mark : backend->marks_) {
    BOLE_RETURN_IF_ERROR(ToStatus(cudaEventCreate(&mark), "mark of the GPU"));
  }
  BOLE_ASSIGN_OR_RETURN(backend->host_copies_, HostCopies::Create());
  BOLE_ASSIGN_OR_RETURN(backend->matmuls_, MatMuls::Create());
  BOLE_ASSIGN_OR_RETURN(backend->int7_products_, Int7Products::Create());
  BOLE_ASSIGN_OR_RETURN(backend->tile_attention_, TileAttention::Create());
  BOLE_ASSIGN_OR_RETURN(backend->num_claimed_,
                        backend->Allocate(sizeof(int32_t), "count of commits"));
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaMemset(backend->num_claimed_.get(), 0, sizeof(int32_t)),
               "count of commits"));
  BOLE_RETURN_IF_ERROR(backend->JoinRanks(rank));
  return backend;
}

CudaBackend::~CudaBackend() {
  BindThread().IgnoreError();
  cudaStreamSynchronize(on_.stream);
  collectives_.reset();
  host_copies_.reset();
  matrices_.clear();
  matmuls_.reset();
  for (cudaEvent_t mark : marks_) {
    if (mark != nullptr) cudaEventDestroy(mark);
  }
  cudaStreamDestroy(on_.stream);
}

std::unique_ptr<ScratchMeter> CudaBackend::MakeScratchMeter() const {
  return std::make_unique<CudaScratchMeter>(*this);
}

absl::Status CudaBackend::ReserveScratch(size_t bytes) {
  return scratch_.Reserve(bytes);
}

absl::Status CudaBackend::Embed(const EmbedParams& params) {
  queue_state_.Barrier();
  const auto* table = static_cast<const DeviceMatrix*>(params.table);
  return cuda::Embed(params, table->data, table->columns, on_);
}

absl::Status CudaBackend::MatMul(const MatMulParams& params) {
  const auto* weight = static_cast<const DeviceMatrix*>(params.weight);
  // A rank may have none of the tokens that a drafter chooses among.
  if (weight->rows == 0) return absl::OkStatus();
  Product product = ProductOf(params);
  if (weight->int7 == nullptr || !int7_products_->Takes(product, on_.type)) {
    return matmuls_->Run(product, on_);
  }
  product.weight = weight->int7;
  return int7_products_->Run(product, on_);
}

bool CudaBackend::TakesPair(const AddAndProjectParams& params) const {
  return rank().count == 1 && !HasIntegers(params.add) &&
         !HasIntegers(params.project) &&
         matmuls_->TakePair(PairOf(params), on_.type);
}

size_t CudaBackend::ScratchBytes(const AddAndProjectParams& params) const {
  return TakesPair(params) ? matmuls_->PairScratchBytes(PairOf(params)) : 0;
}

absl::Status CudaBackend::AddAndProject(const AddAndProjectParams& params) {
  queue_state_.ReadKept();
  if (HasIntegers(params.add) || HasIntegers(params.project)) {
    return OperatorSet::AddAndProject(params);
  }
  const ProductPair pair = PairOf(params);
  if (TakesPair(params)) {
    BOLE_ASSIGN_OR_RETURN(void* scratch,
                          scratch_.Get(ScratchBytes(params), on_));
    return matmuls_->RunPair(pair, scratch, on_);
  }
  if (!params.gate || !matmuls_->TakeGated(pair.behind, on_.type)) {
    return OperatorSet::AddAndProject(params);
  }
  BOLE_RETURN_IF_ERROR(AddAndNorm(
      {.add = params.add, .norm = params.norm, .partial = params.partial}));
  return matmuls_->Run(pair.behind, on_);
}

absl::Status CudaBackend::RmsNorm(const RmsNormParams& params) {
  return cuda::RmsNorm(params, on_);
}
absl::Status CudaBackend::SiluMul(const SiluMulParams& params) {
  return cuda::SiluMul(params, on_);
}
absl::Status CudaBackend::GatherRows(const GatherRowsParams& params) {
  return cuda::GatherRows(params, on_);
}
absl::Status CudaBackend::Moe(const MoeParams& params) {
  BOLE_ASSIGN_OR_RETURN(void* scratch,
                        scratch_.Get(MoeRunner::ScratchBytes(params), on_));
  return moe_.Run(params, scratch, on_);
}

absl::Status CudaBackend::GdnConv(const GdnConvParams& params) {
  queue_state_.ReadKept();
  return cuda::GdnConv(params, on_);
}
absl::Status CudaBackend::GdnVerify(const GdnCoreParams& params) {
  queue_state_.ReadKept();
  BOLE_ASSIGN_OR_RETURN(void* scratch,
                        scratch_.Get(GdnVerifyScratchBytes(params, on_), on_));
  return cuda::GdnVerify(params, scratch, on_);
}
absl::Status CudaBackend::GdnDecode(const GdnCoreParams& params) {
  queue_state_.ReadKept();
  return cuda::GdnDecode(params, on_);
}
absl::Status CudaBackend::GdnPrefill(const GdnCoreParams& params) {
  queue_state_.ReadKept();
  const size_t bytes = GdnPrefillScratchBytes(params, on_);
  BOLE_ASSIGN_OR_RETURN(void* scratch, scratch_.Get(bytes, on_));
  return cuda::GdnPrefill(params, scratch, on_);
}
absl::Status CudaBackend::GdnGatedNorm(const GdnGatedNormParams& params) {
  return cuda::GdnGatedNorm(params, on_);
}
absl::Status CudaBackend::GdnCommitStates(const GdnCommitParams& params) {
  if (params.factors.node_states != nullptr) {
    return GdnCommitSnapshots(params, on_);
  }
  if (CanFoldStates(params)) {
    return FoldStates(params, static_cast<int32_t*>(num_claimed_.get()), on_);
  }
  return cuda::GdnCommitStates(params, on_);
}
absl::Status CudaBackend::GdnCommitWindows(const GdnCommitParams& params) {
  return cuda::GdnCommitWindows(params, on_);
}
absl::Status CudaBackend::GdnDecodeLayer(const GdnDecodeLayerParams& params) {
  queue_state_.ReadKept();
  return cuda::GdnDecodeLayer(params, on_);
}
absl::Status CudaBackend::GdnVerifyLayer(const GdnVerifyLayerParams& params) {
  queue_state_.ReadKept();
  return CanVerifyLayer(params, on_) ? cuda::GdnVerifyLayer(params, on_)
                                     : OperatorSet::GdnVerifyLayer(params);
}

absl::Status CudaBackend::PrepareQkv(const QkvParams& params) {
  queue_state_.ReadKept();
  return cuda::PrepareQkv(params, on_);
}
size_t CudaBackend::ScratchBytes(const AttentionParams& params) const {
  return TileAttention::Covers(params, on_)
             ? tile_attention_->ScratchBytes(params)
             : 0;
}

absl::Status CudaBackend::Attend(const AttentionParams& params) {
  queue_state_.ReadKept();
  if (!TileAttention::Covers(params, on_)) {
    return cuda::Attend(params, on_);
  }
  BOLE_ASSIGN_OR_RETURN(void* scratch, scratch_.Get(ScratchBytes(params), on_));
  return tile_attention_->Attend(params, scratch, on_);
}
absl::Status CudaBackend::AttentionDecode(const AttentionDecodeParams& params) {
  queue_state_.ReadKept();
  return TileAttention::CoversDecode(params, on_)
             ? tile_attention_->Decode(params, on_)
             : OperatorSet::AttentionDecode(params);
}
absl::Status CudaBackend::CompactKv(const CompactKvParams& params) {
  return cuda::CompactKv(params, on_);
}
absl::Status CudaBackend::CommitPath(const GdnCommitParams& linear,
                                     const CompactKvParams& attention) {
  BOLE_CHECK(linear.path.first == attention.path.first &&
             linear.path.row == attention.path.row &&
             linear.batch.slot == attention.batch.slot &&
             linear.batch.committed == attention.batch.committed);
  queue_state_.WriteKept();
  if (CanCommitPath(linear, attention, on_)) {
    return cuda::CommitPath(linear, attention,
                            static_cast<int32_t*>(num_claimed_.get()), on_);
  }
  return OperatorSet::CommitPath(linear, attention);
}

absl::Status CudaBackend::CountTokens(const CountTokensParams& params) {
  return cuda::CountTokens(params, on_);
}

absl::Status CudaBackend::OutputToPrompt(const OutputToPromptParams& params) {
  return cuda::OutputToPrompt(params, on_);
}

absl::Status CudaBackend::ExtendRows(const ExtendRowsParams& params) {
  queue_state_.WriteKept();
  return cuda::ExtendRows(params, on_);
}
absl::Status CudaBackend::StoreHidden(const StoreHiddenParams& params) {
  return cuda::StoreHidden(params, on_);
}
absl::Status CudaBackend::DraftInputs(const DraftInputsParams& params) {
  queue_state_.Barrier();
  const auto* table = static_cast<const DeviceMatrix*>(params.table);
  return cuda::DraftInputs(params, table->data, on_);
}
absl::Status CudaBackend::GrowTrees(const GrowTreesParams& params) {
  queue_state_.WriteKept();
  return cuda::GrowTrees(params, on_);
}
absl::Status CudaBackend::AdvanceRequests(const AdvanceRequestsParams& params) {
  queue_state_.WriteKept();
  return cuda::AdvanceRequests(params, on_);
}
absl::Status CudaBackend::SelectForest(const SelectForestParams& params) {
  queue_state_.WriteKept();
  BOLE_ASSIGN_OR_RETURN(
      void* scratch,
      scratch_.Get(SelectForestScratchBytes(params.max_requests), on_));
  return cuda::SelectForest(params, scratch, on_);
}

}  // namespace bole::cuda
