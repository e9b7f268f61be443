// Callers with certificates and tokens, through the SDK.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/bench/http_get.h"
#include "clients/sdk/client.h"
#include "clients/sdk/client_options.h"
#include "clients/sdk/requests.h"
#include "common/check.h"
#include "common/log/log.h"
#include "common/mutex.h"
#include "common/sha256.h"
#include "gtest/gtest.h"
#include "scheduler_service/door/http/http_router.h"
#include "scheduler_service/scheduler_server.h"
#include "scheduler_service/watch/request_watch.h"
#include "tests/common/net/test_certificates.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"
#include "tests/scheduler_service/simulated_worker.h"
#include "tests/scheduler_service/tiny_system.h"
#include "tests/worker_service/model/files.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::CertifiedKey;
using testing::Eventually;
using testing::SimulatedService;
using testing::SimulatedWorker;
using testing::TestAuthority;

constexpr char kServerName[] = "localhost";
constexpr char kOldToken[] = "old-canary-token";
constexpr char kNewToken[] = "new-canary-token";
constexpr char kAdminToken[] = "admin-canary-token";
constexpr char kMetricsToken[] = "metrics-canary-token";

std::string Line(const std::string& token, const std::string& rest) {
  return absl::StrCat(Sha256Hex(token), " ", rest, "\n");
}

// A scheduler that asks for a certificate and a token, and a worker.
class SchedulerAccessTest : public ::testing::Test {
 protected:
  SchedulerAccessTest() : worker_(SimulatedWorker::SmallLimits()) {
    directory_.Write("tokenizer.json", testing::TinyTokenizerJson());
    const CertifiedKey server = authority_.Issue(kServerName);
    WriteTokens(Line(kOldToken, "blue generate") +
                Line(kAdminToken, "ops admin") +
                Line(kMetricsToken, "ops metrics"));
    auto started = SchedulerServer::Start(
        {.models = {"tiny=" + directory_.path()},
         .metrics_address = "127.0.0.1:0",
         .workers = {worker_.address()},
         .note = [this](const std::string& what) { Note(what); },
         .tls = {.cert = directory_.Write("cert.pem", server.cert),
                 .key = directory_.Write("key.pem", server.key),
                 .client_ca = directory_.Write("ca.pem", authority_.cert())},
         .tokens_path = directory_.File("tokens"),
         .watch = {.log = &log_, .logged = LoggedRequests::kAll}});
    BOLE_CHECK(started.ok());
    server_ = *std::move(started);
    BOLE_CHECK(Eventually(
        [&] { return server_->loop().status().num_connected() == 1; }));
  }
  ~SchedulerAccessTest() override { server_->Stop(); }

  // As programs that rotate tokens do: another file of the same name.
  void WriteTokens(const std::string& text) {
    std::filesystem::rename(directory_.Write("tokens.new", text),
                            directory_.File("tokens"));
  }

  // Sends each call once.
  std::unique_ptr<Client> ClientWith(const std::string& token,
                                     const TestAuthority* certified_by) {
    ClientOptions options{.address = server_->address().ToString(),
                          .ca_file = directory_.File("ca.pem"),
                          .server_name = kServerName,
                          .token = token,
                          .timeout = seconds(20),
                          .retry = {.max_attempts = 1, .max_resumes = 0},
                          .own_connection = true};
    if (certified_by != nullptr) {
      const CertifiedKey own = certified_by->Issue("client.test");
      options.cert_file = directory_.Write("client.pem", own.cert);
      options.key_file = directory_.Write("client_key.pem", own.key);
    }
    auto client = Client::Create(options);
    BOLE_CHECK(client.ok());
    return *std::move(client);
  }
  absl::Status Generate(Client& client, const std::string& prompt = "q") {
    v1::GenerateRequest request = TextRequest(prompt);
    request.mutable_sampling_params()->set_max_tokens(5);
    const auto stream = client.Generate(std::move(request));
    while (stream->Next() != nullptr) continue;
    return stream->status();
  }

  // A page of the listener for metrics.
  absl::StatusOr<std::string> Scrape(const std::string& token,
                                     const TestAuthority* certified_by,
                                     const std::string& path = "/metrics") {
    bench::HttpGetOptions options{.ca_file = directory_.File("ca.pem")};
    if (!token.empty()) options.authorization = "Bearer " + token;
    if (certified_by != nullptr) {
      const CertifiedKey own = certified_by->Issue("scraper.test");
      options.cert_file = directory_.Write("scraper.pem", own.cert);
      options.key_file = directory_.Write("scraper_key.pem", own.key);
    }
    return bench::HttpGet(absl::StrCat("https://", kServerName, ":",
                                       server_->metrics_port(), path),
                          options);
  }

