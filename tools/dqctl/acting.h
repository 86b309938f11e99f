// Shared by commands that change messages: reads ids, reports outcomes, runs in steps.
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

// The ids of the arguments or, with --key, the id of the message that has this unique key now. Throws Usage unless one
// of them is given, and Failure if no message has the key.
std::vector<std::string> ids_named(Context& context, const std::string& queue, const std::vector<std::string>& ids,
                                   const std::optional<std::string>& key);

// Most ids in one round trip. If its answer is lost, the outcome of at most this many messages is unknown.
inline constexpr std::size_t kRoundTrip = 200;

// Reads ids from the arguments, or from stdin if the only argument is "-". An invalid id in the arguments is a Usage,
// before anything is done. Invalid lines of stdin are reported on stderr and skipped.
class IdReader {
 public:
  IdReader(Output& output, const std::vector<std::string>& arguments);

  // Whether stdin has more than `most` ids. next() still returns them.
  bool has_more_than(std::size_t most);

  // The next ids, at most `most`. Empty: that was all, or a signal arrived.
  std::vector<std::string> next(std::size_t most = kRoundTrip);

  std::uint64_t bad() const { return bad_; }

 private:
  Output& output_;
  std::vector<std::string> named_;
  std::size_t taken_ = 0;
  std::unique_ptr<LineReader> lines_;
  std::vector<std::string> read_{};  // read, but not returned yet
  std::uint64_t bad_ = 0;
};

// This many ids from stdin are acted on without --yes.
inline constexpr std::size_t kFewIds = 20;

// Without --yes and with more ids on stdin: counts all ids, writes the number, and returns the exit code. Else unset.
std::optional<Exit> dry_run(Output& output, const std::string& verb, const std::string& queue, IdReader& ids, bool yes);

enum class Grade {
  good,
  already,  // was so before
  refused,  // exists, but cannot be changed
  unknown,  // no such message
};

// Writes one line for each id, and determines the exit code.
class OutcomeReport {
 public:
  OutcomeReport(Output& output, const std::string& queue);

  void add(const std::string& id, const std::string& outcome, Grade grade);

  // Calls `act` with at most `most` ids at a time; `act` must call add() for each. An error of the server or a signal
  // ends it. If the answer to the last call is lost, its ids are counted as unconfirmed.
  Exit run(IdReader& ids, const std::function<void(const std::vector<std::string>&)>& act,
           std::size_t most = kRoundTrip);

  // After run(): how many were changed, and how many more may be changed.
  std::uint64_t done() const { return good_; }
  std::uint64_t unconfirmed() const { return unconfirmed_; }

 private:
  Exit end(const IdReader& ids, const std::string& error);

  Output& output_;
  Listing listing_;
  std::uint64_t good_ = 0, already_ = 0, refused_ = 0, unknown_ = 0;
  std::uint64_t unconfirmed_ = 0;
};

// The result of a command that runs in steps.
struct Steps {
  std::uint64_t done = 0;
  std::uint64_t unconfirmed = 0;  // more that may be done: the answer is lost
  bool interrupted = false;
  std::string error{};

  // left: some messages could not be changed, for other reasons.
  Exit code(bool left = false) const;
};

// Calls `step` until it returns nothing. Each step returns how many more messages were done. An error of the server
// after the first step ends it, too, and is reported on stderr. Shows progress on a terminal. unanswered: how many
// messages the step has sent a request for without an answer yet.
Steps in_steps(Output& output, const std::string& verb, std::uint64_t total,
               const std::function<std::optional<std::uint64_t>()>& step, const std::uint64_t* unanswered = nullptr);

// The error if nothing was stored because a consumer still holds a cancelled message with this id (Sent::cancelled).
// verb: "send", "import".
std::string held_text(const std::string& verb, const std::string& id);

// Adds the fields "interrupted" and "error".
void add_ending(Object& object, const Steps& steps);

}  // namespace dqctl
