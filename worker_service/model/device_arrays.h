// Typed arrays in a device's memory.
#ifndef BOLE_WORKER_SERVICE_MODEL_DEVICE_ARRAYS_H_
#define BOLE_WORKER_SERVICE_MODEL_DEVICE_ARRAYS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kernels/device.h"
#include "kernels/tensor.h"

namespace bole {

// Element `i` of an array of that type. Null stays null.
inline Activation* ElementAt(Activation* array, int64_t i, ElementType type) {
  if (array == nullptr) return nullptr;
  return reinterpret_cast<Activation*>(
      reinterpret_cast<char*>(array) +
      i * static_cast<int64_t>(ElementBytes(type)));
}

// Owns arrays that are freed together. The first failed allocation sticks: from
// then on every array is null and status() says what did not fit, so that a
// constructor can allocate a dozen arrays and its caller checks status() once.
class DeviceArrays {
 public:
  // `device` must outlive this object.
  explicit DeviceArrays(Device& device) : device_(&device) {}
  // Allocates nothing: all arrays are null, and only their bytes are counted.
  static DeviceArrays Measuring(Device& device) {
    DeviceArrays arrays(device);
    arrays.is_measuring_ = true;
    return arrays;
  }

  // `count` elements with unspecified content, 64-byte aligned.
  template <typename T>
  T* Array(int64_t count, std::string_view what) {
    static_assert(!std::is_same_v<T, Activation>);
    return static_cast<T*>(
        Bytes(count * static_cast<int64_t>(sizeof(T)), what));
  }
  // Like Array(), but in memory of Device::AllocateShared().
  template <typename T>
  T* SharedArray(int64_t count, std::string_view what) {
    return static_cast<T*>(Bytes(count * static_cast<int64_t>(sizeof(T)), what,
                                 &Device::AllocateShared));
  }
  Activation* Activations(int64_t count, std::string_view what) {
    return static_cast<Activation*>(Bytes(
        count * static_cast<int64_t>(ElementBytes(device_->activation_type())),
        what));
  }
  // An array holding a copy of `values`.
  template <typename T>
  const T* Copy(const std::vector<T>& values, std::string_view what) {
    T* array = Array<T>(static_cast<int64_t>(values.size()), what);
    if (array != nullptr) {
      status_.Update(
          device_->Upload(array, values.data(), values.size() * sizeof(T)));
    }
    return array;
  }

  // Host memory for asynchronous copies (Device::AllocateHost), which
  // total_bytes() does not count.
  char* HostBytes(int64_t bytes, std::string_view what) {
    if (!status_.ok() || is_measuring_) return nullptr;
    absl::StatusOr<HostMemory> memory =
        device_->AllocateHost(static_cast<size_t>(bytes), what);
    if (!memory.ok()) {
      status_ = memory.status();
      return nullptr;
    }
    host_memory_.push_back(*std::move(memory));
    return static_cast<char*>(host_memory_.back().get());
  }

  Device& device() const { return *device_; }
  const absl::Status& status() const { return status_; }
  size_t total_bytes() const { return total_bytes_; }

 private:
  using Allocator = absl::StatusOr<DeviceMemory> (Device::*)(size_t,
                                                             std::string_view);
  void* Bytes(int64_t bytes, std::string_view what,
              Allocator allocate = &Device::Allocate) {
    if (!status_.ok()) return nullptr;
    if (is_measuring_) {
      total_bytes_ += static_cast<size_t>(bytes);
      return nullptr;
    }
    absl::StatusOr<DeviceMemory> memory =
        (device_->*allocate)(static_cast<size_t>(bytes), what);
    if (!memory.ok()) {
      status_ = memory.status();
      return nullptr;
    }
    total_bytes_ += static_cast<size_t>(bytes);
    memory_.push_back(*std::move(memory));
    return memory_.back().get();
  }

  Device* device_;
  std::vector<DeviceMemory> memory_;
  std::vector<HostMemory> host_memory_;
  absl::Status status_;
  size_t total_bytes_ = 0;
  bool is_measuring_ = false;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_DEVICE_ARRAYS_H_
