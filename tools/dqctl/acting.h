// What commands that change messages share: which ids they are about, what became of each, how far they came.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "context.h"
#include "exit.h"
#include "lines.h"
#include "output/table.h"

namespace dqctl {

// Most ids that the library asks for in one round trip: if its answer is lost, so many messages are in doubt, not more.
inline constexpr std::size_t kRoundTrip = 200;

// Ids from the arguments, or from stdin if the only one is "-". Bad ones in the arguments are a Usage, before anything
// is done; bad lines are told on stderr and passed over.
class IdReader {
 public:
  IdReader(Output& output, const std::vector<std::string>& arguments);

  // Whether stdin has more ids than that. They are still returned by next().
  bool has_more_than(std::size_t most);

  // The next few; none: that was all, or a signal came.
  std::vector<std::string> next(std::size_t most = kRoundTrip);

  std::uint64_t bad() const { return bad_; }

 private:
  Output& output_;
  std::vector<std::string> named_;
  std::size_t taken_ = 0;
  std::unique_ptr<LineReader> lines_;
  std::vector<std::string> read_{};  // and not returned yet
  std::uint64_t bad_ = 0;
};

// So many ids from stdin are acted on without --yes.
inline constexpr std::size_t kFewIds = 20;

// With more ids on stdin and no --yes: reads them all, writes how many there are, and returns the exit code.
std::optional<Exit> dry_run(Output& output, const std::string& verb, const std::string& queue, IdReader& ids, bool yes);

enum class Grade {
  good,
  already,  // it was so before
  refused,  // it is there, but cannot be done
  unknown,  // no such message
};

// One line for each id, and the exit code.
class OutcomeReport {
 public:
  OutcomeReport(Output& output, const std::string& queue);

  void add(const std::string& id, const std::string& outcome, Grade grade);

  // Calls `act` with at most so many ids at a time; it adds them. An error of the server ends it, as a signal does. If
  // the answer to the last call is lost, it is not known what became of its ids: they are counted apart.
  Exit run(IdReader& ids, const std::function<void(const std::vector<std::string>&)>& act,
           std::size_t most = kRoundTrip);

 private:
  Exit end(const IdReader& ids, const std::string& error);

  Output& output_;
  Listing listing_;
  std::uint64_t good_ = 0, already_ = 0, refused_ = 0, unknown_ = 0;
  std::uint64_t unconfirmed_ = 0;
};

// How a command went that goes in steps.
struct Steps {
  std::uint64_t done = 0;
  std::uint64_t unconfirmed = 0;  // more that may be done: the answer is lost
  bool interrupted = false;
  std::string error{};

  // left: of what was to be done something could not be, for other reasons.
  Exit code(bool left = false) const;
};

// Calls `step` until it answers nothing; else it says how many more were done. An error of the server after the first
// step ends it, too, and is told on stderr. Progress goes to the terminal. under_way: of how many messages a step has
// asked for a change, and has no answer yet.
Steps in_steps(Output& output, const std::string& verb, std::uint64_t total,
               const std::function<std::optional<std::uint64_t>()>& step, const std::uint64_t* unanswered = nullptr);

// Why nothing was stored of a message whose id is held and was cancelled (Sent::cancelled). verb: "send", "import".
std::string held_text(const std::string& verb, const std::string& id);

// The fields "interrupted" and "error".
void add_ending(Object& object, const Steps& steps);

}  // namespace dqctl
