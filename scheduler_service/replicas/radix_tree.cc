#include "scheduler_service/replicas/radix_tree.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace bole {
namespace {

// The length of the common prefix.
int CountEqual(std::span<const int32_t> a, std::span<const int32_t> b) {
  const size_t most = std::min(a.size(), b.size());
  const auto differ = std::mismatch(a.begin(), a.begin() + most, b.begin());
  return static_cast<int>(differ.first - a.begin());
}

bool BeginsWith(std::span<const int32_t> tokens,
                std::span<const int32_t> begin) {
  return tokens.size() >= begin.size() &&
         std::equal(begin.begin(), begin.end(), tokens.begin());
}

std::vector<int32_t> FirstOf(std::span<const int32_t> tokens, int count) {
  return {tokens.begin(), tokens.begin() + count};
}

void AppendTo(MemoryReferences& references, const PageLease& pages) {
  references.pages.insert(references.pages.end(), pages.ids().begin(),
                          pages.ids().end());
}

void AddReferencesOf(const RadixNode& node, MemoryReferences& references) {
  AppendTo(references, node.pages);
  for (const PrefixMark* mark : node.marks) {
    AppendTo(references, mark->last_page);
  }
  for (const auto& [first, child] : node.children) {
    AddReferencesOf(*child, references);
  }
}

}  // namespace

void RadixTree::Put(PrefixMark& mark, const std::string& key,
                    std::span<const int32_t> tokens, const PageLease& pages,
                    int drafted) {
  BOLE_CHECK(mark.position > 0 && mark.position <= std::ssize(tokens) &&
             mark.node == nullptr);
  const int depth = PagesBefore(mark);
  const auto known = tokens.first(mark.position);
  const auto tail = known.subspan(static_cast<size_t>(depth) * page_size_);
  std::unique_ptr<RadixNode>& root = roots_[key];
  if (root == nullptr) {
    root = std::make_unique<RadixNode>(memory_);
    root->key = key;
  }
  RadixNode* node = root.get();
  while (node->end_page() < depth) {
    const int first = node->end_page();
    const auto label =
        known.subspan(static_cast<size_t>(first) * page_size_,
                      static_cast<size_t>(depth - first) * page_size_);
    std::unique_ptr<RadixNode>& child =
        node->children[FirstOf(label, page_size_)];
    if (child == nullptr) {
      child = std::make_unique<RadixNode>(memory_);
      child->parent = node;
      child->first_page = first;
      child->label.assign(label.begin(), label.end());
      child->pages = pages.Share(first, depth - first, PageHolder::kCache);
      for (int i = first; i < depth; ++i) child->drafted.push_back(i < drafted);
    }
    node = child.get();
    const int equal = CountEqual(node->label, label) / page_size_;
    if (equal < node->pages.size() && first + equal < depth) {
      Split(*node, equal);
    }
    if (takes_drafted_) TakeDrafted(*node, pages, drafted);
  }
  mark.node = node;
  mark.tail.assign(tail.begin(), tail.end());
  mark.last_page = pages.Share(depth, tail.empty() ? 0 : 1, PageHolder::kCache);
  node->marks.push_back(&mark);
}

void RadixTree::TakeDrafted(RadixNode& node, const PageLease& pages,
                            int drafted) {
  const int count = std::min(drafted, node.end_page()) - node.first_page;
  const auto end = node.drafted.begin() + std::max(count, 0);
  if (std::find(node.drafted.begin(), end, false) == end) return;
  // A request that starts from a checkpoint below keeps the pages of its path
  // from being evicted. Replacements could not be evicted either, and yet would
  // count as held by the cache alone.
  const std::vector<PageId>& ids = node.pages.ids();
  const bool all_idle =
      std::all_of(ids.begin(), ids.begin() + count,
                  [this](PageId id) { return memory_.IsCacheOnly(id); });
  if (!all_idle) return;
  PageLease rest = node.pages.SplitAt(count);
  node.pages = pages.Share(node.first_page, count, PageHolder::kCache);
  node.pages.Append(std::move(rest));
  std::fill(node.drafted.begin(), end, true);
}

