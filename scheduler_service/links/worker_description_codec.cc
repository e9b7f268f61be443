#include "scheduler_service/links/worker_description_codec.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/cost_table.h"
#include "common/field_error.h"
#include "common/sampling_params.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "google/protobuf/repeated_field.h"
#include "proto/protocol_version.h"
#include "proto/step_codec.h"

namespace bole {
namespace {

// The most row buckets, and the most request buckets.
constexpr size_t kMaxBuckets = 4096;
// The most bytes of a slot or a page, so that the sum over all of them fits
// into 64 bits.
constexpr uint64_t kMaxItemBytes = uint64_t{1} << 38;

absl::Status CheckDigest(const char* field, const std::string& digest) {
  if (digest.empty() || IsSha256Hex(digest)) return absl::OkStatus();
  return BadField(field, Quoted(digest),
                  "64 lower-case hexadecimal digits, or nothing");
}

absl::StatusOr<ModelFingerprint> DecodeFingerprint(
    const worker::v1::Fingerprint& message) {
  BOLE_RETURN_IF_ERROR(CheckDigest("fingerprint.config", message.config()));
  BOLE_RETURN_IF_ERROR(
      CheckDigest("fingerprint.tokenizer", message.tokenizer()));
  BOLE_RETURN_IF_ERROR(CheckDigest("fingerprint.weights", message.weights()));
  return ModelFingerprint{.config = message.config(),
                          .tokenizer = message.tokenizer(),
                          .weights = message.weights()};
}

using Buckets = google::protobuf::RepeatedField<int32_t>;

absl::StatusOr<std::vector<int>> DecodeBuckets(const char* field,
                                               const Buckets& buckets) {
  BOLE_RETURN_IF_ERROR(
      CheckAtMost(NumberOf(field), buckets.size(), kMaxBuckets));
  int32_t last = 0;
  for (const int32_t bucket : buckets) {
    if (bucket <= last) {
      return BadField(field, bucket, absl::StrCat("above ", last));
    }
    last = bucket;
  }
  return std::vector<int>(buckets.begin(), buckets.end());
}

absl::StatusOr<std::shared_ptr<const CostTable>> DecodeCosts(
    const std::string& text) {
  if (text.empty()) return nullptr;
  absl::StatusOr<CostTable> table = ParseCostTable(text);
  if (!table.ok()) return InField("cost_table", table.status());
  return std::make_shared<const CostTable>(*std::move(table));
}

}  // namespace

absl::StatusOr<WorkerDescription> DecodeDescription(
    const worker::v1::DescribeResponse& message) {
  BOLE_RETURN_IF_ERROR(
      CheckProtocolVersion("worker", message.protocol_version()));
  constexpr size_t kMaxOwnStopTokens = kMaxPlanStopTokens - kMaxStopTokens;
  WorkerDescription worker;
  worker.model = message.model();
  worker.device = message.device();
  worker.version = message.version();
  worker.protocol_version = message.protocol_version();
  worker.has_drafter = message.has_drafter();
  worker.synthetic = message.synthetic();
  BOLE_ASSIGN_OR_RETURN(worker.fingerprint,
                        DecodeFingerprint(message.fingerprint()));
  const worker::v1::GenerationDefaults& told = message.defaults();
  worker.temperature = told.temperature();
  worker.top_k = told.top_k();
  worker.top_p = told.top_p();
  if (told.has_min_p()) worker.min_p = told.min_p();
  if (told.has_repetition_penalty()) {
    worker.repetition_penalty = told.repetition_penalty();
  }
  BOLE_ASSIGN_OR_RETURN(worker.limits, DecodeLimits(message.limits()));
  BOLE_RETURN_IF_ERROR(CheckAtMost(NumberOf("eos_token_ids"),
                                   message.eos_token_ids_size(),
                                   kMaxOwnStopTokens));
  for (const int32_t token : message.eos_token_ids()) {
    if (token < 0 || token >= worker.limits.vocabulary) {
      return BadField("eos_token_ids", token,
                      absl::StrCat("[0, ", worker.limits.vocabulary, ")"));
    }
  }
  worker.stop_tokens.assign(message.eos_token_ids().begin(),
                            message.eos_token_ids().end());
  BOLE_ASSIGN_OR_RETURN(worker.row_buckets,
                        DecodeBuckets("row_buckets", message.row_buckets()));
  BOLE_ASSIGN_OR_RETURN(
      worker.request_buckets,
      DecodeBuckets("request_buckets", message.request_buckets()));
  BOLE_RETURN_IF_ERROR(
      CheckAtMost("slot_bytes", message.slot_bytes(), kMaxItemBytes));
  BOLE_RETURN_IF_ERROR(
      CheckAtMost("page_bytes", message.page_bytes(), kMaxItemBytes));
  worker.slot_bytes = message.slot_bytes();
  worker.page_bytes = message.page_bytes();
  BOLE_ASSIGN_OR_RETURN(worker.costs, DecodeCosts(message.cost_table()));
  const absl::Status valid =
      Validate(DefaultSampling(worker), worker.limits.vocabulary);
  if (!valid.ok()) return InField("defaults", valid);
  return worker;
}

}  // namespace bole
