// The bytes of a GenerateRequest, as a client may send them: what is accepted
// keeps every promise that the scheduler builds on.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/check.h"
#include "common/sampling_params.h"
#include "common/step.h"
#include "common/tokenizer/utf8.h"
#include "proto/bole.pb.h"
#include "scheduler_service/model_text.h"
#include "scheduler_service/request.h"
#include "scheduler_service/request_codec.h"
#include "scheduler_service/sampling_codec.h"
#include "scheduler_service/worker_client.h"
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
  for (const int32_t token : request.prompt) {
    BOLE_CHECK(token >= 0 && token < vocabulary);
  }
  BOLE_CHECK(request.stop_tokens.size() <= kMaxPlanStopTokens);
  BOLE_CHECK(std::ssize(request.text.stop) <= kMaxStopStrings);
  for (const std::string& stop : request.text.stop) {
    BOLE_CHECK(!stop.empty() && stop.size() <= kMaxStopBytes);
    BOLE_CHECK(IsValidUtf8(stop));
  }
}

}  // namespace
}  // namespace bole

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto& text = *new bole::ModelText(bole::testing::TinyText());
  static const auto& worker =
      *new bole::WorkerDescription(bole::testing::TinyWorker());
  bole::v1::GenerateRequest message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) return 0;

  const auto request = bole::DecodeGenerate(message, text, worker);

  if (request.ok()) {
    bole::CheckAccepted(**request, worker);
  } else {
    BOLE_CHECK(absl::IsInvalidArgument(request.status()) ||
               absl::IsNotFound(request.status()));
    BOLE_CHECK(!request.status().message().empty());
  }
  return 0;
}
