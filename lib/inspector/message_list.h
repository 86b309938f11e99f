// Pages of the messages in a state, of one partition or several: the implementation of Inspector::list.
#pragma once

#include "inspector/partitions.h"
#include "store/queries.h"

#include <delayqueue/inspector.h>
#include <delayqueue/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace delayqueue {

MessageInfo info_of(store::Entry entry, State state, unsigned partition);

class MessageList {
 public:
  // Ids of one script, which looks each of them up in up to six collections: up to 10 us an id if they are large.
  static constexpr std::size_t kStep = 100;

  MessageList(Partitions& partitions, State state, std::size_t limit)
      : partitions_(partitions), state_(state), limit_(limit) {}

  // The page of a cursor, without payloads. Throws std::invalid_argument.
  MessagePage at(const std::string& cursor);

  // The first page: with `merge` the first messages of all partitions, else those of the first partition that has any.
  MessagePage first(bool merge);

  // Up to `most` ids of one partition, at most kStep.
  store::Page read(unsigned partition, std::size_t from, std::size_t most);

 private:
  // Where a page begins: a partition, the position there, and the positions where the pages of the partitions behind it
  // begin. Positions beyond the last of these are 0.
  struct Place {
    unsigned partition = 0;
    std::vector<std::size_t> positions{0};
  };

  // A partition whose first messages are merged with those of the others.
  struct Source {
    unsigned partition = 0;
    std::vector<store::Entry> entries{};  // read, of which `taken` are on the page
    std::size_t taken = 0;
    std::size_t begin = 0;  // the position of the first entry
    std::size_t end = 0;    // the position after the last id that was read
    bool more = true;       // there may be ids behind `end`
    std::size_t turn = 0;   // how many of its messages are on the page
  };

  std::string text_of(const Place& place) const;
  Place place_of(const std::string& cursor) const;
  std::optional<Place> next_partition(const Place& place);
  MessagePage by_partition(Place place, std::optional<store::Page> read_before);
  MessagePage merged(const std::vector<PartitionAnswer<store::Page>>& answers, std::size_t most);
  bool fill(Source& source);
  bool is_before(const Source& a, const Source& b) const;

  Partitions& partitions_;
  const State state_;
  const std::size_t limit_;
};

}  // namespace delayqueue
