#include "clients/sdk/server_channel.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/field_error.h"
#include "common/status_macros.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"

namespace bole {
namespace {

absl::Status Wrong(const std::string& option, const std::string& why) {
  return AboutField(
      option, absl::InvalidArgumentError(absl::StrCat(option, ": ", why)));
}

// Empty without a path.
absl::StatusOr<std::string> ReadFile(const std::string& option,
                                     const std::string& path) {
  if (path.empty()) return std::string();
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file || text.str().empty()) {
    return Wrong(option, absl::StrCat("cannot read ", path));
  }
  return text.str();
}

// Whether what is sent stays on this machine.
bool IsLocal(std::string_view address) {
  for (const char* local : {"127.", "localhost:", "[::1]:", "unix:"}) {
    if (absl::StartsWith(absl::string_view(address.data(), address.size()),
                         local)) {
      return true;
    }
  }
  return false;
}

// "Bearer TOKEN", or empty. gRPC ends the process over metadata that is no
// printable ASCII.
absl::StatusOr<std::string> Authorization(const ClientOptions& options) {
  if (!options.token.empty() && !options.token_file.empty()) {
    return Wrong("token_file", "there is a token already");
  }
  BOLE_ASSIGN_OR_RETURN(std::string token,
                        ReadFile("token_file", options.token_file));
  if (options.token_file.empty()) token = options.token;
  absl::StripAsciiWhitespace(&token);
  const char* option = options.token_file.empty() ? "token" : "token_file";
  if (token.empty()) {
    const bool given = !options.token.empty() || !options.token_file.empty();
    if (given) return Wrong(option, "the token is empty");
    return std::string();
  }
  if (!std::all_of(token.begin(), token.end(),
                   [](char c) { return c > ' ' && c <= '~'; })) {
    return Wrong(option, "the token has something else than printable ASCII");
  }
  if (options.ca_file.empty() && !IsLocal(options.address)) {
    return Wrong("ca_file", absl::StrCat("a token is not sent to ",
                                         options.address, " without TLS"));
  }
  return absl::StrCat("Bearer ", token);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials(
    const ClientOptions& options) {
  if (options.cert_file.empty() != options.key_file.empty()) {
    return Wrong(options.key_file.empty() ? "key_file" : "cert_file",
                 "a certificate and its key go together");
  }
  if (options.ca_file.empty()) {
    if (options.cert_file.empty()) return grpc::InsecureChannelCredentials();
    return Wrong("ca_file", "a certificate is of use with TLS only");
  }
  grpc::SslCredentialsOptions ssl;
  BOLE_ASSIGN_OR_RETURN(ssl.pem_root_certs,
                        ReadFile("ca_file", options.ca_file));
  BOLE_ASSIGN_OR_RETURN(ssl.pem_cert_chain,
                        ReadFile("cert_file", options.cert_file));
  BOLE_ASSIGN_OR_RETURN(ssl.pem_private_key,
                        ReadFile("key_file", options.key_file));
  return grpc::SslCredentials(ssl);
}

grpc::ChannelArguments Arguments(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  // An answer with the log probabilities of a long text is larger than gRPC's
  // usual limit.
  constexpr int kMaxMessageBytes = 256 << 20;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  // A server that is starting is found soon.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // A connection that went dead under a stream is noticed.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  // The address is where we connect; a proxy for the web is not asked.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (options.own_connection) {
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  }
  if (!options.server_name.empty()) {
    arguments.SetSslTargetNameOverride(options.server_name);
  }
  return arguments;
}

}  // namespace

absl::StatusOr<ServerChannel> ServerChannel::Open(
    const ClientOptions& options) {
  constexpr size_t kMaxTenantBytes = 64;
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' ||
           c == '_' || c == '-';
  };
  if (options.tenant.size() > kMaxTenantBytes ||
      !std::all_of(options.tenant.begin(), options.tenant.end(), allowed)) {
    return BadField("tenant", Quoted(options.tenant),
                    "up to 64 characters of [A-Za-z0-9._-]");
  }
  ServerChannel opened;
  opened.tenant_ = options.tenant;
  BOLE_ASSIGN_OR_RETURN(opened.authorization_, Authorization(options));
  BOLE_ASSIGN_OR_RETURN(const auto credentials, Credentials(options));
  opened.channel_ = grpc::CreateCustomChannel(options.address, credentials,
                                              Arguments(options));
  return opened;
}

void ServerChannel::Prepare(grpc::ClientContext& context,
                            std::optional<TimePoint> deadline) const {
  if (!authorization_.empty()) {
    context.AddMetadata("authorization", authorization_);
  }
  if (!tenant_.empty()) context.AddMetadata("bole-tenant", tenant_);
  if (!deadline) return;
  const auto left = *deadline - std::chrono::steady_clock::now();
  context.set_deadline(
      std::chrono::system_clock::now() +
      std::chrono::duration_cast<std::chrono::system_clock::duration>(left));
}

}  // namespace bole
