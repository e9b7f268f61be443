#include "worker_service/engine/engine_sizes.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"

namespace bole {
namespace {

// The sizes that a 0 stands for.
struct Defaults {
  int requests;
  int nodes;
  int nodes_per_tree;
  int prefill_tokens;
  int context;
  int lease_rounds;
};
constexpr Defaults kCpu = {.requests = 16,
                           .nodes = 512,
                           .nodes_per_tree = 64,
                           .prefill_tokens = 512,
                           .context = kMaxDefaultContext,
                           .lease_rounds = 1};
constexpr Defaults kGpu = {.requests = 32,
                           .nodes = 1024,
                           .nodes_per_tree = 128,
                           .prefill_tokens = 2048,
                           .context = kMaxDefaultGpuContext,
                           .lease_rounds = kMaxLeaseRounds};

// The default number of nodes on a GPU where logits and factors for kGpu.nodes
// would take more than kForestShare of the memory that the weights leave.
constexpr int kFewGpuNodes = 512;
constexpr double kForestShare = 0.1;

void Fill(int& size, int value) {
  if (size == 0) size = value;
}

EngineOptions FillIn(EngineOptions options, const LoadedModel& model,
                     const Defaults& defaults) {
  options.num_valid_tokens = model.num_valid_tokens();
  Fill(options.max_requests, defaults.requests);
  Fill(options.num_slots, options.max_requests);
  Fill(options.max_nodes, std::max(defaults.nodes, options.max_requests));
  Fill(options.max_nodes_per_tree, defaults.nodes_per_tree);
  Fill(options.max_prefill_tokens, defaults.prefill_tokens);
  Fill(options.max_lease_rounds, defaults.lease_rounds);
  Fill(options.max_context,
       std::min(model.config.max_context(), defaults.context));
  return options;
}

// The pages of one request at full context.
int64_t PagesOfOne(const EngineOptions& options) {
  return options.MaxPagesPerRequest();
}

MemoryPlan PlanOf(const EngineOptions& options, const EngineMemory& memory,
                  const LoadedModel& model) {
  return {.weights =
              model.weights->arrays.total_bytes() + model.weights->matrix_bytes,
          .states = memory.states,
          .kv_pages = memory.pages,
          .factors = memory.factors,
          .logits = memory.logits,
          .buffers = memory.buffers,
          .scratch = memory.scratch,
          .num_slots = options.num_slots,
          .num_checkpoints = options.num_checkpoints,
          .num_pages = options.num_pages,
          .page_size = options.page_size};
}

std::string GiB(size_t bytes) {
  return absl::StrFormat("%.2f GiB", static_cast<double>(bytes) / (1 << 30));
}

// The error of a plan that does not fit. It names the first part for which no
// room is left, and how to make that part smaller.
absl::Status TooLarge(const MemoryPlan& plan, size_t needed_pages) {
  const struct {
    const char* name;
    size_t bytes;
    const char* remedy;
  } parts[] = {
      {"the weights", plan.weights, "use a GPU with more memory"},
      {"graphs and the code of kernels", plan.set_aside,
       "use --no-graphs, or lower --max-requests or --max-nodes"},
      {"the states", plan.states, "lower --slots or --checkpoints"},
      {"logits, factors, buffers and scratch",
       plan.logits + plan.factors + plan.buffers + plan.scratch,
       "lower --max-nodes, --max-prefill or --max-requests"},
      {"the pages of keys and values", needed_pages,
       "lower --context or --pages"},
  };
  size_t used = 0;
  for (const auto& part : parts) {
    used += part.bytes;
    if (used <= plan.usable) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        "no room for ", part.name, " (", GiB(part.bytes),
        "): ", GiB(used - plan.usable), " too much for the ", GiB(plan.usable),
        " that this worker may use of the GPU's ", GiB(plan.device), "; ",
        part.remedy, ", or raise --memory-fraction (", ToString(plan), ")"));
  }
  return absl::OkStatus();
}

// Chooses the number of checkpoints. REQUIRES: the plan fits with `least_pages`
// bytes of pages.
void AddCheckpoints(MemoryPlan& plan, size_t least_pages) {
  const size_t room =
      plan.usable - (plan.total() - plan.kv_pages) - least_pages;
  const auto share =
      static_cast<size_t>(kCheckpointShare * static_cast<double>(room));
  const size_t slot_bytes = plan.slot_bytes();
  plan.num_checkpoints = static_cast<int>(std::min<size_t>(
      share / slot_bytes,
      size_t{kMostCheckpointsOfSlot} * static_cast<size_t>(plan.num_slots)));
  plan.states += slot_bytes * static_cast<size_t>(plan.num_checkpoints);
}

// The most slots and pages that a plan can name (proto/step_codec.h).
constexpr int kMostHostSlots = 1 << 20;
constexpr int kMostHostPages = 1 << 24;

