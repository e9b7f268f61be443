#include "tests/kernels/cuda/device_copies.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "kernels/matrix_source.h"

namespace bole::testing {
namespace {

constexpr size_t kGuardBytes = 512;
constexpr unsigned char kCanary = 0xa5;

uint16_t Narrow(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;  // NaN
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

float Widen(uint16_t x) {
  const uint32_t bits = static_cast<uint32_t>(x) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

bool IsCanary(const unsigned char* zone) {
  return std::all_of(zone, zone + kGuardBytes,
                     [](unsigned char byte) { return byte == kCanary; });
}

}  // namespace

float RoundedToBFloat16(float x) { return Widen(Narrow(x)); }

void* DeviceCopies::Place(
    const void* content, size_t bytes,
    std::function<void(const std::vector<unsigned char>&)> store) {
  std::vector<unsigned char> image(bytes + 2 * kGuardBytes, kCanary);
  if (bytes > 0) std::memcpy(image.data() + kGuardBytes, content, bytes);
  absl::StatusOr<DeviceMemory> memory =
      backend_.Allocate(image.size(), "a copy");
  EXPECT_TRUE(memory.ok()) << memory.status();
  if (!memory.ok()) return nullptr;
  const absl::Status copied =
      backend_.Upload(memory->get(), image.data(), image.size());
  EXPECT_TRUE(copied.ok()) << copied;
  zones_.push_back({*std::move(memory), bytes, std::move(store)});
  return static_cast<char*>(zones_.back().memory.get()) + kGuardBytes;
}

void* DeviceCopies::Copy(void* host, size_t bytes) {
  return Place(host, bytes,
               [host, bytes](const std::vector<unsigned char>& image) {
                 if (bytes == 0) return;
                 std::memcpy(host, image.data() + kGuardBytes, bytes);
               });
}

Activation* DeviceCopies::Activations(GuardedBuffer<float>& host) {
  if (backend_.activation_type() == ElementType::kFloat32) {
    return reinterpret_cast<Activation*>(Of(host));
  }
  std::vector<uint16_t> narrow(host.size());
  std::transform(host.data(), host.data() + host.size(), narrow.begin(),
                 Narrow);
  const auto store = [&host](const std::vector<unsigned char>& image) {
    for (size_t i = 0; i < host.size(); ++i) {
      uint16_t x;
      std::memcpy(&x, image.data() + kGuardBytes + i * sizeof(x), sizeof(x));
      host[i] = Widen(x);
    }
  };
  std::transform(narrow.begin(), narrow.end(), host.data(), Widen);
  return static_cast<Activation*>(
      Place(narrow.data(), narrow.size() * sizeof(uint16_t), store));
}

RowBatch DeviceCopies::Of(HostBatch& batch) {
  RowBatch view = batch.View();
  view.rows.count = Of(batch.count);
  view.first_row = Of(batch.first_row);
  view.request = Of(batch.request);
  view.node = Of(batch.node);
  view.parent = Of(batch.parent);
  view.depth = Of(batch.depth);
  view.ancestors = Of(batch.ancestors);
  view.slot = Of(batch.slot);
  view.committed = Of(batch.committed);
  view.page_table = Of(batch.page_table);
  return view;
}

void DeviceCopies::Fetch() {
  for (const Zone& zone : zones_) {
    std::vector<unsigned char> image(zone.bytes + 2 * kGuardBytes);
    const absl::Status copied =
        backend_.Download(image.data(), zone.memory.get(), image.size());
    ASSERT_TRUE(copied.ok()) << copied;
    EXPECT_TRUE(IsCanary(image.data())) << "written before a buffer";
    EXPECT_TRUE(IsCanary(image.data() + kGuardBytes + zone.bytes))
        << "written behind a buffer";
    zone.store(image);
  }
}

const WeightMatrix* LoadRows(WeightStore& store, int rows, int columns,
                             std::span<const float> content) {
  const MatrixBlock block = FloatBlock(content, columns);
  EXPECT_EQ(block.rows, rows);
  const absl::StatusOr<const WeightMatrix*> matrix =
      store.LoadMatrix({.columns = columns, .blocks = {&block, 1}});
  EXPECT_TRUE(matrix.ok()) << matrix.status();
  return matrix.ok() ? *matrix : nullptr;
}

}  // namespace bole::testing
