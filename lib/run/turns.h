// Turns: weighted fair queueing, for members that share workers or places.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace delayqueue::run {

// Whose turn it is. Members that have work are served in proportion to their weights. A member that had no work gains
// nothing by that, and a member that was served alone loses nothing. With strict priorities the member of the highest
// weight goes first while it has work; members of one weight take turns.
//
// The virtual time of a member is the service that it has had, divided by its weight; the member with the least one is
// next. So the order depends on nothing but the calls. Not synchronized.
class Turns {
 public:
  static constexpr unsigned kMostWeight = 1000;

  // Each weight is 1 to kMostWeight.
  explicit Turns(const std::vector<unsigned>& weights, bool strict = false) : strict_(strict) {
    for (const unsigned weight : weights) members_.push_back({weight});
  }

  std::size_t size() const { return members_.size(); }
  unsigned weight(std::size_t member) const { return members_[member].weight; }
  bool is_strict() const { return strict_; }

  // Whether the member has work. One that begins to have work continues where the others are.
  void set_busy(std::size_t member, bool busy) {
    Member& one = members_[member];
    if (std::exchange(one.busy, busy) || !busy) return;
    std::optional<std::uint64_t> least;
    for (const Member& other : members_) {
      if (&other == &one || !other.busy || !compete(one, other)) continue;
      least = std::min(least.value_or(other.time), other.time);
    }
    if (least) one.time = std::max(one.time, *least);
    if (least) return;
    for (Member& other : members_) {  // no other competes: what was served before does not count
      if (compete(one, other)) other.time = 0;
    }
  }

  // The member was served this much, such as one task or ten messages.
  void serve(std::size_t member, std::size_t amount = 1) {
    members_[member].time += amount * (kUnit / members_[member].weight);
  }

  // The other members that have work are behind this one by at most so much service of it; the rest is forgotten. So a
  // member that had work, but could not be served for long, does not then take the turns of the others for as long.
  void limit_lag(std::size_t member, std::uint64_t most) {
    const Member& one = members_[member];
    const std::uint64_t lag = most * (kUnit / one.weight);
    if (one.time <= lag) return;
    for (Member& other : members_) {
      if (other.busy && compete(one, other)) other.time = std::max(other.time, one.time - lag);
    }
  }

  // The member that is next among those for which may(member) is true. size(): none.
  template <class May>
  std::size_t next(May may) const {
    std::size_t next = size();
    for (std::size_t i = 0; i < size(); ++i) {
      if (may(i) && (next == size() || precedes(i, next))) next = i;
    }
    return next;
  }

  // Whether member a is before member b.
  bool precedes(std::size_t a, std::size_t b) const {
    const Member& one = members_[a];
    const Member& other = members_[b];
    return compete(one, other) ? one.time < other.time : one.weight > other.weight;
  }

 private:
  static constexpr std::uint64_t kUnit = 1'000'000;  // of virtual time, for a weight of 1

  struct Member {
    unsigned weight = 1;
    std::uint64_t time = 0;
    bool busy = false;
  };

  bool compete(const Member& a, const Member& b) const { return !strict_ || a.weight == b.weight; }

  bool strict_;
  std::vector<Member> members_;
};

}  // namespace delayqueue::run
