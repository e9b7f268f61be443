// Advances the window of a sequence by some rows. Nothing is computed, so
// elements are moved in words of any size.
#ifndef BOLE_KERNELS_CUDA_GDN_GDN_WINDOWS_CUH_
#define BOLE_KERNELS_CUDA_GDN_GDN_WINDOWS_CUH_

#include <cstdint>

namespace bole::cuda {

inline constexpr int kMaxWindowTaps = 8;

// The shift of one word of every row.
template <typename Word>
struct WindowShift {
  const Word* raw;      // The word of row 0.
  const int32_t* path;  // [count] rows that are shifted in, oldest first.
  int count;
  bool from_zero;  // The old window is zero, and not read.
  Word* window;    // The word of the oldest row.
  int taps;        // Rows of the window.
  int row_words;
};

// The new window consists of the last `taps` rows of the old window followed by
// the path. Everything is read before anything is written.
template <typename Word>
__device__ void ShiftWindow(const WindowShift<Word>& shift) {
  Word rows[kMaxWindowTaps];
#pragma unroll
  for (int i = 0; i < kMaxWindowTaps; ++i) {
    const int from = i + shift.count;
    rows[i] = Word();
    if (i >= shift.taps) continue;
    if (from >= shift.taps) {
      rows[i] = shift.raw[static_cast<int64_t>(shift.path[from - shift.taps]) *
                          shift.row_words];
    } else if (!shift.from_zero) {
      rows[i] = shift.window[static_cast<int64_t>(from) * shift.row_words];
    }
  }
#pragma unroll
  for (int i = 0; i < kMaxWindowTaps; ++i) {
    if (i < shift.taps) {
      shift.window[static_cast<int64_t>(i) * shift.row_words] = rows[i];
    }
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_GDN_GDN_WINDOWS_CUH_
