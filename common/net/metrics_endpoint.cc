#include "common/net/metrics_endpoint.h"

#include <utility>

#include "common/net/http/http_handler.h"
#include "common/net/http/http_limits.h"
#include "common/status_macros.h"
#include "prometheus/text_serializer.h"

namespace bole {
namespace {

// A few scrapers, who send no bodies.
constexpr HttpLimits kLimits{.max_connections = 64, .max_body_bytes = 1024};

std::optional<HttpAnswer> FindNothing(const HttpRequest& head) {
  if (head.path != "/metrics") {
    return HttpError(404, "not_found", "there is /metrics alone");
  }
  if (head.method == "GET" || head.method == "HEAD") return std::nullopt;
  HttpAnswer answer =
      HttpError(405, "method_not_allowed", "/metrics takes GET, HEAD");
  answer.headers.emplace_back("Allow", "GET, HEAD");
  return answer;
}

}  // namespace

HttpAnswer MetricsAnswer(const prometheus::Collectable& metrics) {
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = prometheus::TextSerializer().Serialize(metrics.Collect())};
}

class MetricsEndpoint::Handler final : public HttpHandler {
 public:
  Handler(MetricsGuard guard, std::shared_ptr<prometheus::Collectable> metrics)
      : guard_(std::move(guard)), metrics_(std::move(metrics)) {}

  std::optional<HttpAnswer> Refuse(const HttpRequest& head) override {
    std::optional<HttpAnswer> refusal = FindNothing(head);
    if (!refusal && guard_) refusal = guard_(head);
    return refusal;
  }
  std::shared_ptr<HttpCall> Handle(
      HttpRequest, std::shared_ptr<HttpExchange> exchange) override {
    exchange->Answer(MetricsAnswer(*metrics_));
    return nullptr;
  }

 private:
  const MetricsGuard guard_;
  const std::shared_ptr<prometheus::Collectable> metrics_;
};

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    MetricsEndpointOptions options,
    std::shared_ptr<prometheus::Collectable> metrics) {
  auto handler =
      std::make_unique<Handler>(std::move(options.guard), std::move(metrics));
  BOLE_ASSIGN_OR_RETURN(std::unique_ptr<HttpServer> server,
                        HttpServer::Start({.address = options.address,
                                           .reach = options.reach,
                                           .limits = kLimits,
                                           .tls = std::move(options.tls),
                                           .num_threads = 1},
                                          *handler));
  return std::unique_ptr<MetricsEndpoint>(
      new MetricsEndpoint(std::move(handler), std::move(server)));
}

MetricsEndpoint::MetricsEndpoint(std::unique_ptr<Handler> handler,
                                 std::unique_ptr<HttpServer> server)
    : handler_(std::move(handler)), server_(std::move(server)) {}

MetricsEndpoint::~MetricsEndpoint() = default;

}  // namespace bole
