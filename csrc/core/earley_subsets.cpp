// In ambiguous grammars one rule's end may be waited for in several sets, of which some can go on
// in no way that others cannot. Items that wait in them are dropped; without this, a grammar such
// as "s ::= s s s | s s | ..." would have more items with each byte.
#include <algorithm>
#include <utility>

#include "core/earley_maker.h"
#include "core/fast_paths.h"

namespace mlx_sampling {
namespace {

constexpr size_t most_compared = 32;  // items, of either set and of one state
constexpr int deepest = 2;            // sets that items of compared sets wait in

bool counts_inside(const EarleyItem& small, const EarleyItem& large) {
  return large.least <= small.least && small.most <= large.most;
}

}  // namespace

// Texts are shorter after an item than before it. So two sets may be taken to be compared already
// where they are met again while they are.
bool EarleyMaker::compare(const EarleySet* small, const EarleySet* large, int depth) {
  std::span<const EarleyItem> items = large->items;
  bool completed = large->completed;
  if (large->is_open) {
    const auto member = std::find_if(members_->begin(), members_->end(),
                                     [&](const Member& m) { return m.after == large; });
    items = member->items;
    completed = member->completed;
  }
  if (small->completed && !completed) return false;
  if (std::max(small->items.size(), items.size()) > most_compared) return false;
  return std::all_of(small->items.begin(), small->items.end(), [&](const EarleyItem& item) {
    return std::any_of(items.begin(), items.end(), [&](const EarleyItem& other) {
      return other.state == item.state && counts_inside(item, other) &&
             (other.parent == item.parent || (item.parent == small && other.parent == large) ||
              (depth > 0 && is_subset(item.parent, other.parent, depth - 1)));
    });
  });
}

bool EarleyMaker::is_subset(const EarleySet* small, const EarleySet* large, int depth) {
  if (small->is_open || (large->is_open && members_ == nullptr)) return false;
  if (subsets_.size() > 100'000) subsets_.clear();
  const uint64_t pair = uint64_t{small->id} << 32 | large->id;
  const auto known = subsets_.find(pair);
  if (known != subsets_.end()) return known->second;
  const bool found = compare(small, large, depth);
  // A set that is still open, or compared less deep, may turn out to be one later.
  if (found || (depth == deepest && !large->is_open)) subsets_.emplace(pair, found);
  return found;
}

void EarleyMaker::drop_subsets(Items& items) {
  if (!fast_paths()) return;
  size_t kept = 0;
  for (size_t first = 0, end = 0; first < items.size(); first = end) {
    for (end = first; end < items.size() && items[end].state == items[first].state;) ++end;
    const auto dropped = [&](size_t i) {
      for (size_t k = first; k < end; ++k) {
        if (k == i || items[k].parent == nullptr || items[k].parent == items[i].parent) continue;
        if (!counts_inside(items[i], items[k])) continue;
        if (is_subset(items[i].parent, items[k].parent, deepest)) return true;
      }
      return false;
    };
    const bool compare = end - first > 1 && end - first <= most_compared;
    for (size_t i = first; i < end && compare; ++i) {
      if (dropped(i)) items[i].parent = nullptr;
    }
    for (size_t i = first; i < end; ++i) {
      if (items[i].parent != nullptr) items[kept++] = items[i];
    }
  }
  items.resize(kept);
}

// Items of members that wait in older sets, where others wait in the members themselves.
void EarleyMaker::drop_subsets(std::vector<Member>& members) {
  if (!fast_paths()) return;
  members_ = &members;
  for (Member& member : members) {
    Items& items = member.items;
    for (size_t i = 0; i < items.size();) {
      const EarleyItem item = items[i];
      const bool dropped = std::any_of(items.begin(), items.end(), [&](const EarleyItem& other) {
        return other.state == item.state && other.parent->is_open && counts_inside(item, other) &&
               is_subset(item.parent, other.parent, deepest);
      });
      if (dropped) {
        items.erase(items.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  }
  members_ = nullptr;
}

}  // namespace mlx_sampling
