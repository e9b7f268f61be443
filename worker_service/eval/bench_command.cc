#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/command_line.h"
#include "common/status_macros.h"
#include "kernels/communicator.h"
#include "nlohmann/json.hpp"
#include "worker_service/eval/bench_decode.h"
#include "worker_service/eval/bench_prefill.h"
#include "worker_service/eval/bench_report.h"
#include "worker_service/eval/commands.h"
#include "worker_service/eval/every_rank.h"
#include "worker_service/eval/flags.h"
#include "worker_service/eval/json_file.h"

namespace bole {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  ModelFlags model;
  std::vector<std::string> modes = {"plain", "chain", "serial", "neumann",
                                    "blocks"};
  std::vector<int> batch = {1, 2, 4, 8, 16};
  std::vector<int> tree_nodes = {64};
  DraftShape shape;
  std::vector<int> chain_depths = {3, 5, 8};
  int prompt_tokens = 1024;
  int output_tokens = 256;
  float temperature = 0;
  int lease_rounds = 1;
  bool breakdown = false;
  int prefill = 0;  // Tokens; 0: none.
  int prefill_chunk = 8192;
  std::string json;
  std::string commit;
};

class Bench {
 public:
  Bench(const Flags& flags, const LoadedModel& model, Backend& backend)
      : flags_(flags), model_(model), backend_(backend) {}

  absl::Status Run() {
    out_["gpu"] = backend_.description();
    out_["model"] = ModelName(flags_.model.name);
    if (!model_.text.empty()) out_["text"] = model_.text;
    out_["commit"] = flags_.commit;
    out_["step_bytes"] = StepBytes();
    if (flags_.breakdown) BOLE_RETURN_IF_ERROR(Phases());
    if (flags_.prefill > 0) BOLE_RETURN_IF_ERROR(Prefill());
    BOLE_RETURN_IF_ERROR(Decode());
    return absl::OkStatus();
  }

  // What has been measured so far, even after an error.
  const Json& out() const { return out_; }

 private:
  // The nodes verified per request at the i-th batch size.
  int TreeNodes(size_t i) const {
    return flags_.tree_nodes[std::min(i, flags_.tree_nodes.size() - 1)];
  }

  // The bytes that a step with one row per request must at least move, from
  // which lower bounds on its time follow.
  Json StepBytes() const {
    const auto element =
        static_cast<int64_t>(ElementBytes(backend_.activation_type()));
    Json weights = Json::object();
    for (const int batch : flags_.batch) {
      weights[std::to_string(batch)] = ElementsRead(model_, batch) * element;
    }
    return {{"weights_at_batch", weights},
            {"state_of_request", StateBytes(model_.config)},
            {"kv_of_token", KvElements(model_.config) * element}};
  }

  absl::Status Decode() {
    if (flags_.modes == std::vector<std::string>{"none"}) {
      return absl::OkStatus();
    }
    PrintDecodeHeader();
    for (size_t i = 0; i < flags_.batch.size(); ++i) {
      for (const std::string& mode : flags_.modes) {
        BOLE_RETURN_IF_ERROR(DecodeMode(mode, flags_.batch[i], TreeNodes(i)));
      }
    }
    return absl::OkStatus();
  }

  absl::Status DecodeMode(const std::string& mode, int batch, int nodes) {
    DecodeCase decode{.draft = flags_.shape,
                      .nodes = nodes,
                      .batch = batch,
                      .prompt_tokens = flags_.prompt_tokens,
                      .output_tokens = flags_.output_tokens,
                      .temperature = flags_.temperature,
                      .lease_rounds = flags_.lease_rounds};
    if (mode == "plain") {
      decode.draft = std::nullopt;
      decode.nodes = 1;
    } else if (mode == "chain") {
      for (const int depth : flags_.chain_depths) {
        decode.draft = DraftShape{.top_k = 1, .depth = depth};
        decode.nodes = depth + 1;
        BOLE_RETURN_IF_ERROR(DecodeOnce(mode, decode));
      }
      return absl::OkStatus();
    } else if (mode == "serial") {
      decode.solver = TreeSolver::kSerial;
    } else if (mode == "neumann") {
      decode.solver = TreeSolver::kNeumann;
    }
    return DecodeOnce(mode, decode);
  }

