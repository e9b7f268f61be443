#include "kernels/reference/reference_backend.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "kernels/generated_element.h"
#include "kernels/matrix_source.h"
#include "kernels/reference/activations.h"
#include "kernels/reference/advance_requests.h"
#include "kernels/reference/attention.h"
#include "kernels/reference/collectives.h"
#include "kernels/reference/count_tokens.h"
#include "kernels/reference/dense.h"
#include "kernels/reference/extend_rows.h"
#include "kernels/reference/gdn_commit.h"
#include "kernels/reference/gdn_conv.h"
#include "kernels/reference/gdn_core.h"
#include "kernels/reference/gdn_gated_norm.h"
#include "kernels/reference/generate.h"
#include "kernels/reference/grow_trees.h"
#include "kernels/reference/moe.h"
#include "kernels/reference/quantize.h"
#include "kernels/reference/sample.h"
#include "kernels/reference/select_forest.h"
#include "kernels/reference/store_hidden.h"
#include "kernels/reference/top_k.h"
#include "kernels/scratch_meter.h"

namespace bole {
namespace {

absl::StatusOr<void*> AlignedMemory(size_t bytes, std::string_view what) {
  constexpr size_t kAlignment = 64;
  const size_t rounded =
      std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  void* memory =
      rounded < bytes ? nullptr : std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no room for ", bytes, " bytes of ", std::string(what)));
  }
  return memory;
}

}  // namespace

std::string ReferenceBackend::description() const {
  const int threads = pool_.num_threads();
  const std::string place =
      rank().count == 1 ? ""
                        : absl::StrCat(" on each of ", rank().count, " ranks");
  return absl::StrCat("cpu, ", threads, threads == 1 ? " thread" : " threads",
                      place);
}

absl::StatusOr<DeviceMemory> ReferenceBackend::Allocate(size_t bytes,
                                                        std::string_view what) {
  BOLE_ASSIGN_OR_RETURN(void* memory, AlignedMemory(bytes, what));
  return DeviceMemory(memory, DeviceDeleter{this});
}

absl::StatusOr<HostMemory> ReferenceBackend::AllocateHost(
    size_t bytes, std::string_view what) {
  BOLE_ASSIGN_OR_RETURN(void* memory, AlignedMemory(bytes, what));
  return HostMemory(memory, HostDeleter{this});
}

void ReferenceBackend::Free(void* memory) { std::free(memory); }
void ReferenceBackend::FreeHost(void* memory) { std::free(memory); }

