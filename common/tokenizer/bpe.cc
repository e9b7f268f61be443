#include "common/tokenizer/bpe.h"

#include <cstddef>
#include <queue>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace bole {
namespace {

constexpr int32_t kNone = -1;

uint64_t PairKey(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 |
         static_cast<uint32_t>(right);
}

}  // namespace

// A piece while its symbols are merged: a linked list over an array, and a heap
// of the merges that its neighbours allow.
class BpeWord {
 public:
  explicit BpeWord(const Bpe& bpe) : bpe_(bpe) {}

  absl::Status Init(std::string_view piece) {
    symbols_.reserve(piece.size());
    for (const char c : piece) {
      const auto byte = static_cast<uint8_t>(c);
      const std::optional<int32_t> id = bpe_.byte_ids_[byte];
      if (!id) {
        return absl::InvalidArgumentError(
            absl::StrCat("the vocabulary has no token for byte 0x",
                         absl::Hex(byte, absl::kZeroPad2)));
      }
      const auto i = static_cast<int32_t>(symbols_.size());
      symbols_.push_back({.id = *id, .previous = i - 1, .next = i + 1});
    }
    symbols_.back().next = kNone;
    return absl::OkStatus();
  }

  void MergeAll() {
    std::vector<Candidate> candidates;
    candidates.reserve(symbols_.size());
    heap_ = Heap(std::greater<Candidate>(), std::move(candidates));
    for (size_t i = 0; i + 1 < symbols_.size(); ++i) {
      Consider(static_cast<int32_t>(i));
    }
    while (!heap_.empty()) {
      const Candidate candidate = heap_.top();
      heap_.pop();
      Apply(candidate);
    }
  }

  void AppendIds(std::vector<int32_t>* ids) const {
    for (int32_t i = 0; i != kNone; i = symbols_[i].next) {
      ids->push_back(symbols_[i].id);
    }
  }

 private:
  struct Symbol {
    int32_t id;  // kNone once merged into its left neighbour.
    int32_t previous;
    int32_t next;
  };

  // The merge of the symbols at `left` and its next. Out of date once either
  // has changed, which their ids tell.
  struct Candidate {
    int32_t rank;
    int32_t left;
    int32_t left_id;
    int32_t right_id;
    int32_t merged_id;

    friend bool operator>(const Candidate& a, const Candidate& b) {
      return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
    }
  };
  using Heap = std::priority_queue<Candidate, std::vector<Candidate>,
                                   std::greater<Candidate>>;

  void Consider(int32_t left) {
    const Symbol& symbol = symbols_[left];
    const int32_t right_id = symbols_[symbol.next].id;
    if (const Bpe::Rule* rule = bpe_.FindRule(symbol.id, right_id)) {
      heap_.push({.rank = rule->rank,
                  .left = left,
                  .left_id = symbol.id,
                  .right_id = right_id,
                  .merged_id = rule->merged});
    }
  }

  void Apply(const Candidate& candidate) {
    Symbol& left = symbols_[candidate.left];
    if (left.id != candidate.left_id || left.next == kNone) return;
    Symbol& right = symbols_[left.next];
    if (right.id != candidate.right_id) return;
    left.id = candidate.merged_id;
    left.next = right.next;
    right.id = kNone;
    if (left.next != kNone) {
      symbols_[left.next].previous = candidate.left;
      Consider(candidate.left);
    }
    if (left.previous != kNone) Consider(left.previous);
  }

  const Bpe& bpe_;
  std::vector<Symbol> symbols_;
  Heap heap_;
};

Bpe::Bpe(const std::array<std::optional<int32_t>, 256>& byte_ids,
         const std::vector<BpeMerge>& merges)
    : byte_ids_(byte_ids) {
  rules_.reserve(merges.size());
  int32_t rank = 0;
  for (const BpeMerge& merge : merges) {
    rules_[PairKey(merge.left, merge.right)] = {.rank = rank++,
                                                .merged = merge.merged};
  }
}

absl::Status Bpe::Encode(std::string_view piece,
                         std::vector<int32_t>* ids) const {
  if (piece.empty()) return absl::OkStatus();
  BpeWord word(*this);
  BOLE_RETURN_IF_ERROR(word.Init(piece));
  word.MergeAll();
  word.AppendIds(ids);
  return absl::OkStatus();
}

const Bpe::Rule* Bpe::FindRule(int32_t left, int32_t right) const {
  const auto rule = rules_.find(PairKey(left, right));
  return rule == rules_.end() ? nullptr : &rule->second;
}

}  // namespace bole
