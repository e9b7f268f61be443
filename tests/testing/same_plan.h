// Whether two plans are the same in all that goes over the wire.
#ifndef BOLE_TESTS_TESTING_SAME_PLAN_H_
#define BOLE_TESTS_TESTING_SAME_PLAN_H_

#include <algorithm>

#include "common/step.h"

namespace bole::testing {

inline bool Same(const SequencePlan& a, const SequencePlan& b) {
  return a.slot == b.slot && a.committed == b.committed && a.pages == b.pages &&
         a.sampling == b.sampling && a.stop_tokens == b.stop_tokens &&
         a.prompt_length == b.prompt_length &&
         a.max_new_tokens == b.max_new_tokens && a.draft_tail == b.draft_tail;
}

inline bool Same(const PrefillPlan& a, const PrefillPlan& b) {
  return Same(a.sequence, b.sequence) && a.tokens == b.tokens &&
         a.next_token == b.next_token && a.prompt_logprobs == b.prompt_logprobs;
}

inline bool Same(const StepPlan& a, const StepPlan& b) {
  const auto same = [](const auto& x, const auto& y) { return Same(x, y); };
  return a.to_host == b.to_host && a.from_host == b.from_host &&
         a.copies == b.copies &&
         std::ranges::equal(a.prefills, b.prefills, same) &&
         std::ranges::equal(a.sequences, b.sequences, same) &&
         a.forest == b.forest && a.draft == b.draft &&
         a.defers_draft == b.defers_draft && a.lease == b.lease;
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_TESTING_SAME_PLAN_H_
