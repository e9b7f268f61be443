#include "worker_service/model/checkpoint.h"

#include <filesystem>
#include <map>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker_service/model/mapped_file.h"

namespace bole {
namespace {

using nlohmann::json;

constexpr int kMaxIndexDepth = 8;
constexpr char kIndexName[] = "model.safetensors.index.json";
constexpr char kSingleName[] = "model.safetensors";

// The file name of each tensor's shard.
using WeightMap = std::map<std::string, std::string, std::less<>>;

// Shards lie in the folder of their index: a name that leads elsewhere may be
// an attack.
bool IsPlainFileName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

absl::StatusOr<WeightMap> ParseIndex(std::string_view text) {
  BOLE_ASSIGN_OR_RETURN(const json index, ParseJson(text, kMaxIndexDepth));
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object()) {
    return absl::InvalidArgumentError("weight_map is missing or no object");
  }
  WeightMap shards;
  for (const auto& [name, shard] : map->items()) {
    if (!shard.is_string()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "weight_map: the shard of ", QuotedName(name), " is not a string"));
    }
    const std::string& file = shard.get_ref<const std::string&>();
    if (!IsPlainFileName(file)) {
      return absl::InvalidArgumentError(
          absl::StrCat("weight_map: ", QuotedName(file), ", the shard of ",
                       QuotedName(name), ", is not a plain file name"));
    }
    shards.emplace(name, file);
  }
  return shards;
}

// Checks both directions: every listed tensor is in its shard, and every tensor
// of a shard is listed with that shard.
absl::Status CheckAgreement(
    const WeightMap& listed,
    const std::map<std::string, SafetensorsFile>& files) {
  for (const auto& [name, shard] : listed) {
    if (!files.at(shard).tensors().contains(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", QuotedName(name), " is not in its shard ",
                       QuotedName(shard)));
    }
  }
  for (const auto& [shard, file] : files) {
    for (const auto& [name, tensor] : file.tensors()) {
      const auto entry = listed.find(name);
      if (entry != listed.end() && entry->second == shard) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", QuotedName(name), " is in the shard ",
                       QuotedName(shard), ", where it is not listed"));
    }
  }
  return absl::OkStatus();
}

// The files that hold the tensors, each tensor in exactly one.
absl::StatusOr<std::vector<SafetensorsFile>> OpenShards(
    const std::string& directory, const MappedFile& index) {
  const std::string index_path = absl::StrCat(directory, "/", kIndexName);
  const absl::StatusOr<WeightMap> listed = ParseIndex(index.text());
  if (!listed.ok()) return Annotate(listed.status(), index_path);
  std::map<std::string, SafetensorsFile> files;
  for (const auto& [name, shard] : *listed) {
    if (files.contains(shard)) continue;
    BOLE_ASSIGN_OR_RETURN(
        SafetensorsFile file,
        SafetensorsFile::Open(absl::StrCat(directory, "/", shard)));
    files.emplace(shard, std::move(file));
  }
  const absl::Status agreement = CheckAgreement(*listed, files);
  if (!agreement.ok()) return Annotate(agreement, index_path);
  std::vector<SafetensorsFile> shards;
  shards.reserve(files.size());
  for (auto& [name, file] : files) shards.push_back(std::move(file));
  return shards;
}

absl::StatusOr<std::vector<SafetensorsFile>> OpenFiles(
    const std::string& directory) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) {
    return absl::NotFoundError(
        absl::StrCat(directory, ": there is no such directory"));
  }
  const absl::StatusOr<MappedFile> index =
      MappedFile::Open(absl::StrCat(directory, "/", kIndexName));
  if (index.ok()) return OpenShards(directory, *index);
  if (!absl::IsNotFound(index.status())) return index.status();
  absl::StatusOr<SafetensorsFile> single =
      SafetensorsFile::Open(absl::StrCat(directory, "/", kSingleName));
  if (absl::IsNotFound(single.status())) {
    return absl::NotFoundError(absl::StrCat(directory, ": has neither ",
                                            kIndexName, " nor ", kSingleName));
  }
  BOLE_RETURN_IF_ERROR(single.status());
  std::vector<SafetensorsFile> files;
  files.push_back(*std::move(single));
  return files;
}

}  // namespace

absl::StatusOr<Checkpoint> Checkpoint::Open(const std::string& directory) {
  BOLE_ASSIGN_OR_RETURN(std::vector<SafetensorsFile> files,
                        OpenFiles(directory));
  TensorMap tensors;
  for (const SafetensorsFile& file : files) {
    tensors.insert(file.tensors().begin(), file.tensors().end());
  }
  return Checkpoint(std::move(files), std::move(tensors));
}

std::optional<TensorView> Checkpoint::Find(std::string_view name) const {
  const auto entry = tensors_.find(name);
  if (entry == tensors_.end()) return std::nullopt;
  return entry->second;
}

}  // namespace bole
