#include "clients/cli/failure.h"

#include <cstddef>
#include <cstdio>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace bole {
namespace {

// By number.
constexpr const char* kCodeNames[] = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
};

std::string CodeName(grpc::StatusCode code) {
  const auto index = static_cast<size_t>(code);
  return index < std::size(kCodeNames) ? kCodeNames[index]
                                       : absl::StrCat("CODE_", code);
}

// "Connection refused", which gRPC says behind what it tried, and how often.
std::string LastCause(const std::string& message) {
  const size_t colon = message.rfind(": ");
  return colon == std::string::npos ? message : message.substr(colon + 2);
}

std::string Unavailable(const std::string& message, const CallFacts& facts) {
  if (facts.reached) {
    return absl::StrCat(facts.address, " is not available: ", message);
  }
  return absl::StrCat("nothing answers at ", facts.address, ": ",
                      LastCause(message),
                      "\nstart a server with ./quickstart.sh --serve, or name "
                      "one with --server");
}

std::string NotImplemented(const CallError& error, const CallFacts& facts) {
  if (error.reason.empty()) {
    return absl::StrCat(
        facts.address,
        " answers, but not as Bole's scheduler: ", error.message);
  }
  return absl::StrCat("the server does not offer that: ", error.message);
}

std::string TimeIsUp(const CallFacts& facts) {
  if (!facts.timeout_seconds) return "the time is up";
  return absl::StrCat("the time is up (--timeout ", *facts.timeout_seconds,
                      ")");
}

std::string Sentence(const CallError& error, const CallFacts& facts) {
  const std::string& message = error.message;
  switch (error.code) {
    case grpc::StatusCode::CANCELLED:
      return "cancelled";
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return TimeIsUp(facts);
    case grpc::StatusCode::UNAVAILABLE:
      return Unavailable(message, facts);
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return absl::StrCat("the server has no room: ", message);
    case grpc::StatusCode::INVALID_ARGUMENT:
      return absl::StrCat("the server cannot accept the request: ", message);
    case grpc::StatusCode::NOT_FOUND:
      return absl::StrCat("there is no such thing: ", message);
    case grpc::StatusCode::FAILED_PRECONDITION:
      return absl::StrCat("the server cannot do that now: ", message);
    case grpc::StatusCode::UNIMPLEMENTED:
      return NotImplemented(error, facts);
    case grpc::StatusCode::PERMISSION_DENIED:
      return absl::StrCat("the server does not allow it: ", message);
    case grpc::StatusCode::UNAUTHENTICATED:
      return absl::StrCat("the server does not know who asks: ", message);
    default:
      return absl::StrCat("the server failed (", CodeName(error.code),
                          "): ", message);
  }
}

int ExitCodeFor(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::CANCELLED:
      return kExitCancelled;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return kExitDeadline;
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return kExitUnavailable;
    default:
      return kExitError;
  }
}

}  // namespace

Failure Explain(const CallError& error, const CallFacts& facts) {
  std::string sentence = Sentence(error, facts);
  if (error.retry_after) {
    absl::StrAppend(&sentence, "; try again in ", error.retry_after->count(),
                    " ms");
  }
  for (const FieldViolation& violation : error.violations) {
    absl::StrAppend(&sentence, "\n  field ", violation.field);
    if (violation.description != error.message) {
      absl::StrAppend(&sentence, ": ", violation.description);
    }
  }
  return {.exit_code = ExitCodeFor(error.code),
          .code = CodeName(error.code),
          .sentence = std::move(sentence)};
}

int UsageError(const std::string& sentence) {
  std::fprintf(stderr, "bole: %s\n", sentence.c_str());
  return kExitUsage;
}

}  // namespace bole
