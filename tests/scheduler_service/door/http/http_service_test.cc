#include "scheduler_service/door/http/http_service.h"

#include <chrono>
#include <string>
#include <variant>

#include "common/sha256.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "scheduler_service/door/http/http_router.h"
#include "tests/common/net/http/raw_client.h"
#include "tests/scheduler_service/door/http/http_asking.h"
#include "tests/scheduler_service/simulated_worker.h"
#include "tests/scheduler_service/tiny_system.h"
#include "tests/worker_service/model/files.h"

namespace bole {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::AskFor;
using testing::OpenCall;
using testing::Post;
using testing::RawClient;
using testing::Reply;
using testing::SimulatedWorker;
using testing::TinySystem;
using testing::WithHttp;

std::string Ask(RawClient& client, const std::string& line,
                const std::string& headers = "") {
  client.Send(line + " HTTP/1.1\r\nHost: h\r\n" + headers + "\r\n");
  return client.ReadAnswer();
}

std::string AskOnce(const TinySystem& system, const std::string& line,
                    const std::string& headers = "") {
  RawClient client(system.server->http_port());
  return Ask(client, line, headers);
}

bool Has(const std::string& answer, const std::string& text) {
  return answer.find(text) != std::string::npos;
}

TEST(HttpServiceTest, OnlyHealthIsOpen) {
  for (const HttpRoute& route : HttpRoutes()) {
    const bool open = route.path == "/health" || route.path == "/ready";
    EXPECT_EQ(route.scope.has_value(), !open) << route.path;
  }
}

TEST(HttpServiceTest, EveryRouteIsFoundByItsMethodsAlone) {
  for (const HttpRoute& route : HttpRoutes()) {
    std::string path(route.path);
    if (path.ends_with("{}")) path.replace(path.size() - 2, 2, "a/b%2Fc");
    for (const std::string method :
         {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"}) {
      const auto found = FindRoute(method, path);
      const bool served =
          method == route.method || (method == "HEAD" && route.method == "GET");
      ASSERT_EQ(std::holds_alternative<const HttpRoute*>(found), served)
          << method << " " << path;
      if (served) {
        EXPECT_EQ(std::get<const HttpRoute*>(found), &route);
      } else {
        EXPECT_EQ(std::get<HttpAnswer>(found).status, 405);
      }
    }
  }
}

TEST(HttpServiceTest, IsReadyWithAWorker) {
  const TinySystem without(WithHttp(), /*with_worker=*/false);
  const TinySystem with(WithHttp());

  EXPECT_TRUE(Has(AskOnce(without, "GET /health"), "HTTP/1.1 200 OK"));
  EXPECT_TRUE(Has(AskOnce(without, "GET /ready"), "HTTP/1.1 503 "));
  EXPECT_TRUE(Has(AskOnce(with, "GET /ready"), "HTTP/1.1 200 OK"));
}

TEST(HttpServiceTest, TellsMetricsAndVersion) {
  TinySystem system(WithHttp());
  v1::GenerateRequest request;
  request.set_text("q");
  request.mutable_sampling_params()->set_max_tokens(3);
  ASSERT_TRUE(OpenCall(system, request).Finish().ok());

  EXPECT_TRUE(Has(AskOnce(system, "GET /metrics"),
                  "\nbole_requests_total{code=\"OK\",model=\"tiny\"} 1\n"));
  EXPECT_TRUE(Has(AskOnce(system, "GET /version"), "{\"version\":\""));
  EXPECT_TRUE(Has(AskOnce(system, "GET /version", "x-bole-tenant: a b\r\n"),
                  "HTTP/1.1 400 "));
}

TEST(HttpServiceTest, UnknownRoutesAreErrorsInOpenAisForm) {
  const TinySystem system(WithHttp());
  RawClient client(system.server->http_port());

  const std::string none = Ask(client, "GET /nothing");
  const std::string method = Ask(client, "POST /health");

  EXPECT_TRUE(Has(none, "HTTP/1.1 404 ")) << none;
  EXPECT_TRUE(Has(none, "{\"error\":{\"code\":\"not_found\"")) << none;
  EXPECT_TRUE(Has(method, "HTTP/1.1 405 ")) << method;
  EXPECT_TRUE(Has(method, "Allow: GET, HEAD\r\n")) << method;
}

TEST(HttpServiceTest, RequestIdsAreTakenOverIfTheyAreFitToBe) {
  const TinySystem system(WithHttp());
  RawClient client(system.server->http_port());
  const std::string longest(128, 'x');
  const auto with = [&](const std::string& id) {
    return Ask(client, "GET /health", "X-Request-ID: " + id + "\r\n");
  };

  EXPECT_TRUE(Has(with(longest), "X-Request-Id: " + longest + "\r\n"));
  EXPECT_TRUE(Has(with(longest + "x"), "X-Request-Id: bole-"));
  EXPECT_TRUE(Has(with("a b"), "X-Request-Id: bole-"));
  EXPECT_TRUE(Has(Ask(client, "GET /none"), "X-Request-Id: bole-"));
}

TEST(HttpServiceTest, ADrainIsToldOnConnectionsThatAreThere) {
  TinySystem system(WithHttp());
  RawClient client(system.server->http_port());
  Ask(client, "GET /ready");
  RawClient other(system.server->http_port());
  Ask(other, "GET /ready");

  EXPECT_TRUE(system.server->Drain(steady_clock::now() + seconds(20)));
  const std::string ready = Ask(client, "GET /ready");
  const std::string health = Ask(other, "GET /health");

  EXPECT_TRUE(Has(ready, "HTTP/1.1 503 ")) << ready;
  EXPECT_TRUE(Has(ready, "Connection: close\r\n")) << ready;
  EXPECT_TRUE(client.AwaitEnd());
  EXPECT_TRUE(Has(health, "HTTP/1.1 200 ")) << health;
}

TEST(HttpServiceTest, ParametersAreDecoded) {
  const auto found = FindRoute("GET", "/v1/models/a/b%2Fc%4");
  const auto none = FindRoute("GET", "/v1/models/");

  const HttpRoute& route = *std::get<const HttpRoute*>(found);
  EXPECT_EQ(ParameterOf(route, "/v1/models/a/b%2Fc%4"), "a/b/c%4");
  EXPECT_EQ(std::get<HttpAnswer>(none).status, 404);
}

TEST(HttpServiceTest, EveryRouteThatIsNotOpenWantsATokenWithItsScope) {
  const ScopedDirectory directory;
  SchedulerServerOptions options = WithHttp();
  options.tokens_path =
      directory.Write("tokens", Sha256Hex("reads") + " acme generate\n" +
                                    Sha256Hex("scrapes") + " acme metrics\n");
  const TinySystem system(options, /*with_worker=*/true,
                          SimulatedWorker::SmallLimits(), "reads");
  for (const HttpRoute& route : HttpRoutes()) {
    std::string path(route.path);
    if (path.ends_with("{}")) path.replace(path.size() - 2, 2, "tiny");
    const auto ask = [&](const std::string& token) {
      return AskFor(
          system, std::string(route.method), path,
          token.empty() ? "" : "Authorization: Bearer " + token + "\r\n", "{}");
    };
    const bool reads = route.scope == Scope::kGenerate;

    const Reply without = ask("");
    const Reply unknown = ask("guess");
    const Reply lacking = ask(reads ? "scrapes" : "reads");
    const Reply with = ask(reads ? "reads" : "scrapes");

    if (route.scope) {
      EXPECT_EQ(without.status, 401) << path;
      EXPECT_TRUE(without.HasHeader("WWW-Authenticate: Bearer")) << path;
      EXPECT_EQ(without.Json()["error"]["code"], "invalid_api_key") << path;
      EXPECT_EQ(unknown.status, 401) << path;
      EXPECT_EQ(lacking.status, 403) << path;
      EXPECT_EQ(lacking.Json()["error"]["type"], "permission_error") << path;
    } else {
      EXPECT_EQ(without.status, 200) << path;
    }
    // A body of nothing is no request of a text.
    EXPECT_EQ(with.status, route.method == "POST" ? 400 : 200)
        << path << " " << with.body;
  }
  const Reply metrics =
      AskFor(system, "GET", "/metrics", "Authorization: Bearer scrapes\r\n");
  EXPECT_TRUE(
      Has(metrics.body, "bole_calls_denied_total{reason=\"forbidden\"} 9\n"))
      << metrics.body;
}

TEST(HttpServiceTest, TellsWhichModelsThereAre) {
  const TinySystem system(WithHttp());

  const json all = AskFor(system, "GET", "/v1/models").Json();
  const Reply one = AskFor(system, "GET", "/v1/models/t%69ny");
  const Reply none = AskFor(system, "GET", "/v1/models/other");

  ASSERT_EQ(all["data"].size(), 1u);
  EXPECT_EQ(all["data"][0]["id"], "tiny");
  EXPECT_EQ(one.Json(), all["data"][0]);
  EXPECT_EQ(none.status, 404);
  EXPECT_EQ(none.Json()["error"]["code"], "model_not_found");
}

TEST(HttpServiceTest, MakesTokensOfTextAndBack) {
  const TinySystem system(WithHttp());
  const std::string text = "abc" + std::string(30000, 'x');  // A long one.

  const Reply short_one = Post(system, "/tokenize", {{"prompt", "abq"}});
  const Reply long_one =
      Post(system, "/tokenize", {{"prompt", text}}, "X-Request-Id: mine\r\n");
  const Reply chat =
      Post(system, "/tokenize",
           {{"messages", {{{"role", "bad"}, {"content", "no such role"}}}}});
  const Reply back =
      Post(system, "/detokenize", {{"tokens", long_one.Json()["tokens"]}});
  const Reply wrong = Post(system, "/detokenize", {{"tokens", {1, 70000}}});

  EXPECT_EQ(short_one.Json()["tokens"], json({256, 'q'})) << short_one.body;
  EXPECT_EQ(short_one.Json()["count"], 2);
  EXPECT_TRUE(long_one.HasHeader("X-Request-Id: mine")) << long_one.head;
  EXPECT_EQ(chat.status, 400) << chat.body;
  EXPECT_EQ(back.Json()["prompt"], text);
  EXPECT_EQ(wrong.status, 400);
  EXPECT_EQ(wrong.Json()["error"]["param"], "tokens[1]") << wrong.body;
  EXPECT_FALSE(Has(wrong.body, "ids")) << wrong.body;
}

}  // namespace
}  // namespace bole
