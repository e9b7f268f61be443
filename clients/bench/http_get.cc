#include "clients/bench/http_get.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/http_url.h"
#include "common/status_macros.h"
#include "httplib.h"

namespace bole::bench {

namespace {

// While there is one, a connection that the server has closed is an error to
// this thread, and no signal, which would end the process.
class SigpipeBlock {
 public:
  SigpipeBlock() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&only_);
    sigaddset(&only_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &only_, &before_);
  }
  ~SigpipeBlock() {
    constexpr timespec kNow = {};
    if (!was_pending_) sigtimedwait(&only_, /*info=*/nullptr, &kNow);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  SigpipeBlock(const SigpipeBlock&) = delete;
  SigpipeBlock& operator=(const SigpipeBlock&) = delete;

 private:
  sigset_t only_;
  sigset_t before_;
  bool was_pending_ = false;
};

// Whether what is sent stays on this machine.
bool IsLocal(const std::string& host) {
  const bool numeric =
      host.find_first_not_of("0123456789.") == std::string::npos;
  return host == "localhost" || host == "::1" ||
         (numeric && absl::StartsWith(host, "127."));
}

}  // namespace

absl::StatusOr<std::string> HttpGet(const std::string& url,
                                    const HttpGetOptions& options) {
  BOLE_ASSIGN_OR_RETURN(const HttpUrl parsed, ParseHttpUrl(url));
  constexpr std::chrono::seconds kTimeout(5);
  constexpr int kOk = 200;
  httplib::Client client(
      absl::StrCat(parsed.tls ? "https://" : "http://", Authority(parsed)),
      options.cert_file, options.key_file);
  if (!client.is_valid()) {
    return absl::InvalidArgumentError(
        absl::StrCat(url, ": ", options.cert_file, " and ", options.key_file,
                     " are no certificate and its key in PEM"));
  }
  client.set_connection_timeout(kTimeout);
  client.set_read_timeout(kTimeout);
  if (!options.ca_file.empty()) client.set_ca_cert_path(options.ca_file);
  httplib::Headers headers = {{"Connection", "close"}};
  if (!options.authorization.empty() && (parsed.tls || IsLocal(parsed.host))) {
    headers.emplace("Authorization", options.authorization);
  }
  const SigpipeBlock block;
  const httplib::Result answer = client.Get(parsed.path, headers);
  if (!answer) {
    const std::string why =
        absl::StrCat(url, ": ", httplib::to_string(answer.error()));
    if (answer.error() == httplib::Error::SSLLoadingCerts) {
      return absl::InvalidArgumentError(
          absl::StrCat(why, " of ", options.ca_file));
    }
    return absl::UnavailableError(why);
  }
  if (answer->status != kOk) {
    return absl::FailedPreconditionError(
        absl::StrCat(url, " answers with HTTP status ", answer->status));
  }
  return answer->body;
}

}  // namespace bole::bench
