// The part of an answer that arrived before its stream broke.
#ifndef BOLE_CLIENTS_BENCH_PARTIAL_ANSWER_H_
#define BOLE_CLIENTS_BENCH_PARTIAL_ANSWER_H_

#include "clients/bench/load_client.h"
#include "proto/bole.pb.h"

namespace bole::bench {

// One answer that takes several calls, each of which continues where the stream
// of the previous one broke.
class PartialAnswer {
 public:
  // Appends what `ended`, the latest call, brought.
  void Add(EndedCall& ended);

  // Makes `request` resume after the tokens that have arrived.
  void Resume(v1::GenerateRequest& request) const;

  // Prepends what has arrived before to `ended`, the last call, which becomes
  // the whole answer. Its time of sending becomes that of the first call that
  // brought tokens.
  void PutBefore(EndedCall& ended) const;

  // Calls that broke after a token had arrived.
  int num_resumes() const { return num_resumes_; }

 private:
  EndedCall there_;
  int num_resumes_ = 0;
};

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_PARTIAL_ANSWER_H_
