// MessagePage: some messages of a queue that are in the same state.
#pragma once

#include <delayqueue/export.h>
#include <delayqueue/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace delayqueue {

// The options of Inspector::list().
struct ListOptions {
  std::size_t limit = 20;    // messages of a page: 1 to 1,000
  std::string cursor{};      // MessagePage::next of the previous page, of the same state and order; empty: the start
  std::size_t payload = 64;  // most bytes to read of each payload
  // Of several partitions: the first page has the first messages of all of them, in order, and so have later pages of
  // pending, unack and dead; those of ready and retry go partition by partition. False: all pages do that.
  bool merge = true;
  bool bodies = true;   // false: reads no payload, size, TTL or headers: a page then takes a fraction of the time
  bool newest = false;  // the other order: the highest time, or the last in the order of delivery, comes first
};

// A page of messages. pending and unack are in the order of their time, ready and retry in the order of delivery, dead
// in the order in which they became dead letters. In ready and retry, several partitions take turns.
//
// The cursor of pending, unack and dead is a time and an id: messages that arrive or leave between two pages shift
// nothing, and each message that stays is on one page. The cursor of ready and retry is a position.
struct DELAYQUEUE_EXPORT MessagePage {
  std::vector<MessageInfo> messages{};
  std::string next{};            // the cursor of the next page; empty: this was the last page
  std::string next_partition{};  // the cursor of the next partition; empty: there is none, or the page has several

  // In ready and retry, the cursor of the next page after `freed` messages of this page have left the state. Use it
  // instead of `next` if messages of this page were cancelled or purged. For purge_ids(), `freed` is Purged::places.
  // After a page with messages of several partitions, messages that are still there may be repeated. In other states:
  // `next`.
  std::string next_after(std::uint64_t freed) const;

  auto begin() const { return messages.begin(); }
  auto end() const { return messages.end(); }
  auto size() const { return messages.size(); }
  bool empty() const { return messages.empty(); }
};

}  // namespace delayqueue
