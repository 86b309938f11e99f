// Pages of the messages in a state, of one partition or several: the implementation of Inspector::list.
#pragma once

#include "inspector/partitions.h"
#include "store/queries.h"

#include <delayqueue/inspector.h>
#include <delayqueue/message.h>

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

  MessageList(Partitions& partitions, State state, std::size_t limit, bool newest = false)
      : partitions_(partitions), state_(state), newest_(newest), limit_(limit) {}

  // The page of a cursor, without payloads. Throws std::invalid_argument.
  MessagePage at(const std::string& cursor);

  // The first page: with `merge` the first messages of all partitions, else those of the first partition that has any.
  MessagePage first(bool merge);

  // Up to `most` ids of one partition, at most kStep, after a place (PageStart::after).
  store::Page read(unsigned partition, const std::string& after, std::size_t most);

  // The place behind a page; unset: it was the last one.
  std::optional<std::string> place_after(const store::Page& page, const std::string& after, std::size_t most) const;

 private:
  // Where a page begins: a partition, the place there, and the places where the pages of the partitions behind it
  // begin. Partitions behind the last of these begin at their start. Without a partition: the page of a zset that has
  // the messages of all partitions after one place. In a zset all of them are in one order, by score and id.
  struct Place {
    std::optional<unsigned> partition{};
    std::vector<std::string> after{""};
  };

  // A partition whose first messages are merged with those of the others.
  struct Source {
    unsigned partition = 0;
    std::vector<store::Entry> entries{};  // read, of which `taken` are on the page
    std::vector<double> scores{};         // theirs, in a zset
    std::size_t taken = 0;
    std::string begin{};   // the place before the first entry
    std::string end{};     // the place after the last id that was read
    bool more = true;      // there may be ids behind `end`
    std::size_t turn = 0;  // how many of its messages are on the page
  };

  std::string text_of(const Place& place) const;
  Place place_of(const std::string& cursor) const;
  std::optional<Place> next_partition(const Place& place);
  MessagePage by_partition(Place place, std::optional<store::Page> read_before);
  MessagePage merged(const std::string& after);
  void add(Source& source, store::Page page, std::size_t most) const;
  bool fill(Source& source);
  bool is_before(const Source& a, const Source& b) const;

  Partitions& partitions_;
  const State state_;
  const bool newest_;
  const std::size_t limit_;
};

}  // namespace delayqueue
