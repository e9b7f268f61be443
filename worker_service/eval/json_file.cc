#include "worker_service/eval/json_file.h"

#include <cstdio>
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker_service/model/mapped_file.h"

namespace bole {
namespace {

constexpr int kMaxDepth = 8;

absl::StatusOr<nlohmann::json> ReadJson(const std::string& path) {
  BOLE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  absl::StatusOr<nlohmann::json> value = ParseJson(file.text(), kMaxDepth);
  if (!value.ok()) return Annotate(value.status(), path);
  return value;
}

// Whether `value` is an int32_t, without converting one that is not.
bool IsInt32(const nlohmann::json& value) {
  using Limits = std::numeric_limits<int32_t>;
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned()) {
    return value.get<uint64_t>() <= uint64_t{Limits::max()};
  }
  const auto number = value.get<int64_t>();
  return number >= Limits::min() && number <= Limits::max();
}

absl::StatusOr<std::vector<int32_t>> IntsOf(const nlohmann::json& value,
                                            const std::string& what) {
  if (!value.is_array()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " is ", value.type_name(), ", not an array"));
  }
  std::vector<int32_t> ints;
  for (const nlohmann::json& item : value) {
    if (!IsInt32(item)) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, "[", ints.size(), "] is ", item.dump(),
                       ", not an integer of 32 bits"));
    }
    ints.push_back(item.get<int32_t>());
  }
  return ints;
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> ReadIds(const std::string& path) {
  BOLE_ASSIGN_OR_RETURN(const nlohmann::json value, ReadJson(path));
  return IntsOf(value, path);
}

absl::StatusOr<NodeList> ReadTree(const std::string& path) {
  BOLE_ASSIGN_OR_RETURN(const nlohmann::json value, ReadJson(path));
  for (const char* key : {"tokens", "parents"}) {
    if (value.is_object() && value.contains(key)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": not an object with \"tokens\" and \"parents\""));
  }
  NodeList tree;
  BOLE_ASSIGN_OR_RETURN(tree.token, IntsOf(value["tokens"], path + ": tokens"));
  BOLE_ASSIGN_OR_RETURN(tree.parent,
                        IntsOf(value["parents"], path + ": parents"));
  return tree;
}

absl::StatusOr<std::vector<std::string>> ReadPrompts(const std::string& path) {
  BOLE_ASSIGN_OR_RETURN(const nlohmann::json value, ReadJson(path));
  if (!value.is_array()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": is ", value.type_name(), ", not an array of strings"));
  }
  std::vector<std::string> prompts;
  for (const nlohmann::json& item : value) {
    if (!item.is_string()) {
      return absl::InvalidArgumentError(absl::StrCat(path, "[", prompts.size(),
                                                     "] is ", item.type_name(),
                                                     ", not a string"));
    }
    prompts.push_back(item.get<std::string>());
  }
  return prompts;
}

absl::Status WriteJson(const std::string& path,
                       const nlohmann::ordered_json& value) {
  const std::string temporary = path + ".tmp";
  std::ofstream file(temporary, std::ios::binary);
  file << value.dump(1, ' ', /*ensure_ascii=*/false,
                     nlohmann::ordered_json::error_handler_t::replace)
       << '\n';
  file.close();
  if (file.fail() || std::rename(temporary.c_str(), path.c_str()) != 0) {
    std::remove(temporary.c_str());
    return absl::UnavailableError(absl::StrCat(path, ": cannot be written"));
  }
  return absl::OkStatus();
}

}  // namespace bole
