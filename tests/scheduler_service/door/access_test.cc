#include "scheduler_service/door/access.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/sha256.h"
#include "gtest/gtest.h"
#include "prometheus/registry.h"
#include "tests/scheduler_service/door/tiny_door.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::string Line(const std::string& token, const std::string& rest) {
  return absl::StrCat(Sha256Hex(token), " ", rest, "\n");
}

class AccessTest : public ::testing::Test {
 protected:
  void Write(const std::string& text) {
    std::ofstream(path_, std::ios::trunc) << text;
  }
  absl::Status Open() {
    auto access =
        Access::Open({.path = path_,
                      .poll_interval = milliseconds(5),
                      .note = [this](const std::string&) { ++notes_; }},
                     registry_);
    if (access.ok()) access_ = *std::move(access);
    return access.status();
  }
  // The tenant, or the reason of the refusal.
  std::string Ask(const std::string& authorization,
                  const std::string& tenant = "",
                  std::optional<Scope> scope = Scope::kGenerate) {
    auto who = access_->Authorize(authorization, tenant, scope);
    if (auto* refusal = std::get_if<Refusal>(&who)) {
      EXPECT_EQ(refusal->message.find("secret"), std::string::npos);
      return NameOf(refusal->reason);
    }
    return std::get<Identity>(who).tenant;
  }
  void AwaitNotes(int count) {
    const auto deadline = steady_clock::now() + std::chrono::seconds(20);
    while (notes_ < count && steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(2));
    }
    ASSERT_EQ(notes_, count);
  }

  const std::string path_ = absl::StrCat(
      ::testing::TempDir(), "/",
      ::testing::UnitTest::GetInstance()->current_test_info()->name());
  prometheus::Registry registry_;
  std::atomic<int> notes_{0};
  std::unique_ptr<Access> access_;
};

TEST_F(AccessTest, ATokenGivesItsTenantAndItsScopesAlone) {
  Write(absl::StrCat("# keys\n\n", Line("secret-a", "blue generate"),
                     Line("secret-b", "ops metrics,admin")));
  ASSERT_TRUE(Open().ok());

  EXPECT_EQ(Ask("Bearer secret-a"), "blue");
  EXPECT_EQ(Ask("bearer secret-a", "blue"), "blue");
  EXPECT_EQ(Ask("Bearer secret-a", "blue.x"), "forbidden");
  EXPECT_EQ(Ask("Bearer secret-a", "", Scope::kAdmin), "forbidden");
  EXPECT_EQ(Ask("Bearer secret-b", "", Scope::kAdmin), "ops");
  EXPECT_EQ(Ask("Bearer secret-b"), "forbidden");
  EXPECT_EQ(Ask("Bearer secret-b", "", std::nullopt), "ops");
  for (const std::string wrong :
       {"", "Bearer", "Bearer ", "Bearer secret-c", "Basic secret-a",
        "secret-a", "Bearer secret-a,Bearer secret-a"}) {
    EXPECT_EQ(Ask(wrong), "unauthenticated") << wrong;
    EXPECT_EQ(Ask(wrong, "", std::nullopt), "unauthenticated") << wrong;
  }
  // A digest is no token.
  EXPECT_EQ(Ask("Bearer " + Sha256Hex("secret-a")), "unauthenticated");
}

