#include "worker_service/loading/loaded_model.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/chat/chat_template.h"
#include "common/status_macros.h"
#include "worker_service/model/checkpoint.h"
#include "worker_service/model/checkpoint_tensors.h"
#include "worker_service/model/checkpoint_tokens.h"
#include "worker_service/model/markov_chain.h"
#include "worker_service/model/model_shard.h"
#include "worker_service/model/published_sizes.h"
#include "worker_service/model/simulated_drafter.h"
#include "worker_service/model/synthetic_spec.h"
#include "worker_service/model/synthetic_weights.h"

namespace bole {

namespace {

// Describes to people how many drafts of a synthetic model are accepted.
std::string TextOf(const MarkovChain& chain, std::span<const int32_t> listed,
                   const VerifiedTree& tree) {
  const auto mean = [&](const VerifiedTree& of) {
    return MeanAcceptedTokens(chain, listed, of);
  };
  return absl::StrFormat(
      "synthetic text of %d tokens, %d of them in the drafter's list: greedy "
      "decoding accepts %.2f tokens a round with a tree of top-k %d, depth %d "
      "and %d nodes, %.2f with a chain of 3, %.2f of 5, %.2f of 8",
      chain.options.num_tokens, std::ssize(listed), mean(tree),
      tree.shape.top_k, tree.shape.depth, tree.nodes,
      mean(VerifiedTree::Chain(3)), mean(VerifiedTree::Chain(5)),
      mean(VerifiedTree::Chain(8)));
}

absl::StatusOr<LoadedModel> MakeSynthetic(const std::string& name,
                                          Backend& backend) {
  BOLE_ASSIGN_OR_RETURN(const SyntheticSpec spec, ParseSyntheticSpec(name));
  LoadedModel model;
  BOLE_ASSIGN_OR_RETURN(model.config, ConfigOfSize(spec.size));
  ModelConfig& config = model.config;
  model.num_ids = config.vocab_size;
  if (spec.layers && *spec.layers < config.num_layers()) {
    config.layer_kinds.resize(*spec.layers);
  }
  model.generation.do_sample = false;  // `accept` refers to greedy decoding.
  MarkovChain chain = MakeMarkovChain(
      {.num_tokens = std::min(
           spec.tokens, config.vocab_size / kStretchTokens * kStretchTokens),
       .entropy = spec.entropy,
       .spread = spec.spread,
       .seed = spec.seed});
  model.listed_tokens = ListedTokens(chain, spec.outside);
  if (spec.noise) {
    SetDraftNoise(*spec.noise, chain);
  } else {
    const absl::Status reached =
        SetAcceptedTokens(spec.accept, model.listed_tokens, spec.tree, chain);
    if (!reached.ok()) return Annotate(reached, name);
  }
  model.text = TextOf(chain, model.listed_tokens, spec.tree);
  BOLE_ASSIGN_OR_RETURN(const ModelShard shard,
                        ShardOf(config, backend.rank()));
  BOLE_ASSIGN_OR_RETURN(
      Weights weights,
      GenerateWeights({.chain = chain, .seed = spec.seed}, shard,
                      /*store=*/backend, /*device=*/backend));
  config = shard.config;
  model.weights = std::make_unique<Weights>(std::move(weights));
  return model;
}

absl::Status LoadGeneration(const std::string& directory, LoadedModel& model) {
  BOLE_ASSIGN_OR_RETURN(const std::optional<GenerationConfig> generation,
                        LoadGenerationConfig(directory));
  model.generation = generation.value_or(GenerationConfig{});
  if (!generation) {
    model.notes.push_back(absl::StrCat(
        "there is no generation_config.json, so requests are drawn with ",
        DescribeDefaults(model.generation), " unless they say otherwise"));
  }
  return absl::OkStatus();
}

absl::Status LoadTokens(const std::string& directory, LoadedModel& model) {
  BOLE_ASSIGN_OR_RETURN(
      CheckpointTokens tokens,
      LoadCheckpointTokens(directory, model.config, model.generation));
  model.tokenizer = std::move(tokens.tokenizer);
  model.num_ids = tokens.num_ids;
  model.stop_tokens = std::move(tokens.stop_tokens);
  if (model.tokenizer == nullptr && model.num_ids) {
    model.notes.push_back(absl::StrCat(
        "there is no tokenizer.json; vocab.json and tokenizer_config.json list "
        "ids below ",
        *model.num_ids, ", and the others of ", model.config.vocab_size,
        " are never drawn"));
  }
  if (!model.stop_tokens.empty()) return absl::OkStatus();
  constexpr char kNoStop[] =
      "neither eos_token_id of config.json or generation_config.json nor "
      "eos_token of tokenizer_config.json names a token that ends a text";
  if (!absl::IsNotFound(ChatTemplate::LoadFromCheckpoint(directory).status())) {
    return absl::InvalidArgumentError(
        absl::StrCat(directory, ": ", kNoStop,
                     ", so that a chat would never stop; add one of them"));
  }
  model.notes.push_back(absl::StrCat(
      kNoStop, ", so texts end only where a request's own limits say"));
  return absl::OkStatus();
}

// Notes if the tensors and config.json disagree about a drafter; the tensors
// decide.
void NoteDrafter(LoadedModel& model) {
  const bool is_told = model.config.num_mtp_layers > 0;
  if (is_told == model.weights->drafter.has_value()) return;
  model.notes.push_back(
      is_told ? "there are no mtp.* tensors, so nothing is drafted and every "
                "round writes one token"
              : "config.json says mtp_num_hidden_layers 0, but there are mtp.* "
                "tensors, which are used as the drafter");
}

absl::StatusOr<LoadedModel> LoadCheckpoint(const std::string& directory,
                                           Backend& backend,
                                           const OnLoadProgress& on_progress) {
  LoadedModel model;
  BOLE_ASSIGN_OR_RETURN(model.config, LoadModelConfig(directory));
  BOLE_RETURN_IF_ERROR(LoadGeneration(directory, model));
  BOLE_RETURN_IF_ERROR(LoadTokens(directory, model));
  BOLE_ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                        Checkpoint::Open(directory));
  BOLE_ASSIGN_OR_RETURN(const CheckpointTensors tensors,
                        ResolveTensors(checkpoint.tensors(), model.config));
  BOLE_ASSIGN_OR_RETURN(const ModelShard shard,
                        ShardOf(model.config, backend.rank()));
  BOLE_ASSIGN_OR_RETURN(Weights weights,
                        LoadWeights(tensors, shard, /*store=*/backend,
                                    /*device=*/backend, on_progress));
  model.config = shard.config;
  model.weights = std::make_unique<Weights>(std::move(weights));
  NoteDrafter(model);
  return model;
}

}  // namespace

absl::StatusOr<LoadedModel> LoadModel(const std::string& model,
                                      Backend& backend,
                                      const OnLoadProgress& on_progress) {
  return IsSynthetic(model) ? MakeSynthetic(model, backend)
                            : LoadCheckpoint(model, backend, on_progress);
}

void PrintNotes(const char* program, const LoadedModel& model) {
  for (const std::string& note : model.notes) {
    std::fprintf(stderr, "%s: %s\n", program, note.c_str());
  }
}

absl::Status CheckModelName(const std::string& model) {
  if (IsSynthetic(model)) {
    BOLE_ASSIGN_OR_RETURN(const SyntheticSpec spec, ParseSyntheticSpec(model));
    return ConfigOfSize(spec.size).status();
  }
  std::error_code error;
  if (std::filesystem::is_directory(model, error)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(model, ": there is no such folder"));
}

std::string ModelName(const std::string& model) {
  if (IsSynthetic(model)) return model;
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(model, error);
  return error ? model : path.filename().string();
}

}  // namespace bole
