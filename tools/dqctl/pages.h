// Reads the messages of a state that pass a filter, page by page, for commands that move or remove them.
#pragma once

#include <delayqueue/inspector.h>
#include <delayqueue/queue_admin.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "context.h"
#include "filter.h"

namespace dqctl {

// Whether the messages of the state are in a list: without a time of their own.
bool is_list(delayqueue::State state);

std::uint64_t count_of(const delayqueue::Counts& counts, delayqueue::State state);

// Where a walk continues, in this or a later process.
struct PagesPlace {
  std::string cursor{};         // of Inspector::list; empty: at the start
  std::optional<Time> until{};  // the time of the last message at the start; unset: the walk has no such end
  std::uint64_t count = 0;      // messages in the state when this walk began
  std::uint64_t examined = 0;   // messages of this walk
  std::uint64_t removed = 0;    // of those; used in ready and retry only, as is `quiet`
  std::uint64_t quiet = 0;      // walks in a row that removed none
};

// As text for a client, and back; unset: it is none. Accepts any bytes.
std::string text_of(const PagesPlace& place);
std::optional<PagesPlace> place_in(std::string_view text);

// Reads the messages that were there at the start.
//
// pending, unack and dead are read in the order of their time. Messages that leave or arrive shift nothing, so one walk
// finds all that stay. It ends at the time of the last message at the start; a walk that only reads pending or unack
// ends with the last one that is there. ready and retry have positions: when others remove messages before the next
// page, all later messages move up, and the walk misses some. A walk that removes messages is therefore repeated there
// until it finds none.
class Pages {
 public:
  enum class Payload { none, start, whole };  // none: size, TTL and headers are not read either
  enum class Use { read, remove };

  Pages(delayqueue::Inspector& inspector, delayqueue::State state, Filter filter, const delayqueue::Counts& counts,
        Payload payload, Use use = Use::read, std::size_t most = 1000);

  // Continues a walk of the same state and use at its place().
  void continue_at(PagesPlace place);

  // The messages of the next page that pass, maybe none. False: that was all, or a signal arrived. Messages that
  // vanish before their payload is read are left out.
  bool next(std::vector<delayqueue::MessageInfo>& into);

  // Call it after messages of the last page were removed by purge().
  void add_purged(const delayqueue::Purged& purged);

  // Behind the last page. Unset: that was all. May send a request.
  std::optional<PagesPlace> place();

  // Whether it was given up, because messages arrive faster than they are read.
  bool unfinished() const { return unfinished_; }

  // Number of ids that are no UUIDs. They are left out: no call about messages accepts them.
  std::uint64_t foreign() const { return foreign_; }

  std::uint64_t examined() const { return examined_; }
  std::uint64_t total() const { return total_; }

 private:
  void find_last();
  bool arrive_too_fast();
  bool begin_again();
  bool arrived_later(const delayqueue::MessageInfo& message) const;
  void load_whole_payloads(std::vector<delayqueue::MessageInfo>& messages);

  delayqueue::Inspector& inspector_;
  const delayqueue::State state_;
  const Use use_;
  const Filter filter_;
  const Time now_;
  const Payload payload_;
  const std::uint64_t total_;
  delayqueue::ListOptions options_{};
  PagesPlace place_{};
  std::uint64_t examined_ = 0, foreign_ = 0;
  int walks_ = 1;
  bool is_new_ = true;
  bool over_ = false;   // this walk has read all
  bool ended_ = false;  // there is no other walk
  bool unfinished_ = false;
};

// Reads the start of the payloads of some messages, and what else Payload::none leaves out. Those that are gone stay as
// they are.
void add_payload_starts(delayqueue::Inspector& inspector, std::vector<delayqueue::MessageInfo>& messages);

// Reports on stderr that the walk was given up, if it is unfinished().
void report_unfinished(Output& out, const Pages& pages);

// Reports on stderr how many foreign ids were skipped, and the command that shows them. Nothing for none.
void report_foreign_ids(Output& out, const std::string& queue, std::uint64_t foreign);

// Shows what a command would do: how many messages, and a sample. verb: "purge", "redrive". foreign_too: the command
// also acts on foreign ids.
Exit dry_run(Context& context, const std::string& verb, const std::string& queue, delayqueue::State state,
             const Filter& filter, const delayqueue::Counts& counts, bool foreign_too = false);

}  // namespace dqctl
