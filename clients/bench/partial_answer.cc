#include "clients/bench/partial_answer.h"

#include <utility>
#include <vector>

namespace bole::bench {
namespace {

template <typename T>
void Append(std::vector<T>& to, const std::vector<T>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

void PartialAnswer::Add(EndedCall& ended) {
  if (ended.ids.empty()) return;
  if (there_.ids.empty()) there_.sent = ended.sent;
  ++num_resumes_;
  Append(there_.ids, ended.ids);
  Append(there_.arrivals, ended.arrivals);
  there_.text += ended.text;
}

void PartialAnswer::Resume(v1::GenerateRequest& request) const {
  if (there_.ids.empty()) return;
  request.add_resume()->mutable_output_ids()->Assign(there_.ids.begin(),
                                                     there_.ids.end());
}

void PartialAnswer::PutBefore(EndedCall& ended) const {
  if (there_.ids.empty()) return;
  EndedCall whole = there_;
  Append(whole.ids, ended.ids);
  Append(whole.arrivals, ended.arrivals);
  ended.sent = whole.sent;
  ended.ids = std::move(whole.ids);
  ended.arrivals = std::move(whole.arrivals);
  ended.text = there_.text + ended.text;
}

}  // namespace bole::bench