void RadixTree::Split(RadixNode& node, int count) {
  auto below = std::make_unique<RadixNode>(memory_);
  below->parent = &node;
  below->first_page = node.first_page + count;
  below->pages = node.pages.SplitAt(count);
  below->drafted.assign(node.drafted.begin() + count, node.drafted.end());
  node.drafted.resize(count);
  below->label.assign(
      node.label.begin() + static_cast<int64_t>(count) * page_size_,
      node.label.end());
  node.label.resize(static_cast<size_t>(count) * page_size_);
  below->children = std::exchange(node.children, {});
  for (const auto& [first, child] : below->children) {
    child->parent = below.get();
  }
  const auto stays = std::partition(
      node.marks.begin(), node.marks.end(), [&](const PrefixMark* mark) {
        return PagesBefore(*mark) <= below->first_page;
      });
  below->marks.assign(stays, node.marks.end());
  node.marks.erase(stays, node.marks.end());
  for (PrefixMark* mark : below->marks) mark->node = below.get();
  node.children.emplace(FirstOf(below->label, page_size_), std::move(below));
}

void RadixTree::Remove(PrefixMark& mark) {
  RadixNode* const node = std::exchange(mark.node, nullptr);
  BOLE_CHECK(std::erase(node->marks, &mark) == 1);
  mark.last_page = PageLease(memory_, PageHolder::kCache);
  Trim(node);
}

void RadixTree::Trim(RadixNode* node) {
  while (node->children.empty()) {
    int needed = node->first_page;
    for (const PrefixMark* mark : node->marks) {
      needed = std::max(needed, PagesBefore(*mark));
    }
    const int count = needed - node->first_page;
    RadixNode* const parent = node->parent;
    if (count > 0 || !node->marks.empty()) {
      node->pages.SplitAt(count);
      node->drafted.resize(count);
      node->label.resize(static_cast<size_t>(count) * page_size_);
      return;
    }
    if (parent == nullptr) {
      roots_.erase(node->key);
      return;
    }
    parent->children.erase(FirstOf(node->label, page_size_));
    node = parent;
  }
}

int RadixTree::Visit(const std::string& key, std::span<const int32_t> tokens,
                     const std::function<void(PrefixMark&)>& visit) const {
  const auto root = roots_.find(key);
  if (root == roots_.end()) return 0;
  const RadixNode* node = root->second.get();
  int matched = 0;
  while (true) {
    const auto beyond =
        tokens.subspan(static_cast<size_t>(node->first_page) * page_size_);
    const int equal = CountEqual(node->label, beyond);
    matched = node->first_page * page_size_ + equal;
    for (PrefixMark* mark : node->marks) {
      const int depth = PagesBefore(*mark);
      if (depth * page_size_ <= matched &&
          BeginsWith(tokens.subspan(static_cast<size_t>(depth) * page_size_),
                     mark->tail)) {
        visit(*mark);
      }
    }
    if (equal < std::ssize(node->label)) break;
    const auto next = beyond.subspan(equal);
    if (std::ssize(next) < page_size_) break;
    const auto child = node->children.find(FirstOf(next, page_size_));
    if (child == node->children.end()) break;
    node = child->second.get();
  }
  return matched;
}

void RadixTree::VisitBelow(
    const PrefixMark& mark,
    const std::function<void(PrefixMark&)>& visit) const {
  std::vector<const RadixNode*> nodes = {mark.node};
  while (!nodes.empty()) {
    const RadixNode* const node = nodes.back();
    nodes.pop_back();
    for (PrefixMark* other : node->marks) visit(*other);
    for (const auto& [first, child] : node->children) {
      nodes.push_back(child.get());
    }
  }
}

