#include "worker_service/eval/flags.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker_service/loading/choose_backend.h"
#include "worker_service/loading/default_threads.h"
#include "worker_service/loading/loading_report.h"
#include "worker_service/ranks/rank_group.h"

namespace bole {

void ModelFlags::AddTo(CommandLine& command) {
  command
      .Add("--model", name,
           "folder of a checkpoint, or synthetic:SIZE for a model made up on "
           "the spot, such as synthetic:9B,accept=6.9")
      .Required()
      .Check([](const std::string& model) {
        return std::string(CheckModelName(model).message());
      });
  command.Add(
      "--device", device,
      "what computes: cpu, cuda, cuda:N, or auto for a GPU if there is one");
  command
      .Add("--threads", num_threads,
           "threads; 0: one for each processor, at most 16")
      .Range(0, 1024);
  AddDraftHeadFlag(command, draft_head);
  AddDraftWeightsFlag(command, draft_weights);
}

void ModelFlags::AddRanksTo(CommandLine& command) {
  command
      .Add("--ranks", num_ranks,
           "processes that the model is cut among (tensor parallelism); rank R "
           "of \"cuda:N\" is on GPU N + R")
      .Range(1, kMaxRanks);
  AddCollectivesFlag(command, collectives);
}

absl::StatusOr<RunningModel> Load(const ModelFlags& flags,
                                  std::shared_ptr<Communicator> ranks) {
  if (ranks != nullptr && flags.device == "auto") {
    return absl::InvalidArgumentError(
        "--ranks needs a --device that is named, cpu or cuda");
  }
  const int threads =
      std::max(1, ThreadsOrDefault(flags.num_threads) / flags.num_ranks);
  RunningModel running;
  BOLE_ASSIGN_OR_RETURN(running.backend,
                        ChooseBackend(flags.device, threads, std::move(ranks),
                                      flags.collectives));
  // Only the first rank reports its progress.
  const bool is_first = running.backend->rank().index == 0;
  BOLE_ASSIGN_OR_RETURN(
      running.model,
      LoadModel(flags.name, *running.backend,
                is_first ? ReportLoading(stderr) : OnLoadProgress()));
  PrintNotes("bole-eval", running.model);
  BOLE_RETURN_IF_ERROR(SetDraftHead(flags.name, flags.draft_head,
                                    *running.backend, running.model));
  BOLE_RETURN_IF_ERROR(SetDraftWeights(flags.draft_weights, *running.backend,
                                       *running.model.weights));
  return running;
}

absl::StatusOr<RunningModel> LoadWithTokenizer(
    const ModelFlags& flags, std::shared_ptr<Communicator> ranks) {
  BOLE_ASSIGN_OR_RETURN(RunningModel running, Load(flags, std::move(ranks)));
  if (running.model.tokenizer == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(flags.name,
                     "/tokenizer.json: there is no such file, "
                     "and text needs one"));
  }
  return running;
}

namespace {

void AddSamplingFlags(CommandLine& command, SamplingParams& sampling) {
  command.Add("--temperature", sampling.temperature,
              "0: always the likeliest token");
  command.Add("--top-p", sampling.top_p,
              "draw from the likeliest tokens that make up this much");
  command.Add("--sample-top-k", sampling.top_k,
              "draw from so many likeliest tokens; 0: all");
  command.Add("--min-p", sampling.min_p,
              "draw from tokens of at least this share of the likeliest");
  command.Add("--presence-penalty", sampling.presence_penalty,
              "subtracted from tokens that are in the output");
  command.Add("--frequency-penalty", sampling.frequency_penalty,
              "subtracted as often as a token is in the output");
  command.Add("--repetition-penalty", sampling.repetition_penalty,
              "divides the logits of tokens that were there before");
  command.Add("--seed", sampling.seed, "one seed and one prompt give one text");
}

}  // namespace

void GenerateFlags::AddTo(CommandLine& command) {
  command.Add("--max-tokens", max_tokens, "tokens to generate at most")
      .Range(1, 1 << 20);
  command.Add("--speculation", speculation, "what the drafter proposes")
      .OneOf({"off", "chain", "tree"});
  command.Add("--top-k", shape.top_k, "tree: children of every expanded node")
      .Range(1, kMaxDraftTopK);
  command.Add("--depth", shape.depth, "levels that are drafted")
      .Range(1, kMaxDraftDepth);
  command
      .Add("--nodes", nodes,
           "nodes verified per round and prompt, the root included")
      .Range(1, 128);
  command.Add("--batch", batch, "prompts that run together").Range(1, 1024);
  command
      .Add("--lease-rounds", lease_rounds,
           "rounds that the device runs on its own before the next plan")
      .Range(1, kMaxLeaseRounds);
  command.AddSwitch("--ignore-eos", ignore_eos,
                    "go on after the model's stop tokens");
  AddSamplingFlags(command, sampling);
}

absl::StatusOr<GenerateOptions> GenerateFlags::Options(
    const LoadedModel& model) const {
  GenerateOptions options{.draft = std::nullopt,
                          .max_nodes_per_tree = nodes,
                          .max_batch = batch,
                          .lease_rounds = lease_rounds};
  if (speculation == "off") {
    options.max_nodes_per_tree = 1;
    return options;
  }
  if (!model.weights->drafter) {
    return absl::InvalidArgumentError(
        absl::StrCat("--speculation ", speculation,
                     ": the checkpoint has no drafter (mtp.* tensors); use "
                     "--speculation off"));
  }
  options.draft = shape;
  if (speculation == "chain") {
    options.draft->top_k = 1;
    options.max_nodes_per_tree = shape.depth + 1;
  }
  return options;
}

GenerateRequest GenerateFlags::Request(std::vector<int32_t> prompt,
                                       const LoadedModel& model) const {
  GenerateRequest request{
      .prompt = std::move(prompt), .sampling = sampling, .stop_tokens = {}};
  request.sampling.max_tokens = max_tokens;
  if (!ignore_eos) request.stop_tokens = model.stop_tokens;
  return request;
}

}  // namespace bole
