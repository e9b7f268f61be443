#include "clients/cli/bench_server.h"

#include <chrono>
#include <cstdio>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "clients/bench/distribution.h"
#include "clients/bench/grpc_transport.h"
#include "clients/bench/http_get.h"
#include "clients/bench/http_transport.h"
#include "clients/cli/connection.h"
#include "clients/cli/failure.h"
#include "clients/cli/output.h"
#include "clients/sdk/server_channel.h"
#include "common/http_url.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

using Json = nlohmann::json;
using std::chrono::steady_clock;

constexpr int kRoundTrips = 9;

// The median time of `ask`, which returns the exit code.
int TimeRoundTrips(const std::function<int()>& ask, double& median) {
  std::vector<double> seconds;
  for (int i = 0; i < kRoundTrips; ++i) {
    const steady_clock::time_point start = steady_clock::now();
    const int exit_code = ask();
    if (exit_code != kExitOk) return exit_code;
    seconds.push_back(
        std::chrono::duration<double>(steady_clock::now() - start).count());
  }
  median = bench::Distribution(seconds).Percentile(50);
  return kExitOk;
}

int AskOverGrpc(const BenchFlags& flags, Interrupt& interrupt,
                BenchServer& server) {
  Connection connection(flags.connection, interrupt);
  v1::GetModelInfoResponse model;
  v1::GetServerInfoResponse info;
  int exit_code = CallServer(connection, &Client::GetModelInfo,
                             v1::GetModelInfoRequest(), model);
  if (exit_code != kExitOk) return exit_code;
  exit_code = TimeRoundTrips(
      [&] { return AskServer(connection, &Client::GetServerInfo, info); },
      server.round_trip_seconds);
  server.address = flags.connection.server;
  server.version = info.version();
  server.model = model.model();
  server.synthetic = model.synthetic();
  server.speculation = SpeculationText(info.speculation());
  server.chat = model.has_chat_template();
  server.vocab_size = model.vocab_size();
  server.max_context = model.max_context();
  return exit_code;
}

// The header's value for --token-file, or "".
absl::StatusOr<std::string> AuthorizationOf(const BenchFlags& flags,
                                            const HttpUrl& url) {
  ClientOptions options = flags.connection.ToClientOptions();
  // Whether a token may go there is the same question.
  options.address = Authority(url);
  BOLE_ASSIGN_OR_RETURN(const ServerChannel channel,
                        ServerChannel::Open(options));
  return channel.authorization();
}

// `url` without "/" and "/v1" at its end.
std::string BaseOf(std::string url) {
  for (const std::string end : {"/", "/v1"}) {
    if (url.ends_with(end)) url.resize(url.size() - end.size());
  }
  return url;
}

// The unsigned number at `name`, or 0.
uint32_t NumberAt(const Json& json, const char* name) {
  const auto found = json.find(name);
  const bool fits =
      found != json.end() && found->is_number_unsigned() &&
      found->get<uint64_t>() <= std::numeric_limits<uint32_t>::max();
  return fits ? found->get<uint32_t>() : 0;
}

// The string at `name`, or "".
std::string TextAt(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>()
                                                   : "";
}

constexpr int kMaxDepth = 16;

// Takes the model of that name, or the only one, from the answer of /v1/models.
absl::Status ReadModel(const std::string& body, const std::string& name,
                       BenchServer& server) {
  BOLE_ASSIGN_OR_RETURN(const Json json, ParseJson(body, kMaxDepth));
  if (!json.is_object() || !json.contains("data") || !json["data"].is_array()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "/v1/models has no list of models: ", body.substr(0, 200)));
  }
  for (const Json& model : json["data"]) {
    if (!model.is_object()) continue;
    const std::string id = TextAt(model, "id");
    if (name.empty() ? json["data"].size() > 1 : id != name) continue;
    server.model = id;
    server.vocab_size = NumberAt(model, "vocab_size");
    server.max_context = NumberAt(model, "max_model_len");
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      name.empty() ? absl::StrCat(json["data"].size(),
                                  " models are served; choose by --model")
                   : absl::StrCat("no model \"", name, "\" is served"));
}

absl::Status AskOverHttp(const BenchFlags& flags, BenchServer& server) {
  BOLE_ASSIGN_OR_RETURN(const HttpUrl url, ParseHttpUrl(*flags.http));
  BOLE_ASSIGN_OR_RETURN(const std::string authorization,
                        AuthorizationOf(flags, url));
  const std::string base = BaseOf(*flags.http);
  const ConnectionFlags& connection = flags.connection;
  const bench::HttpGetOptions options{.ca_file = connection.ca_file,
                                      .cert_file = connection.cert_file,
                                      .key_file = connection.key_file,
                                      .authorization = authorization};
  const auto get = [&](const char* path) {
    return bench::HttpGet(base + path, options);
  };
  BOLE_ASSIGN_OR_RETURN(const std::string models, get("/v1/models"));
  BOLE_RETURN_IF_ERROR(ReadModel(models, flags.connection.model, server));
  absl::Status failed;
  TimeRoundTrips(
      [&] {
        failed.Update(get("/v1/models").status());
        return failed.ok() ? kExitOk : kExitUnavailable;
      },
      server.round_trip_seconds);
  BOLE_RETURN_IF_ERROR(failed);
  server.address = base;
  server.version = "unknown";
  if (const auto page = get("/version"); page.ok()) {
    const auto json = ParseJson(*page, kMaxDepth);
    if (json.ok() && json->is_object()) {
      server.version = TextAt(*json, "version");
    }
  }
  server.speculation = "not told over HTTP";
  server.chat = true;
  if (flags.vocab_size) {
    server.vocab_size = static_cast<uint32_t>(*flags.vocab_size);
  }
  if (server.vocab_size != 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      base, " does not tell the model's vocabulary: give --vocab-size"));
}

}  // namespace

int AskWhatItIs(const BenchFlags& flags, Interrupt& interrupt,
                BenchServer& server) {
  if (!flags.http) return AskOverGrpc(flags, interrupt, server);
  const absl::Status status = AskOverHttp(flags, server);
  if (status.ok()) return kExitOk;
  std::fprintf(stderr, "bole: %s\n", std::string(status.message()).c_str());
  if (absl::IsInvalidArgument(status)) return kExitUsage;
  return absl::IsUnavailable(status) ? kExitUnavailable : kExitError;
}

absl::StatusOr<std::shared_ptr<bench::Transport>> MakeTransport(
    const BenchFlags& flags) {
  if (flags.http) {
    bench::HttpTransportOptions options;
    BOLE_ASSIGN_OR_RETURN(options.url, ParseHttpUrl(*flags.http));
    BOLE_ASSIGN_OR_RETURN(options.authorization,
                          AuthorizationOf(flags, options.url));
    options.ca_file = flags.connection.ca_file;
    options.cert_file = flags.connection.cert_file;
    options.key_file = flags.connection.key_file;
    return bench::HttpTransport::Create(options);
  }
  std::vector<std::shared_ptr<Client>> clients;
  for (int i = 0; i < flags.connections; ++i) {
    ClientOptions client = flags.connection.ToClientOptions();
    client.own_connection = true;
    clients.push_back(CreateClient(client));
  }
  return std::make_shared<bench::GrpcTransport>(std::move(clients));
}

}  // namespace bole