bool RadixTree::IsOnPathOf(const PrefixMark& upper,
                           const PrefixMark& lower) const {
  const int depth = PagesBefore(upper);
  if (upper.position > lower.position) return false;
  const RadixNode* below = nullptr;  // On the path, directly below `node`.
  const RadixNode* node = lower.node;
  while (node != upper.node) {
    below = node;
    node = node->parent;
    if (node == nullptr) return false;
  }
  if (below == nullptr && PagesBefore(lower) == depth) {
    return BeginsWith(lower.tail, upper.tail);
  }
  const RadixNode* const has_page = depth < node->end_page() ? node : below;
  BOLE_CHECK(has_page != nullptr);
  return BeginsWith(
      std::span(has_page->label)
          .subspan(static_cast<size_t>(depth - has_page->first_page) *
                   page_size_),
      upper.tail);
}

int RadixTree::DraftedPagesOf(const PrefixMark& mark) const {
  int first_missing = PagesBefore(mark);
  for (const RadixNode* node = mark.node; node != nullptr;
       node = node->parent) {
    const auto missing =
        std::find(node->drafted.begin(), node->drafted.end(), false);
    if (missing == node->drafted.end()) continue;
    const int at =
        node->first_page + static_cast<int>(missing - node->drafted.begin());
    first_missing = std::min(first_missing, at);
  }
  return first_missing;
}

PageId RadixTree::LastPageOf(const PrefixMark& mark) const {
  if (!mark.tail.empty()) return mark.last_page.ids()[0];
  return mark.node->pages.ids()[PagesBefore(mark) - mark.node->first_page - 1];
}

PageLease RadixTree::PagesOf(const PrefixMark& mark) const {
  std::vector<const RadixNode*> path;
  for (const RadixNode* node = mark.node; node != nullptr;
       node = node->parent) {
    path.push_back(node);
  }
  PageLease pages(memory_);
  for (auto node = path.rbegin(); node != path.rend(); ++node) {
    const int count =
        std::min((*node)->end_page(), PagesBefore(mark)) - (*node)->first_page;
    pages.Append((*node)->pages.Share(0, count, PageHolder::kRequest));
  }
  pages.Append(
      mark.last_page.Share(0, mark.last_page.size(), PageHolder::kRequest));
  return pages;
}

RadixTree::Run RadixTree::RunOf(const PrefixMark& mark) const {
  std::vector<const RadixNode*> path;
  for (const RadixNode* node = mark.node; node != nullptr;
       node = node->parent) {
    path.push_back(node);
  }
  Run run{.key = path.back()->key, .tokens = {}};
  for (auto node = path.rbegin(); node != path.rend(); ++node) {
    const std::vector<int32_t>& label = (*node)->label;
    run.tokens.insert(run.tokens.end(), label.begin(), label.end());
  }
  run.tokens.resize(static_cast<size_t>(PagesBefore(mark)) * page_size_);
  run.tokens.insert(run.tokens.end(), mark.tail.begin(), mark.tail.end());
  return run;
}

PageLease RadixTree::Known(const std::string& key,
                           std::span<const int32_t> tokens, int most,
                           bool drafted) const {
  PageLease pages(memory_);
  const auto root = roots_.find(key);
  if (root == roots_.end()) return pages;
  const RadixNode* node = root->second.get();
  while (true) {
    const auto beyond =
        tokens.subspan(static_cast<size_t>(node->first_page) * page_size_);
    int count = std::min(CountEqual(node->label, beyond) / page_size_,
                         most - node->first_page);
    if (drafted) {
      const auto end = node->drafted.begin() + count;
      const auto missing = std::find(node->drafted.begin(), end, false);
      count = static_cast<int>(missing - node->drafted.begin());
    }
    pages.Append(node->pages.Share(0, count, PageHolder::kRequest));
    if (count < node->pages.size()) return pages;
    const auto next = beyond.subspan(node->label.size());
    if (std::ssize(next) < page_size_) return pages;
    const auto child = node->children.find(FirstOf(next, page_size_));
    if (child == node->children.end()) return pages;
    node = child->second.get();
  }
}

void RadixTree::AddReferences(MemoryReferences& references) const {
  for (const auto& [key, root] : roots_) AddReferencesOf(*root, references);
}

}  // namespace bole
