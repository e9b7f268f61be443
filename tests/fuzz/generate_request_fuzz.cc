// The bytes of a GenerateRequest, as a client may send them: what is accepted
// keeps every promise that the scheduler builds on.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/check.h"
#include "common/field_error.h"
#include "common/sampling_params.h"
#include "common/status_macros.h"
#include "common/step.h"
#include "common/tokenizer/utf8.h"
#include "proto/bole.pb.h"
#include "scheduler_service/door/messages/request_codec.h"
#include "scheduler_service/door/messages/sampling_codec.h"
#include "scheduler_service/door/request_body.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/models/model_text.h"
#include "tests/scheduler_service/served_model.h"

namespace bole {
namespace {

void CheckAccepted(const Request& request, const WorkerDescription& worker) {
  const int vocabulary = worker.limits.vocabulary;
  BOLE_CHECK(Validate(request.sampling, vocabulary).ok());
  BOLE_CHECK(!request.id.empty() && request.id.size() <= kMaxRequestIdBytes);
  BOLE_CHECK(!request.prompt.empty());
  BOLE_CHECK(request.sampling.max_tokens && *request.sampling.max_tokens >= 1);
  BOLE_CHECK(std::ssize(request.prompt) + *request.sampling.max_tokens <=
             ContextCapacity(worker.limits));
  BOLE_CHECK(std::ssize(request.resumed) < *request.sampling.max_tokens);
  for (const int32_t token : request.prompt) {
    BOLE_CHECK(token >= 0 && token < vocabulary);
  }
  BOLE_CHECK(request.cache_salt.size() <= kMaxCacheSaltBytes);
  if (request.speculation) {
    BOLE_CHECK(request.speculation->max_nodes >= 1);
    BOLE_CHECK(request.speculation->max_depth >= 1);
  }
  BOLE_CHECK(request.stop_tokens.size() <= kMaxPlanStopTokens);
  BOLE_CHECK(std::ssize(request.text.stop) <= kMaxStopStrings);
  for (const std::string& stop : request.text.stop) {
    BOLE_CHECK(!stop.empty() && stop.size() <= kMaxStopBytes);
    BOLE_CHECK(IsValidUtf8(stop));
  }
}

absl::StatusOr<ChoiceRequests> Read(const v1::GenerateRequest& message,
                                    const ModelText& text,
                                    const WorkerDescription& worker) {
  BOLE_ASSIGN_OR_RETURN(RequestBody body,
                        DecodeGenerate(message, text, worker));
  return ToRequests(std::move(body), *text.tokenizer, worker);
}

}  // namespace
}  // namespace bole

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto& text = *new bole::ModelText(bole::testing::TinyText());
  static const auto& worker =
      *new bole::WorkerDescription(bole::testing::TinyWorker());
  bole::v1::GenerateRequest message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) return 0;

  const auto choices = bole::Read(message, text, worker);

  if (choices.ok()) {
    BOLE_CHECK(!choices->requests.empty());
    BOLE_CHECK(choices->requests.size() <= bole::kMaxChoices);
    for (const auto& request : choices->requests) {
      bole::CheckAccepted(*request, worker);
    }
  } else {
    BOLE_CHECK(absl::IsInvalidArgument(choices.status()) ||
               absl::IsUnimplemented(choices.status()));
    BOLE_CHECK(!choices.status().message().empty());
    // Every error is about a field.
    BOLE_CHECK(bole::FieldOf(choices.status()).has_value());
  }
  return 0;
}
