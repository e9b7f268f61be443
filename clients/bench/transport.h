// How a load's requests reach the server.
#ifndef BOLE_CLIENTS_BENCH_TRANSPORT_H_
#define BOLE_CLIENTS_BENCH_TRANSPORT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "proto/bole.pb.h"

namespace bole::bench {

// How a call ended.
struct CallEnd {
  absl::Status status;
  std::string reason = {};  // The server's, "QUEUE_REQUESTS", if it gave one.
  std::optional<double> retry_after_seconds = {};
};

// A call in progress. Thread-safe.
class TransportCall {
 public:
  virtual ~TransportCall() = default;

  // The call ends soon, with CANCELLED unless it has just ended.
  virtual void Cancel() = 0;
};

// Called one at a time by threads of the transport, which they must not block.
// The first call may come before Send() returns.
struct CallHandlers {
  std::function<void(const v1::GenerateResponse&)> on_response;
  // Called last, and once.
  std::function<void(CallEnd)> on_end;
};

// Thread-safe. A call is attempted once. A transport may be destroyed only when
// its calls have ended, and not by one of its own threads.
class Transport {
 public:
  virtual ~Transport() = default;

  // `timeout_seconds` bounds the whole call, which then ends with
  // DEADLINE_EXCEEDED.
  virtual std::shared_ptr<TransportCall> Send(
      v1::GenerateRequest request, std::optional<double> timeout_seconds,
      CallHandlers handlers) = 0;

  // Whether a request may `resume` after the tokens of a broken stream.
  virtual bool resumes() const = 0;
};

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_TRANSPORT_H_
