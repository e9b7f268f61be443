#include "tests/worker_service/engine/checkpoint_driver.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/packed_forest.h"
#include "common/select_nodes.h"
#include "gtest/gtest.h"
#include "worker_service/model/layer_context.h"
#include "worker_service/model/mtp_layer.h"

namespace bole::testing_support {
namespace {

// Nothing but the pending token.
ProposalTree RootOf(const std::vector<int32_t>& tokens) {
  return {.parent = {kNoParent}, .token = {tokens.back()}, .log_rho = {0}};
}

}  // namespace

int NumTokens(const LoadedModel& model) {
  return model.num_valid_tokens() > 0 ? model.num_valid_tokens()
                                      : model.config.vocab_size;
}

CheckpointDriver::CheckpointDriver(const LoadedModel& model, Backend& backend,
                                   int page_size)
    : model_(model), backend_(backend) {
  EngineOptions options{.max_requests = kMostTogether,
                        .max_nodes = 40,
                        .max_nodes_per_tree = 16,
                        .max_prefill_tokens = kMaxContext,
                        .max_draft = kTree,
                        .num_slots = kRequests + kCheckpoints,
                        .page_size = page_size,
                        .max_context = kMaxContext,
                        .num_valid_tokens = NumTokens(model)};
  options.num_pages = kRequests * options.MaxPagesPerRequest();
  options.num_host_slots = kCheckpoints;
  options.num_host_pages = kCheckpoints * options.MaxPagesPerRequest();
  auto engine = Engine::Create(model.config, *model.weights, backend, options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  engine_ = *std::move(engine);
}

void CheckpointDriver::Begin(int number, std::vector<int32_t> prompt,
                             const SamplingParams& sampling) {
  Request& request = requests_[number];
  request = {};
  request.tokens = std::move(prompt);
  request.tree = RootOf(request.tokens);
  request.plan = {.slot = SlotId(number),
                  .sampling = sampling,
                  .prompt_length = static_cast<int32_t>(request.tokens.size()),
                  .max_new_tokens = kMaxContext};
  const int pages = engine_->limits().MaxPages();
  for (int i = 0; i < pages; ++i) {
    request.plan.pages.emplace_back(number * pages + i);
  }
}

void CheckpointDriver::Begin(int number, std::vector<int32_t> prompt,
                             const SamplingParams& sampling,
                             const LeftCheckpoint& from, const GoingOn& how) {
  Begin(number, std::move(prompt), sampling);
  Request& request = requests_[number];
  request.plan.committed = from.length;
  request.undrafted = how.shows_tail ? std::max(from.undrafted, 1) : 0;
  MemoryCopies& copies = from.on_host ? from_host_ : copies_;
  copies.slots.push_back({.from = from.slot,
                          .to = request.plan.slot,
                          .output_to_prompt = how.output_to_prompt});
  // The drafter's entries of the tail end with that of the pending token.
  const int first_written = (from.length - std::max(request.undrafted - 1, 0)) /
                            engine_->limits().page_size;
  const int last = (from.length - 1) / engine_->limits().page_size;
  for (int i = 0; i <= last; ++i) {
    if (!from.on_host && i < first_written) {
      request.plan.pages[i] = from.pages[i];
    } else if (how.copies_page) {
      copies.pages.push_back(
          {.from = from.pages[i], .to = request.plan.pages[i]});
    }
  }
}

void CheckpointDriver::GoOnInPlace(int number, std::vector<int32_t> prompt) {
  Request& request = requests_[number];
  request.plan.prompt_length = static_cast<int32_t>(prompt.size());
  request.tokens = std::move(prompt);
  request.undrafted = std::max(request.undrafted, 1);
}

LeftCheckpoint CheckpointDriver::Leave(int number, int index) {
  const Request& request = requests_[number];
  LeftCheckpoint left{.slot = SlotId(kRequests + index),
                      .length = request.plan.committed,
                      .pages = request.plan.pages,
                      .undrafted = request.undrafted};
  copies_.slots.push_back({.from = request.plan.slot, .to = left.slot});
  return left;
}

LeftCheckpoint CheckpointDriver::LeaveOnHost(int number, int index) {
  const Request& request = requests_[number];
  LeftCheckpoint left{.slot = SlotId(index),
                      .length = request.plan.committed,
                      .undrafted = request.undrafted,
                      .on_host = true};
  to_host_.slots.push_back({.from = request.plan.slot, .to = left.slot});
  const StepLimits& limits = engine_->limits();
  for (int i = 0; i * limits.page_size < left.length; ++i) {
    left.pages.emplace_back(index * limits.MaxPages() + i);
    to_host_.pages.push_back(
        {.from = request.plan.pages[i], .to = left.pages[i]});
  }
  return left;
}

void CheckpointDriver::AddChunk(int number, int num_tokens) {
  const int left = requests_[number].plan.prompt_length - committed(number);
  chunks_.emplace_back(number, std::min(num_tokens, left));
}

void CheckpointDriver::AddTree(int number, int nodes) {
  trees_.emplace_back(number, nodes);
}

SequencePlan CheckpointDriver::PlanOf(Request& request, bool shows_tail) {
  SequencePlan plan = request.plan;
  if (!shows_tail) return plan;
  const auto end = request.tokens.begin() + plan.committed + 1;
  plan.draft_tail = {end - request.undrafted, end};
  request.undrafted = 0;
  return plan;
}

StepResult CheckpointDriver::Run(const std::optional<DraftShape>& draft) {
  StepPlan plan{.to_host = std::exchange(to_host_, {}),
                .from_host = std::exchange(from_host_, {}),
                .copies = std::exchange(copies_, {}),
                .draft = draft,
                .defers_draft = !draft};
  for (const auto& [number, count] : chunks_) {
    Request& request = requests_[number];
    const auto begin = request.tokens.begin() + committed(number);
    PrefillPlan chunk{.sequence = PlanOf(request, /*shows_tail=*/true),
                      .tokens = {begin, begin + count}};
    if (committed(number) + count < request.plan.prompt_length) {
      chunk.next_token = begin[count];
    }
    plan.prefills.push_back(std::move(chunk));
  }
  std::vector<ProposalTree> trees;
  int budget = 0;
  int cap = 1;
  for (const auto& [number, nodes] : trees_) {
    Request& request = requests_[number];
    plan.sequences.push_back(PlanOf(request, draft.has_value()));
    trees.push_back(request.tree);
    budget += nodes;
    cap = std::max(cap, nodes);
  }
  if (!trees.empty()) {
    plan.forest = PackForest(trees, SelectNodes(trees, budget, cap)).forest;
  }
  absl::StatusOr<StepResult> result = engine_->Step(plan);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  for (size_t i = 0; i < chunks_.size(); ++i) {
    Take(chunks_[i].first, result->prefills[i]);
  }
  for (size_t i = 0; i < trees_.size(); ++i) {
    const int number = trees_[i].first;
    const int before = committed(number);
    Take(number, result->sequences[i]);
    if (!draft) requests_[number].undrafted += committed(number) - before;
  }
  chunks_.clear();
  trees_.clear();
  return *std::move(result);
}

void CheckpointDriver::Take(int number, const SequenceResult& result) {
  Request& request = requests_[number];
  request.plan.committed = result.committed;
  for (const EmittedToken& emitted : result.emitted) {
    request.tokens.push_back(emitted.token);
  }
  request.tree = result.proposal.value_or(RootOf(request.tokens));
}

SequenceResult CheckpointDriver::Prefill(int number, int chunk_tokens) {
  SequenceResult last;
  while (committed(number) < requests_[number].plan.prompt_length) {
    AddChunk(number, chunk_tokens);
    StepResult result = Run(kTree);
    if (result.prefills.empty()) break;  // It failed.
    last = std::move(result.prefills[0]);
  }
  return last;
}

SequenceResult CheckpointDriver::Round(int number, int nodes,
                                       const std::optional<DraftShape>& draft) {
  AddTree(number, nodes);
  StepResult result = Run(draft);
  return result.sequences.empty() ? SequenceResult()
                                  : std::move(result.sequences[0]);
}

void CheckpointDriver::FillPages(char byte) {
  const std::vector<MemoryPart>& parts = engine_->memory().page_parts;
  for (const MemoryPart& part : parts) {
    const std::vector<char> bytes(engine_->limits().num_pages * part.item_bytes,
                                  byte);
    const absl::Status status =
        backend_.Upload(part.first, bytes.data(), bytes.size());
    EXPECT_TRUE(status.ok()) << status;
  }
}

std::vector<char> CheckpointDriver::Bytes(const MemoryPart& part, size_t at,
                                          size_t count) const {
  std::vector<char> bytes(count);
  const absl::Status status = backend_.Download(
      bytes.data(), static_cast<const char*>(part.first) + at, count);
  EXPECT_TRUE(status.ok()) << status;
  return bytes;
}

// The last hidden vector is part of it, and those before are not: they are kept
// in some rounds alone. Of the drafter, which has entries from its first key
// on, the pending token's is.
std::vector<std::pair<std::string, std::vector<char>>>
CheckpointDriver::Content(int number) const {
  const SequenceMemory& memory = engine_->memory();
  const SequencePlan& plan = requests_[number].plan;
  const char* const names[] = {"states", "windows", "counts", "hidden"};
  std::vector<std::pair<std::string, std::vector<char>>> content;
  for (size_t i = 0; i < memory.slot_parts.size(); ++i) {
    const MemoryPart& part = memory.slot_parts[i];
    const bool is_hidden = i == 3;
    const size_t bytes =
        is_hidden ? part.item_bytes / kMaxDraftTail : part.item_bytes;
    const size_t at =
        is_hidden ? (plan.committed - 1) % kMaxDraftTail * bytes : 0;
    content.emplace_back(
        names[i], Bytes(part, plan.slot.value() * part.item_bytes + at, bytes));
  }
  const int page_size = engine_->limits().page_size;
  const int heads = AttentionShapeOf(model_.config).kv_heads;
  for (size_t layer = 0; layer < memory.page_parts.size(); ++layer) {
    const MemoryPart& part = memory.page_parts[layer];
    const size_t row_bytes = part.item_bytes / (heads * page_size);
    auto& [name, rows] = content.emplace_back(
        absl::StrCat("array ", layer, " of keys and values"),
        std::vector<char>());
    const bool is_drafter = (layer + 1) % memory.pages.num_layers == 0;
    const int first = is_drafter ? kFirstDraftKey : 0;
    for (int p = first; p < first + plan.committed; ++p) {
      const size_t page = plan.pages[p / page_size].value();
      for (int head = 0; head < heads; ++head) {
        const size_t row = head * page_size + p % page_size;
        const std::vector<char> bytes =
            Bytes(part, page * part.item_bytes + row * row_bytes, row_bytes);
        rows.insert(rows.end(), bytes.begin(), bytes.end());
      }
    }
  }
  return content;
}

void ExpectSameContent(const CheckpointDriver& a, int number_of_a,
                       const CheckpointDriver& b, int number_of_b) {
  const auto content_of_a = a.Content(number_of_a);
  const auto content_of_b = b.Content(number_of_b);
  ASSERT_EQ(content_of_a.size(), content_of_b.size());
  for (size_t i = 0; i < content_of_a.size(); ++i) {
    EXPECT_TRUE(content_of_a[i] == content_of_b[i]) << content_of_a[i].first;
  }
}

}  // namespace bole::testing_support
