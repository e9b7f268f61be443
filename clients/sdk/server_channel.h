// A channel to the scheduler, and the metadata of every call over it.
#ifndef BOLE_CLIENTS_SDK_SERVER_CHANNEL_H_
#define BOLE_CLIENTS_SDK_SERVER_CHANNEL_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "clients/sdk/client_options.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"

namespace bole {

// Immutable, and thread-safe.
class ServerChannel {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Connects with the first call. INVALID_ARGUMENT, naming the option, if one
  // is invalid or a file cannot be read; no message has the token.
  static absl::StatusOr<ServerChannel> Open(const ClientOptions& options);

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  // The value of "authorization" in every call; empty without a token.
  const std::string& authorization() const { return authorization_; }

  // Gives a call its token, its tenant and its deadline.
  void Prepare(grpc::ClientContext& context,
               std::optional<TimePoint> deadline) const;

 private:
  ServerChannel() = default;

  std::shared_ptr<grpc::Channel> channel_;
  std::string authorization_;  // Empty: none.
  std::string tenant_;
};

}  // namespace bole

#endif  // BOLE_CLIENTS_SDK_SERVER_CHANNEL_H_
