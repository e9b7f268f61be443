// What is put into a mailbox.
#ifndef BOLE_TESTS_SCHEDULER_SERVICE_JOBS_MAIL_H_
#define BOLE_TESTS_SCHEDULER_SERVICE_JOBS_MAIL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "common/ids.h"
#include "common/step.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/jobs/token_stream.h"
#include "scheduler_service/links/worker_client.h"

namespace bole::testing {

inline std::unique_ptr<Request> MakeRequest(int tokens, size_t bytes = 0,
                                            std::string id = "") {
  auto request = std::make_unique<Request>();
  request->id = std::move(id);
  request->prompt.assign(tokens, 1);
  request->bytes = bytes;
  request->stream = std::make_shared<TokenStream>([] {});
  return request;
}

inline WorkerEvent Outcome(uint64_t plan_number) {
  return {.worker = WorkerId(0),
          .news = WorkerOutcome{
              .epoch = 1, .plan_number = plan_number, .result = StepResult{}}};
}

inline uint64_t NumberOf(const WorkerEvent& event) {
  return std::get<WorkerOutcome>(event.news).plan_number;
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_SCHEDULER_SERVICE_JOBS_MAIL_H_
