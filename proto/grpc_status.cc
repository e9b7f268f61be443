#include "proto/grpc_status.h"

#include <string>

namespace bole {
namespace {

// `message` cut to kMaxStatusMessageBytes, between two characters.
std::string Shortened(absl::string_view message) {
  if (message.size() <= kMaxStatusMessageBytes) return std::string(message);
  const auto continues = [&](size_t i) {
    return (static_cast<unsigned char>(message[i]) & 0xC0) == 0x80;
  };
  size_t size = kMaxStatusMessageBytes - 3;
  while (size > 0 && continues(size)) --size;
  return std::string(message.substr(0, size)) + "...";
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  // Both number the codes alike; code() has mapped unknown ones to UNKNOWN.
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      Shortened(status.message()));
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const int code = status.error_code();
  const bool known = code > 0 && code <= grpc::StatusCode::UNAUTHENTICATED;
  return absl::Status(
      known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
      status.error_message());
}

}  // namespace bole