  void Note(const std::string& what) {
    MutexLock lock(mutex_);
    notes_.push_back(what);
  }
  std::vector<std::string> notes() {
    MutexLock lock(mutex_);
    return notes_;
  }
  bool AwaitTokens(const char* what) {
    return Eventually([&] {
      for (const std::string& note : notes()) {
        if (note.find(what) != std::string::npos) return true;
      }
      return false;
    });
  }

  const TestAuthority authority_{"authority"};
  const TestAuthority stranger_{"stranger"};
  const ScopedDirectory directory_;
  SimulatedService worker_;
  Mutex mutex_;
  std::vector<std::string> notes_;
  const Log log_{LogFormat::kJson, "test",
                 [this](const std::string& line) { Note(line); }};
  std::unique_ptr<SchedulerServer> server_;
};

TEST_F(SchedulerAccessTest, ACertificateAndATokenOfTheScopeAreBothNeeded) {
  EXPECT_TRUE(Generate(*ClientWith(kOldToken, &authority_)).ok());
  EXPECT_TRUE(ClientWith(kAdminToken, &authority_)->ListWorkers().ok());

  const auto generate = [&](const char* token, const TestAuthority* by) {
    return Generate(*ClientWith(token, by)).code();
  };
  EXPECT_EQ(generate(kOldToken, nullptr), absl::StatusCode::kUnavailable);
  EXPECT_EQ(generate(kOldToken, &stranger_), absl::StatusCode::kUnavailable);
  EXPECT_EQ(generate("", &authority_), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(generate(kNewToken, &authority_),
            absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(generate(kAdminToken, &authority_),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(ClientWith(kOldToken, &authority_)->ListWorkers().status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(SchedulerAccessTest, MetricsNeedACertificateAndATokenOfTheirScope) {
  const auto refused = [&](const std::string& token, const char* http_status) {
    const absl::Status status = Scrape(token, &authority_).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_NE(status.message().find(http_status), absl::string_view::npos)
        << status;
  };

  const auto metrics = Scrape(kMetricsToken, &authority_);
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  EXPECT_NE(metrics->find("\nbole_requests_running{model=\"tiny\"} 0\n"),
            std::string::npos);

  refused("", "401");
  refused(kNewToken, "401");
  refused(kOldToken, "403");
  refused(kAdminToken, "403");
  EXPECT_TRUE(absl::IsUnavailable(Scrape(kMetricsToken, nullptr).status()));
  EXPECT_TRUE(absl::IsUnavailable(Scrape(kMetricsToken, &stranger_).status()));
  EXPECT_TRUE(absl::IsUnavailable(
      bench::HttpGet(absl::StrCat("http://127.0.0.1:", server_->metrics_port(),
                                  "/metrics"))
          .status()));
}

TEST_F(SchedulerAccessTest, NothingButMetricsIsWhereTheyAre) {
  for (const HttpRoute& route : HttpRoutes()) {
    if (route.name == HttpRouteName::kMetrics) continue;
    for (const char* token : {kOldToken, kAdminToken, kMetricsToken}) {
      const absl::Status status =
          Scrape(token, &authority_, std::string(route.path)).status();
      EXPECT_NE(status.message().find("404"), absl::string_view::npos)
          << route.path << " " << status;
    }
  }
}

TEST_F(SchedulerAccessTest, TokensRotateUnderLoadWithoutAFailedCall) {
  const auto old_client = ClientWith(kOldToken, &authority_);
  const auto new_client = ClientWith(kNewToken, &authority_);
  std::atomic<Client*> current{old_client.get()};
  std::atomic<bool> stop{false};
  std::atomic<int> num_calls{0};
  std::vector<std::vector<std::string>> failures(2);
  std::vector<std::thread> callers;
  for (std::vector<std::string>& mine : failures) {
    callers.emplace_back([&] {
      while (!stop) {
        const absl::Status status = Generate(*current.load());
        ++num_calls;
        if (!status.ok()) mine.push_back(status.ToString());
      }
    });
  }
  // Both are good, then everybody takes the new one, then the old one ends.
  WriteTokens(Line(kOldToken, "blue generate") +
              Line(kNewToken, "blue generate"));
  EXPECT_TRUE(Eventually([&] { return Generate(*new_client).ok(); }));
  const int num_with_old = num_calls;
  current = new_client.get();
  ASSERT_TRUE(Eventually([&] { return num_calls > num_with_old + 4; }));
  WriteTokens(Line(kNewToken, "blue generate"));
  EXPECT_TRUE(Eventually(
      [&] { return absl::IsUnauthenticated(Generate(*old_client)); }));
  const int num_with_new = num_calls;
  EXPECT_TRUE(Eventually([&] { return num_calls > num_with_new + 4; }));
  stop = true;
  for (std::thread& caller : callers) caller.join();

  for (const auto& mine : failures) {
    EXPECT_EQ(mine, std::vector<std::string>());
  }
}

TEST_F(SchedulerAccessTest, NoTokenAndNoPromptIsInErrorsNotesMetricsOrLogs) {
  constexpr char kPrompt[] = "prompt-canary";
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  std::vector<absl::Status> errors;
  const auto generate = [&](Client& client, const auto& change) {
    v1::GenerateRequest request = TextRequest(kPrompt);
    request.mutable_sampling_params()->set_max_tokens(5);
    change(request);
    const auto stream =
        client.Generate(std::move(request), {.timeout = seconds(2)});
    while (stream->Next() != nullptr) continue;
    errors.push_back(stream->status());
  };
  const auto good = ClientWith(kOldToken, &authority_);
  const auto as_it_is = [](v1::GenerateRequest&) {};
  const auto chat = [&](const std::string& role, v1::GenerateRequest& request) {
    AddMessage(role, kPrompt, *request.mutable_chat());
  };

  EXPECT_TRUE(Generate(*good, kPrompt).ok());
  EXPECT_TRUE(good->Tokenize([&] {
                    v1::TokenizeRequest request;
                    request.set_text(kPrompt);
                    return request;
                  }())
                  .ok());
  for (const char* token : {"", kAdminToken, kNewToken}) {
    generate(*ClientWith(token, &authority_), as_it_is);
  }
  generate(*ClientWith(kOldToken, &stranger_), as_it_is);
  generate(*good, [&](v1::GenerateRequest& request) {
    request.mutable_text()->append(std::string(5 << 20, 'x'));
  });
  generate(*good, [](v1::GenerateRequest& request) {
    request.mutable_sampling_params()->set_temperature(-1);
  });
  generate(*good, [](v1::GenerateRequest& request) {
    request.mutable_sampling_params()->set_top_p(2);
  });
  generate(*good,
           [](v1::GenerateRequest& request) { request.set_model("another"); });
  generate(*good, [&](v1::GenerateRequest& request) { chat("user", request); });
  generate(*good, [&](v1::GenerateRequest& request) {
    request.mutable_sampling_params()->add_stop(kPrompt +
                                                std::string(300, 'x'));
  });
  EXPECT_FALSE(Scrape(kOldToken, &authority_).ok());
  WriteTokens(Line(kNewToken, "blue generate") + kOldToken + " blue generate");
  EXPECT_TRUE(AwaitTokens("the old ones stay"));
  worker_.Leave();
  generate(*good, as_it_is);
  const auto metrics = Scrape(kMetricsToken, &authority_);
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  server_->Stop();
  std::string told = absl::StrCat(::testing::internal::GetCapturedStdout(),
                                  ::testing::internal::GetCapturedStderr(),
                                  *metrics, absl::StrJoin(notes(), "\n"));
  for (size_t i = 0; i < errors.size(); ++i) {
    EXPECT_FALSE(errors[i].ok()) << i;
    absl::StrAppend(&told, "\n", errors[i].ToString());
  }

  EXPECT_NE(metrics->find("bole_calls_denied_total"), std::string::npos);
  for (const char* line :
       {R"("message":"a request ended")",
        R"("message":"a request was refused")", R"("tenant":"blue")",
        R"("reason":"unknown_model")"}) {
    EXPECT_NE(told.find(line), std::string::npos) << line << "\n" << told;
  }
  EXPECT_EQ(told.find("canary"), std::string::npos) << told;
  for (const char* token : {kOldToken, kNewToken, kAdminToken, kMetricsToken}) {
    EXPECT_EQ(told.find(Sha256Hex(token)), std::string::npos) << token;
  }
}

}  // namespace
}  // namespace bole
