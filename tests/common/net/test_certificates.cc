#include "tests/common/net/test_certificates.h"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <functional>

#include "common/check.h"

namespace bole::testing {
namespace {

std::string ToPem(const std::function<int(BIO*)>& write) {
  const std::unique_ptr<BIO, void (*)(BIO*)> memory(BIO_new(BIO_s_mem()),
                                                    &BIO_free_all);
  BOLE_CHECK(write(memory.get()) == 1);
  char* text = nullptr;
  const long length = BIO_get_mem_data(memory.get(), &text);
  return {text, static_cast<size_t>(length)};
}

std::string ToPem(X509* cert) {
  return ToPem([&](BIO* out) { return PEM_write_bio_X509(out, cert); });
}

void AddExtension(int kind, const std::string& value, X509* cert) {
  const std::unique_ptr<X509_EXTENSION, void (*)(X509_EXTENSION*)> extension(
      X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str()),
      &X509_EXTENSION_free);
  BOLE_CHECK(extension != nullptr);
  BOLE_CHECK(X509_add_ext(cert, extension.get(), /*loc=*/-1) == 1);
}

void SetName(X509_NAME* to, const std::string& name) {
  BOLE_CHECK(X509_NAME_add_entry_by_txt(
                 to, "CN", MBSTRING_ASC,
                 reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1,
                 0) == 1);
}

}  // namespace

TestAuthority::Key TestAuthority::NewKey() {
  Key key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  BOLE_CHECK(key != nullptr);
  return key;
}

TestAuthority::Cert TestAuthority::Sign(const std::string& name,
                                        EVP_PKEY* subject, X509* issuer,
                                        EVP_PKEY* signer) {
  static std::atomic<long> serial{1};
  Cert cert(X509_new(), &X509_free);
  BOLE_CHECK(cert != nullptr);
  X509_set_version(cert.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), serial++);
  X509_gmtime_adj(X509_getm_notBefore(cert.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(cert.get()), 24 * 3600);
  SetName(X509_get_subject_name(cert.get()), name);
  X509_set_issuer_name(cert.get(),
                       X509_get_subject_name(issuer ? issuer : cert.get()));
  X509_set_pubkey(cert.get(), subject);
  if (issuer == nullptr) {
    AddExtension(NID_basic_constraints, "critical,CA:TRUE", cert.get());
    AddExtension(NID_key_usage, "critical,keyCertSign", cert.get());
  } else {
    AddExtension(NID_basic_constraints, "critical,CA:FALSE", cert.get());
    AddExtension(NID_subject_alt_name, "DNS:" + name, cert.get());
  }
  BOLE_CHECK(X509_sign(cert.get(), signer, EVP_sha256()) != 0);
  return cert;
}

TestAuthority::TestAuthority(const std::string& name)
    : key_(NewKey()),
      cert_(Sign(name, key_.get(), /*issuer=*/nullptr, key_.get())),
      cert_pem_(ToPem(cert_.get())) {}

CertifiedKey TestAuthority::Issue(const std::string& name) const {
  const Key key = NewKey();
  const Cert cert = Sign(name, key.get(), cert_.get(), key_.get());
  return {.cert = ToPem(cert.get()), .key = ToPem([&](BIO* out) {
                                       return PEM_write_bio_PrivateKey(
                                           out, key.get(), nullptr, nullptr, 0,
                                           nullptr, nullptr);
                                     })};
}

}  // namespace bole::testing
