#include "scheduler_service/door/access.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/tokenizer/read_file.h"
#include "prometheus/counter.h"

namespace bole {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr char kScheme[] = "Bearer ";

absl::StatusOr<GrantTable> Load(const std::string& path) {
  const auto read = [&]() -> absl::StatusOr<GrantTable> {
    BOLE_ASSIGN_OR_RETURN(const std::string text,
                          ReadFile(path, kMaxFileBytes));
    struct stat is;
    if (stat(path.c_str(), &is) != 0 || (is.st_mode & S_IWOTH) != 0) {
      return absl::PermissionDeniedError("everybody may write it");
    }
    return GrantTable::Parse(text);
  };
  absl::StatusOr<GrantTable> table = read();
  if (table.ok()) return table;
  return absl::Status(
      table.status().code(),
      absl::StrCat("tokens in ", path, ": ", table.status().message()));
}

Refusal Unauthenticated(const char* why) {
  return {.reason = RefusalReason::kUnauthenticated, .message = why};
}

}  // namespace

struct Access::Counters {
  explicit Counters(prometheus::Registry& registry)
      : loads(prometheus::BuildCounter()
                  .Name("bole_token_file_reads_total")
                  .Help("Times that the file of tokens had changed, by whether "
                        "it was taken.")
                  .Register(registry)),
        taken(loads.Add({{"result", "taken"}})),
        wrong(loads.Add({{"result", "wrong"}})) {}

  prometheus::Family<prometheus::Counter>& loads;
  prometheus::Counter& taken;
  prometheus::Counter& wrong;
};

absl::StatusOr<std::unique_ptr<Access>> Access::Open(
    AccessOptions options, prometheus::Registry& registry) {
  std::string stamp = StampOf({options.path});
  BOLE_ASSIGN_OR_RETURN(GrantTable table, Load(options.path));
  return std::unique_ptr<Access>(new Access(
      std::move(options), std::move(table), std::move(stamp), registry));
}

Access::Access(AccessOptions options, GrantTable table, std::string stamp,
               prometheus::Registry& registry)
    : options_(std::move(options)),
      counters_(std::make_unique<Counters>(registry)),
      table_(std::make_shared<const GrantTable>(std::move(table))),
      watch_({options_.path}, std::move(stamp), options_.poll_interval,
             [this] { Reload(); }) {}

Access::~Access() = default;

void Access::Reload() {
  absl::StatusOr<GrantTable> table = Load(options_.path);
  (table.ok() ? counters_->taken : counters_->wrong).Increment();
  if (options_.note) {
    options_.note(
        table.ok()
            ? absl::StrCat("tokens in ", options_.path, " were read again")
            : absl::StrCat(table.status().message(), "; the old ones stay"));
  }
  if (!table.ok()) return;
  MutexLock lock(mutex_);
  table_ = std::make_shared<const GrantTable>(*std::move(table));
}

std::shared_ptr<const GrantTable> Access::table() const {
  MutexLock lock(mutex_);
  return table_;
}

std::variant<Identity, Refusal> Access::Authorize(
    std::string_view authorization, std::string_view tenant,
    std::optional<Scope> scope) const {
  constexpr size_t kSchemeBytes = sizeof(kScheme) - 1;
  const absl::string_view scheme(authorization.data(),
                                 std::min(authorization.size(), kSchemeBytes));
  if (authorization.empty()) return Unauthenticated("a bearer token is needed");
  if (!absl::EqualsIgnoreCase(scheme, kScheme)) {
    return Unauthenticated("authorization is not a bearer token");
  }
  authorization.remove_prefix(kSchemeBytes);
  const std::shared_ptr<const GrantTable> current = table();
  const TokenGrant* grant = current->Find(authorization);
  if (grant == nullptr) return Unauthenticated("the token is not known");
  if (scope && !grant->scopes.Has(*scope)) {
    return Refusal{.reason = RefusalReason::kForbidden,
                   .message = absl::StrCat("the token does not have the scope ",
                                           NameOf(*scope))};
  }
  if (!tenant.empty() && tenant != grant->tenant) {
    return Refusal{.reason = RefusalReason::kForbidden,
                   .message = "bole-tenant is not the token's tenant",
                   .field = "bole-tenant"};
  }
  return Identity{.tenant = grant->tenant};
}

TenantLimits Access::LimitsOf(const Identity& who) const {
  const std::shared_ptr<const GrantTable> current = table();
  // The table may have been read again since.
  if (!current->HasTenant(who.tenant)) return {};
  return current->LimitsOf(who.tenant);
}

std::shared_ptr<TenantAccount> Access::AccountOf(const std::string& tenant) {
  MutexLock lock(mutex_);
  std::shared_ptr<TenantAccount>& account = accounts_[tenant];
  if (account == nullptr) account = std::make_shared<TenantAccount>();
  return account;
}

std::optional<Refusal> Access::Check(const Identity& who) {
  return AccountOf(who.tenant)
      ->Check(LimitsOf(who), std::chrono::steady_clock::now());
}

std::variant<std::shared_ptr<TenantSeat>, Refusal> Access::Enter(
    const Identity& who) {
  return AccountOf(who.tenant)
      ->Enter(LimitsOf(who), std::chrono::steady_clock::now());
}

}  // namespace bole
