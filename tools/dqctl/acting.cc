#include "acting.h"

#include <delayqueue/error.h>

#include <utility>

#include "output/text.h"
#include "signals.h"

namespace dqctl {
namespace {

constexpr const char* kNothingDone = "interrupted; nothing was done";

}  // namespace

std::vector<std::string> ids_named(Context& context, const std::string& queue, const std::vector<std::string>& ids,
                                   const std::optional<std::string>& key) {
  if (key && !ids.empty()) throw Usage("ID and --key: expected one of them");
  if (!key && ids.empty()) throw Usage("ID: missing; expected ids, - for stdin, or --key");
  if (!key) return ids;
  context.counts(queue);
  const auto found = context.inspector(queue).find(delayqueue::Key(*key));
  if (!found) throw Failure(Exit::not_found, "no message in " + in_quotes(queue) + " has the key " + in_quotes(*key));
  return {found->id};
}

IdReader::IdReader(Output& output, const std::vector<std::string>& arguments) : output_(output) {
  if (arguments.size() == 1 && arguments.front() == "-") {
    lines_ = std::make_unique<LineReader>("-");
    return;
  }
  for (const std::string& id : arguments) {
    if (!is_id(id)) throw Usage("ID: " + in_quotes(id) + "; expected a UUID, or - alone to read them from stdin");
  }
  named_ = arguments;
}

bool IdReader::has_more_than(std::size_t most) {
  if (!lines_) return false;
  read_ = next(most + 1);
  return read_.size() > most;
}

std::vector<std::string> IdReader::next(std::size_t most) {
  std::vector<std::string> some = std::exchange(read_, {});
  if (some.size() > most) {
    read_.assign(some.begin() + static_cast<std::ptrdiff_t>(most), some.end());
    some.resize(most);
  }
  if (!some.empty()) return some;
  if (!lines_) {
    while (taken_ < named_.size() && some.size() < most && !interrupted()) some.push_back(named_[taken_++]);
    return some;
  }
  std::string line;
  while (some.size() < most) {
    try {
      if (!lines_->next(line)) break;
      some.push_back(id_in(line));
    } catch (const BadLine& error) {
      ++bad_;
      output_.stderr_line(lines_->where() + ": " + printable(error.what()));
    }
  }
  if (interrupted()) some.clear();
  return some;
}

std::optional<Exit> dry_run(Output& output, const std::string& verb, const std::string& queue, IdReader& ids,
                            bool yes) {
  if (yes || !ids.has_more_than(kFewIds)) return std::nullopt;
  std::uint64_t count = 0;
  for (auto some = ids.next(); !some.empty(); some = ids.next()) count += some.size();
  if (interrupted()) throw Failure(Exit::interrupted, kNothingDone);
  Object object;
  object.add("queue", queue).add("dry_run", true).add("ids", count).add("bad_lines", ids.bad());
  if (!output.is_table()) output.object(object);
  output.stderr_line("dry run: would " + verb + ' ' + count_text(count) + " messages of " + in_quotes(queue) +
                     "; to do it, add --yes (more than " + std::to_string(kFewIds) + " ids came from stdin)");
  return Exit::done;
}

OutcomeReport::OutcomeReport(Output& output, const std::string& queue)
    : output_(output), listing_(output, {{"ID"}, {"OUTCOME"}}, "messages", Object().add("queue", queue)) {}

void OutcomeReport::add(const std::string& id, const std::string& outcome, Grade grade) {
  ++(grade == Grade::good ? good_ : grade == Grade::already ? already_ : grade == Grade::refused ? refused_ : unknown_);
  const bool fine = grade == Grade::good || grade == Grade::already;
  const Colour colour = fine ? Colour::plain : Colour::yellow;
  listing_.add({{id_text(id)}, {outcome, colour}}, Object().add("id", id).add("outcome", outcome));
}

Exit OutcomeReport::run(IdReader& ids, const std::function<void(const std::vector<std::string>&)>& act,
                        std::size_t most) {
  std::string error;
  std::vector<std::string> some;
  const auto reported = [&] { return good_ + already_ + refused_ + unknown_; };
  std::uint64_t before = 0;
  try {
    for (some = ids.next(most); !some.empty(); some = ids.next(most)) {
      before = reported();
      act(some);
    }
  } catch (const delayqueue::ConnectionError& failure) {
    unconfirmed_ = some.size() - (reported() - before);
    error = failure.what();
  } catch (const delayqueue::Error& failure) {
    if (reported() == 0) throw;
    error = failure.what();
  }
  return end(ids, error);
}

Exit OutcomeReport::end(const IdReader& ids, const std::string& error) {
  const std::uint64_t all = good_ + already_ + refused_ + unknown_;
  const std::uint64_t left = refused_ + unknown_ + ids.bad();
  const bool nothing_done = interrupted() && all == 0 && error.empty();
  Object tail;
  tail.add("done", good_).add("already", already_).add("refused", refused_).add("unknown", unknown_);
  tail.add("unconfirmed", unconfirmed_).add("bad_lines", ids.bad()).add("interrupted", interrupted());
  if (nothing_done) {
    tail.add("error", kNothingDone);
  } else {
    error.empty() ? tail.add_null("error") : tail.add("error", printable(error));
  }
  listing_.end(tail);
  if (nothing_done) {
    output_.stderr_line(kNothingDone);
    return Exit::interrupted;
  }
  if (!error.empty()) output_.stderr_line("after " + counted(all, "message") + ": " + printable(error));
  if (unconfirmed_ > 0) {
    output_.stderr_line("of the next " + counted(unconfirmed_, "message") +
                        " it is not known whether it was done: the answer is lost; run it again");
  }
  if (interrupted()) output_.stderr_line("interrupted after " + counted(all, "message") + "; no other was changed");
  if (interrupted() && all == 0) return Exit::interrupted;
  if (!error.empty() && all == 0) return Exit::failed;
  if (interrupted() || !error.empty()) return Exit::partly;
  if (left == 0) return Exit::done;
  if (good_ + already_ > 0) return Exit::partly;
  return refused_ + ids.bad() == 0 ? Exit::not_found : Exit::failed;
}

Exit Steps::code(bool left) const {
  if (interrupted || !error.empty()) {
    return done > 0 ? Exit::partly : interrupted ? Exit::interrupted : Exit::failed;
  }
  return left ? done > 0 ? Exit::partly : Exit::failed : Exit::done;
}

Steps in_steps(Output& output, const std::string& verb, std::uint64_t total,
               const std::function<std::optional<std::uint64_t>()>& step, const std::uint64_t* unanswered) {
  Steps steps;
  Progress progress(output, verb);
  try {
    while (!interrupted()) {
      const auto more = step();
      if (!more) break;
      steps.done += *more;
      progress.update(steps.done, total);
    }
  } catch (const delayqueue::ConnectionError& failure) {
    if (unanswered != nullptr) steps.unconfirmed = *unanswered;
    if (steps.done + steps.unconfirmed == 0) throw;
    steps.error = failure.what();
  } catch (const delayqueue::Error& failure) {
    if (steps.done == 0) throw;
    steps.error = failure.what();
  } catch (const Failure& failure) {
    if (steps.done == 0) throw;
    steps.error = failure.what();
  }
  progress.clear();
  steps.interrupted = interrupted();
  if (steps.interrupted) {
    output.stderr_line("interrupted: " + verb + ' ' + count_text(steps.done) + "; run it again for the rest");
  }
  if (!steps.error.empty()) {
    output.stderr_line(verb + ' ' + count_text(steps.done) + ", then: " + printable(steps.error) +
                       "; run it again for the rest");
  }
  if (steps.unconfirmed > 0) {
    output.stderr_line("of " + count_text(steps.unconfirmed) +
                       " more it is not known whether it was done: the answer is lost; run it again");
  }
  return steps;
}

std::string held_text(const std::string& verb, const std::string& id) {
  return "cannot " + verb + ": the message with id " + id + " was cancelled and a consumer still holds it; " + verb +
         " again after its lease has ended, or with another id";
}

void add_ending(Object& object, const Steps& steps) {
  object.add("interrupted", steps.interrupted);
  steps.error.empty() ? object.add_null("error") : object.add("error", printable(steps.error));
}

}  // namespace dqctl
