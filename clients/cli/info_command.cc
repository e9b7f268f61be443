// bole info: the model and the server.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/failure.h"
#include "clients/cli/json_output.h"
#include "clients/cli/table.h"
#include "common/command_line.h"

namespace bole {
namespace {

std::string YesNo(bool value) { return value ? "yes" : "no"; }

std::string OrNone(const std::string& text) {
  return text.empty() ? "none" : text;
}

const char* SyntheticText(bool synthetic) {
  return synthetic ? ", synthetic" : "";
}

std::string ModelTable(const v1::GetModelInfoResponse& model) {
  const std::vector<TableRow> rows = {
      {"model", absl::StrCat(model.model(), SyntheticText(model.synthetic()))},
      {"context", absl::StrCat(model.max_context(), " tokens")},
      {"vocabulary", absl::StrCat(model.vocab_size(), " tokens")},
      {"stop tokens", OrNone(absl::StrJoin(model.eos_token_ids(), " "))},
      {"chat template", YesNo(model.has_chat_template())},
      {"drafter", YesNo(model.has_drafter())},
      {"sampling defaults",
       OrNone(model.default_sampling_params().ShortDebugString())},
  };
  return FormatTable(rows);
}

std::string WorkerText(const v1::WorkerInfo& worker) {
  if (!worker.connected()) {
    return absl::StrCat(worker.address(),
                        ", not connected: ", OrNone(worker.last_error()));
  }
  return absl::StrCat(worker.address(), ", ", worker.model(),
                      SyntheticText(worker.synthetic()), ", ", worker.device(),
                      ", epoch ", worker.epoch());
}

std::string PoolText(const v1::Pool& pool) {
  return absl::StrCat(pool.free(), " free of ", pool.total());
}

std::string SpeculationText(const v1::SpeculationPolicy& policy) {
  if (policy.mode() == "off") return "off";
  return absl::StrCat(policy.mode(), ", top-k ", policy.top_k(), ", depth ",
                      policy.depth(), ", ", policy.nodes(), " nodes, budget ",
                      policy.policy());
}

std::string ServerTable(const v1::GetServerInfoResponse& server,
                        const std::string& address) {
  const v1::Load& load = server.load();
  std::vector<TableRow> rows = {
      {"server", absl::StrCat(address, server.draining() ? ", draining" : "")},
      {"version", server.version()},
      {"up", FixedPoint(server.uptime_seconds(), 0) + " s"},
  };
  for (const v1::WorkerInfo& worker : server.workers()) {
    rows.push_back({"worker", WorkerText(worker)});
  }
  rows.insert(rows.end(),
              {{"requests", absl::StrCat(load.running_requests(), " running, ",
                                         load.waiting_requests(), " waiting (",
                                         load.waiting_tokens(), " tokens, ",
                                         load.waiting_bytes(), " bytes)")},
               {"slots", PoolText(load.slots())},
               {"pages", PoolText(load.pages())},
               {"audit", load.audit().empty() ? "correct" : load.audit()},
               {"speculation", SpeculationText(server.speculation())}});
  return FormatTable(rows);
}

const char* StateText(peer::v1::Scheduler::State state) {
  switch (state) {
    case peer::v1::Scheduler::LIVING:
      return "living";
    case peer::v1::Scheduler::LEAVING:
      return "leaving";
    case peer::v1::Scheduler::SILENT:
      return "silent";
    default:
      return "unknown";
  }
}

std::string ShareText(const peer::v1::ModelShare& share) {
  if (!share.known()) {
    return absl::StrCat(share.model(), ", not known yet; ", share.held(),
                        " held");
  }
  return absl::StrCat(share.model(), ", ", share.share(), " of ",
                      share.workers(), " workers; ", share.held(), " held, ",
                      share.giving_back(), " being given back");
}

std::string SharesTable(const peer::v1::GetSharesResponse& shares) {
  std::vector<TableRow> rows;
  for (const peer::v1::ModelShare& share : shares.models()) {
    rows.push_back({"share", ShareText(share)});
  }
  for (const peer::v1::Scheduler& scheduler : shares.schedulers()) {
    rows.push_back(
        {"scheduler",
         absl::StrCat(scheduler.name(), ", ", StateText(scheduler.state()),
                      scheduler.is_self() ? ", this one" : "")});
  }
  return rows.empty() ? "" : FormatTable(rows);
}

// Nothing from a scheduler that shares no workers, or is too old to tell.
peer::v1::GetSharesResponse GetShares(Connection& connection) {
  Call call(connection);
  peer::v1::GetSharesResponse shares;
  const grpc::Status status = connection.peers().GetShares(
      call.context(), peer::v1::GetSharesRequest(), &shares);
  return status.ok() ? shares : peer::v1::GetSharesResponse();
}

int Run(const ConnectionFlags& flags, Interrupt& interrupt) {
  Connection connection(flags, interrupt);
  v1::GetModelInfoResponse model;
  int exit_code = CallBole(connection, &v1::BoleService::Stub::GetModelInfo,
                           v1::GetModelInfoRequest(), model);
  if (exit_code != kExitOk) return exit_code;
  v1::GetServerInfoResponse server;
  exit_code = CallBole(connection, &v1::BoleService::Stub::GetServerInfo,
                       v1::GetServerInfoRequest(), server);
  if (exit_code != kExitOk) return exit_code;
  const peer::v1::GetSharesResponse shares = GetShares(connection);
  if (flags.json) {
    std::printf("{\"model\":%s,\"server\":%s,\"sharing\":%s}\n",
                ToJson(model).c_str(), ToJson(server).c_str(),
                ToJson(shares).c_str());
  } else {
    std::printf("%s\n%s%s", ModelTable(model).c_str(),
                ServerTable(server, flags.server).c_str(),
                SharesTable(shares).c_str());
  }
  return kExitOk;
}

}  // namespace

Command AddInfoCommand(CommandLine& app, Interrupt& interrupt) {
  auto flags = std::make_shared<ConnectionFlags>();
  CommandLine& command =
      app.AddCommand("info", "The model, the server and its load.");
  flags->AddTo(command);
  return [flags, &interrupt] { return Run(*flags, interrupt); };
}

}  // namespace bole
