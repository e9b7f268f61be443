#include "scheduler_service/security_flags.h"

#include "common/net/listen_address.h"
#include "common/status_macros.h"

namespace bole {
namespace {

void AddClientFlags(CommandLine& app, const std::string& of,
                    const std::string& whom, TlsClientFiles& files) {
  const auto add = [&](const char* name, std::string& value,
                       const std::string& help) {
    app.Add("--" + of + "-" + name, value, help).Group("Security");
  };
  add("ca", files.ca,
      whom +
          " are spoken to over TLS, and their certificates are of these, in "
          "PEM. Read again when it changes, as the next two are");
  add("cert", files.cert, "certificate chain to show them, in PEM");
  add("key", files.key, "its private key, in PEM");
  add("name", files.server_name,
      "the name in their certificates; their addresses if left out");
}

}  // namespace

void SecurityFlags::AddTo(CommandLine& app) {
  app.Add("--tls-cert", tls.cert,
          "certificate chain in PEM: --listen, --http-listen and "
          "--metrics-listen speak TLS. Read again when it changes")
      .Group("Security");
  app.Add("--tls-key", tls.key, "its private key, in PEM").Group("Security");
  app.Add("--tls-client-ca", tls.client_ca,
          "clients need a certificate of these, in PEM")
      .Group("Security");
  app.Add("--tokens", tokens_path,
          "file of the bearer tokens that clients need for every call, and "
          "for metrics "
          "(scheduler_service/README.md); read again when it changes")
      .Group("Security");
  AddClientFlags(app, "worker", "workers", worker_tls);
  AddClientFlags(app, "peer", "--peers", peer_tls);
  app.Add("--peer-token-file", peer_token_path,
          "file of a bearer token with the scope admin, for --peers; read "
          "again for every call")
      .Group("Security");
  app.AddSwitch("--allow-remote", allow_remote,
                "let the addresses be reached from other machines although "
                "everybody there may read and ask everything; with TLS, and "
                "tokens or certificates of clients, they may be without this")
      .Group("Security");
}

absl::Status SecurityFlags::CheckPeers() const {
  if (tls.empty() != peer_tls.empty()) {
    return absl::InvalidArgumentError(
        "--peers speak TLS, all of them or none: --tls-cert and --peer-ca go "
        "together");
  }
  if (tokens_path.empty() != peer_token_path.empty()) {
    return absl::InvalidArgumentError(
        "--peers need tokens, all of them or none: --tokens and "
        "--peer-token-file go together");
  }
  if (!peer_token_path.empty() && peer_tls.empty()) {
    return absl::InvalidArgumentError(
        "--peer-token-file: a token is not sent to --peers without TLS, which "
        "--peer-ca says");
  }
  return absl::OkStatus();
}

absl::Status SecurityFlags::ApplyTo(SchedulerServerOptions& server) const {
  if (!server.peers.empty()) {
    BOLE_RETURN_IF_ERROR(CheckPeers());
  } else if (!peer_tls.ca.empty() || !peer_tls.cert.empty() ||
             !peer_tls.key.empty() || !peer_tls.server_name.empty() ||
             !peer_token_path.empty()) {
    return absl::InvalidArgumentError(
        "--peer-ca, --peer-cert, --peer-key, --peer-name and --peer-token-file "
        "are for --peers, of which there are none");
  }
  server.tls = tls;
  server.tokens_path = tokens_path;
  server.worker_tls = worker_tls;
  server.peer_tls = peer_tls;
  server.peer_token_path = peer_token_path;
  const bool knows_callers = !tokens_path.empty() || !tls.client_ca.empty();
  if (allow_remote || (!tls.empty() && knows_callers)) {
    server.reach = Reach::kAnywhere;
  }
  return absl::OkStatus();
}

}  // namespace bole
