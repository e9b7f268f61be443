#include "common/net/http/server_tls.h"

#include <openssl/ssl.h>

#include <utility>  // Asio 1.74 uses std::exchange and does not include it.
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "boost/asio/ssl/context.hpp"
#include "boost/system/error_code.hpp"
#include "common/status_macros.h"

namespace bole {
namespace {

using TlsContext = boost::asio::ssl::context;
using boost::system::error_code;

std::vector<std::string> PathsOf(const TlsFiles& files) {
  std::vector<std::string> paths = {files.cert, files.key};
  if (!files.client_ca.empty()) paths.push_back(files.client_ca);
  return paths;
}

// Chooses the protocol that a client offers through ALPN. A client that offers
// only protocols that are not served is refused.
int ChooseProtocol(SSL*, const unsigned char** chosen,
                   unsigned char* chosen_size, const unsigned char* offered,
                   unsigned int offered_size, void*) {
  // Each name follows its length; the preferred one comes first.
  static constexpr unsigned char kServed[] = "\x08http/1.1\x08http/1.0";
  unsigned char* protocol = nullptr;
  if (SSL_select_next_proto(&protocol, chosen_size, kServed,
                            sizeof(kServed) - 1, offered,
                            offered_size) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *chosen = protocol;
  return SSL_TLSEXT_ERR_OK;
}

bool SetRules(SSL_CTX* tls) {
  SSL_CTX_set_options(tls, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                               SSL_OP_NO_TICKET |
                               SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_alpn_select_cb(tls, &ChooseProtocol, nullptr);
  return SSL_CTX_set_num_tickets(tls, 0) == 1 &&
         SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION) == 1 &&
         // The ciphers of TLS 1.2; those of TLS 1.3 are all of this kind.
         SSL_CTX_set_cipher_list(tls, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1;
}

absl::StatusOr<std::shared_ptr<TlsContext>> Load(const TlsFiles& files) {
  BOLE_RETURN_IF_ERROR(Check(files));
  auto tls = std::make_shared<TlsContext>(TlsContext::tls_server);
  if (!SetRules(tls->native_handle())) {
    return absl::InternalError("OpenSSL does not take the rules of TLS");
  }
  error_code error;
  const auto refuse = [&](const std::string& path) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", error.message()));
  };
  // Without this, OpenSSL would prompt for a password on the terminal.
  tls->set_password_callback([](size_t, auto) { return std::string(); }, error);
  tls->use_certificate_chain_file(files.cert, error);
  if (error) return refuse(files.cert);
  tls->use_private_key_file(files.key, TlsContext::pem, error);
  if (error) return refuse(files.key);
  if (files.client_ca.empty()) return tls;
  tls->load_verify_file(files.client_ca, error);
  if (error) return refuse(files.client_ca);
  tls->set_verify_mode(boost::asio::ssl::verify_peer |
                           boost::asio::ssl::verify_fail_if_no_peer_cert,
                       error);
  if (error) return refuse(files.client_ca);
  return tls;
}

}  // namespace

absl::StatusOr<std::shared_ptr<ServerTls>> ServerTls::Open(
    ServerTlsOptions options) {
  if (options.files.empty()) {
    BOLE_RETURN_IF_ERROR(Check(options.files));
    return nullptr;
  }
  std::string stamp = StampOf(PathsOf(options.files));
  BOLE_ASSIGN_OR_RETURN(std::shared_ptr<TlsContext> tls, Load(options.files));
  return std::shared_ptr<ServerTls>(
      new ServerTls(std::move(options), std::move(tls), std::move(stamp)));
}

ServerTls::ServerTls(ServerTlsOptions options, std::shared_ptr<TlsContext> tls,
                     std::string stamp)
    : options_(std::move(options)),
      context_(std::move(tls)),
      watch_(PathsOf(options_.files), std::move(stamp), options_.poll_interval,
             [this] { Reload(); }) {}

ServerTls::~ServerTls() = default;

std::shared_ptr<TlsContext> ServerTls::context() const {
  MutexLock lock(mutex_);
  return context_;
}

void ServerTls::Reload() {
  absl::StatusOr<std::shared_ptr<TlsContext>> tls = Load(options_.files);
  if (options_.note) {
    options_.note(
        tls.ok()
            ? absl::StrCat("certificates for HTTP in ", options_.files.cert,
                           " were read again")
            : absl::StrCat("certificates for HTTP: ", tls.status().message(),
                           "; the old ones stay"));
  }
  if (!tls.ok()) return;
  MutexLock lock(mutex_);
  context_ = *std::move(tls);
}

}  // namespace bole
