// Certificates that a test makes for itself.
#ifndef BOLE_TESTS_COMMON_NET_TEST_CERTIFICATES_H_
#define BOLE_TESTS_COMMON_NET_TEST_CERTIFICATES_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace bole::testing {

// In PEM.
struct CertifiedKey {
  std::string cert;
  std::string key;
};

// An authority whose certificates are valid from an hour ago for a day.
class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name);

  // What those need who believe it, in PEM.
  const std::string& cert() const { return cert_pem_; }

  // For servers and clients alike. `name` is a DNS name.
  CertifiedKey Issue(const std::string& name) const;

 private:
  using Key = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;
  using Cert = std::unique_ptr<X509, void (*)(X509*)>;

  static Key NewKey();
  // `issuer` may be null: then the certificate is its own issuer.
  static Cert Sign(const std::string& name, EVP_PKEY* subject, X509* issuer,
                   EVP_PKEY* signer);

  const Key key_;
  const Cert cert_;
  const std::string cert_pem_;
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_COMMON_NET_TEST_CERTIFICATES_H_
