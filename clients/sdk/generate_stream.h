// The answer to a Generate call, read by one thread.
#ifndef BOLE_CLIENTS_SDK_GENERATE_STREAM_H_
#define BOLE_CLIENTS_SDK_GENERATE_STREAM_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/sdk/cancellation.h"
#include "clients/sdk/generation.h"
#include "clients/sdk/server_channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"
#include "proto/bole.grpc.pb.h"

namespace bole {

// One thread reads it; any thread may call Cancel(). Client::Generate() makes
// one. Reading it slowly slows down this stream of the server, but no others.
//
//   for (const v1::GenerateResponse& response : *stream) { ... }
//   if (!stream->status().ok()) { ... }
class GenerateStream {
 public:
  // `channel`, `stub` and `cancellation` must outlive it.
  GenerateStream(const ServerChannel& channel, v1::BoleService::Stub& stub,
                 Generation generation,
                 std::optional<Generation::TimePoint> deadline,
                 Cancellation* cancellation);
  ~GenerateStream();  // Cancels the call if it has not ended, and waits.

  GenerateStream(const GenerateStream&) = delete;
  GenerateStream& operator=(const GenerateStream&) = delete;

  // Waits for the next response, which is valid until the next call. Null: the
  // answer has ended, and status() says how. It waits through retries, too.
  const v1::GenerateResponse* Next();

  // How the answer ended. OK only if every choice is complete.
  // REQUIRES: Next() has returned null.
  const absl::Status& status() const { return generation_.status(); }

  const GenerationStats& stats() const { return generation_.stats(); }

  // Next() ends soon, with CANCELLED. The server frees what the request holds.
  void Cancel() { cancellation_->Cancel(); }

  class Iterator {
   public:
    explicit Iterator(GenerateStream* stream) : stream_(stream) {
      if (stream_ != nullptr) ++*this;
    }
    const v1::GenerateResponse& operator*() const { return *response_; }
    Iterator& operator++() {
      response_ = stream_->Next();
      return *this;
    }
    bool operator!=(const Iterator& other) const {
      return response_ != other.response_;
    }

   private:
    GenerateStream* stream_;
    const v1::GenerateResponse* response_ = nullptr;
  };

  // Iterates over the responses that have not been read; call it once.
  Iterator begin() { return Iterator(this); }
  Iterator end() { return Iterator(nullptr); }

 private:
  struct Attempt {
    grpc::ClientContext context;
    std::optional<Cancellation::Scope> scope;
    std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader;
  };

  void Begin();
  // Waits for the next attempt, if there is to be one.
  void End();

  const ServerChannel& channel_;
  v1::BoleService::Stub& stub_;
  const std::optional<Generation::TimePoint> deadline_;
  Cancellation own_cancellation_;
  Cancellation* const cancellation_;
  Generation generation_;
  std::unique_ptr<Attempt> attempt_;
  v1::GenerateResponse response_;
  bool ended_ = false;
};

// A choice, assembled from its responses.
struct GeneratedChoice {
  std::string text;
  std::string reasoning_content;
  std::vector<uint32_t> ids;
  std::vector<v1::ToolCall> tool_calls;
  v1::GenerateComplete complete;
};

// Reads the rest of the stream. Returns all choices by number, except those
// that the request itself resumed as complete.
absl::StatusOr<std::vector<GeneratedChoice>> ReadAll(GenerateStream& stream);

}  // namespace bole

#endif  // BOLE_CLIENTS_SDK_GENERATE_STREAM_H_
