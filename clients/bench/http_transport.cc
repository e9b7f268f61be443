#include "clients/bench/http_transport.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "clients/bench/completion_body.h"
#include "clients/bench/openai_call.h"
// The call comes first because of what it includes.
#include "boost/asio/executor_work_guard.hpp"
#include "boost/asio/post.hpp"
#include "common/status_macros.h"

namespace bole::bench {
namespace {

using boost::system::error_code;

absl::Status Loaded(const char* option, const std::string& path,
                    error_code error) {
  if (!error) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": cannot read ", path, ": ", error.message()));
}

absl::Status LoadFiles(const HttpTransportOptions& options,
                       boost::asio::ssl::context& tls) {
  error_code error;
  if (options.ca_file.empty()) {
    tls.set_default_verify_paths(error);
  } else {
    tls.load_verify_file(options.ca_file, error);
  }
  BOLE_RETURN_IF_ERROR(Loaded("ca_file", options.ca_file, error));
  if (options.cert_file.empty()) return absl::OkStatus();
  tls.use_certificate_chain_file(options.cert_file, error);
  BOLE_RETURN_IF_ERROR(Loaded("cert_file", options.cert_file, error));
  tls.use_private_key_file(options.key_file, boost::asio::ssl::context::pem,
                           error);
  return Loaded("key_file", options.key_file, error);
}

}  // namespace

class HttpTransport::Work {
 public:
  explicit Work(boost::asio::io_context& io) : guard_(io.get_executor()) {}

 private:
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type>
      guard_;
};

absl::StatusOr<std::shared_ptr<HttpTransport>> HttpTransport::Create(
    const HttpTransportOptions& options) {
  auto peer = std::make_unique<OpenAiPeer>();
  error_code error;
  boost::asio::ip::tcp::resolver resolver(peer->io);
  const auto found = resolver.resolve(options.url.host,
                                      std::to_string(options.url.port), error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat(options.url.host, ": ", error.message()));
  }
  for (const auto& entry : found) peer->endpoints.push_back(entry.endpoint());
  if (options.url.tls) {
    peer->tls.emplace(boost::asio::ssl::context::tls_client);
    BOLE_RETURN_IF_ERROR(LoadFiles(options, *peer->tls));
  }
  peer->host = options.url.host;
  peer->authority = Authority(options.url);
  absl::string_view path = options.url.path;
  absl::ConsumeSuffix(&path, "/");
  absl::ConsumeSuffix(&path, "/v1");
  peer->path = std::string(path);
  peer->authorization = options.authorization;
  return std::shared_ptr<HttpTransport>(new HttpTransport(std::move(peer)));
}

HttpTransport::HttpTransport(std::unique_ptr<OpenAiPeer> peer)
    : peer_(std::move(peer)),
      work_(std::make_unique<Work>(peer_->io)),
      thread_([this] { peer_->io.run(); }) {}

HttpTransport::~HttpTransport() {
  boost::asio::post(peer_->io, [this] { peer_->idle.clear(); });
  work_.reset();
  thread_.join();
}

std::shared_ptr<TransportCall> HttpTransport::Send(
    v1::GenerateRequest request, std::optional<double> timeout_seconds,
    CallHandlers handlers) {
  auto call = std::make_shared<OpenAiCall>(*peer_, MakeCompletionBody(request),
                                           std::move(handlers));
  call->Start(timeout_seconds);
  return call;
}

}  // namespace bole::bench
