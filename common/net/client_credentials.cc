#include "common/net/client_credentials.h"

#include "absl/status/status.h"
#include "common/net/pem_files.h"
#include "common/status_macros.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace bole {
namespace {

absl::Status Check(const TlsClientFiles& files) {
  if (files.ca.empty()) {
    if (files.cert.empty() && files.key.empty() && files.server_name.empty()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "a certificate and a server's name need TLS: certificates of "
        "authorities");
  }
  BOLE_RETURN_IF_ERROR(CheckCertificates(files.ca));
  if (files.cert.empty() && files.key.empty()) return absl::OkStatus();
  return CheckKeyPair(files.cert, files.key);
}

}  // namespace

ClientCredentials::ClientCredentials()
    : credentials_(grpc::InsecureChannelCredentials()) {}

absl::StatusOr<ClientCredentials> ClientCredentials::Open(
    const TlsClientFiles& files) {
  using grpc::experimental::FileWatcherCertificateProvider;
  BOLE_RETURN_IF_ERROR(Check(files));
  ClientCredentials opened;
  if (files.empty()) return opened;
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<FileWatcherCertificateProvider>(
          files.key, files.cert, files.ca, kPemRefreshSeconds));
  options.watch_root_certs();
  if (!files.cert.empty()) options.watch_identity_key_cert_pairs();
  opened.credentials_ = grpc::experimental::TlsCredentials(options);
  opened.server_name_ = files.server_name;
  return opened;
}

std::shared_ptr<grpc::Channel> ClientCredentials::ChannelTo(
    const std::string& address, grpc::ChannelArguments arguments) const {
  if (!server_name_.empty()) arguments.SetSslTargetNameOverride(server_name_);
  return grpc::CreateCustomChannel(address, credentials_, arguments);
}

}  // namespace bole