absl::Status ReferenceBackend::Upload(void* device, const void* host,
                                      size_t bytes) {
  if (bytes > 0) std::memcpy(device, host, bytes);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::Download(void* host, const void* device,
                                        size_t bytes) {
  if (bytes > 0) std::memcpy(host, device, bytes);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::QueueDownload(void* host, const void* device,
                                             size_t bytes) {
  return Download(host, device, bytes);
}

absl::Status ReferenceBackend::CopyDevice(void* to, const void* from,
                                          size_t bytes) {
  return Download(to, from, bytes);
}

absl::Status ReferenceBackend::CopyToHost(std::span<const HostCopy> copies) {
  for (const HostCopy& copy : copies) {
    BOLE_RETURN_IF_ERROR(Download(copy.host, copy.device, copy.bytes));
  }
  return absl::OkStatus();
}

absl::Status ReferenceBackend::CopyFromHost(std::span<const HostCopy> copies) {
  for (const HostCopy& copy : copies) {
    BOLE_RETURN_IF_ERROR(Upload(copy.device, copy.host, copy.bytes));
  }
  return absl::OkStatus();
}

std::unique_ptr<ScratchMeter> ReferenceBackend::MakeScratchMeter() const {
  return nullptr;
}

absl::Status ReferenceBackend::ReserveScratch(size_t /*bytes*/) {
  return absl::OkStatus();
}

absl::Status ReferenceBackend::SetMark(int mark) {
  marks_[mark] = std::chrono::steady_clock::now();
  return absl::OkStatus();
}

absl::Status ReferenceBackend::AwaitMark(int /*mark*/) {
  return absl::OkStatus();
}

absl::StatusOr<double> ReferenceBackend::SecondsBetween(int from, int to) {
  return std::chrono::duration<double>(marks_[to] - marks_[from]).count();
}

absl::Status ReferenceBackend::DownloadActivations(std::span<float> host,
                                                   const Activation* device) {
  std::copy_n(reference::Floats(device), host.size(), host.begin());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<reference::PackedMatrix>>
ReferenceBackend::NewMatrix(int rows, int columns) {
  auto matrix = reference::PackedMatrix::Create(rows, columns);
  if (matrix != nullptr) return matrix;
  return absl::ResourceExhaustedError(absl::StrCat(
      "no room for a matrix of ", rows, " by ", columns, " float32"));
}

absl::StatusOr<const WeightMatrix*> ReferenceBackend::LoadMatrix(
    const MatrixSource& source) {
  BOLE_ASSIGN_OR_RETURN(auto matrix, NewMatrix(source.rows(), source.columns));
  constexpr int kTaskRows = reference::PackedMatrix::kPanelRows;
  int first = 0;
  for (const MatrixBlock& block : source.blocks) {
    const int num_tasks = (block.rows + kTaskRows - 1) / kTaskRows;
    pool_.ParallelFor(num_tasks, [&](int task) {
      std::vector<float> values(source.columns);
      const int end = std::min(block.rows, (task + 1) * kTaskRows);
      for (int row = task * kTaskRows; row < end; ++row) {
        Widen(block.type, block.row(row), values);
        matrix->SetRows(first + row, values);
      }
    });
    first += block.rows;
  }
  matrices_.push_back(std::move(matrix));
  return matrices_.back().get();
}

absl::StatusOr<const WeightMatrix*> ReferenceBackend::GatherMatrix(
    const WeightMatrix& matrix, std::span<const int32_t> row) {
  const auto& from = static_cast<const reference::PackedMatrix&>(matrix);
  const int rows = static_cast<int>(row.size());
  auto gathered = reference::PackedMatrix::Create(rows, from.columns);
  if (gathered == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no room for ", rows, " rows of ", from.columns, " float32"));
  }
  std::vector<float> values(from.columns);
  for (int i = 0; i < rows; ++i) {
    from.CopyRow(row[i], values.data());
    gathered->SetRows(i, values);
  }
  matrices_.push_back(std::move(gathered));
  return matrices_.back().get();
}

absl::StatusOr<const WeightMatrix*> ReferenceBackend::GenerateMatrix(
    const MatrixGenerator& generator) {
  BOLE_ASSIGN_OR_RETURN(auto matrix,
                        NewMatrix(PartRows(generator), PartColumns(generator)));
  reference::Generate(generator, *matrix, pool_);
  matrices_.push_back(std::move(matrix));
  return matrices_.back().get();
}

absl::StatusOr<const WeightMatrix*> ReferenceBackend::QuantizeMatrix(
    const WeightMatrix& matrix) {
  const auto kept =
      std::find_if(matrices_.begin(), matrices_.end(),
                   [&](const auto& owned) { return owned.get() == &matrix; });
  BOLE_CHECK(kept != matrices_.end());
  BOLE_ASSIGN_OR_RETURN(*kept, reference::Quantized(**kept));
  return kept->get();
}

size_t ReferenceBackend::MatrixBytes(const WeightMatrix& matrix) const {
  return sizeof(float) * static_cast<size_t>(matrix.rows) * matrix.columns;
}

absl::Status ReferenceBackend::Embed(const EmbedParams& params) {
  reference::Embed(params);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::RmsNorm(const RmsNormParams& params) {
  reference::RmsNorm(params);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::MatMul(const MatMulParams& params) {
  reference::MatMul(params, pool_);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::SiluMul(const SiluMulParams& params) {
  reference::SiluMul(params, pool_);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::GatherRows(const GatherRowsParams& params) {
  reference::GatherRows(params);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::Moe(const MoeParams& params) {
  reference::Moe(params, pool_);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::AllReduceAddNorm(
    const AllReduceAddNormParams& params) {
  return reference::AllReduceAddNorm(params, ranks_.get());
}

absl::Status ReferenceBackend::AllGather(const AllGatherParams& params) {
  return reference::AllGather(params, ranks_.get());
}

absl::Status ReferenceBackend::GdnConv(const GdnConvParams& params) {
  reference::GdnConv(params, pool_);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::GdnVerify(const GdnCoreParams& params) {
  reference::GdnVerify(params, pool_);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::GdnDecode(const GdnCoreParams& params) {
  reference::GdnDecode(params, pool_);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::GdnPrefill(const GdnCoreParams& params) {
  reference::GdnPrefill(params, pool_);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::GdnGatedNorm(const GdnGatedNormParams& params) {
  reference::GdnGatedNorm(params, pool_);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::GdnCommitStates(const GdnCommitParams& params) {
  reference::GdnCommitStates(params, pool_);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::GdnCommitWindows(const GdnCommitParams& params) {
  reference::GdnCommitWindows(params, pool_);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::PrepareQkv(const QkvParams& params) {
  reference::PrepareQkv(params, pool_);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::Attend(const AttentionParams& params) {
  reference::Attend(params, pool_);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::CompactKv(const CompactKvParams& params) {
  reference::CompactKv(params);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::Sample(const SampleParams& params) {
  const bool is_cut = ranks_ != nullptr;
  const int columns =
      is_cut ? params.rank_columns[ranks_->rank().index] : params.vocabulary;
  SampleParams whole = params;
  whole.logits += params.first_logits * columns;
  std::vector<float> logits;
  if (is_cut) {
    BOLE_ASSIGN_OR_RETURN(
        logits, reference::WholeRows(params.batch.rows, params.rank_columns,
                                     whole.logits, *ranks_));
    whole.logits = logits.data();
  }
  reference::Sample(whole, pool_);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::CountTokens(const CountTokensParams& params) {
  reference::CountTokens(params);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::OutputToPrompt(
    const OutputToPromptParams& params) {
  reference::OutputToPrompt(params);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::ExtendRows(const ExtendRowsParams& params) {
  reference::ExtendRows(params);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::StoreHidden(const StoreHiddenParams& params) {
  reference::StoreHidden(params);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::DraftInputs(const DraftInputsParams& params) {
  reference::DraftInputs(params);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::TopK(const TopKParams& params) {
  TopKParams whole = params;
  std::vector<float> logits;
  if (ranks_ != nullptr) {
    BOLE_ASSIGN_OR_RETURN(logits,
                          reference::WholeRows(params.rows, params.rank_columns,
                                               params.logits, *ranks_));
    whole.logits = logits.data();
  }
  reference::TopK(whole, pool_);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::GrowTrees(const GrowTreesParams& params) {
  reference::GrowTrees(params);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::AdvanceRequests(
    const AdvanceRequestsParams& params) {
  reference::AdvanceRequests(params);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::SelectForest(const SelectForestParams& params) {
  reference::SelectForest(params);
  return absl::OkStatus();
}

}  // namespace bole