  absl::Status DecodeOnce(const std::string& mode, const DecodeCase& decode) {
    const absl::StatusOr<DecodeTimes> times =
        RunDecode(model_, backend_, decode);
    if (absl::IsResourceExhausted(times.status())) {
      // Keeping the state of every node needs much memory; the other modes may
      // fit.
      std::printf("%-8s %5d does not fit: %s\n", mode.c_str(), decode.batch,
                  std::string(times.status().message()).c_str());
      out_["decode"].push_back(
          {{"mode", mode}, {"batch", decode.batch}, {"does_not_fit", true}});
      return absl::OkStatus();
    }
    BOLE_RETURN_IF_ERROR(times.status());
    const DecodeRow row{mode, decode, *times, plain_speed_[decode.batch]};
    if (mode == "plain") plain_speed_[decode.batch] = row.speed();
    PrintRow(row);
    out_["decode"].push_back(ToJson(row));
    return absl::OkStatus();
  }

  // The times of the phases of a round, for plain decoding and for trees.
  absl::Status Phases() {
    std::printf("%-8s %5s %5s %11s %10s %9s  draft/forward\n", "mode", "batch",
                "nodes", "forward ms", "accept ms", "draft ms");
    for (size_t i = 0; i < flags_.batch.size(); ++i) {
      DecodeCase decode{.draft = std::nullopt,
                        .batch = flags_.batch[i],
                        .prompt_tokens = flags_.prompt_tokens,
                        .output_tokens = flags_.output_tokens,
                        .temperature = flags_.temperature,
                        .time_phases = true};
      BOLE_RETURN_IF_ERROR(PhasesOf("plain", decode));
      decode.draft = flags_.shape;
      decode.nodes = TreeNodes(i);
      BOLE_RETURN_IF_ERROR(PhasesOf("blocks", decode));
    }
    return absl::OkStatus();
  }

  absl::Status PhasesOf(const std::string& mode, const DecodeCase& decode) {
    BOLE_ASSIGN_OR_RETURN(const DecodeTimes times,
                          RunDecode(model_, backend_, decode));
    const double ms = 1e3 / static_cast<double>(times.device.rounds);
    std::printf("%-8s %5d %5d %11.3f %10.4f %9.3f %8.1f%%\n", mode.c_str(),
                decode.batch, decode.nodes, times.device.forward * ms,
                times.device.accept * ms, times.device.draft * ms,
                100 * times.device.draft / times.device.forward);
    std::fflush(stdout);
    out_["phases"].push_back(ToJson({mode, decode, times, 0}));
    return absl::OkStatus();
  }

  absl::Status Prefill() {
    BOLE_ASSIGN_OR_RETURN(const double rate, MatrixRate(backend_, 8192));
    const int chunk = std::min(flags_.prefill, flags_.prefill_chunk);
    BOLE_ASSIGN_OR_RETURN(
        const double seconds,
        PrefillSeconds(model_, backend_, flags_.prefill, chunk));
    const double speed = flags_.prefill / seconds;
    const double share =
        static_cast<double>(ElementsPerToken(model_)) * speed / rate;
    std::printf(
        "prefill of %d tokens in chunks of %d: %.1f ms, %.0f tokens/s, %.1f%% "
        "of %.0f TFLOP/s\n",
        flags_.prefill, chunk, 1e3 * seconds, speed, 100 * share, 2e-12 * rate);
    std::fflush(stdout);
    out_["prefill"] = {{"tokens", flags_.prefill},
                       {"chunk", chunk},
                       {"ms", 1e3 * seconds},
                       {"tokens_per_second", speed},
                       {"flops_per_token", 2 * ElementsPerToken(model_)},
                       {"matrix_flops_per_second", 2 * rate},
                       {"share_of_matrix_rate", share}};
    return absl::OkStatus();
  }

