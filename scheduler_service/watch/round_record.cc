#include "scheduler_service/watch/round_record.h"

#include <iterator>

namespace bole {
namespace {

constexpr const char* kOutcomes[] = {"on_its_way", "done", "refused", "lost"};
// In the order of OffReason.
constexpr const char* kOffReasons[] = {"none", "asked", "no_drafter",
                                       "not_faster"};

constexpr int kMicro = 6;
constexpr int kNano = 9;

constexpr FlightField kFields[] = {
    {.name = "at", .decimals = kMicro},
    {.name = "worker"},
    {.name = "epoch"},
    {.name = "plan"},
    {.name = "round"},
    {.name = "outcome", .names = kOutcomes},
    {.name = "host_seconds", .decimals = kNano},
    {.name = "plan_seconds", .decimals = kNano},
    {.name = "round_seconds", .decimals = kNano},
    {.name = "engine_seconds", .decimals = kNano},
    {.name = "predicted_seconds", .decimals = kNano},
    {.name = "apply_seconds", .decimals = kNano},
    {.name = "running"},
    {.name = "others_wait"},
    {.name = "free_slots"},
    {.name = "free_pages"},
    {.name = "prefills"},
    {.name = "prefill_tokens"},
    {.name = "sequences"},
    {.name = "budget"},
    {.name = "nodes"},
    {.name = "draft_top_k"},
    {.name = "draft_depth"},
    {.name = "off_reason", .names = kOffReasons},
    {.name = "lease_rounds"},
    {.name = "lease_budget"},
    {.name = "copies"},
    {.name = "emitted"},
    {.name = "accepted"},
    {.name = "promised", .decimals = 3},
};
static_assert(sizeof(RoundRecord) == std::size(kFields) * sizeof(int64_t));

}  // namespace

std::span<const FlightField> RoundFields() { return kFields; }

}  // namespace bole
