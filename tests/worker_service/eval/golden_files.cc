#include "tests/worker_service/eval/golden_files.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "gtest/gtest.h"
#include "worker_service/model/safetensors.h"

namespace bole::testing_support {
namespace {

// Drafting steps whose tokens before were those of the reference.
size_t ComparableDrafts(const ForwardResult& result, const Golden& golden) {
  const std::vector<int32_t>& want = golden.ints.at("draft_tokens");
  if (!result.ints.contains("draft_tokens")) return want.size();
  if (result.ints.at("bonus_token") != golden.ints.at("bonus_token")) return 0;
  const std::vector<int32_t>& got = result.ints.at("draft_tokens");
  for (size_t i = 0; i + 1 < want.size(); ++i) {
    if (got[i] != want[i]) return i + 1;
  }
  return want.size();
}

TensorError Compare(std::span<const float> got, std::span<const float> want,
                    size_t width) {
  TensorError error;
  double squares = 0;
  double norm = 0;
  std::vector<double> rows;
  rows.reserve(want.size() / width);
  for (size_t begin = 0; begin < want.size(); begin += width) {
    double row = 0;
    for (size_t i = begin; i < begin + width; ++i) {
      const double difference = std::abs(static_cast<double>(got[i]) - want[i]);
      if (std::isnan(difference)) return {INFINITY, INFINITY, INFINITY};
      row += difference * difference;
      norm += static_cast<double>(want[i]) * want[i];
      error.largest = std::max(error.largest, difference);
    }
    rows.push_back(row);
    squares += row;
  }
  const auto median = rows.begin() + std::ssize(rows) / 2;
  std::nth_element(rows.begin(), median, rows.end());
  error.rms = std::sqrt(squares / norm);
  error.median_row = std::sqrt(*median * std::ssize(rows) / norm);
  return error;
}

}  // namespace

ForwardOptions Golden::Inputs(int chunk, TreeSolver solver) const {
  return {.ids = ints.at("ids"),
          .tree = NodeList{.token = ints.at("tree_tokens"),
                           .parent = ints.at("tree_parents")},
          .chunk = chunk,
          .solver = solver};
}

Golden ReadGolden(const std::string& path) {
  absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path);
  EXPECT_TRUE(file.ok()) << file.status();
  Golden golden;
  for (const auto& [name, tensor] : file->tensors()) {
    if (tensor.dtype == StoredDtype::kF32) {
      std::vector<float>& values = golden.floats[name];
      values.resize(tensor.num_elements());
      EXPECT_TRUE(ConvertToFloat(tensor, values).ok());
    } else {
      std::vector<int64_t> wide(tensor.num_elements());
      EXPECT_TRUE(ConvertToInt64(tensor, wide).ok());
      golden.ints[name].assign(wide.begin(), wide.end());
    }
  }
  return golden;
}

std::map<std::string, TensorError> ErrorsOf(const ForwardResult& result,
                                            const Golden& golden) {
  std::map<std::string, TensorError> errors;
  for (const auto& [name, want] : golden.floats) {
    const auto found = result.floats.find(name);
    if (found == result.floats.end() ||
        found->second.values.size() != want.size()) {
      errors[name] = {INFINITY, INFINITY, INFINITY};
      continue;
    }
    const auto width = static_cast<size_t>(found->second.shape.back());
    size_t size = want.size();
    if (name == "draft_logits") {
      size = width * ComparableDrafts(result, golden);
    }
    if (size == 0) continue;
    errors[name] = Compare(std::span(found->second.values).first(size),
                           std::span(want).first(size), width);
  }
  return errors;
}

}  // namespace bole::testing_support
