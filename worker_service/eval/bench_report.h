// What `bole-eval bench` prints and writes.
#ifndef BOLE_WORKER_SERVICE_EVAL_BENCH_REPORT_H_
#define BOLE_WORKER_SERVICE_EVAL_BENCH_REPORT_H_

#include <cstdint>
#include <string>

#include "nlohmann/json_fwd.hpp"
#include "worker_service/eval/bench_decode.h"
#include "worker_service/loading/loaded_model.h"
#include "worker_service/model/model_config.h"

namespace bole {

// Matrix elements that one step of `rows` rows reads: those of the layers and
// of the head, with as many experts as the rows can choose at most.
int64_t ElementsRead(const LoadedModel& model, int rows);

// Matrix elements of the layers alone, for one row: the multiply-adds of a
// prefilled token.
int64_t ElementsPerToken(const LoadedModel& model);

// Bytes of a request's recurrent states, which a step of plain decoding reads
// and writes.
int64_t StateBytes(const ModelConfig& config);

// Elements of a token's keys and values, without the drafter's.
int64_t KvElements(const ModelConfig& config);

// One row of the table of decoding; `plain_speed` is the tokens per second of
// plain decoding at the same batch, 0 if it was not run.
struct DecodeRow {
  std::string mode;
  const DecodeCase& decode;
  const DecodeTimes& times;
  double plain_speed;

  double speed() const {
    return times.seconds > 0 ? static_cast<double>(times.tokens) / times.seconds
                             : 0;
  }
};
void PrintDecodeHeader();
void PrintRow(const DecodeRow& row);
nlohmann::ordered_json ToJson(const DecodeRow& row);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_EVAL_BENCH_REPORT_H_
