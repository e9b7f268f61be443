#include "worker_service/loading/draft_tokens.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

// A list of even ids from 0, with one of them put in another's place.
std::string ListWith(size_t place, const std::string& id) {
  std::vector<std::string> ids;
  ids.reserve(20);
  for (int i = 0; i < 20; ++i) ids.push_back(absl::StrCat(2 * i));
  ids[place] = id;
  return absl::StrCat("{\"tokens\": [", absl::StrJoin(ids, ","),
                      "], \"source\": \"a text\"}");
}

absl::Status ErrorOf(const std::string& text) {
  return ParseDraftTokens(text, /*num_valid_tokens=*/50).status();
}

TEST(ParseDraftTokensTest, ReadsTheIds) {
  const absl::StatusOr<std::vector<int32_t>> ids =
      ParseDraftTokens(ListWith(19, "49"), 50);

  ASSERT_TRUE(ids.ok()) << ids.status();
  ASSERT_EQ(ids->size(), 20u);
  EXPECT_EQ(ids->front(), 0);
  EXPECT_EQ(ids->back(), 49);
}

TEST(ParseDraftTokensTest, NamesAnIdOutOfRange) {
  for (const std::string id : {"50", "-1", "1e3", "4294967298", "\"7\""}) {
    EXPECT_EQ(ErrorOf(ListWith(19, id)),
              absl::InvalidArgumentError(
                  absl::StrCat("tokens[19] is ", id == "1e3" ? "1000.0" : id,
                               ", expected an id from 0 to 49")));
  }
}

TEST(ParseDraftTokensTest, NamesAnIdOutOfOrder) {
  EXPECT_EQ(ErrorOf(ListWith(7, "12")),
            absl::InvalidArgumentError(
                "tokens[7] is 12 after 12, expected ascending ids"));
  EXPECT_EQ(ErrorOf(ListWith(7, "3")),
            absl::InvalidArgumentError(
                "tokens[7] is 3 after 12, expected ascending ids"));
}

TEST(ParseDraftTokensTest, RefusesAListOfTooFew) {
  EXPECT_EQ(
      ErrorOf(R"({"tokens": []})"),
      absl::InvalidArgumentError("tokens has 0 ids, expected at least 16"));
  EXPECT_EQ(
      ErrorOf(R"({"tokens": [1, 2]})"),
      absl::InvalidArgumentError("tokens has 2 ids, expected at least 16"));
}

TEST(ParseDraftTokensTest, RefusesWhatIsNoList) {
  for (const char* text : {"[1, 2]", "{}", R"({"tokens": 3})", "nothing"}) {
    EXPECT_EQ(ErrorOf(text).code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(LoadDraftTokensTest, ErrorsStartWithThePath) {
  const absl::Status missing = LoadDraftTokens("no/such/file", 50).status();

  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(missing.message().find("no/such/file"), 0u) << missing;
}

}  // namespace
}  // namespace bole