// Divides options.host_cache_gb into places, and adds the host's places to the
// plan.
absl::Status AddHostPlaces(EngineOptions& options, MemoryPlan& plan) {
  const size_t slot_bytes = plan.slot_bytes();
  const size_t page_bytes = plan.page_bytes();
  if (options.host_cache_gb > 0) {
    const double bytes = options.host_cache_gb * (1 << 30);
    const auto count = [](double budget, size_t item_bytes, int most) {
      return static_cast<int>(std::min(budget / static_cast<double>(item_bytes),
                                       static_cast<double>(most)));
    };
    options.num_host_slots =
        count(kHostSlotShare * bytes, slot_bytes, kMostHostSlots);
    options.num_host_pages =
        count((1 - kHostSlotShare) * bytes, page_bytes, kMostHostPages);
    if (options.num_host_slots == 0 || options.num_host_pages == 0) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "--host-cache-gb is %g, a quarter of which holds no state of %s, or "
          "the rest no page of %s",
          options.host_cache_gb, GiB(slot_bytes), GiB(page_bytes)));
    }
  }
  plan.num_host_slots = options.num_host_slots;
  plan.num_host_pages = options.num_host_pages;
  plan.host_cache = slot_bytes * static_cast<size_t>(options.num_host_slots) +
                    page_bytes * static_cast<size_t>(options.num_host_pages);
  return absl::OkStatus();
}

}  // namespace

EngineOptions FitToModel(EngineOptions options, const LoadedModel& model) {
  options = FillIn(options, model, kCpu);
  if (options.num_checkpoints == kChooseCheckpoints) {
    options.num_checkpoints = options.num_slots;
  }
  if (options.num_pages == 0) {
    options.num_pages = static_cast<int>(PagesOfOne(options)) *
                        std::max(1, options.num_slots / 4);
  }
  return options;
}

absl::StatusOr<PlannedEngine> FitToDevice(EngineOptions options,
                                          const LoadedModel& model,
                                          Backend& backend,
                                          double memory_fraction) {
  const std::optional<MemoryState> device = backend.memory();
  const auto measure = [&] {
    return Engine::Measure(model.config, *model.weights, backend, options);
  };
  if (!device) {
    options = FitToModel(options, model);
    BOLE_ASSIGN_OR_RETURN(const EngineMemory memory, measure());
    MemoryPlan plan = PlanOf(options, memory, model);
    BOLE_RETURN_IF_ERROR(AddHostPlaces(options, plan));
    return PlannedEngine{options, plan};
  }
  const bool choose_nodes = options.max_nodes == 0;
  options = FillIn(options, model, kGpu);
  const bool choose_pages = options.num_pages == 0;
  if (choose_pages) options.num_pages = 1;
  const bool choose_checkpoints = options.num_checkpoints == kChooseCheckpoints;
  if (choose_checkpoints) options.num_checkpoints = 0;
  BOLE_ASSIGN_OR_RETURN(EngineMemory memory, measure());
  const auto forest = static_cast<double>(memory.logits + memory.factors);
  if (choose_nodes &&
      forest > kForestShare * static_cast<double>(device->free_bytes)) {
    options.max_nodes = std::max(kFewGpuNodes, options.max_requests);
    BOLE_ASSIGN_OR_RETURN(memory, measure());
  }
  MemoryPlan plan = PlanOf(options, memory, model);
  plan.device = device->total_bytes;
  plan.set_aside = kCodeBytes;
  if (options.graphs) {
    const bool has_drafter = model.weights->drafter.has_value();
    plan.set_aside += GraphCapacity(options, has_drafter) * kGraphBytes;
  }
  // free_bytes is the memory that neither the loaded weights nor other
  // processes use. The share of the device that must stay unused is subtracted
  // from it.
  const auto spared = static_cast<size_t>(
      (1 - memory_fraction) * static_cast<double>(device->total_bytes));
  plan.usable =
      plan.weights + device->free_bytes - std::min(spared, device->free_bytes);
  const size_t page_bytes = plan.page_bytes();
  const size_t least_pages =
      page_bytes * static_cast<size_t>(choose_pages ? PagesOfOne(options)
                                                    : options.num_pages);
  BOLE_RETURN_IF_ERROR(TooLarge(plan, least_pages));
  if (choose_checkpoints) {
    AddCheckpoints(plan, least_pages);
    options.num_checkpoints = plan.num_checkpoints;
  }
  if (choose_pages) {
    const size_t room = plan.usable - (plan.total() - plan.kv_pages);
    options.num_pages = static_cast<int>(std::min<size_t>(
        room / page_bytes,
        PagesOfOne(options) * static_cast<size_t>(options.num_slots)));
  }
  plan.num_pages = options.num_pages;
  plan.kv_pages = page_bytes * static_cast<size_t>(options.num_pages);
  BOLE_RETURN_IF_ERROR(AddHostPlaces(options, plan));
  return PlannedEngine{options, plan};
}

}  // namespace bole
