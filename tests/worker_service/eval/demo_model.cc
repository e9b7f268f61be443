#include "tests/worker_service/eval/demo_model.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "kernels/reference/reference_backend.h"
#include "nlohmann/json.hpp"

namespace bole::testing_support {
namespace {

template <typename T>
T ValueOrDie(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  std::abort();
}

}  // namespace

nlohmann::json ReadGoldenJson(const std::string& name) {
  std::ifstream file("tests/golden/demo/" + name);
  return nlohmann::json::parse(file);
}

DemoModel::DemoModel()
    : backend_(std::make_unique<ReferenceBackend>(/*num_threads=*/1)),
      model_(ValueOrDie(LoadModel("models/demo", *backend_))) {}

DemoModel& DemoModel::Get() {
  static DemoModel model;
  return model;
}

std::vector<std::vector<int32_t>> DemoModel::Prompts() const {
  const nlohmann::json golden = ReadGoldenJson("mat.json");
  std::vector<std::vector<int32_t>> prompts;
  for (const nlohmann::json& text : golden["prompts"]) {
    prompts.push_back(
        ValueOrDie(model_.tokenizer->Encode(text.get<std::string>())));
  }
  return prompts;
}

std::vector<GenerateResult> DemoModel::Run(
    const GenerateOptions& options,
    const std::vector<GenerateRequest>& requests) {
  size_t context = 0;
  for (const GenerateRequest& request : requests) {
    context =
        std::max(context, request.prompt.size() + *request.sampling.max_tokens);
  }
  const std::unique_ptr<Engine> engine = ValueOrDie(
      Engine::Create(model_.config, *model_.weights, *backend_,
                     EngineOptionsFor(options, static_cast<int>(context),
                                      model_.num_valid_tokens())));
  return ValueOrDie(Generate(*engine, options, requests, nullptr));
}

GenerateOptions Off(int max_batch) {
  return {
      .draft = std::nullopt, .max_nodes_per_tree = 1, .max_batch = max_batch};
}

GenerateOptions Chain(int depth, int max_batch) {
  return {.draft = DraftShape{.top_k = 1, .depth = depth},
          .max_nodes_per_tree = depth + 1,
          .max_batch = max_batch};
}

GenerateOptions Tree(int draft_nodes, int max_batch) {
  return {.draft = DraftShape{.top_k = 4, .depth = 8},
          .max_nodes_per_tree = draft_nodes + 1,
          .max_batch = max_batch};
}

std::vector<int32_t> Tokens(const GenerateResult& result) {
  std::vector<int32_t> tokens;
  for (const EmittedToken& token : result.output) {
    tokens.push_back(token.token);
  }
  return tokens;
}

}  // namespace bole::testing_support
