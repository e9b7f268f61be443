// Many small arrays that are transferred between host and device in one copy.
#ifndef BOLE_WORKER_SERVICE_ENGINE_TRANSFER_BLOCK_H_
#define BOLE_WORKER_SERVICE_ENGINE_TRANSFER_BLOCK_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "absl/status/status.h"
#include "kernels/device.h"
#include "worker_service/model/device_arrays.h"

namespace bole {

// An array of a block, on both sides. Null in a block without memory.
template <typename T>
struct TransferArray {
  T* host = nullptr;
  T* device = nullptr;
  int64_t count = 0;

  std::span<T> values() const { return {host, static_cast<size_t>(count)}; }
  // From element `i` on.
  T* DeviceFrom(int64_t i) const {
    return device == nullptr ? nullptr : device + i;
  }
};

// A piece of device memory and its images on the host. Arrays are taken from
// its start, anew for every round: the same calls of Take() give the same
// places, so that a captured graph can be reused.
//
// A block without memory only counts, to find out how large a block has to be.
class TransferBlock {
 public:
  static constexpr int64_t kAlignment = 64;

  TransferBlock() = default;
  // The host has `num_images` images: one for each copy that may be in flight.
  // Allocation errors stick in `arrays`, whose device must outlive the block.
  TransferBlock(int64_t bytes, int num_images, std::string_view what,
                DeviceArrays& arrays)
      : on_(&arrays.device()),
        capacity_(bytes),
        device_(arrays.Array<char>(bytes, what)),
        host_(arrays.HostBytes(bytes * num_images, what)) {}

  // Forgets the arrays.
  void Clear() { used_ = 0; }

  // `count` elements of unspecified content; the host's side is in image 0.
  // REQUIRES: room, in a block with memory.
  template <typename T>
  TransferArray<T> Take(int64_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    const int64_t at = used_;
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    used_ = at + (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (device_ == nullptr || host_ == nullptr) {
      return {nullptr, nullptr, count};
    }
    return {reinterpret_cast<T*>(host_ + at),
            reinterpret_cast<T*>(device_ + at), count};
  }

  // The array in another image.
  template <typename T>
  std::span<const T> InImage(const TransferArray<T>& array, int image) const {
    const char* host = reinterpret_cast<const char*>(array.host);
    return {reinterpret_cast<const T*>(host + image * capacity_),
            static_cast<size_t>(array.count)};
  }

  // Bytes of the arrays taken so far.
  int64_t used() const { return used_; }

  // Queues the copy of the first `bytes`, from image 0. The image must not
  // change until the device has passed a later mark or download.
  absl::Status Upload(int64_t bytes) {
    return on_->Upload(device_, host_, static_cast<size_t>(bytes));
  }
  // Queues the copy of the first `bytes` into an image.
  absl::Status QueueDownload(int64_t bytes, int image) {
    return on_->QueueDownload(host_ + image * capacity_, device_,
                              static_cast<size_t>(bytes));
  }

 private:
  Device* on_ = nullptr;
  int64_t capacity_ = 0;
  char* device_ = nullptr;
  char* host_ = nullptr;
  int64_t used_ = 0;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ENGINE_TRANSFER_BLOCK_H_
