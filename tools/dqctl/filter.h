// Selects messages of a state by a filter, and reads them page by page.
#pragma once

#include <delayqueue/inspector.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>

#include "cli.h"
#include "output/json.h"
#include "output/text.h"

namespace dqctl {

// --older-than, --match and --reason. An unset option passes every message.
struct Filter {
  std::optional<milliseconds> older_than{};
  std::optional<std::string> match{};   // pattern for the payload; only its first kMatchedBytes are compared
  std::optional<std::string> reason{};  // pattern for the reason of the last failed delivery

  static constexpr std::size_t kMatchedBytes = 64 * 1024;

  bool any() const { return older_than || match || reason; }
  bool passes(const delayqueue::MessageInfo& message, Time now) const;

  // Advice for a pattern without wildcards, which matches only an equal text: how to find it anywhere. Else empty.
  std::string advice() const;

  // Whether all later messages of the partition are too young: pending, unack and dead are sorted by time.
  bool ends(const delayqueue::MessageInfo& message, Time now) const;
};

void add_filter(Command& command, Filter& filter);

// The age of a message: since it was due (pending), became a dead letter (dead), its lease or backoff ended (unack),
// or it was sent (ready and retry, where nothing else is known). Unset if the id has no time.
std::optional<milliseconds> age_of(const delayqueue::MessageInfo& message, Time now);

// The same point in time, relative to now: "3m ago", "in 5m". Past events are never in the future. "?" where age_of()
// is unset.
std::string when_text(const delayqueue::MessageInfo& message, Time now);

// Reads the messages of a state that pass a filter, in the order of the state.
class Walk {
 public:
  // now: by Redis' clock. payload: bytes to fetch of each payload. page: most messages in one request.
  Walk(delayqueue::Inspector& inspector, delayqueue::State state, Filter filter, Time now, std::size_t payload,
       std::size_t page = 1000, std::string cursor = "");

  // Reads the messages in the other order. Call it before next(), and only without --older-than.
  void read_newest_first() { options_.newest = true; }

  // Reads no payload, size, TTL or headers.
  void leave_bodies_out() { options_.bodies = false; }

  // Requests no page after this many messages were read. Then next() returns unset, and cursor() continues.
  void stop_after(std::uint64_t most) { most_examined_ = most; }

  // Unset: that was all, or a signal arrived. Throws like Inspector::list.
  std::optional<delayqueue::MessageInfo> next();

  // Number of messages read so far, whether they passed or not.
  std::uint64_t examined() const { return examined_; }

  // The cursor behind the last message of next(); empty at the end. May send a request.
  std::string cursor();

 private:
  bool fetch();

  delayqueue::Inspector& inspector_;
  const delayqueue::State state_;
  const Filter filter_;
  const Time now_;
  delayqueue::ListOptions options_{};
  std::size_t shown_payload_;
  std::deque<delayqueue::MessageInfo> page_{};
  std::string begin_{};      // cursor of the current page
  std::size_t taken_ = 0;    // messages taken from that page
  std::string following_{};  // cursor of the next page
  std::string partition_{};  // cursor of the next partition; empty: there is none
  bool last_ = false;        // there is no next page
  std::uint64_t examined_ = 0;
  std::uint64_t most_examined_ = std::numeric_limits<std::uint64_t>::max();
};

// The first message of a state that has `count` of them; not its payload.
std::optional<delayqueue::MessageInfo> first_message(delayqueue::Inspector& inspector, delayqueue::State state,
                                                     std::uint64_t count);

const char* time_name(const delayqueue::MessageInfo& message);  // the meaning of MessageInfo::at in its state

// Headers as a list of objects with name, and value or value_base64.
std::string headers_json(const delayqueue::Headers& headers);

// The fields of a message without its payload.
Object message_fields(const delayqueue::MessageInfo& message);

// The same with its payload under the given name. A missing payload has no field.
Object message_object(const delayqueue::MessageInfo& message, const char* payload_name);

// Removes a character at the end that was cut in two.
std::string whole_characters(std::string bytes);

// The start of the payload in a table, at most `most` bytes of what was fetched. It ends with … if that is not all.
std::string payload_text(const delayqueue::MessageInfo& message, std::size_t most);

}  // namespace dqctl
