#include "worker_service/model/tensor_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

// Values copied to an odd address, as a file may place them.
template <typename T>
class Unaligned {
 public:
  Unaligned(StoredDtype dtype, const std::vector<T>& values)
      : bytes_(values.size() * sizeof(T) + 1), dtype_(dtype) {
    std::memcpy(bytes_.data() + 1, values.data(), values.size() * sizeof(T));
  }

  TensorView View() const {
    const std::span data = std::span(bytes_).subspan(1);
    return {.name = "w",
            .dtype = dtype_,
            .shape = {static_cast<int64_t>(data.size() / sizeof(T))},
            .data = data};
  }

 private:
  std::vector<std::byte> bytes_;
  StoredDtype dtype_;
};

std::vector<uint16_t> AllPatterns() {
  std::vector<uint16_t> patterns(65536);
  for (size_t i = 0; i < patterns.size(); ++i) {
    patterns[i] = static_cast<uint16_t>(i);
  }
  return patterns;
}

// What the sixteen bits mean, from the definition of the format with
// `exponent_bits` and `fraction_bits`.
double Meaning(uint16_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::nan("") : sign * INFINITY;
  }
  const int implicit = exponent == 0 ? 0 : 1 << fraction_bits;
  return sign * std::ldexp(implicit + fraction,
                           std::max(exponent, 1) - bias - fraction_bits);
}

void ExpectEveryPatternIsExact(StoredDtype dtype, int exponent_bits,
                               int fraction_bits) {
  const Unaligned<uint16_t> stored(dtype, AllPatterns());
  std::vector<float> values(65536);

  ASSERT_TRUE(ConvertToFloat(stored.View(), values).ok());

  for (int i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const double want = Meaning(bits, exponent_bits, fraction_bits);
    const float got = values[static_cast<size_t>(i)];
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << i;
    } else {
      EXPECT_EQ(got, want) << i;
    }
    EXPECT_EQ(std::signbit(got), (bits & 0x8000) != 0) << i;
  }
}

TEST(TensorViewTest, EveryBFloat16ConvertsExactly) {
  ExpectEveryPatternIsExact(StoredDtype::kBF16, 8, 7);
}

TEST(TensorViewTest, EveryHalfConvertsExactly) {
  ExpectEveryPatternIsExact(StoredDtype::kF16, 5, 10);
}

TEST(TensorViewTest, Float32KeepsItsBits) {
  const std::vector<float> values = {
      0.0f, -0.0f, 1.5f, std::numeric_limits<float>::denorm_min(), INFINITY};
  const Unaligned<float> stored(StoredDtype::kF32, values);
  std::vector<float> got(values.size());

  ASSERT_TRUE(ConvertToFloat(stored.View(), got).ok());

  EXPECT_EQ(std::memcmp(got.data(), values.data(), 4 * values.size()), 0);
}

TEST(TensorViewTest, IntegersWidenWithTheirSign) {
  std::array<int64_t, 2> got;

  const Unaligned<int8_t> i8(StoredDtype::kI8, {-128, 127});
  ASSERT_TRUE(ConvertToInt64(i8.View(), got).ok());
  EXPECT_EQ(got, (std::array<int64_t, 2>{-128, 127}));

  const Unaligned<uint16_t> u16(StoredDtype::kU16, {0, 65535});
  ASSERT_TRUE(ConvertToInt64(u16.View(), got).ok());
  EXPECT_EQ(got, (std::array<int64_t, 2>{0, 65535}));

  const Unaligned<int32_t> i32(StoredDtype::kI32, {INT32_MIN, INT32_MAX});
  ASSERT_TRUE(ConvertToInt64(i32.View(), got).ok());
  EXPECT_EQ(got, (std::array<int64_t, 2>{INT32_MIN, INT32_MAX}));

  const Unaligned<uint32_t> u32(StoredDtype::kU32, {1, UINT32_MAX});
  ASSERT_TRUE(ConvertToInt64(u32.View(), got).ok());
  EXPECT_EQ(got, (std::array<int64_t, 2>{1, UINT32_MAX}));

  const Unaligned<int64_t> i64(StoredDtype::kI64, {INT64_MIN, INT64_MAX});
  ASSERT_TRUE(ConvertToInt64(i64.View(), got).ok());
  EXPECT_EQ(got, (std::array<int64_t, 2>{INT64_MIN, INT64_MAX}));
}

TEST(TensorViewTest, ConversionNamesTheTypeItCannotRead) {
  const Unaligned<uint8_t> stored(StoredDtype::kF8E4M3, {1, 2});
  std::array<float, 2> floats;
  std::array<int64_t, 2> integers;

  EXPECT_EQ(ConvertToFloat(stored.View(), floats),
            absl::InvalidArgumentError(
                "tensor \"w\" is F8_E4M3, expected F32, BF16 or F16"));
  EXPECT_EQ(ConvertToInt64(stored.View(), integers),
            absl::InvalidArgumentError("tensor \"w\" is F8_E4M3, expected an "
                                       "integer type of at most 63 bits"));
}

TEST(TensorViewTest, ConversionWantsRoomForEveryElement) {
  const Unaligned<float> stored(StoredDtype::kF32, {1, 2, 3});
  std::array<float, 2> values;

  EXPECT_EQ(ConvertToFloat(stored.View(), values),
            absl::InvalidArgumentError("tensor \"w\" has 3 elements, not 2"));
}

TEST(TensorViewTest, RowsAndEntriesAreParts) {
  std::vector<float> values(24);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const TensorView whole{.name = "w",
                         .dtype = StoredDtype::kF32,
                         .shape = {4, 3, 2},
                         .data = std::as_bytes(std::span(values))};

  const TensorView entry = Entry(whole, 2);
  const TensorView rows = Rows(entry, 1, 3);

  EXPECT_EQ(entry.shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(rows.shape, (std::vector<int64_t>{2, 2}));
  std::array<float, 4> got;
  ASSERT_TRUE(ConvertToFloat(rows, got).ok());
  EXPECT_EQ(got, (std::array<float, 4>{14, 15, 16, 17}));
  EXPECT_EQ(Rows(whole, 4, 4).num_elements(), 0);
}

TEST(TensorViewTest, NamesOfTypesRoundTrip) {
  for (int i = 0; i <= static_cast<int>(StoredDtype::kF64); ++i) {
    const auto dtype = static_cast<StoredDtype>(i);
    EXPECT_EQ(DtypeFromName(DtypeName(dtype)), dtype);
  }
  EXPECT_EQ(DtypeFromName("bf16"), std::nullopt);
  EXPECT_EQ(DtypeBytes(StoredDtype::kBF16), 2);
}

TEST(TensorViewTest, QuotedNamesAreShortAndPrintable) {
  EXPECT_EQ(QuotedName("a.b"), "\"a.b\"");
  EXPECT_EQ(QuotedName("a\n\x80"), "\"a\\n\\x80\"");
  EXPECT_LT(QuotedName(std::string(1000, '\n')).size(), 300u);
}

}  // namespace
}  // namespace bole
