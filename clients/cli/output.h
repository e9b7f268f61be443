// What `bole` prints: tables for people, JSON for programs, and summaries of
// answers.
#ifndef BOLE_CLIENTS_CLI_OUTPUT_H_
#define BOLE_CLIENTS_CLI_OUTPUT_H_

#include <span>
#include <string>

#include "google/protobuf/message.h"
#include "proto/bole.pb.h"

namespace bole {

struct TableRow {
  std::string name;
  std::string value;
};

// A line for each row, with the values aligned 22 columns in.
std::string FormatTable(std::span<const TableRow> rows);

// `value` with `decimals` digits after the point.
std::string FixedPoint(double value, int decimals);

// `message` in protobuf's JSON form, on one line, with the field names of the
// .proto file. Zeros and empty lists are included; absent optional fields are
// not. 64-bit numbers are strings, because JSON readers round them.
std::string ToJson(const google::protobuf::Message& message);

// `text`, any bytes, as a JSON string with its quotes. Invalid UTF-8 becomes
// U+FFFD.
std::string JsonString(const std::string& text);

// What was verified, and why some rounds had no drafts: "off in 61 (not worth
// it on this device), tree in 3 of 64 rounds; 1.37 drafts accepted of 1.67
// promised a round", over rounds that had drafts. Empty if the server does not
// tell.
std::string ChosenText(const v1::Speculation& speculation);

// Why a round had no drafts: "not worth it on this device".
const char* OffReasonText(v1::SpeculationOffReason reason);

// A table, a line for each number. Times are the server's. The tokens per
// second are those after the first token.
std::string Summary(const v1::GenerateComplete& complete);

// "128 tokens, 45.3 tokens/s". `tokens` so far, the last `tokens_since_first`
// of them in `seconds`.
std::string Progress(int tokens, int tokens_since_first, double seconds);

// How the server speculates: "tree, top-k 4, depth 8, 32 nodes", or "off". If
// rounds differ, it names the policy and the maximum: "goodput, at most tree,
// ...".
std::string SpeculationText(const v1::SpeculationPolicy& policy);

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_OUTPUT_H_
