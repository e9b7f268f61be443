// Command-line flags for who may reach the scheduler, and whom it trusts.
#ifndef BOLE_SCHEDULER_SERVICE_SECURITY_FLAGS_H_
#define BOLE_SCHEDULER_SERVICE_SECURITY_FLAGS_H_

#include <string>

#include "absl/status/status.h"
#include "common/command_line.h"
#include "common/net/client_credentials.h"
#include "common/net/pem_files.h"
#include "scheduler_service/scheduler_server.h"

namespace bole {

struct SecurityFlags {
  TlsFiles tls;
  std::string tokens_path;
  TlsClientFiles worker_tls;
  TlsClientFiles peer_tls;
  std::string peer_token_path;
  bool allow_remote = false;

  void AddTo(CommandLine& app);

  // Applies the flags to a server whose other options are set. An error says
  // which flags cannot be combined.
  absl::Status ApplyTo(SchedulerServerOptions& server) const;

 private:
  absl::Status CheckPeers() const;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_SECURITY_FLAGS_H_
