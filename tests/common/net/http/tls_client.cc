#include "tests/common/net/http/tls_client.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <csignal>

#include "common/check.h"

namespace bole::testing {
namespace {

template <typename T>
using Owned = std::unique_ptr<T, void (*)(T*)>;

Owned<BIO> Reader(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())),
          [](BIO* bio) { BIO_free(bio); }};
}

Owned<X509> ReadCertificate(const std::string& pem) {
  return {PEM_read_bio_X509(Reader(pem).get(), nullptr, nullptr, nullptr),
          &X509_free};
}

// All certificates of the text.
void Believe(const std::string& roots, SSL_CTX* context) {
  const Owned<BIO> text = Reader(roots);
  while (true) {
    const Owned<X509> root(
        PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr), &X509_free);
    if (root == nullptr) break;
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), root.get());
  }
  ERR_clear_error();
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
}

void Show(const CertifiedKey& own, SSL_CTX* context) {
  const Owned<X509> cert = ReadCertificate(own.cert);
  const Owned<EVP_PKEY> key(
      PEM_read_bio_PrivateKey(Reader(own.key).get(), nullptr, nullptr, nullptr),
      &EVP_PKEY_free);
  BOLE_CHECK(SSL_CTX_use_certificate(context, cert.get()) == 1);
  BOLE_CHECK(SSL_CTX_use_PrivateKey(context, key.get()) == 1);
}

}  // namespace

TlsClient::TlsClient(int port, const TlsClientOptions& options)
    : socket_(port),
      context_(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free),
      tls_(
          [&] {
            // Versions that OpenSSL itself would no longer speak, too.
            SSL_CTX_set_security_level(context_.get(), 0);
            SSL_CTX_set_min_proto_version(context_.get(), options.version);
            SSL_CTX_set_max_proto_version(context_.get(), options.version);
            Believe(options.roots, context_.get());
            if (!options.own.cert.empty()) Show(options.own, context_.get());
            return SSL_new(context_.get());
          }(),
          &SSL_free) {
  BOLE_CHECK(tls_ != nullptr);
  // OpenSSL writes to sockets that the server has closed.
  std::signal(SIGPIPE, SIG_IGN);
  SSL_set_fd(tls_.get(), socket_.fd());
  SSL_set_alpn_protos(
      tls_.get(),
      reinterpret_cast<const unsigned char*>(options.protocols.data()),
      static_cast<unsigned int>(options.protocols.size()));
}

bool TlsClient::Handshake() {
  ERR_clear_error();
  if (SSL_connect(tls_.get()) == 1) return true;
  error_ = ERR_GET_REASON(ERR_peek_last_error());
  return false;
}

std::string TlsClient::protocol() const {
  const unsigned char* chosen = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(tls_.get(), &chosen, &size);
  return {reinterpret_cast<const char*>(chosen), size};
}

bool TlsClient::Send(std::string_view bytes) {
  return SSL_write(tls_.get(), bytes.data(), static_cast<int>(bytes.size())) >
         0;
}

std::string TlsClient::ReadUntil(std::string_view text) {
  std::string all;
  char bytes[16384];
  while (text.empty() || all.find(text) == std::string::npos) {
    const int got = SSL_read(tls_.get(), bytes, sizeof(bytes));
    if (got <= 0) break;
    all.append(bytes, static_cast<size_t>(got));
  }
  return all;
}

}  // namespace bole::testing
