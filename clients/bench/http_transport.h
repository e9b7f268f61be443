// OpenAI's API over HTTP/1.1, with server-sent events.
#ifndef BOLE_CLIENTS_BENCH_HTTP_TRANSPORT_H_
#define BOLE_CLIENTS_BENCH_HTTP_TRANSPORT_H_

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "clients/bench/transport.h"
#include "common/http_url.h"

namespace bole::bench {

struct OpenAiPeer;

struct HttpTransportOptions {
  // The base URL of the API. Its path comes before "/v1/completions", and may
  // itself end with "/v1".
  HttpUrl url;
  std::string authorization = {};  // The header's value; empty: none.
  // For https: a PEM file with the authorities that may issue the server's
  // certificate. Empty: those of the system.
  std::string ca_file = {};
  // PEM files with the client's certificate and its key; both or neither.
  std::string cert_file = {};
  std::string key_file = {};
};

// One thread drives all calls. Each call has a connection of its own, since
// HTTP/1.1 allows one answer at a time on a connection. Connections whose calls
// ended well are reused.
class HttpTransport final : public Transport {
 public:
  // INVALID_ARGUMENT, naming it: a file that cannot be read. UNAVAILABLE:
  // the host has no address.
  static absl::StatusOr<std::shared_ptr<HttpTransport>> Create(
      const HttpTransportOptions& options);
  ~HttpTransport() override;

  HttpTransport(const HttpTransport&) = delete;
  HttpTransport& operator=(const HttpTransport&) = delete;

  // REQUIRES: what MakeCompletionBody() requires.
  std::shared_ptr<TransportCall> Send(v1::GenerateRequest request,
                                      std::optional<double> timeout_seconds,
                                      CallHandlers handlers) override;
  bool resumes() const override { return false; }

 private:
  class Work;

  explicit HttpTransport(std::unique_ptr<OpenAiPeer> peer);

  const std::unique_ptr<OpenAiPeer> peer_;
  std::unique_ptr<Work> work_;  // Keeps the thread waiting for calls.
  std::thread thread_;
};

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_HTTP_TRANSPORT_H_