  const Flags& flags_;
  const LoadedModel& model_;
  Backend& backend_;
  std::map<int, double> plain_speed_;  // By batch.
  Json out_;
};

absl::Status RunOnRank(const Flags& flags,
                       const std::shared_ptr<Communicator>& ranks) {
  BOLE_ASSIGN_OR_RETURN(const RunningModel running, Load(flags.model, ranks));
  const LoadedModel& model = running.model;
  if (!model.weights->drafter && (flags.breakdown || flags.modes.size() > 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        flags.model.name, " has no drafter: only --modes plain or none"));
  }
  std::printf("%s on %s\n", ModelName(flags.model.name).c_str(),
              running.backend->description().c_str());
  if (!model.text.empty()) std::printf("%s\n", model.text.c_str());
  std::fflush(stdout);
  Bench bench(flags, model, *running.backend);
  absl::Status status = bench.Run();
  if (!flags.json.empty() && IsFirst(ranks.get())) {
    status.Update(WriteJson(flags.json, bench.out()));
  }
  return status;
}

void AddNumbers(CommandLine& command, const std::string& name,
                std::vector<int>& values, const std::string& text) {
  command.Add(name, values, text).Range(1, 1 << 20);
}

void AddDecodeFlags(CommandLine& command, Flags& flags) {
  command
      .Add("--modes", flags.modes,
           "plain decoding, a chain, and a tree verified node by node, by the "
           "finite series, and by blocks; or none")
      .OneOf({"plain", "chain", "serial", "neumann", "blocks", "none"});
  AddNumbers(command, "--batch", flags.batch, "requests that run together");
  AddNumbers(command, "--tree-nodes", flags.tree_nodes,
             "nodes verified per request and round: one number, or one for "
             "each batch");
  command.Add("--top-k", flags.shape.top_k, "of a tree")
      .Range(1, kMaxDraftTopK);
  command.Add("--depth", flags.shape.depth, "of a tree")
      .Range(1, kMaxDraftDepth);
  AddNumbers(command, "--chain-depths", flags.chain_depths,
             "of chains; each is a run");
  command.Add("--prompt-tokens", flags.prompt_tokens, "of a request")
      .Range(1, 1 << 18);
  command.Add("--output-tokens", flags.output_tokens, "of a request")
      .Range(2, 1 << 18);
  command.Add("--temperature", flags.temperature, "0: greedy");
  command
      .Add("--lease-rounds", flags.lease_rounds,
           "rounds that the device runs by itself; 1: the host plans each")
      .Range(1, kMaxLeaseRounds);
}

void AddPartFlags(CommandLine& command, Flags& flags) {
  command.AddSwitch("--breakdown", flags.breakdown,
                    "the phases of a round, of plain decoding and of a tree");
  command
      .Add("--prefill", flags.prefill,
           "also time the prefill of so many tokens; 0: none")
      .Range(0, 1 << 18);
  command
      .Add("--prefill-chunk", flags.prefill_chunk,
           "tokens of it that run together")
      .Range(64, 1 << 18);
  command.Add("--json", flags.json, "file to write the numbers to");
  command.Add("--commit", flags.commit,
              "of the source, to be told in the file");
}

}  // namespace

Command AddBenchCommand(CommandLine& app) {
  auto flags = std::make_shared<Flags>();
  CommandLine& command =
      app.AddCommand("bench",
                     "Time offline decoding at a fixed batch in several ways, "
                     "and the parts of a round.");
  flags->model.AddTo(command);
  flags->model.AddRanksTo(command);
  AddDecodeFlags(command, *flags);
  AddPartFlags(command, *flags);
  return [flags] {
    return OnEveryRank(flags->model.num_ranks,
                       [&](const std::shared_ptr<Communicator>& ranks) {
                         return RunOnRank(*flags, ranks);
                       });
  };
}

}  // namespace bole
