// Counts dead letters by reason, in bounded memory.
#pragma once

#include <delayqueue/inspector.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "output/json.h"

namespace dqctl {

struct ReasonCount {
  std::optional<std::string> reason{};  // unset: the sum of all reasons that were not kept
  std::uint64_t count = 0;
  std::optional<Time> first{}, last{};  // when the first and the last of them became dead letters
  std::string example{};                // the id of the last of them; empty: no call takes one of their ids
};

Object reason_object(const ReasonCount& one);

class ReasonCounts {
 public:
  // Most distinct reasons to keep. Later ones are counted in one sum: a hostile or careless client may make every
  // reason unique. A reason has at most 1 KiB.
  static constexpr std::size_t kMost = 10'000;

  void add(const delayqueue::MessageInfo& message);

  std::uint64_t messages() const { return messages_; }
  std::size_t distinct() const { return kept_.size(); }

  // The most frequent reason first, equally frequent ones by their bytes; the sum of those not kept is last.
  std::vector<ReasonCount> sorted() const;

 private:
  std::unordered_map<std::string, ReasonCount> kept_{};  // reason is unset in the values
  ReasonCount rest_{};
  std::uint64_t messages_ = 0;
};

}  // namespace dqctl
