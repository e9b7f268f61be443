#include "common/net/pem_files.h"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <limits>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace bole {
namespace {

template <typename T>
using Owned = std::unique_ptr<T, void (*)(T*)>;

absl::Status CannotRead(const std::string& path, const char* what) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, " cannot be read, or is no ", what, " in PEM"));
}

// What `read` makes of the first PEM block of its kind in the file.
template <typename T>
absl::StatusOr<Owned<T>> ReadPem(const std::string& path, const char* what,
                                 T* (*read)(BIO*, T**, pem_password_cb*, void*),
                                 void (*free)(T*)) {
  const Owned<BIO> file(BIO_new_file(path.c_str(), "r"), &BIO_free_all);
  char no_password[] = "";
  Owned<T> object(
      file ? read(file.get(), nullptr, nullptr, no_password) : nullptr, free);
  if (object) return object;
  return CannotRead(path, what);
}

absl::StatusOr<Owned<X509>> ReadCertificate(const std::string& path) {
  return ReadPem<X509>(path, "certificate", &PEM_read_bio_X509, &X509_free);
}

}  // namespace

absl::Status CheckKeyPair(const std::string& cert_path,
                          const std::string& key_path) {
  if (cert_path.empty() || key_path.empty()) {
    return absl::InvalidArgumentError(
        "TLS needs a certificate and its private key: one of the two is not "
        "named");
  }
  BOLE_ASSIGN_OR_RETURN(const Owned<X509> cert, ReadCertificate(cert_path));
  BOLE_ASSIGN_OR_RETURN(
      const Owned<EVP_PKEY> key,
      ReadPem<EVP_PKEY>(key_path, "private key", &PEM_read_bio_PrivateKey,
                        &EVP_PKEY_free));
  if (X509_check_private_key(cert.get(), key.get()) == 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(key_path, " is not the private key of ", cert_path));
}

absl::Status CheckCertificates(const std::string& path) {
  return ReadCertificate(path).status();
}

absl::Status Check(const TlsFiles& files) {
  if (files.empty()) {
    if (files.client_ca.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "certificates of clients need TLS: a certificate and its key");
  }
  BOLE_RETURN_IF_ERROR(CheckKeyPair(files.cert, files.key));
  if (files.client_ca.empty()) return absl::OkStatus();
  return CheckCertificates(files.client_ca);
}

absl::StatusOr<int64_t> EndOfCertificates(const std::string& path) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  const Owned<BIO> file(BIO_new_file(path.c_str(), "r"), &BIO_free_all);
  int64_t first = kNone;
  while (file) {
    char no_password[] = "";
    const Owned<X509> cert(
        PEM_read_bio_X509(file.get(), nullptr, nullptr, no_password),
        &X509_free);
    if (!cert) break;  // No more of them; keys between them are passed over.
    std::tm end{};
    if (ASN1_TIME_to_tm(X509_get0_notAfter(cert.get()), &end) != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " has a certificate without an end"));
    }
    first = std::min<int64_t>(first, timegm(&end));
  }
  if (first == kNone) return CannotRead(path, "certificate");
  return first;
}

}  // namespace bole
