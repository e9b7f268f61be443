// A radix tree of runs of tokens whose keys and values are in pages. Equal
// prefixes share their pages.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_RADIX_TREE_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_RADIX_TREE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "scheduler_service/replicas/worker_memory.h"

namespace bole {

struct RadixNode;

// A position in a run of tokens: after its first `position` tokens. The pages
// that these tokens fill completely belong to the tree. A page that they fill
// in part belongs to the mark; a request that starts from the mark writes the
// rest of a copy of it.
struct PrefixMark {
  int position;
  PageLease last_page;             // Empty if no page is filled in part.
  RadixNode* node = nullptr;       // The last of its path; set by Put().
  std::vector<int32_t> tail = {};  // Its tokens after those of the path.

  explicit PrefixMark(WorkerMemory& memory, int at)
      : position(at), last_page(memory, PageHolder::kCache) {}
};

// Some pages of a run, which all runs through the nodes below share.
struct RadixNode {
  RadixNode* parent = nullptr;      // Null for a root, which has no pages.
  std::string key = {};             // Set in roots only.
  int first_page = 0;               // How many pages are above it.
  std::vector<int32_t> label = {};  // [pages * page_size]
  PageLease pages;
  std::vector<bool> drafted = {};  // [pages] The drafter's entries are there.
  // Keyed by the label of their first page.
  absl::flat_hash_map<std::vector<int32_t>, std::unique_ptr<RadixNode>>
      children = {};
  // The marks whose path ends in this node.
  std::vector<PrefixMark*> marks = {};

  explicit RadixNode(WorkerMemory& memory)
      : pages(memory, PageHolder::kCache) {}
  int end_page() const { return first_page + pages.size(); }
};

// A tree of marks, and of the pages before them. A page is identified by all
// tokens up to its last one. So a mark at `position` has position / page_size
// pages of the tree, and one of its own if tokens are left over. The tree has
// no page that no mark needs.
//
// Runs of different keys share nothing. Tokens are compared, not only hashed.
//
// Not thread-safe.
class RadixTree {
 public:
  // `takes_drafted`: see Put().
  RadixTree(WorkerMemory& memory, int page_size, bool takes_drafted = true)
      : memory_(memory), page_size_(page_size), takes_drafted_(takes_drafted) {}

  RadixTree(const RadixTree&) = delete;
  RadixTree& operator=(const RadixTree&) = delete;

  // Adds the mark. `pages` are those of the first mark.position tokens; the
  // drafter has seen every token of the first `drafted` pages. Where the tree
  // already has equal tokens, it keeps its own pages. But with `takes_drafted`
  // it replaces pages that the drafter has not seen and no request holds by
  // those that the drafter has seen.
  // REQUIRES: 0 < mark.position <= tokens.size(); the tree has no equal mark
  // (Visit()). COST: O(position).
  void Put(PrefixMark& mark, const std::string& key,
           std::span<const int32_t> tokens, const PageLease& pages,
           int drafted);
  // Removes the mark, and gives back the pages that no other mark needs.
  // COST: O(marks of its node + pages given back).
  void Remove(PrefixMark& mark);

  // Calls `visit` with all marks that lie on the run of tokens, in no
  // particular order, and returns how many of the first tokens the tree has
  // pages for, a partial page at the end included.
  // COST: O(tokens + marks on the path).
  int Visit(const std::string& key, std::span<const int32_t> tokens,
            const std::function<void(PrefixMark&)>& visit) const;
  // Calls `visit` with `mark` and all marks that may lie below it.
  // COST: O(nodes and marks there).
  void VisitBelow(const PrefixMark& mark,
                  const std::function<void(PrefixMark&)>& visit) const;
  // Whether every run through `lower` passes `upper`. COST: O(nodes between +
  // page).
  bool IsOnPathOf(const PrefixMark& upper, const PrefixMark& lower) const;
  // How many of the first pages of its path the drafter has seen, without the
  // mark's own page. COST: O(pages).
  int DraftedPagesOf(const PrefixMark& mark) const;
  // The page of the mark's last token. COST: O(1).
  PageId LastPageOf(const PrefixMark& mark) const;
  // A request's lease of the pages of the first mark.position tokens.
  PageLease PagesOf(const PrefixMark& mark) const;
  // The tokens before the mark. COST: O(position).
  struct Run {
    std::string key;
    std::vector<int32_t> tokens;
  };
  Run RunOf(const PrefixMark& mark) const;
  // A request's lease of the tree's pages of the first tokens, at most `most`;
  // with `drafted`, only those before the first that the drafter has not seen.
  // COST: O(tokens).
  PageLease Known(const std::string& key, std::span<const int32_t> tokens,
                  int most, bool drafted) const;

  // Adds the references of the tree and of all its marks.
  void AddReferences(MemoryReferences& references) const;

 private:
  // The number of pages that the mark's tokens fill completely.
  int PagesBefore(const PrefixMark& mark) const {
    return mark.position / page_size_;
  }
  void TakeDrafted(RadixNode& node, const PageLease& pages, int drafted);
  // The first `count` pages of the node stay in it; the others move to a child.
  void Split(RadixNode& node, int count);
  // Removes pages at the end of the node that no mark needs; if none are left,
  // also the node, and then trims those above it.
  void Trim(RadixNode* node);

  WorkerMemory& memory_;
  const int page_size_;
  const bool takes_drafted_;
  absl::flat_hash_map<std::string, std::unique_ptr<RadixNode>> roots_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_RADIX_TREE_H_
