// bole info: the models, the server, its workers and its load.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/failure.h"
#include "clients/cli/output.h"
#include "common/command_line.h"
#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"

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
      {"model", absl::StrCat(model.model(), SyntheticText(model.synthetic()),
                             model.ready() ? "" : ", without a worker")},
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

std::string PoolText(const v1::Pool& pool) {
  return absl::StrCat(pool.free(), " free of ", pool.total());
}

std::string WorkerText(const v1::WorkerInfo& worker) {
  if (!worker.connected()) {
    return absl::StrCat(worker.address(),
                        ", not connected: ", OrNone(worker.last_error()));
  }
  return absl::StrCat(
      worker.address(), ", ", worker.model(), SyntheticText(worker.synthetic()),
      ", ", worker.device(), ", epoch ", worker.epoch(),
      worker.draining() ? ", draining" : "", ", ", worker.running_requests(),
      " running, slots ", PoolText(worker.slots()), ", pages ",
      PoolText(worker.pages()));
}

std::string LoadText(const v1::Load& load) {
  return absl::StrCat(load.running_requests(), " running, ",
                      load.waiting_requests(), " waiting (",
                      load.waiting_tokens(), " tokens, ", load.waiting_bytes(),
                      " bytes)");
}

std::string ProblemText(const v1::AuditProblem& problem) {
  return problem.worker().empty()
             ? problem.text()
             : absl::StrCat("worker ", problem.worker(), ": ", problem.text());
}

// All that the server tells.
struct Info {
  v1::ListModelsResponse models;
  v1::GetServerInfoResponse server;
  v1::ListWorkersResponse workers;
  v1::GetLoadResponse load;
  v1::AuditResponse audit;
  peer::v1::GetSharesResponse shares;
};

std::string ServerTable(const Info& info, const std::string& address) {
  const v1::GetServerInfoResponse& server = info.server;
  std::vector<TableRow> rows = {
      {"server", absl::StrCat(address, server.draining() ? ", draining" : "")},
      {"version", server.version()},
      {"up", FixedPoint(server.uptime_seconds(), 0) + " s"},
      {"speculation", SpeculationText(server.speculation())},
  };
  for (const v1::WorkerInfo& worker : info.workers.workers()) {
    rows.push_back({"worker", WorkerText(worker)});
  }
  rows.push_back({"requests", LoadText(info.load.total())});
  if (info.load.models_size() > 1) {
    for (const v1::Load& load : info.load.models()) {
      rows.push_back({"requests of " + load.model(), LoadText(load)});
    }
  }
  for (const v1::AuditProblem& problem : info.audit.problems()) {
    rows.push_back({"audit", ProblemText(problem)});
  }
  if (info.audit.problems().empty()) rows.push_back({"audit", "correct"});
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

std::string InfoJson(const Info& info) {
  const auto parsed = [](const google::protobuf::Message& message) {
    return nlohmann::ordered_json::parse(ToJson(message));
  };
  const nlohmann::ordered_json json = {
      {"models", parsed(info.models)["models"]},
      {"server", parsed(info.server)},
      {"workers", parsed(info.workers)["workers"]},
      {"load", parsed(info.load)},
      {"problems", parsed(info.audit)["problems"]},
      {"sharing", parsed(info.shares)}};
  return json.dump();
}

// The model that was named, or else all of them. Returns the exit code.
int AskModels(Connection& connection, v1::ListModelsResponse& models) {
  if (connection.model().empty()) {
    return AskServer(connection, &Client::ListModels, models);
  }
  return CallServer(connection, &Client::GetModelInfo,
                    v1::GetModelInfoRequest(), *models.add_models());
}

// Nothing from a scheduler that shares no workers, or is too old to tell.
peer::v1::GetSharesResponse GetShares(Connection& connection) {
  Call call(connection);
  peer::v1::GetSharesResponse shares;
  const grpc::Status status = connection.peers().GetShares(
      call.context(), peer::v1::GetSharesRequest(), &shares);
  return status.ok() ? shares : peer::v1::GetSharesResponse();
}

int Ask(Connection& connection, Info& info) {
  int exit_code = AskModels(connection, info.models);
  if (exit_code != kExitOk) return exit_code;
  exit_code = AskServer(connection, &Client::GetServerInfo, info.server);
  if (exit_code != kExitOk) return exit_code;
  exit_code = AskServer(connection, &Client::ListWorkers, info.workers);
  if (exit_code != kExitOk) return exit_code;
  exit_code = AskServer(connection, &Client::GetLoad, info.load);
  if (exit_code != kExitOk) return exit_code;
  exit_code = AskServer(connection, &Client::Audit, info.audit);
  if (exit_code == kExitOk) info.shares = GetShares(connection);
  return exit_code;
}

int Run(const ConnectionFlags& flags, Interrupt& interrupt) {
  Connection connection(flags, interrupt);
  Info info;
  const int exit_code = Ask(connection, info);
  if (exit_code != kExitOk) return exit_code;
  if (flags.json) {
    std::puts(InfoJson(info).c_str());
    return kExitOk;
  }
  for (const v1::GetModelInfoResponse& model : info.models.models()) {
    std::printf("%s\n", ModelTable(model).c_str());
  }
  std::fputs(ServerTable(info, flags.server).c_str(), stdout);
  std::fputs(SharesTable(info.shares).c_str(), stdout);
  return kExitOk;
}

}  // namespace

Command AddInfoCommand(CommandLine& app, Interrupt& interrupt) {
  auto flags = std::make_shared<ConnectionFlags>();
  CommandLine& command = app.AddCommand(
      "info", "The models, the server, its workers and its load.");
  flags->AddTo(command);
  return [flags, &interrupt] { return Run(*flags, interrupt); };
}

}  // namespace bole
