// What came of an answer whose stream broke.
#ifndef BOLE_CLIENTS_BENCH_PARTIAL_ANSWER_H_
#define BOLE_CLIENTS_BENCH_PARTIAL_ANSWER_H_

#include "clients/bench/load_client.h"
#include "proto/bole.pb.h"

namespace bole::bench {

// One answer over several calls, each of which goes on where the stream of the
// one before broke.
class PartialAnswer {
 public:
  // Takes what `ended` brought, which is of the latest call.
  void Add(EndedCall& ended);

  // Asks for what comes after what is there.
  void Resume(v1::GenerateRequest& request) const;

  // Puts what is there before what `ended`, the last call, brought: it becomes
  // the whole answer, sent when the first call was.
  void PutBefore(EndedCall& ended) const;

  // Calls that broke after a token had come.
  int num_resumes() const { return num_resumes_; }

 private:
  EndedCall there_;
  int num_resumes_ = 0;
};

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_PARTIAL_ANSWER_H_
