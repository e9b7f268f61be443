// Reads the fields that OpenAI's three generation APIs have in common.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_SAMPLING_FIELDS_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_SAMPLING_FIELDS_H_

#include <initializer_list>

#include "proto/bole.pb.h"
#include "scheduler_service/door/openai/json_fields.h"

namespace bole {

// Reads the sampling parameters, the stop conditions, Bole's own fields, and
// fields that cannot change the text. An error is left in `fields`.
void ReadSampling(JsonFields& fields, v1::GenerateRequest& message);

// Reads max_tokens by any of its names: if several are there, they must agree.
void ReadMaxTokens(JsonFields& fields, std::initializer_list<const char*> names,
                   v1::SamplingParams& params);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_SAMPLING_FIELDS_H_
