// Which messages of a state a command is about, and the walk over them: in pages, never all at once.
#pragma once

#include <delayqueue/inspector.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "cli.h"
#include "output/json.h"
#include "output/text.h"

namespace dqctl {

// --older-than, --match and --reason. One that is not set lets everything pass.
struct Filter {
  std::optional<milliseconds> older_than{};
  std::optional<std::string> match{};   // the payload, of which the first kMatchedBytes are looked at
  std::optional<std::string> reason{};  // of the last failed delivery

  static constexpr std::size_t kMatchedBytes = 64 * 1024;

  bool any() const { return older_than || match || reason; }
  bool passes(const delayqueue::MessageInfo& message, Time now) const;

  // How to find a text anywhere, for a pattern that nothing was like: it stands for the whole. Empty if that is known.
  std::string advice() const;

  // Whether all that follow are too young: pending, unack and dead come in the order of time.
  bool ends(const delayqueue::MessageInfo& message, Time now) const;
};

void add_filter(Command& command, Filter& filter);

// How old a message is: since it was due (pending), given up (dead), its lease or backoff ended (unack), or was sent
// (ready and retry, of which nothing else is known). Unset where the id does not tell.
std::optional<milliseconds> age_of(const delayqueue::MessageInfo& message, Time now);

// When that was, or will be: "3m ago", "in 5m". What has happened never lies ahead. "?" where age_of() is unset.
std::string when_text(const delayqueue::MessageInfo& message, Time now);

// The messages of a state that pass a filter, in their order.
class Walk {
 public:
  // now: by Redis' clock. payload: bytes of each payload to bring. page: most messages to ask for at a time.
  Walk(delayqueue::Inspector& inspector, delayqueue::State state, Filter filter, Time now, std::size_t payload,
       std::size_t page = 1000, std::string cursor = "");

  // Nothing: that was all, or a signal came. Throws as Inspector::list.
  std::optional<delayqueue::MessageInfo> next();

  // Messages looked at, whether they passed or not.
  std::uint64_t examined() const { return examined_; }

  // Where the one after the last of next() stands; empty at the end. Asks the server.
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
  std::string begin_{};      // the cursor of the page at hand
  std::size_t taken_ = 0;    // of that page
  std::string following_{};  // the cursor of the next page
  bool last_ = false;        // there is none
  std::uint64_t examined_ = 0;
};

// The fields of a message, its payload under the name given; nothing is said of the payload if there is none.
Object object_of(const delayqueue::MessageInfo& message, const char* payload_name);

// Without the character at the end that was cut in two.
std::string whole_characters(std::string bytes);

}  // namespace dqctl
