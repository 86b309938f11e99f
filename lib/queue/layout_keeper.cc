#include "queue/layout_keeper.h"

#include "queue/endpoint.h"
#include "redis/failure.h"
#include "store/record.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <utility>

namespace delayqueue {

using redis::Connection;
using redis::Pipeline;
using store::Keys;
using store::kMostPartitions;
using store::StoredLayout;

LayoutKeeper::LayoutKeeper(std::string queue, store::KeyScheme options, WithConnection with_connection)
    : queue_(std::move(queue)), options_(std::move(options)), with_connection_(std::move(with_connection)) {}

store::Layout LayoutKeeper::known() const {
  const std::lock_guard lock(mutex_);
  return known_;
}

store::Layout LayoutKeeper::named() const {
  const std::lock_guard lock(mutex_);
  store::Layout named;
  for (const auto& [partition, copy] : copies_) {
    if (partition < homes()) named = store::merged(named, copy);
  }
  return named;
}

bool LayoutKeeper::read(LostCopies lost) {
  bool complete = true;
  std::exception_ptr home_error;
  std::vector<unsigned> copies;  // that were read
  for (unsigned partition = 0; partition < homes(); ++partition) {
    try {
      read_copy(partition);
      copies.push_back(partition);
    } catch (const AccessDenied&) {
    } catch (const ReplyError&) {
      if (partition == 0) throw;  // in partition 1, something else uses the key
    } catch (const Error&) {
      complete = false;
      if (partition == 0) home_error = std::current_exception();
    }
  }
  if (home_error != nullptr && known() == store::Layout()) std::rethrow_exception(home_error);
  if (lost == LostCopies::leave) return complete;
  for (const unsigned partition : copies) {
    try {
      copy_to(partition);
    } catch (const Error&) {  // the next read tries again
    }
  }
  return complete;
}

std::vector<unsigned> LayoutKeeper::partitions_of(const std::vector<std::string>& ids, LostCopies lost) {
  const std::uint16_t name_crc = store::name_crc(queue_, options_.prefix);
  std::vector<unsigned> partitions;
  partitions.reserve(ids.size());
  for (const std::string& id : ids) partitions.push_back(store::partition_of(id, name_crc).value_or(0));
  const auto most = std::max_element(partitions.begin(), partitions.end());
  if (most == partitions.end() || *most < known().top) return partitions;
  const bool complete = read(lost);
  const unsigned top = known().top;
  if (*most >= top && !complete) {
    throw ConnectionError("cannot tell the partition of an id: it was made for partition " + std::to_string(*most) +
                          " of " + queue_ + ", which is known to have " + std::to_string(top) +
                          ", and the layout in partitions 0 and 1 cannot be read");
  }
  std::replace_if(
      partitions.begin(), partitions.end(), [top](unsigned partition) { return partition >= top; }, 0U);
  return partitions;
}

void LayoutKeeper::copy_to(unsigned partition) {
  if (is_behind(partition)) update(partition, known());
}

void LayoutKeeper::copy_to(unsigned partition, Connection& connection) {
  if (is_behind(partition)) update(partition, known(), connection);
}

void LayoutKeeper::restore() {
  for (unsigned partition = 0; partition < homes(); ++partition) copy_to(partition);
}

void LayoutKeeper::check(unsigned partitions) const {
  if (!store::is_partition_count(partitions)) {
    throw std::invalid_argument("partitions: " + std::to_string(partitions) + "; expected a power of two from 1 to " +
                                std::to_string(kMostPartitions));
  }
  if (partitions > 1) keys_of(1);  // throws if the options allow one only
}

store::Layout LayoutKeeper::set(unsigned partitions) {
  check(partitions);
  while (true) {
    raise_copies(partitions);
    StoredLayout stored;
    with_connection_(0, [&](Connection& connection) {
      Pipeline pipeline(connection);
      const auto answer = store::set_layout(pipeline, keys_of(0), known(), partitions);
      pipeline.run();
      stored = answer.get();
    });
    remember(0, stored.copy);
    if (!stored.done) continue;  // another operator was faster
    if (homes() > 1) update(1, known());
    return known();
  }
}

std::vector<unsigned> LayoutKeeper::probe(const std::vector<std::optional<store::Examined>>& all) {
  for (unsigned partition = 0; partition < all.size(); ++partition) {
    if (all[partition]) remember(partition, all[partition]->copy);
  }
  std::vector<unsigned> used;
  for (unsigned partition = known().top; partition < all.size(); ++partition) {  // top is above all that have a copy
    if (all[partition] && all[partition]->has_messages) used.push_back(partition);
  }
  return used;
}

void LayoutKeeper::raise_top(unsigned top) {
  if (top <= known().top) return;
  keys_of(top - 1);  // throws if there can be no such partition
  raise_copies(top);
}

void LayoutKeeper::raise_copies(unsigned top) {
  for (unsigned partition = 0; partition < homes(); ++partition) read_copy(partition);
  store::Layout larger = known();
  larger.top = std::max(larger.top, top);
  for (unsigned partition = 0; partition < homes(); ++partition) update(partition, larger);
}

void LayoutKeeper::read_copy(unsigned partition) {
  store::Layout copy;
  with_connection_(partition, [&](Connection& connection) {
    Pipeline pipeline(connection);
    const auto answer = store::read_layout(pipeline, keys_of(partition));
    pipeline.run();
    copy = answer.get();
  });
  remember(partition, copy);
}

void LayoutKeeper::update(unsigned partition, const store::Layout& layout) {
  with_connection_(partition, [&](Connection& connection) { update(partition, layout, connection); });
}

void LayoutKeeper::update(unsigned partition, const store::Layout& layout, Connection& connection) {
  Pipeline pipeline(connection);
  const auto answer = store::copy_layout(pipeline, keys_of(partition), layout);
  pipeline.run();
  remember(partition, answer.get().copy);
}

bool LayoutKeeper::is_behind(unsigned partition) const {
  const std::lock_guard lock(mutex_);
  const auto copy = copies_.find(partition);
  const store::Layout seen = copy == copies_.end() ? store::Layout() : copy->second;
  return store::merged(seen, known_) != seen;
}

void LayoutKeeper::remember(unsigned partition, const store::Layout& copy) {
  const std::lock_guard lock(mutex_);
  copies_[partition] = copy;
  known_ = store::merged(known_, copy);
  partitions_ = known_.partitions;
}

// As with the other limits, the rest goes to the lower partitions.
std::optional<std::uint64_t> LayoutKeeper::length_of(unsigned partition) const {
  const std::uint64_t length = length_;
  if (length == kUnlimited) return std::nullopt;
  const unsigned parts = partitions_;
  return length / parts + (partition < length % parts ? 1 : 0);
}

void LayoutCopy::remember(const store::SenderSettings& settings) {
  keeper_.remember(partition_, settings.layout);
  if (partition_ == 0) keeper_.remember_length(settings.length);
}

void LayoutCopy::remember_verified() {
  remember(endpoint_.settings());
  is_known_ = true;
}

void LayoutCopy::prepare(redis::Connection& connection) {
  const bool is_home = partition_ == 0;
  if (is_home && (keeper_.partitions() == 1 || keeper_.possible() == 1)) return;
  if (!is_known_) remember_verified();
  const auto failure = redis::attempt([&] { keeper_.copy_to(partition_, connection); });
  if (failure && !(is_home && failure->is_reply())) redis::raise(*failure);
}

}  // namespace delayqueue
