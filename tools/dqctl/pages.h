// The messages of a state that pass a filter, page by page, for commands that move or remove what they see.
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

  // Ends with what was there when `counts` were taken, however many come in meanwhile.
  Pages(delayqueue::Inspector& inspector, delayqueue::State state, Filter filter, const delayqueue::Counts& counts,
        Payload payload, std::size_t most = 1000);

  // After the last page the walk begins again, until one finds nothing more. One walk misses messages when others
  // remove what lies before its next page: all behind it move up. For commands that remove what they see.
  void repeat() { repeats_ = true; }

  // Those of the next page that pass: maybe none. False: that was all, or a signal came. Messages that went away
  // between the page and their payload are left out.
  bool next(std::vector<delayqueue::MessageInfo>& into);

  // So many places of the last page were freed: the walk goes on where it would have.
  void add_freed(std::uint64_t places);

  // A message of the last page stays. Later walks leave it out.
  void skip(const std::string& id) { skipped_.insert(id); }

  // Whether even the last walk found some more: so fast do others put them there.
  bool unfinished() const { return unfinished_; }

  // Ids that are no UUIDs, which no call about messages takes. They are left out.
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
  bool repeats_ = false, unfinished_ = false;
  int walk_ = 1;
  int empty_walks_ = 0;                    // walks in a row that met nothing,
  std::uint64_t empty_walk_examined_ = 0;  // how many messages the last of these saw,
  std::uint64_t empty_walk_count_ = 0;     // and of how many
  std::uint64_t count_at_start_;           // when this walk began
  std::uint64_t matched_ = 0;              // of this walk: messages that passed
  std::set<std::string> skipped_{};
};

// On stderr: that a walk found messages again and again. Nothing if it did not.
void report_unfinished(Output& out, const Pages& pages);

// On stderr: how many foreign ids were skipped, and the command that shows them. Nothing for none.
void report_foreign_ids(Output& out, const std::string& queue, std::uint64_t foreign);

// What would be done, without doing it: how many, and a sample. verb: "purge", "redrive". foreign_too: it would be done
// with foreign ids as well.
Exit dry_run(Context& context, const std::string& verb, const std::string& queue, delayqueue::State state,
             const Filter& filter, const delayqueue::Counts& counts, bool foreign_too = false);

}  // namespace dqctl
