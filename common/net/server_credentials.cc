#include "common/net/server_credentials.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/net/pem_files.h"
#include "common/status_macros.h"
#include "grpc/grpc.h"
#include "grpc/grpc_security.h"
#include "grpcpp/security/auth_metadata_processor.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace bole {
namespace {

// The two values of a call's metadata that a guard sees.
class CallHead {
 public:
  void Add(std::string_view key, std::string_view value) {
    if (key == ":path") method_ = value;
    if (key != "authorization") return;
    absl::StrAppend(&authorization_, has_authorization_ ? "," : "",
                    absl::string_view(value.data(), value.size()));
    has_authorization_ = true;
  }
  grpc::Status Ask(const CallGuard& guard) const {
    return guard(method_, authorization_);
  }

 private:
  std::string method_;
  std::string authorization_;
  bool has_authorization_ = false;
};

class GuardProcessor final : public grpc::AuthMetadataProcessor {
 public:
  explicit GuardProcessor(CallGuard guard) : guard_(std::move(guard)) {}

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext*,
                       OutputMetadata*, OutputMetadata*) override {
    CallHead head;
    for (const auto& [key, value] : metadata) {
      head.Add({key.data(), key.size()}, {value.data(), value.size()});
    }
    return head.Ask(guard_);
  }

 private:
  const CallGuard guard_;
};

std::string_view TextOf(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)),
          GRPC_SLICE_LENGTH(slice)};
}

// What grpc::InsecureServerCredentials() makes, which takes no processor.
class GuardedPlaintext final : public grpc::ServerCredentials {
 public:
  explicit GuardedPlaintext(CallGuard guard) : guard_(std::move(guard)) {}

  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address,
                      grpc_server* server) override {
    grpc_server_credentials* credentials =
        grpc_insecure_server_credentials_create();
    // The server may outlive this object, and has a guard of its own.
    grpc_server_credentials_set_auth_metadata_processor(
        credentials, {.process = &Process,
                      .destroy = &Destroy,
                      .state = new CallGuard(guard_)});
    // The credentials own the guard, which the analyzer does not know.
    const int port =
        // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks)
        grpc_server_add_http2_port(server, address.c_str(), credentials);
    grpc_server_credentials_release(credentials);
    return port;
  }

  static void Process(void* guard, grpc_auth_context*,
                      const grpc_metadata* metadata, size_t count,
                      grpc_process_auth_metadata_done_cb done, void* call) {
    CallHead head;
    for (size_t i = 0; i < count; ++i) {
      head.Add(TextOf(metadata[i].key), TextOf(metadata[i].value));
    }
    const grpc::Status status = head.Ask(*static_cast<CallGuard*>(guard));
    done(call, nullptr, 0, nullptr, 0,
         static_cast<grpc_status_code>(status.error_code()),
         status.ok() ? nullptr : status.error_message().c_str());
  }
  static void Destroy(void* guard) { delete static_cast<CallGuard*>(guard); }

  const CallGuard guard_;
};

std::shared_ptr<grpc::ServerCredentials> MakeTls(const TlsFiles& files) {
  using grpc::experimental::FileWatcherCertificateProvider;
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<FileWatcherCertificateProvider>(
          files.key, files.cert, files.client_ca, kPemRefreshSeconds));
  options.watch_identity_key_cert_pairs();
  if (!files.client_ca.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsFiles& files, CallGuard guard) {
  BOLE_RETURN_IF_ERROR(Check(files));
  if (files.empty()) {
    if (!guard) return grpc::InsecureServerCredentials();
    return std::make_shared<GuardedPlaintext>(std::move(guard));
  }
  std::shared_ptr<grpc::ServerCredentials> credentials = MakeTls(files);
  if (guard) {
    credentials->SetAuthMetadataProcessor(
        std::make_shared<GuardProcessor>(std::move(guard)));
  }
  return credentials;
}

}  // namespace bole