TEST_F(AccessTest, AWrongFileIsAnErrorThatNamesTheLineAndNotTheToken) {
  const std::string good = Line("secret-a", "blue generate");
  for (const std::string& wrong :
       {std::string(), std::string("# nobody\n"),
        std::string("secret-a blue generate\n"), good + good,
        Line("secret-a", "blue"), Line("secret-a", "b/c generate"),
        Line("secret-a", "blue root"), Line("secret-a", "blue generate,"),
        Line("secret-a", "blue generate concurrent=0"),
        Line("secret-a", "blue generate speed=1"),
        Line("secret-a", "blue generate concurrent=1 concurrent=2"),
        good + Line("secret-b", "blue generate concurrent=1")}) {
    Write(wrong);
    const absl::Status status = Open();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_NE(status.message().find(path_), absl::string_view::npos);
    EXPECT_EQ(status.message().find("secret"), absl::string_view::npos);
  }
  Write(good);
  std::filesystem::permissions(path_, std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  EXPECT_EQ(Open().code(), absl::StatusCode::kPermissionDenied);
  std::filesystem::remove(path_);
  EXPECT_EQ(Open().code(), absl::StatusCode::kNotFound);
}

TEST_F(AccessTest, AChangedFileIsReadAgainAndAWrongOneChangesNothing) {
  Write(Line("secret-a", "blue generate"));
  ASSERT_TRUE(Open().ok());

  Write(Line("secret-b", "red generate"));
  AwaitNotes(1);
  EXPECT_EQ(Ask("Bearer secret-a"), "unauthenticated");
  EXPECT_EQ(Ask("Bearer secret-b"), "red");

  Write("nonsense\n");
  AwaitNotes(2);
  EXPECT_EQ(Ask("Bearer secret-b"), "red");
  std::filesystem::remove(path_);
  AwaitNotes(3);
  EXPECT_EQ(Ask("Bearer secret-b"), "red");

  double wrong = 0;
  for (const auto& family : registry_.Collect()) {
    for (const auto& metric : family.metric) {
      if (metric.label.at(0).value == "wrong") wrong = metric.counter.value;
    }
  }
  EXPECT_EQ(wrong, 2);
}

TEST_F(AccessTest, TheTokensOfATenantShareItsPlaces) {
  Write(absl::StrCat(Line("secret-a", "blue generate concurrent=2"),
                     Line("secret-b", "blue generate concurrent=2"),
                     Line("secret-c", "red generate")));
  ASSERT_TRUE(Open().ok());
  auto one = access_->Enter({.tenant = "blue"});
  auto two = access_->Enter({.tenant = "blue"});

  auto three = access_->Enter({.tenant = "blue"});
  ASSERT_TRUE(std::holds_alternative<Refusal>(three));
  EXPECT_EQ(std::get<Refusal>(three).reason, RefusalReason::kTenantBusy);
  EXPECT_FALSE(access_->Check({.tenant = "red"}).has_value());

  two = Refusal{.reason = RefusalReason::kTenantBusy, .message = ""};
  EXPECT_FALSE(access_->Check({.tenant = "blue"}).has_value());
}

TEST_F(AccessTest, TheDoorAsksForATokenBeforeAnythingElse) {
  Write(Line("secret-a", "blue generate concurrent=1"));
  ASSERT_TRUE(Open().ok());
  testing::TinyDoor tiny({}, {}, access_.get());
  tiny.ConnectWorker();
  const auto body = [](const ModelText&, const WorkerDescription&) {
    RequestBody body;
    body.prompt = std::vector<int32_t>{1, 2};
    return absl::StatusOr<RequestBody>(body);
  };

  auto nobody = tiny.door.Check({.tenant = "blue", .model = "none"});
  ASSERT_TRUE(nobody.has_value());
  EXPECT_EQ(nobody->reason, RefusalReason::kUnauthenticated);
  EXPECT_TRUE(tiny.door.Authorize({}, std::nullopt).has_value());
  EXPECT_EQ(
      tiny.door.Authorize({.authorization = "Bearer secret-a"}, Scope::kAdmin)
          ->reason,
      RefusalReason::kForbidden);

  auto read = tiny.door.Read({.authorization = "Bearer secret-a"}, body);
  ASSERT_TRUE(std::holds_alternative<ReadMessage>(read));
  EXPECT_EQ(std::get<ReadMessage>(read).choices.requests[0]->tenant, "blue");
  auto second = tiny.door.Check({.authorization = "Bearer secret-a"});
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->reason, RefusalReason::kTenantBusy);
  EXPECT_TRUE(second->retry_after.has_value());
  // Their place goes with the requests.
  std::get<ReadMessage>(read).choices.requests.clear();
  EXPECT_FALSE(
      tiny.door.Check({.authorization = "Bearer secret-a"}).has_value());
}

TEST(TenantAccountTest, AMinutesWorthMayComeAtOnceAndDebtIsPaidBack) {
  const auto account = std::make_shared<TenantAccount>();
  const TenantLimits limits{.requests_per_minute = 60,
                            .prompt_tokens_per_minute = 600};
  const steady_clock::time_point start = steady_clock::now();
  for (int i = 0; i < 60; ++i) {
    ASSERT_TRUE(std::holds_alternative<std::shared_ptr<TenantSeat>>(
        account->Enter(limits, start)));
  }
  const auto busy = account->Check(limits, start);
  ASSERT_TRUE(busy.has_value());
  EXPECT_EQ(busy->retry_after, milliseconds(1000));
  const auto later = start + std::chrono::seconds(30);
  auto seat = account->Enter(limits, later);
  ASSERT_TRUE(std::holds_alternative<std::shared_ptr<TenantSeat>>(seat));

  std::get<std::shared_ptr<TenantSeat>>(seat)->Charge(1200);
  EXPECT_GT(account->Check(limits, later)->retry_after,
            std::chrono::seconds(59));
  EXPECT_FALSE(
      account->Check(limits, later + std::chrono::seconds(61)).has_value());
}

}  // namespace
}  // namespace bole
