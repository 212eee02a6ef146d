#include "xl_cache.hpp"

#include <algorithm>
#include <vector>

#include "mneme/cpp/ops.hpp"
#include "mneme/plugin.hpp"

namespace xl_cache {
namespace {

using mneme::Rows;
using mneme::Tensor;

bool is_all_valid(const mneme::Layer& l, const Rows& rows) {
  if (!rows.valid) return true;
  if (rows.counts == nullptr) return false;
  return std::all_of(rows.counts, rows.counts + l.lanes(),
                     [&](int64_t count) { return count == rows.count; });
}

// The kernel wants a mask where the ABI says "none = all valid".
Tensor mask_of(const mneme::Layer& l, const Rows& rows) {
  return rows.valid ? rows.valid : mneme::full({l.lanes(), rows.count}, 1.0, mneme::DType::kBool);
}

// The rows of an empty cache, in the new rows' dtype.
Rows no_rows(const Rows& like) {
  Rows none;
  none.hidden = mneme::slice(like.hidden, 1, 0, 0);
  return none;
}

}  // namespace

XlCache::XlCache(mneme::Setup& s) : rows_(s.integer("rows")) {
  mneme::QueueSettings settings;
  settings.capacity = rows_;
  cache_ = s.queue("cache", settings);
  update_id_ = s.kernel(update_);
  s.absorbs_after_segment();
  s.context_rows(rows_);
  s.releases();
  s.is_cut_invariant();
}

// The rows stay where they are, unless that would make many small pieces of them, each of which
// costs the host some work, or some lane has rows that are padding, which have to go first.
void XlCache::absorb(mneme::Layer& l, const Rows& fed) {
  const mneme::QueueValue cache = l.queue(cache_);
  const int64_t held = cache.size(), excess = held + fed.count - rows_;
  if (excess > 0 && (fed.count * kMostPieces < rows_ || has_padding(l, fed))) {
    evict(l, fed, held);
    return;
  }
  cache.append(fed);
  if (excess > 0) l.release(cache.pop_oldest(excess));
}

bool XlCache::has_padding(mneme::Layer& l, const Rows& fed) const {
  const std::vector<Rows> blocks = l.queue(cache_).blocks();
  return !is_all_valid(l, fed) || std::any_of(blocks.begin(), blocks.end(), [&](const Rows& block) {
    return !is_all_valid(l, block);
  });
}

// One kernel call gives the rows that stay and the rows that go.
void XlCache::evict(mneme::Layer& l, const Rows& fed, int64_t held) const {
  const mneme::QueueValue cache = l.queue(cache_);
  const Rows old = held > 0 ? cache.rows() : no_rows(fed);
  const auto out =
      l.call(update_id_, {old.hidden, mask_of(l, old), fed.hidden, mask_of(l, fed)}, {rows_});
  // Rows that are known to be valid without looking at the device need no mask, and the host no
  // counting.
  const bool is_masked = !is_all_valid(l, old) || !is_all_valid(l, fed);
  const Rows kept = Rows::of_hidden(out[0], is_masked ? out[1] : Tensor());
  const Rows evicted = Rows::of_hidden(out[2], is_masked ? out[3] : Tensor());
  // The host decides by itself whether the fed rows are the layer's x, whose keys and values it
  // has. Once they are in the queue, the kept rows are its newest ones, so that all cached keys and
  // values are carried over.
  cache.append(fed);
  cache.assign(kept, kept.count);
  l.release(evicted);
}

void XlCache::context(mneme::Layer& l) {
  if (l.queue(cache_).size() > 0) l.emit(cache_);
}

}  // namespace xl_cache

MNEME_PLUGIN_WITH_FEATURES(xl_cache::XlCache, "org.mneme.xl_cache", "0.1.0",
                           MNEME_PLUGIN_CPP_FEATURES " " MNEME_GROUP_KERNEL)
