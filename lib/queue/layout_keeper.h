// LayoutKeeper: the layout of one queue (see store/layout.h), as this process knows it.
#pragma once

#include <delayqueue/version.h>

#include "redis/connection.h"
#include "store/keys.h"
#include "store/layout.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace delayqueue {

inline namespace DELAYQUEUE_ABI {
namespace internal {
class Endpoint;
}  // namespace internal
}  // namespace DELAYQUEUE_ABI
using internal::Endpoint;

// Whether a client that reads the layout also updates the copies that are behind. Readers that may change nothing do
// not.
enum class LostCopies { restore, leave };

// Reads the copies of partitions 0 and 1, merges them with all that it read before, and updates a copy that is behind.
// So each client restores what a copy has lost, in a failover without the last writes or a flush, and no partition that
// one of them knows is lost for the others. Any number of threads may use it.
class LayoutKeeper {
 public:
  // Calls a function with a connection over which the keys of a partition can be used, and passes on what it throws.
  // Throws ConnectionError if there is no such connection.
  using WithConnection = std::function<void(unsigned partition, const std::function<void(redis::Connection&)>&)>;

  LayoutKeeper(std::string queue, store::KeyScheme options, WithConnection with_connection);

  // All that was read so far; before the first read, the layout of a queue without partitions.
  store::Layout known() const;

  // The number of partitions that messages are sent to, as far as is known.
  unsigned partitions() const { return partitions_; }

  // Adds the copy of a partition, which the caller has read.
  void remember(unsigned partition, const store::Layout& copy);

  // The limit of the queue's length, of which each partition that messages are sent to has its share; as far as is
  // known. A sender remembers it, as read from partition 0.
  void remember_length(const std::optional<std::uint64_t>& length) { length_ = length.value_or(kUnlimited); }
  std::optional<std::uint64_t> length_of(unsigned partition) const;

  // Reads the copies of partitions 0 and 1, and updates those that are behind. Returns false if one of the two could
  // not be read: the queue may then have more partitions than are known. Throws if that is the one of partition 0, and
  // no layout was ever read. A copy that this user may not read counts as absent.
  bool read(LostCopies lost = LostCopies::restore);

  // The partition that each id belongs to: the one that it was made for, if the queue has or had so many, else 0. Reads
  // the copies again if an id names a partition beyond the known ones. Throws what read() throws, and ConnectionError
  // if it then cannot be told whether the queue has that partition.
  std::vector<unsigned> partitions_of(const std::vector<std::string>& ids, LostCopies lost = LostCopies::restore);

  // Whether the copy of a partition is behind, as far as this object has seen.
  bool is_behind(unsigned partition) const;

  // Updates the copy of a partition that is about to be used, if it is behind as far as this object has seen. By their
  // copies, partitions in use can be told from other queues of the same name: see probe().
  void copy_to(unsigned partition);
  // The same over a connection of the caller.
  void copy_to(unsigned partition, redis::Connection& connection);

  // Throws std::invalid_argument if the queue cannot have this number of partitions.
  void check(unsigned partitions) const;

  // Raises `top` in the copies of partitions 0 and 1, if the queue never had so many: for messages that were made for
  // partitions beyond it. Throws as set() does, and std::invalid_argument if the queue cannot have so many.
  void raise_top(unsigned top);

  // Sets the number of partitions. The copies of partitions 0 and 1 get the larger `top` before one of them gets the
  // number: so consumers serve each partition, also one that a sender learned of from a copy that was lost right after.
  // Returns the layout that counts then: another operator may have set a later one. Throws ConnectionError if one of
  // the two copies could not be written: then it is unknown whether the number counts, and the call may be repeated.
  store::Layout set(unsigned partitions);

  // What the copies of partitions 0 and 1 told when they were last read. They have lost what known() has beyond it.
  store::Layout named() const;

  // Updates the copies of partitions 0 and 1 that are behind, as far as this object has seen.
  void restore();

  // Adds what the copies of all partitions that the queue can have tell, if those of 0 and 1 have lost it; changes
  // none. Returns the partitions beyond `top` that have messages, but no copy: they may belong to another queue. `all`:
  // in the order of the partitions, possible() of them; unset: could not be examined.
  std::vector<unsigned> probe(const std::vector<std::optional<store::Examined>>& all);
  unsigned possible() const { return homes() > 1 ? store::kMostPartitions : 1; }

 private:
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

  store::Keys keys_of(unsigned partition) const { return store::make_keys(queue_, options_, partition); }
  unsigned homes() const { return options_.bodies_under_dp ? 1 : 2; }  // partitions whose copies are read
  void raise_copies(unsigned top);
  void read_copy(unsigned partition);
  void update(unsigned partition, const store::Layout& layout);
  void update(unsigned partition, const store::Layout& layout, redis::Connection& connection);

  const std::string queue_;
  const store::KeyScheme options_;
  const WithConnection with_connection_;
  std::atomic<unsigned> partitions_{1};  // of known_
  std::atomic<std::uint64_t> length_{kUnlimited};
  mutable std::mutex mutex_;  // guards the rest
  store::Layout known_;
  std::map<unsigned, store::Layout> copies_;  // as they were last seen
};

// The copy of the layout in one partition, as a client keeps it that uses the partition. Any number of threads may use
// it. By their copies, partitions in use can be told from other queues of the same name.
class LayoutCopy {
 public:
  // `endpoint`: of the partition. Both must outlive this object.
  LayoutCopy(LayoutKeeper& keeper, Endpoint& endpoint, unsigned partition)
      : keeper_(keeper), endpoint_(endpoint), partition_(partition) {}

  // Whether clients read it again from time to time: the copies of partitions 0 and 1 are those that count.
  bool is_read_again() const { return partition_ <= 1; }

  void remember(const store::SenderSettings& settings);

  // The most messages of the partition; unset: there is no limit.
  std::optional<std::uint64_t> length() const { return keeper_.length_of(partition_); }
  unsigned partitions() const { return keeper_.partitions(); }

  // Remembers the copy that was read when the queue was verified on a connection.
  void remember_verified();

  // Updates the copy if it is behind: to be called with a connection on which the queue is verified, before the
  // partition is used. Throws as Pipeline::run() does, and what Redis answers, except for partition 0: that can be used
  // without.
  void prepare(redis::Connection& connection);

 private:
  LayoutKeeper& keeper_;
  Endpoint& endpoint_;
  const unsigned partition_;
  std::atomic<bool> is_known_{false};  // it was remembered
};

}  // namespace delayqueue
