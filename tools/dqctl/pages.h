// Reads the messages of a state that pass a filter, page by page, for commands that move or remove them.
#pragma once

#include <delayqueue/inspector.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "context.h"
#include "filter.h"

namespace dqctl {

std::uint64_t count_of(const delayqueue::Counts& counts, delayqueue::State state);

class Pages {
 public:
  enum class Payload { start, whole };

  // Ends with the messages that were there when `counts` were taken, even if more arrive meanwhile.
  Pages(delayqueue::Inspector& inspector, delayqueue::State state, Filter filter, const delayqueue::Counts& counts,
        Payload payload, std::size_t most = 1000);

  // Repeats the walk until one finds nothing more. A single walk misses messages when another process removes messages
  // before its next page: all later messages move up. For commands that remove the messages.
  void repeat() { repeats_ = true; }

  // The messages of the next page that pass, maybe none. False: that was all, or a signal arrived. Messages that
  // vanish before their payload is read are left out.
  bool next(std::vector<delayqueue::MessageInfo>& into);

  // Call it after messages of the last page were removed: moves the position back, so that the next page skips none.
  void add_freed(std::uint64_t places);

  // Leaves a message out of later walks: it stays in the state.
  void skip(const std::string& id) { skipped_.insert(id); }

  // Whether even the last walk found messages, because they arrive so fast.
  bool unfinished() const { return unfinished_; }

  // Number of ids that are no UUIDs. They are left out: no call about messages accepts them.
  std::uint64_t foreign() const { return foreign_; }

  std::uint64_t examined() const { return examined_; }
  std::uint64_t total() const { return total_; }

 private:
  bool begin_again();
  bool found_everything();
  bool arrived_later(const delayqueue::MessageInfo& message) const;
  void load_whole_payloads(std::vector<delayqueue::MessageInfo>& messages);

  delayqueue::Inspector& inspector_;
  const delayqueue::State state_;
  const Filter filter_;
  const Time now_;
  const Payload payload_;
  const std::uint64_t total_;
  delayqueue::ListOptions options_{};
  delayqueue::MessagePage page_{};
  std::uint64_t freed_ = 0;
  std::uint64_t examined_ = 0, foreign_ = 0;
  bool first_ = true;
  bool last_ = false;
  bool ended_ = false;  // the rest of the partition is too young
  bool repeats_ = false, unfinished_ = false;
  int walk_ = 1;
  int empty_walks_ = 0;                    // walks in a row without a match
  std::uint64_t empty_walk_examined_ = 0;  // messages read by the last of them
  std::uint64_t empty_walk_count_ = 0;     // messages in the state at its start
  std::uint64_t count_at_start_;           // messages in the state when this walk began
  std::uint64_t matched_ = 0;              // messages of this walk that passed
  std::set<std::string> skipped_{};
};

// Reports on stderr that messages keep arriving, if the walk is unfinished().
void report_unfinished(Output& out, const Pages& pages);

// Reports on stderr how many foreign ids were skipped, and the command that shows them. Nothing for none.
void report_foreign_ids(Output& out, const std::string& queue, std::uint64_t foreign);

// Shows what a command would do: how many messages, and a sample. verb: "purge", "redrive". foreign_too: the command
// also acts on foreign ids.
Exit dry_run(Context& context, const std::string& verb, const std::string& queue, delayqueue::State state,
             const Filter& filter, const delayqueue::Counts& counts, bool foreign_too = false);

}  // namespace dqctl
